/* A value as it lies outside of any process (Redis, a disk): a head of 40 bytes, then its
 * payload. What was cut, changed on the way or written by something else does not pass.
 * Little-endian: magic 4, version 1, form 1, held 1, payload 1, size 4, zeros 4, id 8, mark 8,
 * checksum 8. */
#ifndef LARDER_SHARED_VALUE_H
#define LARDER_SHARED_VALUE_H

#include "base/versions.h"
#include "shared/value_name.h"

/* Its version is part of every key: values of another are never even asked for. */
enum { LARDER__VALUE_HEAD = 40 };
/* What the payload is: one field's bytes as they are, a picture or a row. A sample of several named
 * fields is to have another number here and a table of their types in front; a reader refuses what
 * it does not know. */
enum { LARDER__PAYLOAD_BYTES = 0 };

void larder__value_write(unsigned char head[LARDER__VALUE_HEAD], const larder__value *,
                         const void *bytes);
/* Is this the head of the value that is asked for, in front of `size` bytes? */
bool larder__value_fits(const unsigned char head[LARDER__VALUE_HEAD], const larder__value *asked,
                        uint64_t size);
uint8_t larder__value_held(const unsigned char head[LARDER__VALUE_HEAD]);
uint32_t larder__value_size(const unsigned char head[LARDER__VALUE_HEAD]);
/* And are these its bytes? */
bool larder__value_sound(const unsigned char head[LARDER__VALUE_HEAD], const void *bytes,
                         size_t size);

#endif
