/* An array of any type of ours in the bytes of a NumPy file: .npy, or a member of an .npz (a zip,
 * packed where this build has zlib). Nothing in them is believed before it is checked. */
#ifndef LARDER_BASE_ARRAY_FILE_H
#define LARDER_BASE_ARRAY_FILE_H

#include "base/parcel.h"

/* Fills in dtype, ndim, shape, data and bytes; data lie inside `bytes`. Little-endian, C order. */
int larder__npy_view(larder__field *out, const unsigned char *bytes, size_t size);
/* The same of the head alone, for files that are not in memory: `size` is the whole file's, `there`
 * bytes of it are given; data is NULL and *head where the first element stands. */
int larder__npy_look(larder__field *out, size_t *head, const unsigned char *bytes, size_t there,
                     uint64_t size);

typedef struct larder__zip_member {
    uint64_t offset, packed, size; /* of its bytes in the file, and unpacked */
    bool stored;
} larder__zip_member;

/* The member of this name, or with ".npy" behind it; "": the first. */
int larder__zip_find(larder__zip_member *out, const char *name, const unsigned char *bytes,
                     size_t size);
/* Its bytes, m->size of them. */
int larder__zip_unpack(const larder__zip_member *m, const unsigned char *bytes, void *out);

#endif
