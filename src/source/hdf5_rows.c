/* hdf5: rows of a data set in an HDF5 file, of any type that we have; another one may hold labels.
 *
 * The library can do one thing at a time: all calls go through one lock, whatever file they are
 * about. Its cache of chunks is bounded, so reading rows at random from large compressed chunks
 * unpacks them again and again; chunks of a row each are best. */
#include <larder/plugin.h>

#include "base/err.h"

static const larder_param params[] = {
    {"x", "text", "x", "the data set of samples", 0, 0},
    {"y", "text", "", "the data set of their classes, or of numbers, which become y", 0, 0},
    {"chunks", "size", "16MiB", "memory for unpacked chunks", 0, 0},
    {0}};

#if LARDER_HAVE_HDF5

#include "base/convert.h"
#include "base/late.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/array_rows.h"
#include "source/pread_full.h"

#include <hdf5.h>

#include <pthread.h>
#include <strings.h>

/* ---- the library, opened at the first data set ----------------------------------------------- */

#define CALLS(X)                                                                                   \
    X(H5Dclose)                                                                                    \
    X(H5Dget_space)                                                                                \
    X(H5Dget_type)                                                                                 \
    X(H5Dopen2)                                                                                    \
    X(H5Dread)                                                                                     \
    X(H5Eauto_is_v2)                                                                               \
    X(H5Eget_auto1)                                                                                \
    X(H5Eget_auto2)                                                                                \
    X(H5Eset_auto1)                                                                                \
    X(H5Eset_auto2)                                                                                \
    X(H5Fclose)                                                                                    \
    X(H5Fopen)                                                                                     \
    X(H5Pclose)                                                                                    \
    X(H5Pcreate)                                                                                   \
    X(H5Pset_chunk_cache)                                                                          \
    X(H5Sclose)                                                                                    \
    X(H5Screate_simple)                                                                            \
    X(H5Sget_simple_extent_dims)                                                                   \
    X(H5Sget_simple_extent_ndims)                                                                  \
    X(H5Sselect_hyperslab)                                                                         \
    X(H5Tclose)                                                                                    \
    X(H5Tget_class)                                                                                \
    X(H5Tget_sign)                                                                                 \
    X(H5Tget_size)                                                                                 \
    X(H5check_version)                                                                             \
    X(H5open)                                                                                      \
    X(H5P_CLS_DATASET_ACCESS_ID_g)                                                                 \
    X(H5T_NATIVE_DOUBLE_g)                                                                         \
    X(H5T_NATIVE_FLOAT_g)                                                                          \
    X(H5T_NATIVE_INT16_g)                                                                          \
    X(H5T_NATIVE_INT32_g)                                                                          \
    X(H5T_NATIVE_INT64_g)                                                                          \
    X(H5T_NATIVE_INT8_g)                                                                           \
    X(H5T_NATIVE_UINT16_g) X(H5T_NATIVE_UINT32_g) X(H5T_NATIVE_UINT64_g) X(H5T_NATIVE_UINT8_g)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(hdf5, LARDER_LATE_HDF5, CALLS)

/* Types and classes are variables, which have their values after H5open. */
#define NATIVE(type) LARDER__LATE_DATUM(H5T_NATIVE_##type##_g)

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

typedef struct hdf5_rows {
    larder__array_rows rows; /* first: its fields are these, its file gives the stamp */
    bool opened;
    hid_t file, set[2], type[2]; /* 0: none; x and y, and what they are read as */
} hdf5_rows;

/* ---- types ----------------------------------------------------------------------------------- */

typedef struct known {
    larder_dtype dtype;
    hid_t native;
} known;

