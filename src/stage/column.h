/* Columns: named outputs of a batch, each made of one field of a sample.
 *
 * A column has a kind, which is one struct in a file of its own and one line in column_kinds.c.
 * What a row of it looks like is settled by the first sample; then any number of threads run it.
 * Rows of one shape are written where they belong; others are pieces, in the sample's own bytes or
 * in memory made for them. */
#ifndef LARDER_STAGE_COLUMN_H
#define LARDER_STAGE_COLUMN_H

#include "base/parcel.h"
#include "stage/pipeline.h"

typedef struct larder__column larder__column;

typedef struct larder__cell { /* where one row's value goes */
    void *row;                /* larder__column.bytes of it, unless pieces are wanted */
    larder_piece piece;       /* out, of ragged columns */
    larder_buf *own;          /* out: what the piece lies in; NULL: in the field's own bytes */
} larder__cell;

typedef struct larder__sight { /* what a column may see beside its field */
    larder__scratch *scratch;
    uint64_t seed;                    /* of the sample's chance, the same for all its columns */
    const larder__pipeline *pipeline; /* of its pictures; NULL: it has none */
    const larder__field *picture;     /* the one that is x; NULL: none */
    const unsigned char *sample;      /* its bytes: what lies there outlives the call */
    size_t sample_bytes;
    uint64_t id;
} larder__sight;

typedef struct larder__column_kind {
    larder_plugin plugin; /* ":name;key=value;…" */
    const char *endings;  /* " wav flac ": what such a field is unless said; NULL: none */
    bool plain;           /* it wants a field's bytes, not the array or number in them */
    bool pictures;        /* it needs the pipeline of pictures */
    /* Settles dtype, ndim, shape and ragged by the first sample's value. */
    int (*open)(larder__column *, const larder_args *, const larder__sight *,
                const larder__field *first);
    int (*run)(const larder__column *, const larder__sight *, const larder__field *,
               larder__cell *out);
    void (*close)(larder__column *); /* optional */
} larder__column_kind;

/* How the value of a column lies in its field. */
typedef enum { LARDER__AS_IT_IS, LARDER__IN_NPY, LARDER__IN_NPZ, LARDER__IN_JSON } larder__reading;

struct larder__column {
    char *name;  /* as people see it */
    char *field; /* of the sample: "jpg", "json"; "" of a sample that is no parcel: all of it */
    char *path;  /* within it: "label" */
    char *kind_args;
    larder__reading reading;
    const larder__column_kind *kind;
    const char *shows; /* larder_column.kind */
    bool target;       /* it is y, if it is whole numbers */
    void *state;       /* of plugin.state_size, zeroed */
    larder_dtype dtype;
    uint32_t ndim;
    uint64_t shape[LARDER_NDIM];
    bool ragged;
    size_t bytes;  /* of one row */
    size_t member; /* which of the set's members its field is */
};

/* By name, or for a field's ending; NULL: none. */
const larder__column_kind *larder__column_kind_named(const char *name);
const larder__column_kind *larder__column_kind_for(const char *ending);
const larder__column_kind *larder__column_kind_nth(size_t i);

/* ---- the columns of a data set --------------------------------------------------------------- */

typedef struct larder__columns {
    larder__column *items;
    size_t count, cap;
    char **members; /* fields of the source that they are made of, each once */
    size_t member_count, members_cap;
    size_t x, y;   /* which is x, and which is y (if it is int64); SIZE_MAX: none */
    size_t ragged; /* how many have pieces */
    bool typed;    /* they are what a parcel has, with their types; y is a copy then */
} larder__columns;

/* From the texts of larder_loader_conf; each may be NULL. */
int larder__columns_parse(larder__columns *, const char *fields, const char *target);
void larder__columns_free(larder__columns *);
/* One that is made of all of a sample that is no parcel, or of each field of this parcel. */
int larder__columns_whole(larder__columns *);
int larder__columns_of_parcel(larder__columns *, const void *bytes, size_t size);
/* One whose values are given, `bytes` of each id, where known[id]; both stay the caller's. It is y.
 */
typedef struct larder__given {
    const char *from;   /* for the sentence: "labels.csv has no line for it" */
    larder_dtype dtype; /* I64 or F32 */
    uint32_t ndim;      /* 0: one number each; 1: `width` */
    uint64_t width;
    const unsigned char *values, *known;
} larder__given;
int larder__columns_give(larder__columns *, const larder__given *);
int larder__columns_add_y(larder__columns *);           /* an empty one of that name, for it */
bool larder__columns_pictures(const larder__columns *); /* does one need the pipeline? */
/* By the first sample that can be read. */
int larder__columns_settle(larder__columns *, const larder__sight *, const void *bytes, size_t size,
                           bool parcel);
/* One sample: into cells[i] of column i, whose row the caller has set. x and y are columns too. On
 * a failure no cell has memory of its own. */
int larder__columns_run(const larder__columns *, const larder__sight *, const void *bytes,
                        size_t size, bool parcel, larder__cell *cells);

/* ---- for kinds ------------------------------------------------------------------------------- */

/* What is in a field: the array of an .npy, the number at a JSON path, …; in the scratch until the
 * next call where it had to be made. */
int larder__column_value(const larder__column *, larder__scratch *, const larder__field *,
                         larder__field *out);
/* Rows of this type and shape. */
void larder__column_fix(larder__column *, larder_dtype, const uint64_t *shape, uint32_t ndim);
/* A piece of what is in a field, copied unless it lies in the sample itself. */
int larder__column_piece(const larder__field *, const larder__sight *, larder__cell *out);
/* A number out of a field of any kind, "17\n" included. */
int larder__column_number_of(const larder__field *, double *out, int64_t *integer, bool *whole);

#endif
