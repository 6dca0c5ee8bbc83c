/* From the texts of fields= and target= to columns: "[name=]field[.path][:kind[;key=value…]]". */
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "stage/column.h"

#include <stdio.h>
#include <strings.h>

static char *copy(const char *from, size_t n) {
    char *out = larder__malloc(n + 1);
    if (!out)
        return NULL;
    memcpy(out, from, n);
    out[n] = 0;
    return out;
}

/* A part called json or npz that is not the last one ends the field; a path within follows. */
static size_t field_end(const char *text, size_t n) {
    for (size_t from = 0, dot; from < n; from = dot + 1) {
        dot = from;
        while (dot < n && text[dot] != '.')
            dot++;
        if (dot < n && dot - from >= 3 &&
            ((dot - from == 4 && strncasecmp(text + from, "json", 4) == 0) ||
             (dot - from == 3 && strncasecmp(text + from, "npz", 3) == 0)))
            return dot;
    }
    return n;
}

/* Of "seg.png", and of the first of several that will do: "jpg|png". */
static const char *ending_of(const char *field, char out[16]) {
    size_t n = strcspn(field, "|"), from = n;
    while (from > 0 && field[from - 1] != '.')
        from--;
    size_t m = n - from < 15 ? n - from : 15;
    memcpy(out, field + from, m);
    out[m] = 0;
    return out;
}

static larder__reading reading_of(const char *field, const char *path) {
    char space[16];
    const char *ending = ending_of(field, space);
    if (strcasecmp(ending, "npy") == 0)
        return LARDER__IN_NPY;
    if (strcasecmp(ending, "npz") == 0)
        return LARDER__IN_NPZ;
    return strcasecmp(ending, "json") == 0 && path[0] ? LARDER__IN_JSON : LARDER__AS_IT_IS;
}

static int add_member(larder__columns *c, const char *field, size_t *out) {
    for (size_t i = 0; i < c->member_count; i++)
        if (strcmp(c->members[i], field) == 0) {
            *out = i;
            return 0;
        }
    int rc = larder__grow(&c->members, &c->members_cap, c->member_count + 1, sizeof *c->members);
    if (rc < 0)
        return rc;
    if (!(c->members[c->member_count] = larder__strdup(field)))
        return LARDER_E_NOMEM;
    *out = c->member_count++;
    return 0;
}

/* A column of these texts, whose kind may be NULL: what its value turns out to be. */
static int add(larder__columns *c, const char *name, size_t name_n, const char *field,
               size_t field_n, const char *path, size_t path_n) {
    int rc = larder__grow(&c->items, &c->cap, c->count + 1, sizeof *c->items);
    if (rc < 0)
        return rc;
    larder__column *col = &c->items[c->count++];
    *col = (larder__column){
        .name = copy(name, name_n), .field = copy(field, field_n), .path = copy(path, path_n)};
    if (!col->name || !col->field || !col->path)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i + 1 < c->count; i++)
        if (strcmp(c->items[i].name, col->name) == 0)
            return larder__fail(LARDER_E_ARGS,
                                "two columns are called \"%.60s\": say name=%.60s for one of them",
                                col->name, col->name);
    col->reading = reading_of(col->field, col->path);
    return add_member(c, col->field, &col->member);
}

static int set_kind(larder__column *col, const char *text) {
    char name[32];
    size_t n = strcspn(text, ";");
    if (n >= sizeof name)
        n = sizeof name - 1;
    memcpy(name, text, n);
    name[n] = 0;
    col->kind = larder__column_kind_named(name);
    if (!col->kind) {
        char known[200] = "";
        const larder__column_kind *k;
        for (size_t i = 0, at = 0; (k = larder__column_kind_nth(i)) && at < sizeof known; i++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "",
                                   k->plugin.name);
        return larder__fail(LARDER_E_ARGS, "there is no kind of column \"%s\"; there are %s", name,
                            known);
    }
    col->kind_args = larder__strdup(text[n] == ';' ? text + n + 1 : "");
    return col->kind_args ? 0 : LARDER_E_NOMEM;
}

static int parse_one(larder__columns *c, char *text) {
    char *kind = strchr(text, ':');
    if (kind)
        *kind++ = 0;
    char *equals = strchr(text, '='), *field = equals ? equals + 1 : text;
    size_t n = strlen(field), end = field_end(field, n),
           name_n = equals ? (size_t)(equals - text) : n;
    if (!n || !name_n)
        return larder__fail(LARDER_E_ARGS,
                            "a field is written [name=]field[.path][:kind], not \"%.60s\"", text);
    int rc = add(c, text, name_n, field, end, field + end + (end < n), end < n ? n - end - 1 : 0);
    if (rc < 0)
        return rc;
    larder__column *col = &c->items[c->count - 1];
    char ending[16];
    if (kind)
        return set_kind(col, kind);
    const larder__column_kind *usual = larder__column_kind_for(ending_of(col->field, ending));
    if (col->reading == LARDER__AS_IT_IS && usual != larder__column_kind_named("bytes"))
        col->kind = usual; /* of others the first sample's value tells */
    return 0;
}