static bool integer_type(size_t bytes, bool sign, known *out) {
    const known all[] = {{LARDER_U8, NATIVE(UINT8)},   {LARDER_I8, NATIVE(INT8)},
                         {LARDER_U16, NATIVE(UINT16)}, {LARDER_I16, NATIVE(INT16)},
                         {LARDER_U32, NATIVE(UINT32)}, {LARDER_I32, NATIVE(INT32)},
                         {LARDER_U64, NATIVE(UINT64)}, {LARDER_I64, NATIVE(INT64)}};
    size_t i = bytes == 1 ? 0 : bytes == 2 ? 2 : bytes == 4 ? 4 : 6;
    *out = all[i + sign];
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static bool type_of(hid_t set, known *out) {
    hid_t t = H5Dget_type(set);
    size_t bytes = H5Tget_size(t);
    H5T_class_t kind = H5Tget_class(t);
    bool fine = false;
    if (kind == H5T_INTEGER)
        fine = integer_type(bytes, H5Tget_sign(t) == H5T_SGN_2, out);
    if (kind == H5T_FLOAT && (bytes == 4 || bytes == 8)) {
        *out =
            bytes == 4 ? (known){LARDER_F32, NATIVE(FLOAT)} : (known){LARDER_F64, NATIVE(DOUBLE)};
        fine = true;
    }
    H5Tclose(t);
    return fine;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* As an array whose rows can be read; the file is the first of the rows'. */
static int open_set(hdf5_rows *h, int which, const char *name, double chunks, larder__array *out) {
    const char *path = h->rows.files[0].path;
    hsize_t dims[H5S_MAX_RANK] = {0};
    known k;
    hid_t access = H5Pcreate(LARDER__LATE_DATUM(H5P_CLS_DATASET_ACCESS_ID_g));
    H5Pset_chunk_cache(access, 12421, (size_t)chunks, 1.0);
    hid_t set = H5Dopen2(h->file, name, access);
    H5Pclose(access);
    if (set < 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s has no data set \"%.100s\" (%c=)", path, name,
                            which ? 'y' : 'x');
    h->set[which] = set;
    hid_t space = H5Dget_space(set);
    int n = H5Sget_simple_extent_ndims(space);
    if (n > 0 && n <= LARDER_NDIM)
        H5Sget_simple_extent_dims(space, dims, NULL);
    H5Sclose(space);
    if (n < 1 || n > LARDER_NDIM || !type_of(set, &k))
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "%s: \"%.100s\" is no array of numbers of 1 to %d dimensions", path,
                            name, LARDER_NDIM);
    h->type[which] = k.native;
    *out = (larder__array){.is = {.kind = LARDER__FIELD_ARRAY, .dtype = k.dtype}};
    out->is.ndim = (uint32_t)n;
    for (int i = 0; i < n; i++)
        out->is.shape[i] = dims[i];
    uint64_t count = larder__shape_count(out->is.shape, out->is.ndim);
    if (count > UINT64_MAX / 16)
        return larder__fail(LARDER_E_FORMAT, "%s: more elements than there can be", path);
    out->is.bytes = (size_t)(count * larder__dtype_bytes(k.dtype));
    return 0;
}

static bool read_part(const hdf5_rows *h, int which, uint64_t first, uint64_t n, hid_t type,
                      void *out) {
    hsize_t start[LARDER_NDIM] = {first}, count[LARDER_NDIM] = {n};
    const larder__field *f = &h->rows.fields[which].is;
    int dims = 1;
    if (which < (int)h->rows.field_count) /* labels have one number each */
        for (uint32_t i = 0; i < f->ndim; i++)
            count[dims++] = f->shape[i];
    hid_t space = H5Dget_space(h->set[which]);
    int real = H5Sget_simple_extent_ndims(space);
    for (; dims < real; dims++)
        count[dims] = 1;
    hid_t memory = H5Screate_simple(dims, count, NULL);
    bool fine = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dread(h->set[which], type, memory, space, H5P_DEFAULT, out) >= 0;
    H5Sclose(memory);
    H5Sclose(space);
    return fine;
}

static int read_labels(hdf5_rows *h) {
    larder__array_rows *r = &h->rows;
    int64_t *all = larder__malloc(r->count * sizeof *all);
    int rc = all ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && !read_part(h, 1, 0, r->count, NATIVE(INT64), all))
        rc = larder__fail(LARDER_E_FORMAT, "%s: its labels cannot be read", r->files[0].path);
    if (rc == 0)
        rc = larder__array_rows_classes(r, all);
    larder__free(all);
    return rc;
}

static int open_sets(hdf5_rows *h, const larder_args *args) {
    larder__array x, y;
    double chunks = larder_args_number(args, "chunks");
    const char *labels = larder_args_text(args, "y");
    int rc = open_set(h, 0, larder_args_text(args, "x"), chunks, &x);
    if (rc == 0)
        rc = larder__array_rows_x(&h->rows, &x);
    if (rc < 0 || !labels[0])
        return rc;
    rc = open_set(h, 1, labels, chunks, &y);
    if (rc == 0 && y.is.shape[0] != h->rows.count)
        rc =
            larder__fail(LARDER_E_FORMAT, "%s: %llu labels for %llu samples", h->rows.files[0].path,
                         (unsigned long long)y.is.shape[0], (unsigned long long)h->rows.count);
    if (rc < 0)
        return rc;
    return larder__array_rows_is_classes(&h->rows, &y) ? read_labels(h)
                                                       : larder__array_rows_y(&h->rows, &y);
}

