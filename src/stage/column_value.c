/* What is in a field: the array of a NumPy file, what stands at a JSON path, or itself. */
#include "base/array_file.h"
#include "base/err.h"
#include "base/json_read.h"
#include "stage/codec.h"
#include "stage/column.h"
#include "stage/scratch.h"

#include <ctype.h>
#include <stdlib.h>

enum { MOST_UNPACKED = 1 << 28 }; /* bytes that a packed array may come to */

static int read_npz(const larder__column *c, larder__scratch *scratch, const larder__field *in,
                    larder__field *out) {
    larder__zip_member m;
    int rc = larder__zip_find(&m, c->path, in->data, in->bytes);
    if (rc < 0)
        return rc;
    if (m.size > MOST_UNPACKED)
        return larder__fail(LARDER_E_RANGE, "its .npz unpacks to more than 256 MiB");
    unsigned char *to = larder__scratch_take(scratch, LARDER__BLOCK_VALUE, (size_t)m.size + 1);
    if (!to)
        return LARDER_E_NOMEM;
    rc = larder__zip_unpack(&m, in->data, to);
    return rc < 0 ? rc : larder__npy_view(out, to, (size_t)m.size);
}

/* Numbers as f64, or i64 where all are whole, in the scratch. */
static int json_array(larder__scratch *scratch, const larder__json_value *v, larder__field *out) {
    size_t most = v->n / 2 + 1, n;
    unsigned char *room = larder__scratch_take(scratch, LARDER__BLOCK_VALUE, most * 16);
    bool whole;
    if (!room)
        return LARDER_E_NOMEM;
    double *to = (void *)room;
    int64_t *whole_to = (void *)(room + most * 8);
    int rc = larder__json_numbers(v, to, whole_to, most, &n, out->shape, &out->ndim, LARDER_NDIM,
                                  &whole);
    if (rc < 0)
        return rc;
    out->kind = LARDER__FIELD_ARRAY;
    out->dtype = whole ? LARDER_I64 : LARDER_F64;
    out->data = (const unsigned char *)(whole ? (const void *)whole_to : (const void *)to);
    out->bytes = n * 8;
    return 0;
}

static int json_text(larder__scratch *scratch, const larder__json_value *v, larder__field *out) {
    char *to = larder__scratch_take(scratch, LARDER__BLOCK_VALUE, v->n + 8);
    size_t n;
    if (!to)
        return LARDER_E_NOMEM;
    int rc = larder__json_unescape(v, to, &n);
    out->kind = LARDER__FIELD_TEXT;
    out->data = (const unsigned char *)to;
    out->bytes = n;
    return rc;
}

static int json_number(larder__scratch *scratch, const larder__json_value *v, larder__field *out) {
    int64_t *to = larder__scratch_take(scratch, LARDER__BLOCK_VALUE, 16);
    double d;
    int64_t i;
    bool whole;
    int rc = to ? larder__json_number(v, &d, &i, &whole) : LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    memcpy(to, whole ? (const void *)&i : (const void *)&d, 8);
    out->kind = LARDER__FIELD_ARRAY;
    out->dtype = whole ? LARDER_I64 : LARDER_F64;
    out->data = (const unsigned char *)to;
    out->bytes = 8;
    return 0;
}

static int read_json(const larder__column *c, larder__scratch *scratch, const larder__field *in,
                     larder__field *out) {
    larder__json_value v;
    int rc = larder__json_find((const char *)in->data, in->bytes, c->path, &v);
    if (rc < 0)
        return rc;
    *out = (larder__field){.kind = LARDER__FIELD_NONE, .dtype = LARDER_U8};
    switch (v.type) {
    case LARDER__JSON_NUMBER:
    case LARDER__JSON_BOOL:
        return json_number(scratch, &v, out);
    case LARDER__JSON_TEXT:
        return json_text(scratch, &v, out);
    case LARDER__JSON_ARRAY:
        return json_array(scratch, &v, out);
    case LARDER__JSON_OBJECT: /* as it is written */
        out->kind = LARDER__FIELD_TEXT;
        out->data = (const unsigned char *)v.at;
        out->bytes = v.n;
        return 0;
    default:
        return larder__fail(LARDER_E_FORMAT, "its JSON has nothing but null at \"%.100s\"",
                            c->path);
    }
}

int larder__column_value(const larder__column *c, larder__scratch *scratch, const larder__field *in,
                         larder__field *out) {
    bool typed = in->kind != LARDER__FIELD_BYTES && in->kind != LARDER__FIELD_TEXT;
    *out = *in;
    if (c->reading == LARDER__AS_IT_IS || typed)
        return 0;
    if (c->reading == LARDER__IN_NPY)
        return larder__npy_view(out, in->data, in->bytes);
    return c->reading == LARDER__IN_NPZ ? read_npz(c, scratch, in, out)
                                        : read_json(c, scratch, in, out);
}

void larder__column_fix(larder__column *c, larder_dtype dtype, const uint64_t *shape,
                        uint32_t ndim) {
    c->dtype = dtype;
    c->ndim = ndim;
    for (uint32_t d = 0; d < LARDER_NDIM; d++)
        c->shape[d] = d < ndim ? shape[d] : 0;
    c->bytes = (size_t)larder__shape_count(shape, ndim) * larder__dtype_bytes(dtype);
}

int larder__column_piece(const larder__field *f, const larder__sight *sight, larder__cell *out) {
    uintptr_t at = (uintptr_t)f->data, from = (uintptr_t)sight->sample;
    bool within = at >= from && at - from <= sight->sample_bytes; /* not in the scratch */
    bool aligned = f->dtype == LARDER_U8 || (uintptr_t)f->data % 16 == 0;
    out->piece =
        (larder_piece){.data = f->data, .bytes = f->bytes, .dtype = f->dtype, .ndim = f->ndim};
    memcpy(out->piece.shape, f->shape, sizeof f->shape);
    if (f->kind != LARDER__FIELD_ARRAY && f->kind != LARDER__FIELD_TENSOR) {
        out->piece.ndim = 1;
        out->piece.shape[0] = f->bytes;
    }
    if (within && aligned)
        return 0;
    if (!(out->own = larder_buf_new(f->bytes)))
        return LARDER_E_NOMEM;
    if (f->bytes)
        memcpy(larder_buf_data(out->own), f->data, f->bytes);
    out->piece.data = larder_buf_data(out->own);
    return 0;
}

/* "17\n", "-2.5" */
static int number_of_text(const larder__field *f, double *out, int64_t *integer, bool *whole) {
    size_t n = f->bytes, from = 0;
    while (n > 0 && isspace(f->data[n - 1]))
        n--;
    while (from < n && isspace(f->data[from]))
        from++;
    larder__json_value v = {LARDER__JSON_NUMBER, (const char *)f->data + from, n - from};
    if (v.n == 0)
        return larder__fail(LARDER_E_FORMAT, "there is no number where one should be");
    return larder__json_number(&v, out, integer, whole);
}

int larder__column_number_of(const larder__field *f, double *out, int64_t *integer, bool *whole) {
    *whole = true;
    if (f->kind == LARDER__FIELD_BOOL) {
        *integer = f->data[0];
        *out = (double)*integer;
        return 0;
    }
    if (f->kind == LARDER__FIELD_BYTES || f->kind == LARDER__FIELD_TEXT)
        return number_of_text(f, out, integer, whole);
    return larder__fail(LARDER_E_FORMAT, "there is no number where one should be");
}
