/* A parcel: the bytes of a sample of several fields, or of typed ones. Little-endian.
 *
 *     "LRDP", u8 version 1, u8 0, u16 fields, u32 bytes of the head (a multiple of 16), u32 0
 *     of each field: u8 kind, u8 dtype, u8 ndim, u8 bytes of its name, u32 0,
 *                    u64 offset from the start (a multiple of 16), u64 bytes,
 *                    u64 shape[ndim], its name, zeros to a multiple of 8
 *     zeros to the end of the head; then the payloads, each at a multiple of 16
 *
 * It is opened once, which checks all of it; then fields are looked at without asking again. What a
 * parcel is made of may come from anywhere. */
#ifndef LARDER_BASE_PARCEL_H
#define LARDER_BASE_PARCEL_H

#include "base/dtype.h"

enum { LARDER__PARCEL_FIELDS = 4096, LARDER__PARCEL_NAME = 255 };

typedef enum larder__field_kind {
    LARDER__FIELD_NONE = 0, /* Python's None */
    LARDER__FIELD_BYTES = 1,
    LARDER__FIELD_TEXT = 2,   /* UTF-8 */
    LARDER__FIELD_ARRAY = 3,  /* of dtype and shape; ndim 0: a number */
    LARDER__FIELD_BOOL = 4,   /* one byte */
    LARDER__FIELD_PICKLE = 5, /* never out of this process's own memory */
    LARDER__FIELD_TENSOR = 6, /* as an array */
    LARDER__FIELD_EMPTY = 7,  /* a container with nothing in it */
    LARDER__FIELD_KINDS
} larder__field_kind;

typedef struct larder__field {
    larder__field_kind kind;
    larder_dtype dtype; /* of arrays and tensors; U8 of others */
    uint32_t ndim;
    uint64_t shape[LARDER_NDIM];
    const char *name; /* not closed by a zero byte where it was read from a parcel */
    size_t name_bytes;
    const unsigned char *data; /* of a parcel that is planned: NULL, or what is copied */
    size_t bytes;
} larder__field;

typedef struct larder__parcel {
    const unsigned char *bytes;
    size_t size;
    uint32_t count;
} larder__parcel;

/* Does it begin like one? */
bool larder__parcel_is(const void *bytes, size_t size);
/* `bytes` stay the caller's, and where they are. */
int larder__parcel_open(larder__parcel *, const void *bytes, size_t size);
/* The next field; *at is 0 before the first. False: there are no more. */
bool larder__parcel_next(const larder__parcel *, size_t *at, larder__field *out);
bool larder__parcel_find(const larder__parcel *, const char *name, larder__field *out);

/* Bytes of a parcel of these fields, whose data need not be there yet; 0: it cannot be one, with a
 * sentence. */
uint64_t larder__parcel_bytes(const larder__field *, size_t n);
/* One, in a fresh buffer. Data that are there are copied; then each field's data point into the
 * buffer, so that whoever left some out can write them there. */
int larder__parcel_make(larder_buf **out, larder__field *, size_t n);
/* The same in memory of the caller's, of larder__parcel_bytes. */
void larder__parcel_lay(unsigned char *out, larder__field *, size_t n);

#endif