static int open_file(hdf5_rows *h, const char *where, const larder_args *args) {
    int rc = larder__late_open(&hdf5_late);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&library);
    H5E_BEGIN_TRY {
        H5open();
        h->file = H5Fopen(where, H5F_ACC_RDONLY, H5P_DEFAULT);
        h->opened = h->file >= 0;
        rc = h->opened ? open_sets(h, args)
                       : larder__fail(LARDER_E_FORMAT, "%s: no HDF5 file, or one in use", where);
    }
    H5E_END_TRY
    pthread_mutex_unlock(&library);
    return rc;
}

static int hdf5_open(void *st, const char *where, const larder_args *args) {
    hdf5_rows *h = st;
    int rc = larder__array_rows_file_open(&h->rows, where);
    if (rc >= 0)
        rc = open_file(h, where, args);
    return rc < 0 ? rc : larder__array_rows_settle(&h->rows);
}

static void hdf5_close(void *st) {
    hdf5_rows *h = st;
    pthread_mutex_lock(&library);
    for (int i = 0; i < 2; i++)
        if (h->set[i] > 0)
            H5Dclose(h->set[i]);
    if (h->opened)
        H5Fclose(h->file);
    pthread_mutex_unlock(&library);
    larder__array_rows_close(st);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_one(hdf5_rows *h, uint64_t id, unsigned char *to) {
    const larder__array_rows *r = &h->rows;
    larder__field all[2] = {r->fields[0].is, r->fields[1].is};
    bool fine = true;
    if (r->parcels)
        larder__parcel_lay(to, all, r->field_count);
    else
        all[0].data = to;
    pthread_mutex_lock(&library);
    H5E_BEGIN_TRY {
        for (uint32_t i = 0; fine && i < r->field_count; i++)
            fine = read_part(h, (int)i, id, 1, h->type[i], to + (all[i].data - to));
    }
    H5E_END_TRY
    pthread_mutex_unlock(&library);
    return fine ? 0
                : larder__fail(LARDER_E_FORMAT,
                               "%s: sample %llu cannot be read: damaged, or packed "
                               "by a filter that is missing here",
                               r->files[0].path, (unsigned long long)id);
}

static int hdf5_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    hdf5_rows *h = st;
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = larder_buf_new((size_t)h->rows.bytes);
        int rc = buf ? read_one(h, ids[i], larder_buf_data(buf)) : LARDER_E_NOMEM;
        if (rc < 0) {
            larder_buf_unref(&buf);
            larder__answer_failure(&out[i], rc);
        } else {
            larder__answer_buf(&out[i], buf);
        }
    }
    if (n)
        larder__array_rows_check(&h->rows, n, out);
    return 0;
}

static int hdf5_probe(const char *where) {
    const char *dot = strrchr(where, '.');
    return dot && (strcasecmp(dot, ".h5") == 0 || strcasecmp(dot, ".hdf5") == 0) ? 50 : 0;
}

#define STATE sizeof(hdf5_rows)

#else

#include "source/array_rows.h"

static int hdf5_open(void *st, const char *where, const larder_args *args) {
    (void)st, (void)where, (void)args;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build reads no HDF5: libhdf5 was missing (apt install libhdf5-dev, "
                        "then build again)");
}
#define hdf5_close larder__array_rows_close
#define hdf5_read larder__array_rows_read
#define hdf5_probe NULL
#define STATE sizeof(larder__array_rows)

#endif

const larder_source larder__source_hdf5 = {
    .plugin = {.name = "hdf5",
               .summary = "rows of an array in an HDF5 file, with labels in another: ?x=a&y=b",
               .params = params,
               .state_size = STATE},
    .probe = hdf5_probe,
    .open = hdf5_open,
    .close = hdf5_close,
    .describe = larder__array_rows_describe,
    .stat = larder__array_rows_stat,
    .name = larder__array_rows_name,
    .read = hdf5_read,
    .field = larder__array_rows_field_name,
};
