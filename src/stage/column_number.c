/* Numbers: one a sample. Whole ones are int64, others float32, unless dtype= says else. */
#include "base/convert.h"
#include "base/err.h"
#include "stage/column.h"

static int read_number(const larder__field *f, larder_dtype *from, unsigned char out[16]) {
    if (f->kind == LARDER__FIELD_ARRAY || f->kind == LARDER__FIELD_TENSOR) {
        if (larder__shape_count(f->shape, f->ndim) != 1) {
            char shape[160];
            return larder__fail(LARDER_E_FORMAT,
                                "an array of %s is no number: say it is an array (:array)",
                                larder__shape_text(f->shape, f->ndim, shape));
        }
        *from = f->dtype;
        memcpy(out, f->data, larder__dtype_bytes(f->dtype));
        return 0;
    }
    double d;
    int64_t i;
    bool whole;
    int rc = larder__column_number_of(f, &d, &i, &whole);
    *from = whole ? LARDER_I64 : LARDER_F64;
    memcpy(out, whole ? (const void *)&i : (const void *)&d, 8);
    return rc;
}

static bool is_float(larder_dtype d) {
    return d == LARDER_F32 || d == LARDER_F64 || d == LARDER_F16 || d == LARDER_BF16 ||
           d == LARDER_C64;
}

static int open_number(larder__column *c, const larder_args *args, const larder__sight *sight,
                       const larder__field *first) {
    (void)sight;
    unsigned char bytes[16];
    larder_dtype from, to = LARDER_I64;
    int rc = read_number(first, &from, bytes);
    if (rc < 0)
        return rc;
    const char *said = larder_args_text(args, "dtype");
    bool typed = c->reading == LARDER__AS_IT_IS && first->kind != LARDER__FIELD_BYTES &&
                 first->kind != LARDER__FIELD_TEXT;
    if (strcmp(said, "auto") != 0)
        to = strcmp(said, "int64") == 0     ? LARDER_I64
             : strcmp(said, "float64") == 0 ? LARDER_F64
                                            : LARDER_F32;
    else if (typed && !c->target)
        to = first->kind == LARDER__FIELD_BOOL ? LARDER_BOOL : from;
    else
        to = is_float(from) ? LARDER_F32 : LARDER_I64;
    if (first->kind == LARDER__FIELD_BOOL || first->kind == LARDER__FIELD_TENSOR)
        c->shows = first->kind == LARDER__FIELD_BOOL ? "bool" : "tensor";
    larder__column_fix(c, to, NULL, 0);
    return 0;
}

static int run_number(const larder__column *c, const larder__sight *sight, const larder__field *f,
                      larder__cell *out) {
    (void)sight;
    unsigned char bytes[16];
    larder_dtype from;
    int rc = read_number(f, &from, bytes);
    return rc < 0 ? rc : larder__convert(out->row, c->dtype, bytes, from, 1);
}

static const larder_param params[] = {
    {"dtype", "auto|float32|float64|int64", "auto",
     "of the rows; auto: int64 where the first sample's is whole, else float32", 0, 0},
    {0}};

const larder__column_kind larder__column_number = {
    .plugin = {.name = "number",
               .summary = "a number, as text, in JSON or in an array of one",
               .params = params},
    .endings = " cls cls2 id index ",
    .open = open_number,
    .run = run_number,
};
