/* Rows of arrays: samples of one size, each made of one or two fields (x, and y where it is no
 * class), that lie at equal steps in plain files. Bytes in the shape of pictures are raw pixels;
 * anything else is a parcel. Filled by a source's open, then read by any thread. */
#ifndef LARDER_SOURCE_ARRAY_ROWS_H
#define LARDER_SOURCE_ARRAY_ROWS_H

#include "base/parcel.h"
#include "source/stamp.h"

#include <larder/plugin.h>

typedef struct larder__array_rows_file {
    char *path;
    int fd;
    larder__stamp stamp;
} larder__array_rows_file;

typedef struct larder__array_rows_field {
    larder__field is;    /* of one row; its data are not there */
    uint32_t file;       /* in which file */
    uint64_t head, step; /* bytes before the first row, and from row to row */
} larder__array_rows_field;

typedef struct larder__array_rows {
    larder__array_rows_file files[2];
    larder__array_rows_field fields[2];
    uint32_t file_count, field_count;
    uint64_t count;
    uint64_t bytes;   /* of a sample */
    uint32_t later;   /* y is x this many bytes later, in the same file: read once; 0: it is not */
    bool parcels;     /* samples are parcels; else the one field's bytes */
    larder_shape raw; /* h > 0: pictures */
    larder_layout layout;
    int32_t *labels; /* NULL: none */
    uint32_t classes;
} larder__array_rows;

typedef struct larder__array { /* a whole array in a file of the rows */
    larder__field is;          /* all of it: shape, type, bytes */
    uint32_t file;
    uint64_t head;
} larder__array;

/* A .npy file. */
int larder__array_rows_npy(larder__array_rows *, const char *path, larder__array *out);
/* A file without a head: rows of this type and shape ("3/32/32"; "": numbers) from `offset` on. */
int larder__array_rows_plain(larder__array_rows *, const char *path, const char *dtype,
                             const char *shape, uint64_t offset, larder__array *out);
/* Its rows are the field x. */
int larder__array_rows_x(larder__array_rows *, const larder__array *);
/* As many labels as there are rows: one whole number each is a class, all else the field y. "":
 * none are there. */
int larder__array_rows_labels(larder__array_rows *, const char *path);
/* For sources whose arrays lie otherwise: the file, an index or negative; is it one class a row?;
 * such classes, one each; the field y; what was read counts only if the files are what they were.
 */
int larder__array_rows_file_open(larder__array_rows *, const char *path);
bool larder__array_rows_is_classes(const larder__array_rows *, const larder__array *);
int larder__array_rows_classes(larder__array_rows *, const int64_t *);
int larder__array_rows_y(larder__array_rows *, const larder__array *);
void larder__array_rows_check(const larder__array_rows *, size_t n, larder_read *out);
/* What samples are, once all fields are known. */
int larder__array_rows_settle(larder__array_rows *);

/* The operations of larder_source, for sources whose state begins with a larder__array_rows. */
void larder__array_rows_close(void *st);
int larder__array_rows_describe(void *st, larder_dataset *out);
int larder__array_rows_stat(void *st, uint64_t id, larder_sample *out);
int larder__array_rows_name(void *st, uint64_t id, char *out, size_t cap);
int larder__array_rows_one_file(void *st, uint64_t id, uint64_t *out);
int larder__array_rows_read(void *st, const uint64_t *ids, size_t n, larder_read *out);
const char *larder__array_rows_field_name(void *st, size_t i);

#endif
