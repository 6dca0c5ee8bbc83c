/* The columns of a data set: settled by its first sample, then run for each. */
#include "base/convert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "stage/column.h"
#include "stage/scratch.h"

/* ---- the fields of one sample ---------------------------------------------------------------- */

/* Each member's field, in the scratch; one that is missing has no data. */
static int find_fields(const larder__columns *c, larder__scratch *scratch, const void *bytes,
                       size_t size, bool parcel, larder__field **out) {
    larder__field *f = *out =
        larder__scratch_take(scratch, LARDER__BLOCK_FIELDS, (c->member_count + 1) * sizeof *f);
    if (!f)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < c->member_count; i++)
        f[i].data = NULL;
    if (!parcel) {
        if (c->member_count)
            f[0] = (larder__field){
                .kind = LARDER__FIELD_BYTES, .dtype = LARDER_U8, .data = bytes, .bytes = size};
        return 0;
    }
    larder__parcel p;
    larder__field one;
    int rc = larder__parcel_open(&p, bytes, size);
    size_t guess = 0; /* most sources give them in the order in which they were asked for */
    for (size_t at = 0; rc == 0 && larder__parcel_next(&p, &at, &one); guess++)
        for (size_t k = 0; k < c->member_count; k++) {
            size_t i = (guess + k) % c->member_count;
            if (strlen(c->members[i]) == one.name_bytes &&
                memcmp(c->members[i], one.name, one.name_bytes) == 0) {
                f[i] = one;
                break;
            }
        }
    return rc;
}

/* The field of a column, or the value in it. */
static int value_of(const larder__column *col, larder__scratch *scratch, const larder__field *f,
                    larder__field *out) {
    if (!f->data)
        return larder__fail(LARDER_E_NOTFOUND, "it has no \"%.60s\"", col->field);
    if (col->kind && col->kind->plain) {
        *out = *f;
        return 0;
    }
    return larder__column_value(col, scratch, f, out);
}

/* ---- values that are given ------------------------------------------------------------------- */

static int run_given(const larder__column *c, const larder__sight *sight, const larder__field *f,
                     larder__cell *out) {
    const larder__given *g = c->state;
    (void)f;
    if (!g->known[sight->id])
        return larder__fail(LARDER_E_NOTFOUND, "%.150s has no line for it", g->from);
    memcpy(out->row, g->values + sight->id * c->bytes, c->bytes);
    return 0;
}

static const larder__column_kind given = {.plugin = {.name = "number"}, .run = run_given};

int larder__columns_give(larder__columns *c, const larder__given *values) {
    int rc = larder__columns_add_y(c);
    if (rc < 0)
        return rc;
    larder__column *col = &c->items[c->count - 1];
    if (!(col->state = larder__malloc(sizeof *values)))
        return LARDER_E_NOMEM;
    *(larder__given *)col->state = *values;
    col->kind = &given;
    col->shows = values->ndim ? "array" : "number";
    col->target = true;
    larder__column_fix(col, values->dtype, &values->width, values->ndim);
    return 0;
}

/* ---- settling -------------------------------------------------------------------------------- */

bool larder__columns_pictures(const larder__columns *c) {
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].kind && c->items[i].kind->pictures)
            return true;
    return false;
}

static bool is_kind(const larder__column *c, const char *name) {
    return c->kind && c->kind != &given && strcmp(c->kind->plugin.name, name) == 0;
}

/* Of JSON, NumPy files and typed samples the value says what it is. */
static const char *kind_by_value(const larder__field *v) {
    if (v->kind == LARDER__FIELD_ARRAY || v->kind == LARDER__FIELD_TENSOR)
        return v->ndim ? "array" : "number";
    return v->kind == LARDER__FIELD_BOOL   ? "number"
           : v->kind == LARDER__FIELD_TEXT ? "text"
                                           : "bytes";
}

