/* Are the pixels of two encoded pictures the same, every one of them? */
#ifndef LARDER_PACK_COMPARE_H
#define LARDER_PACK_COMPARE_H

#include <stddef.h>

typedef struct larder__comparer larder__comparer; /* one thread's working memory */

int larder__comparer_open(larder__comparer **out);
void larder__comparer_close(larder__comparer **);
/* 0: they are; E_FORMAT with a sentence: they are not, or one of them cannot be decoded. */
int larder__compare_pixels(larder__comparer *, const void *a, size_t a_size, const void *b,
                           size_t b_size);

#endif
