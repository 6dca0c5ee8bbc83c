/* Text and bytes: handed out as they are, a piece each. */
#include "base/err.h"
#include "stage/column.h"

static int open_plain(larder__column *c, const larder_args *args, const larder__sight *sight,
                      const larder__field *first) {
    static const char *const shows[LARDER__FIELD_KINDS] = {"none", "bytes",  "text",   "array",
                                                           "bool", "pickle", "tensor", "empty"};
    (void)args, (void)sight;
    c->ragged = true;
    c->dtype = LARDER_U8;
    if (first->kind == LARDER__FIELD_NONE || first->kind == LARDER__FIELD_PICKLE ||
        first->kind == LARDER__FIELD_EMPTY)
        c->shows = shows[first->kind];
    return 0;
}

static int run_plain(const larder__column *c, const larder__sight *sight, const larder__field *f,
                     larder__cell *out) {
    (void)c;
    larder__field as = *f;
    if (f->kind != LARDER__FIELD_ARRAY && f->kind != LARDER__FIELD_TENSOR)
        as.dtype = LARDER_U8;
    return larder__column_piece(&as, sight, out);
}

const larder__column_kind larder__column_text = {
    .plugin = {.name = "text", .summary = "text in UTF-8, as it is"},
    .endings = " txt text json caption transcript ",
    .open = open_plain,
    .run = run_plain,
};

const larder__column_kind larder__column_bytes = {
    .plugin = {.name = "bytes", .summary = "whatever it is, as it is"},
    .plain = true,
    .open = open_plain,
    .run = run_plain,
};