/* Commas and blanks at the ends of parts do not matter. */
static int parse_list(larder__columns *c, const char *fields) {
    char *all = larder__strdup(fields);
    int rc = all ? 0 : LARDER_E_NOMEM;
    for (char *at = all; rc == 0 && at;) {
        char *next = strchr(at, ',');
        if (next)
            *next++ = 0;
        at += strspn(at, " \t\n");
        size_t n = strlen(at);
        while (n && strchr(" \t\n", at[n - 1]))
            at[--n] = 0;
        rc = parse_one(c, at);
        at = next;
    }
    larder__free(all);
    return rc < 0 ? larder__fail_in(rc, "fields \"%.100s\"", fields) : 0;
}

/* The name of a column that is there, or a field of its own, as "y". */
static int parse_target(larder__columns *c, const char *target) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].name, target) == 0) {
            c->items[i].target = true;
            return 0;
        }
    char text[512];
    bool named = strcspn(target, "=") < strcspn(target, ":");
    int n = snprintf(text, sizeof text, "%s%s", named ? "" : "y=", target);
    int rc = n < 0 || (size_t)n >= sizeof text ? larder__fail(LARDER_E_ARGS, "it is too long")
                                               : parse_one(c, text);
    if (rc == 0)
        c->items[c->count - 1].target = true;
    return rc < 0 ? larder__fail_in(rc, "target \"%.100s\"", target) : 0;
}

int larder__columns_parse(larder__columns *c, const char *fields, const char *target) {
    *c = (larder__columns){.x = SIZE_MAX, .y = SIZE_MAX};
    if (!fields && target) /* the picture, as it is without fields */
        fields = "x=jpg|jpeg|png|webp|bmp|tif|tiff|ppm|pgm|gif";
    int rc = fields ? parse_list(c, fields) : 0;
    if (rc == 0 && target)
        rc = parse_target(c, target);
    return rc;
}

int larder__columns_add_y(larder__columns *c) {
    size_t members = c->member_count;
    int rc = add(c, "y", 1, "", 0, "", 0);
    if (c->member_count > members) /* it is made of no field */
        larder__free(c->members[--c->member_count]);
    return rc;
}

int larder__columns_whole(larder__columns *c) {
    int rc = add(c, "x", 1, "", 0, "", 0);
    if (rc == 0)
        rc = set_kind(&c->items[c->count - 1], "picture");
    return rc;
}

/* What a field of a parcel is by itself. */
static const char *kind_of(const larder__field *f, const char *name) {
    char ending[16];
    if (f->kind == LARDER__FIELD_ARRAY || f->kind == LARDER__FIELD_TENSOR)
        return f->ndim ? "array" : "number";
    if (f->kind == LARDER__FIELD_BOOL)
        return "number";
    if (f->kind == LARDER__FIELD_TEXT)
        return "text";
    return f->kind == LARDER__FIELD_BYTES &&
                   larder__column_kind_for(ending_of(name, ending))->pictures
               ? "picture"
               : "bytes";
}

int larder__columns_of_parcel(larder__columns *c, const void *bytes, size_t size) {
    larder__parcel p;
    larder__field f;
    c->typed = true;
    int rc = larder__parcel_open(&p, bytes, size);
    for (size_t at = 0; rc == 0 && larder__parcel_next(&p, &at, &f);) {
        rc = add(c, f.name, f.name_bytes, f.name, f.name_bytes, "", 0);
        larder__column *col = rc == 0 ? &c->items[c->count - 1] : NULL;
        if (col)
            rc = set_kind(col, kind_of(&f, col->name));
        if (col)
            col->reading = LARDER__AS_IT_IS;
    }
    return rc;
}

void larder__columns_free(larder__columns *c) {
    for (size_t i = 0; i < c->count; i++) {
        larder__column *col = &c->items[i];
        if (col->state && col->kind && col->kind->close)
            col->kind->close(col);
        larder__free(col->state);
        larder__free(col->name);
        larder__free(col->field);
        larder__free(col->path);
        larder__free(col->kind_args);
    }
    for (size_t i = 0; i < c->member_count; i++)
        larder__free(c->members[i]);
    larder__free(c->items);
    larder__free(c->members);
    *c = (larder__columns){.x = SIZE_MAX, .y = SIZE_MAX};
}
