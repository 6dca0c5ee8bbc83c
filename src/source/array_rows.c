#include "source/array_rows.h"

#include "base/array_file.h"
#include "base/convert.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/chain.h"
#include "source/content.h"
#include "source/pread_full.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- files ----------------------------------------------------------------------------------- */

int larder__array_rows_file_open(larder__array_rows *r, const char *path) {
    if (r->file_count == 2)
        return larder__fail(LARDER_E_RANGE, "%s: one file too many", path);
    larder__array_rows_file *f = &r->files[r->file_count];
    *f = (larder__array_rows_file){.fd = -1, .path = larder__strdup(path)};
    r->file_count++;
    if (!f->path)
        return LARDER_E_NOMEM;
    f->fd = larder__open_plain(path, &f->stamp);
    return f->fd < 0 ? f->fd : (int)r->file_count - 1;
}

void larder__array_rows_close(void *st) {
    larder__array_rows *r = st;
    for (uint32_t i = 0; i < r->file_count; i++) {
        larder__free(r->files[i].path);
        if (r->files[i].fd >= 0)
            close(r->files[i].fd);
    }
    larder__free(r->labels);
    *r = (larder__array_rows){0};
}

int larder__array_rows_npy(larder__array_rows *r, const char *path, larder__array *out) {
    enum { HEAD = 8192 };
    unsigned char head[HEAD];
    *out = (larder__array){0};
    int file = larder__array_rows_file_open(r, path);
    if (file < 0)
        return file;
    const larder__array_rows_file *f = &r->files[file];
    size_t there = f->stamp.size < HEAD ? (size_t)f->stamp.size : HEAD, start = 0;
    int rc = larder__pread_full(f->fd, path, head, there, 0);
    if (rc == 0 && (rc = larder__npy_look(&out->is, &start, head, there, f->stamp.size)) < 0)
        rc = larder__fail_in(rc, "%s", path);
    out->file = (uint32_t)file;
    out->head = start;
    return rc;
}

/* "f32", "float32" … */
static int dtype_named(const char *text, larder_dtype *out) {
    static const char *const brief[LARDER_DTYPES] = {"f32",  "u8",  "f16", "bf16", "i64",
                                                     "i32",  "i16", "i8",  "u16",  "f64",
                                                     "bool", "u32", "u64", "c64"};
    for (unsigned i = 0; i < LARDER_DTYPES; i++)
        if (strcmp(text, brief[i]) == 0 || strcmp(text, larder__dtype_name(i)) == 0) {
            *out = (larder_dtype)i;
            return 0;
        }
    return larder__fail(LARDER_E_ARGS,
                        "dtype=%.30s is no type: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 "
                        "bool c64",
                        text);
}

static int shape_from(const char *text, larder__field *out) {
    for (const char *at = text; *at;) {
        char *end;
        uint64_t side = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (side == 0 || out->ndim == LARDER_NDIM - 1 || (*end && *end != '/'))
            return larder__fail(LARDER_E_ARGS, "shape=%.60s is none: sides, as in 3/32/32", text);
        out->shape[++out->ndim] = side; /* the first is for the rows */
        at = end + (*end == '/');
    }
    return 0;
}

