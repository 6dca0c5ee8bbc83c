/* Encoding a picture again, smaller or with another quality: not lossless, and only when asked. */
#ifndef LARDER_PACK_REENCODE_H
#define LARDER_PACK_REENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__reencoder larder__reencoder; /* one thread's */

/* quality 0: 90 where a picture has to be made smaller, else it stays; max_side 0: any size. */
int larder__reencoder_open(larder__reencoder **out, uint32_t quality, uint32_t max_side);
void larder__reencoder_close(larder__reencoder **);
/* *again: *out is a new JPEG, valid until the next call; else it is the input, left as it is. */
int larder__reencode(larder__reencoder *, const void *bytes, size_t size, const void **out,
                     size_t *out_size, bool *again);

#endif
