/* Arrays in files as data sets: npy, raw (an array without a head), and windows over a long one,
 * which is what texts are for language models. */
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/array_rows.h"

#include <stdio.h>
#include <strings.h>

static bool ends_in_npy(const char *path) {
    size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".npy") == 0;
}

/* ---- npy ------------------------------------------------------------------------------------- */

static int probe(const char *where) { return ends_in_npy(where) ? 60 : 0; }

static int npy_open(void *st, const char *where, const larder_args *args) {
    larder__array a = {0};
    int rc = larder__array_rows_npy(st, where, &a);
    if (rc == 0)
        rc = larder__array_rows_x(st, &a);
    if (rc == 0)
        rc = larder__array_rows_labels(st, larder_args_text(args, "labels"));
    return rc < 0 ? rc : larder__array_rows_settle(st);
}

#define LABELS                                                                                     \
    {                                                                                              \
        "labels", "text", "", "a .npy file with a class of each row, or numbers, which become y",  \
            0, 0                                                                                   \
    }

static const larder_param npy_params[] = {LABELS, {0}};

/* ---- raw ------------------------------------------------------------------------------------- */

static const larder_param raw_params[] = {
    {"dtype", "text", "u8",
     "of its numbers: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 bool c64", 0, 0},
    {"shape", "text", "", "of a row, as 3/32/32; else rows are single numbers", 0, 0},
    {"offset", "size", "0", "bytes before the first row", 0, 0},
    LABELS,
    {0}};

static int raw_array(larder__array_rows *r, const char *where, const larder_args *args,
                     larder__array *out) {
    return larder__array_rows_plain(r, where, larder_args_text(args, "dtype"),
                                    larder_args_text(args, "shape"),
                                    (uint64_t)larder_args_number(args, "offset"), out);
}

static int raw_open(void *st, const char *where, const larder_args *args) {
    larder__array a = {0};
    int rc = raw_array(st, where, args, &a);
    if (rc == 0)
        rc = larder__array_rows_x(st, &a);
    if (rc == 0)
        rc = larder__array_rows_labels(st, larder_args_text(args, "labels"));
    return rc < 0 ? rc : larder__array_rows_settle(st);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* "raw:tokens.bin?dtype=u16": the place and its parameters. */
static int raw_inside(larder__array_rows *r, const char *uri, larder__array *out) {
    const larder_plugin raw = {.name = "raw", .params = raw_params};
    char *where = larder__strdup(uri), *mark;
    larder_args args;
    if (!where)
        return LARDER_E_NOMEM;
    if ((mark = strrchr(where, '?')))
        *mark = 0;
    int rc = larder__args_parse(&args, "source", &raw, mark ? mark + 1 : "", '&', NULL);
    if (rc == 0) {
        rc = raw_array(r, where, &args, out);
        larder__args_free(&args);
    }
    larder__free(where);
    return rc;
}

static int long_array(larder__array_rows *r, const char *uri, larder__array *out) {
    if (strncmp(uri, "raw:", 4) == 0)
        return raw_inside(r, uri + 4, out);
    if (strncmp(uri, "npy:", 4) == 0)
        return larder__array_rows_npy(r, uri + 4, out);
    if (ends_in_npy(uri))
        return larder__array_rows_npy(r, uri, out);
    return larder__fail(LARDER_E_ARGS,
                        "window: \"%.100s\" is no long array: npy:tokens.npy, or "
                        "raw:tokens.bin?dtype=u16",
                        uri);
}

/* Window i begins at i x stride; y is x one element later, which has to be there. */
static int window_open(void *st, const char *where, const larder_args *args) {
    larder__array_rows *r = st;
    larder__array a = {0};
    uint64_t length = (uint64_t)larder_args_number(args, "length");
    uint64_t stride = (uint64_t)larder_args_number(args, "stride");
    stride = stride ? stride : length;
    int rc = long_array(r, where, &a);
    if (rc < 0)
        return rc;
    if (a.is.ndim != 1 || a.is.shape[0] <= length)
        return larder__fail(LARDER_E_FORMAT,
                            "window: %s has %u dimensions and %llu elements along the first; one "
                            "row of more than %llu is wanted",
                            r->files[0].path, a.is.ndim,
                            (unsigned long long)(a.is.ndim ? a.is.shape[0] : 1),
                            (unsigned long long)length);
    uint64_t windows = (a.is.shape[0] - 1 - length) / stride + 1;
    rc = larder__array_rows_x(r, &a);
    if (rc < 0)
        return rc;
    size_t width = r->fields[0].is.bytes;
    r->count = windows;
    r->fields[0].is.ndim = 1;
    r->fields[0].is.shape[0] = length;
    r->fields[0].is.bytes = (size_t)length * width;
    r->fields[0].step = stride * width;
    r->fields[1] = r->fields[0];
    r->fields[1].is.name = "y";
    r->fields[1].head += width;
    r->later = (uint32_t)width;
    r->field_count = 2;
    return larder__array_rows_settle(r);
}

/* Nobody inside has said which bytes these are. */
static int window_describe(void *st, larder_dataset *out) {
    int rc = larder__array_rows_describe(st, out);
    uint64_t all[] = {out->identity, out->fingerprint, out->content};
    out->identity = larder__hash_bytes(0x3117, all, sizeof all);
    return rc;
}

static const larder_param window_params[] = {
    {"length", "int", "1024", "elements of a window", 1, 1 << 28},
    {"stride", "int", "0", "elements from one window to the next; 0: length, one after the other",
     0, 1 << 28},
    {0}};

#define ROWS_SOURCE(called, says, with, opens, describes, around, probes)                          \
    const larder_source larder__source_##called = {                                                \
        .plugin = {.name = #called,                                                                \
                   .summary = says,                                                                \
                   .params = with,                                                                 \
                   .state_size = sizeof(larder__array_rows)},                                      \
        .wraps = around,                                                                           \
        .probe = probes,                                                                           \
        .open = opens,                                                                             \
        .close = larder__array_rows_close,                                                         \
        .describe = describes,                                                                     \
        .stat = larder__array_rows_stat,                                                           \
        .name = larder__array_rows_name,                                                           \
        .read = larder__array_rows_read,                                                           \
        .field = larder__array_rows_field_name,                                                    \
        .file = larder__array_rows_one_file,                                                       \
    };
ROWS_SOURCE(npy, "rows of an array in a .npy file, of any type; bytes may be pictures", npy_params,
            npy_open, larder__array_rows_describe, false, probe)
ROWS_SOURCE(raw, "rows of an array in a file without a head", raw_params, raw_open,
            larder__array_rows_describe, false, NULL)
ROWS_SOURCE(window, "windows over a long array, say of tokens: x, and y one element later",
            window_params, window_open, window_describe, true, NULL)