int larder__array_rows_plain(larder__array_rows *r, const char *path, const char *dtype,
                             const char *shape, uint64_t offset, larder__array *out) {
    char text[160];
    *out = (larder__array){.is = {.kind = LARDER__FIELD_ARRAY}, .head = offset};
    int rc = dtype_named(dtype, &out->is.dtype);
    if (rc == 0)
        rc = shape_from(shape, &out->is);
    if (rc < 0)
        return rc;
    int file = larder__array_rows_file_open(r, path);
    if (file < 0)
        return file;
    uint64_t size = r->files[file].stamp.size, width = larder__dtype_bytes(out->is.dtype);
    uint64_t row = larder__shape_count(out->is.shape + 1, out->is.ndim) * width;
    if (row == 0 || row > size || offset > size || (size - offset) % row != 0)
        return larder__fail(
            LARDER_E_FORMAT, "%s: %llu bytes after %llu are no whole number of rows of %s %s", path,
            (unsigned long long)(size - (offset < size ? offset : size)),
            (unsigned long long)offset, larder__shape_text(out->is.shape + 1, out->is.ndim, text),
            larder__dtype_name(out->is.dtype));
    out->file = (uint32_t)file;
    out->is.shape[0] = (size - offset) / row;
    out->is.ndim++;
    out->is.bytes = (size_t)(size - offset);
    return 0;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int add_field(larder__array_rows *r, const char *name, const larder__array *a) {
    const larder__array_rows_file *f = &r->files[a->file];
    larder__array_rows_field *to = &r->fields[r->field_count];
    if (a->is.ndim == 0)
        return larder__fail(LARDER_E_FORMAT, "%s: one number, not an array", f->path);
    if (a->is.bytes == 0)
        return larder__fail(LARDER_E_NOTFOUND, "%s holds no samples", f->path);
    *to = (larder__array_rows_field){.is = a->is, .file = a->file, .head = a->head};
    to->is.name = name;
    to->is.name_bytes = strlen(name);
    to->is.ndim--;
    memmove(to->is.shape, to->is.shape + 1, to->is.ndim * sizeof *to->is.shape);
    to->is.bytes = (size_t)(a->is.bytes / a->is.shape[0]);
    to->step = to->is.bytes;
    r->field_count++;
    return 0;
}

int larder__array_rows_x(larder__array_rows *r, const larder__array *a) {
    int rc = add_field(r, "x", a);
    r->count = rc == 0 ? a->is.shape[0] : 0;
    return rc;
}

static bool whole_numbers(larder_dtype t) {
    return t == LARDER_U8 || t == LARDER_I8 || t == LARDER_U16 || t == LARDER_I16 ||
           t == LARDER_U32 || t == LARDER_I32 || t == LARDER_U64 || t == LARDER_I64 ||
           t == LARDER_BOOL;
}

bool larder__array_rows_is_classes(const larder__array_rows *r, const larder__array *a) {
    return whole_numbers(a->is.dtype) && larder__shape_count(a->is.shape, a->is.ndim) == r->count;
}

int larder__array_rows_classes(larder__array_rows *r, const int64_t *values) {
    r->labels = larder__malloc(r->count * sizeof *r->labels);
    if (!r->labels)
        return LARDER_E_NOMEM;
    for (uint64_t i = 0; i < r->count; i++) {
        if (values[i] < -1 || values[i] >= INT32_MAX)
            return larder__fail(LARDER_E_FORMAT, "%s: sample %llu has label %lld",
                                r->files[r->file_count - 1].path, (unsigned long long)i,
                                (long long)values[i]);
        r->labels[i] = (int32_t)values[i];
        if (values[i] >= r->classes)
            r->classes = (uint32_t)values[i] + 1;
    }
    return 0;
}

int larder__array_rows_y(larder__array_rows *r, const larder__array *a) {
    return add_field(r, "y", a);
}

static int read_classes(larder__array_rows *r, const larder__array *a) {
    const larder__array_rows_file *f = &r->files[a->file];
    unsigned char *bytes = larder__malloc(a->is.bytes);
    int64_t *values = larder__malloc(r->count * sizeof *values);
    int rc = bytes && values ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__pread_full(f->fd, f->path, bytes, a->is.bytes, a->head);
    if (rc == 0 &&
        (rc = larder__convert(values, LARDER_I64, bytes, a->is.dtype, (size_t)r->count)) < 0)
        rc = larder__fail_in(rc, "%s", f->path);
    if (rc == 0)
        rc = larder__array_rows_classes(r, values);
    larder__free(bytes);
    larder__free(values);
    return rc;
}

int larder__array_rows_labels(larder__array_rows *r, const char *path) {
    larder__array a;
    if (!path[0])
        return 0;
    int rc = larder__array_rows_npy(r, path, &a);
    if (rc < 0)
        return rc;
    if (a.is.ndim == 0 || a.is.shape[0] != r->count)
        return larder__fail(LARDER_E_FORMAT, "%s: %llu labels for %llu samples", path,
                            (unsigned long long)(a.is.ndim ? a.is.shape[0] : 1),
                            (unsigned long long)r->count);
    return larder__array_rows_is_classes(r, &a) ? read_classes(r, &a) : add_field(r, "y", &a);
}

/* Bytes as H x W, H x W x C or C x H x W, of 1 to 4 channels. */
static bool as_picture(larder__array_rows *r) {
    const larder__field *x = &r->fields[0].is;
    const uint64_t *s = x->shape;
    bool last = x->ndim == 3 && s[2] <= LARDER_CHANNELS_MAX, first = x->ndim == 3 && s[0] <= 4;
    if (x->dtype != LARDER_U8 || r->field_count > 1 || (x->ndim != 2 && !last && !first))
        return false;
    uint64_t h = s[x->ndim == 3 && !last], w = s[1 + (x->ndim == 3 && !last)],
             c = x->ndim == 2 ? 1
                 : last       ? s[2]
                              : s[0];
    if (h > 1u << 20 || w > 1u << 20)
        return false;
    r->raw = (larder_shape){(uint32_t)h, (uint32_t)w, (uint32_t)c};
    r->layout = x->ndim == 2 || !last ? LARDER_NCHW : LARDER_NHWC;
    return true;
}

int larder__array_rows_settle(larder__array_rows *r) {
    larder__field all[2] = {r->fields[0].is, r->fields[1].is};
    r->parcels = !as_picture(r);
    r->bytes = r->parcels ? larder__parcel_bytes(all, r->field_count) : all[0].bytes;
    if (r->bytes == 0)
        return larder__fail_in(LARDER_E_FORMAT, "%s", r->files[0].path);
    return r->bytes < UINT32_MAX
               ? 0
               : larder__fail(LARDER_E_FORMAT, "%s: 4 GiB or more is no sample", r->files[0].path);
}

/* ---- operations ------------------------------------------------------------------------------ */

static int read_file(void *arg, void *out, size_t n, uint64_t at) {
    const larder__array_rows_file *f = arg;
    return larder__pread_full(f->fd, f->path, out, n, at);
}

int larder__array_rows_describe(void *st, larder_dataset *out) {
    larder__array_rows *r = st;
    uint64_t h = larder__hash_bytes(0x70a5, &r->count, sizeof r->count), all = 0;
    larder__content c;
    *out = (larder_dataset){.count = r->count,
                            .bytes = r->count * r->bytes,
                            .classes = r->classes,
                            .raw = r->raw,
                            .parcels = r->parcels,
                            .layout = r->layout};
    for (uint32_t i = 0; i < r->field_count; i++) {
        const larder__field *f = &r->fields[i].is;
        uint64_t of[] = {f->dtype, f->ndim, r->fields[i].step, f->bytes};
        h = larder__hash_bytes(h, of, sizeof of);
        h = larder__hash_bytes(h, f->shape, f->ndim * sizeof *f->shape);
    }
    if (r->labels)
        h = larder__hash_bytes(h, r->labels, r->count * sizeof *r->labels);
    out->fingerprint = h;
    for (uint32_t i = 0; i < r->file_count; i++)
        all += r->files[i].stamp.size;
    larder__content_begin(&c, all);
    for (uint32_t i = 0; i < r->file_count; i++) {
        larder__content_add(&c, r->files[i].stamp.size, read_file, &r->files[i]);
        out->identity = larder__stamp_hash(out->identity, &r->files[i].stamp);
    }
    out->content = c.hash;
    return 0;
}

int larder__array_rows_stat(void *st, uint64_t id, larder_sample *out) {
    const larder__array_rows *r = st;
    *out = (larder_sample){.bytes = (uint32_t)r->bytes, .label = r->labels ? r->labels[id] : -1};
    return 0;
}

int larder__array_rows_name(void *st, uint64_t id, char *out, size_t cap) {
    const larder__array_rows *r = st;
    snprintf(out, cap, "%s#%llu", larder__name_in(r->files[0].path), (unsigned long long)id);
    return 0;
}

int larder__array_rows_one_file(void *st, uint64_t id, uint64_t *out) {
    (void)st, (void)id;
    *out = 0;
    return 0;
}

const char *larder__array_rows_field_name(void *st, size_t i) {
    const larder__array_rows *r = st;
    return r->parcels && i < r->field_count ? r->fields[i].is.name : NULL;
}

static int read_field(const larder__array_rows *r, uint32_t i, uint64_t id, void *to, size_t more) {
    const larder__array_rows_field *f = &r->fields[i];
    const larder__array_rows_file *file = &r->files[f->file];
    int rc =
        larder__pread_full(file->fd, file->path, to, f->is.bytes + more, f->head + id * f->step);
    return rc < 0 ? larder__fail_in(rc, "sample %llu", (unsigned long long)id) : 0;
}

/* x with what follows it, which y is a copy of; what went past the end of x is taken back. */
static int read_both(const larder__array_rows *r, uint64_t id, unsigned char *x, unsigned char *y) {
    size_t n = r->fields[0].is.bytes;
    int rc = read_field(r, 0, id, x, r->later);
    memmove(y, x + r->later, n);
    memset(x + n, 0, (size_t)(y - x) - n);
    return rc;
}

static int read_one(const larder__array_rows *r, uint64_t id, unsigned char *to) {
    larder__field all[2] = {r->fields[0].is, r->fields[1].is};
    int rc = 0;
    if (!r->parcels)
        return read_field(r, 0, id, to, 0);
    larder__parcel_lay(to, all, r->field_count);
    if (r->later)
        return read_both(r, id, to + (all[0].data - to), to + (all[1].data - to));
    for (uint32_t i = 0; rc == 0 && i < r->field_count; i++)
        rc = read_field(r, i, id, to + (all[i].data - to), 0);
    return rc;
}

/* What was read counts if the files are still what they were. */
void larder__array_rows_check(const larder__array_rows *r, size_t n, larder_read *out) {
    for (uint32_t k = 0; k < r->file_count; k++) {
        const larder__array_rows_file *f = &r->files[k];
        if (larder__fd_unchanged(f->fd, f->path, &f->stamp) == 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            larder_buf_unref(&out[i].buf);
            larder__answer_failure(&out[i], larder__file_changed(f->path));
        }
    }
}

/* Rows of one field; those of two lie in two places. */
static bool lay(void *arg, uint64_t id, larder__chain *run, larder_buf **out) {
    const larder__array_rows *r = arg;
    const larder__array_rows_field *f = &r->fields[0];
    larder__field all[2] = {f->is, r->fields[1].is};
    if (r->field_count != 1 || !(*out = larder_buf_new((size_t)r->bytes)))
        return false;
    unsigned char *to = larder_buf_data(*out);
    if (r->parcels) {
        larder__parcel_lay(to, all, 1);
        to += all[0].data - to;
    }
    return larder__chain_add(run, r->files[f->file].fd, f->head + id * f->step, to, f->is.bytes);
}

static void answer_one(const larder__array_rows *r, uint64_t id, larder_read *out) {
    larder_buf *buf = larder_buf_new((size_t)r->bytes);
    int rc = buf ? read_one(r, id, larder_buf_data(buf)) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder_buf_unref(&buf);
        larder__answer_failure(out, rc);
    } else {
        larder__answer_buf(out, buf);
    }
}

int larder__array_rows_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    larder__array_rows *r = st;
    for (size_t i = 0; i < n;) {
        bool read;
        size_t k = larder__chain_read(lay, r, ids + i, n - i, out + i, &read);
        for (size_t end = i + k; i < end; i++)
            if (!read)
                answer_one(r, ids[i], &out[i]);
    }
    if (n)
        larder__array_rows_check(r, n, out);
    return 0;
}
