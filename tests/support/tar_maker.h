/* Small tar files for tests, member by member, right or wrong as asked. */
#ifndef LARDER_TEST_TAR_MAKER_H
#define LARDER_TEST_TAR_MAKER_H

#include <stddef.h>
#include <stdio.h>

/* One member with a ustar header of this type ('0' a file, 'x' pax, 'L' GNU long name). */
void tar_put(FILE *, char type, const char *name, const void *bytes, size_t size);
/* KEY.jpg with `bytes`, and KEY.cls with `label` unless it is NULL. */
void tar_put_sample(FILE *, const char *key, const void *bytes, size_t size, const char *label);
/* Header bytes alone; `size_field` has 12 bytes, for odd sizes. */
void tar_put_header(FILE *, char type, const char *name, const char *prefix, const char *size_field);
void tar_put_pad(FILE *, size_t size); /* zeros up to the next 512 after a member of `size` */
void tar_put_end(FILE *);

#endif
