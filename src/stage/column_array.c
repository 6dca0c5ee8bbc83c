/* Arrays: of NumPy files, of JSON, of typed samples. All rows have the first one's shape, unless
 * they are said to differ. */
#include "base/convert.h"
#include "base/err.h"
#include "stage/column.h"

static int need_array(const larder__field *f) {
    if (f->kind == LARDER__FIELD_ARRAY || f->kind == LARDER__FIELD_TENSOR)
        return 0;
    return larder__fail(LARDER_E_FORMAT, "there is no array where one should be");
}

/* What the first sample's array is of: without dtype= all are. */
static larder_dtype *stored(const larder__column *c) { return c->state; }

static bool of_json(const larder__column *c) { return c->reading == LARDER__IN_JSON; }

static int open_array(larder__column *c, const larder_args *args, const larder__sight *sight,
                      const larder__field *first) {
    (void)sight;
    int rc = need_array(first);
    if (rc < 0)
        return rc;
    const char *said = larder_args_text(args, "dtype");
    larder_dtype to = of_json(c) || c->target ? LARDER_F32 : first->dtype;
    for (unsigned d = 0; d < LARDER_DTYPES; d++)
        if (strcmp(said, larder__dtype_name(d)) == 0)
            to = (larder_dtype)d;
    *stored(c) = first->dtype;
    c->ragged = larder_args_number(args, "ragged") != 0;
    if (first->kind == LARDER__FIELD_TENSOR)
        c->shows = "tensor";
    larder__column_fix(c, to, first->shape, first->ndim);
    return 0;
}

static int as_piece(const larder__column *c, const larder__sight *sight, const larder__field *f,
                    larder__cell *out) {
    if (f->dtype == c->dtype)
        return larder__column_piece(f, sight, out);
    size_t n = (size_t)larder__shape_count(f->shape, f->ndim);
    larder_buf *own = larder_buf_new(n * larder__dtype_bytes(c->dtype));
    if (!own)
        return LARDER_E_NOMEM;
    int rc = larder__convert(larder_buf_data(own), c->dtype, f->data, f->dtype, n);
    if (rc < 0) {
        larder_buf_unref(&own);
        return rc;
    }
    out->own = own;
    out->piece = (larder_piece){.data = larder_buf_data(own),
                                .bytes = larder_buf_size(own),
                                .dtype = c->dtype,
                                .ndim = f->ndim};
    memcpy(out->piece.shape, f->shape, sizeof f->shape);
    return 0;
}

static int run_array(const larder__column *c, const larder__sight *sight, const larder__field *f,
                     larder__cell *out) {
    int rc = need_array(f);
    if (rc < 0)
        return rc;
    if (c->ragged)
        return as_piece(c, sight, f, out);
    bool exact =
        !of_json(c) && !c->target && f->dtype != *stored(c) && c->reading == LARDER__AS_IT_IS;
    if (exact || !larder__shape_same(f->shape, f->ndim, c->shape, c->ndim)) {
        char is[160], was[160];
        return larder__fail(LARDER_E_FORMAT,
                            "an array of %s %s, and the first sample's is of %s %s: rows of one "
                            "batch are alike (or say :array;ragged=true)",
                            larder__shape_text(f->shape, f->ndim, is), larder__dtype_name(f->dtype),
                            larder__shape_text(c->shape, c->ndim, was),
                            larder__dtype_name(*stored(c)));
    }
    return larder__convert(out->row, c->dtype, f->data, f->dtype,
                           (size_t)larder__shape_count(f->shape, f->ndim));
}

static const larder_param params[] = {
    {"dtype", "auto|float32|float64|int64|int32|int16|int8|uint8|uint16|uint32|uint64|bool", "auto",
     "of the rows; auto: as the first sample has it, float32 of JSON", 0, 0},
    {"ragged", "bool", "false", "rows may differ in shape, and come as a list", 0, 0},
    {0}};

const larder__column_kind larder__column_array = {
    .plugin = {.name = "array",
               .summary = "an array: npy, npz, JSON",
               .params = params,
               .state_size = sizeof(larder_dtype)},
    .endings = " npy npz ",
    .open = open_array,
    .run = run_array,
};