static int settle_one(larder__column *col, const larder__sight *sight, const larder__field *value) {
    larder_args args;
    if (!col->kind)
        col->kind = larder__column_kind_named(kind_by_value(value));
    const larder_plugin *p = &col->kind->plugin;
    if (!col->shows)
        col->shows = p->name;
    int rc = larder__args_parse(&args, "kind", p, col->kind_args ? col->kind_args : "", ';', NULL);
    if (rc < 0)
        return rc;
    if (p->state_size && !col->state && !(col->state = larder__calloc(1, p->state_size)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = col->kind->open(col, &args, sight, value);
    larder__args_free(&args);
    if (rc == 0 && !col->ragged && col->bytes > UINT32_MAX / 2)
        rc = larder__fail(LARDER_E_RANGE, "rows of %zu bytes are too large", col->bytes);
    return rc;
}

static bool is_whole(larder_dtype d) {
    return d == LARDER_I64 || d == LARDER_I32 || d == LARDER_I16 || d == LARDER_I8 ||
           d == LARDER_U8 || d == LARDER_U16 || d == LARDER_U32 || d == LARDER_BOOL;
}

/* Which one is y: what is said to be, what is called so, or the first number. */
static void choose_y(larder__columns *c) {
    size_t y = SIZE_MAX;
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].target)
            y = i;
    for (size_t i = 0; y == SIZE_MAX && i < c->count; i++)
        if (strcmp(c->items[i].name, "y") == 0)
            y = i;
    for (size_t i = 0; y == SIZE_MAX && i < c->count; i++)
        if (is_kind(&c->items[i], "number"))
            y = i;
    if (y == SIZE_MAX)
        return;
    larder__column *col = &c->items[y];
    bool whole = !col->ragged && col->ndim == 0 && is_whole(col->dtype);
    if (whole && !c->typed)
        col->dtype = LARDER_I64; /* it is written into y itself */
    if (whole) {
        col->bytes = larder__dtype_bytes(col->dtype);
        c->y = y;
    }
    col->target = true;
}

int larder__columns_settle(larder__columns *c, const larder__sight *sight, const void *bytes,
                           size_t size, bool parcel) {
    larder__field *fields, value;
    int rc = find_fields(c, sight->scratch, bytes, size, parcel, &fields);
    if (rc < 0)
        return rc;
    c->x = SIZE_MAX;
    for (size_t i = 0; c->x == SIZE_MAX && i < c->count; i++)
        if (is_kind(&c->items[i], "picture"))
            c->x = i;
    larder__sight own = *sight;
    own.sample = bytes;
    own.sample_bytes = size;
    own.picture = c->x == SIZE_MAX ? NULL : &fields[c->items[c->x].member];
    c->ragged = 0;
    for (size_t i = 0; i < c->count; i++) {
        larder__column *col = &c->items[i];
        if (col->kind == &given)
            continue;
        rc = value_of(col, sight->scratch, &fields[col->member], &value);
        if (rc == 0)
            rc = settle_one(col, &own, &value);
        if (rc < 0)
            return larder__fail_in(rc, "column \"%.60s\"", col->name);
        c->ragged += col->ragged;
    }
    choose_y(c);
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

int larder__columns_run(const larder__columns *c, const larder__sight *sight, const void *bytes,
                        size_t size, bool parcel, larder__cell *cells) {
    larder__field *fields, value;
    int rc = find_fields(c, sight->scratch, bytes, size, parcel, &fields);
    larder__sight own = *sight;
    own.sample = bytes;
    own.sample_bytes = size;
    own.picture = rc < 0 || c->x == SIZE_MAX ? NULL : &fields[c->items[c->x].member];
    size_t i = 0;
    for (; rc == 0 && i < c->count; i++) {
        const larder__column *col = &c->items[i];
        cells[i].own = NULL;
        if (col->kind != &given)
            rc = value_of(col, sight->scratch, &fields[col->member], &value);
        if (rc == 0)
            rc = col->kind->run(col, &own, &value, &cells[i]);
        if (rc < 0)
            rc = larder__fail_in(rc, "column \"%.60s\"", col->name);
    }
    for (size_t k = 0; rc < 0 && k < i; k++)
        larder_buf_unref(&cells[k].own);
    return rc;
}
