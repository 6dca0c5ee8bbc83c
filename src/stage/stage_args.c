/* The parameters that several stages share. */
#include "base/err.h"
#include "base/spec.h"
#include "stage/stage.h"

#include <stdio.h>

int larder__numbers_parse(const char *what, const char *text, double *out, size_t max, size_t *n) {
    *n = 0;
    for (const char *at = text; *at;) {
        char one[48];
        size_t len = strcspn(at, "/");
        if (*n == max)
            return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" has more than %zu numbers", what,
                                text, max);
        if (len == 0 || len >= sizeof one || (at[len] == '/' && !at[len + 1]))
            return larder__fail(LARDER_E_ARGS, "%s: \"%.60s\" is not numbers joined by /", what,
                                text);
        memcpy(one, at, len);
        one[len] = 0;
        int rc = larder__parse_f64(what, one, &out[*n]);
        if (rc < 0)
            return rc;
        ++*n;
        at += len + (at[len] != 0);
    }
    return 0;
}

int larder__extent_read(larder__extent *out, const char *stage, const larder_args *args) {
    int64_t size = (int64_t)larder_args_number(args, "size");
    out->h = (int64_t)larder_args_number(args, "h");
    out->w = (int64_t)larder_args_number(args, "w");
    if (size > 0 ? out->h > 0 || out->w > 0 : out->h < 1 || out->w < 1)
        return larder__fail(LARDER_E_ARGS, "stage %s: say either size=N or h=N,w=N", stage);
    if (size > 0)
        out->h = out->w = size;
    return 0;
}

int larder__range_read(larder__range *out, const char *stage, const larder_args *args,
                       const char *name, double least, double most) {
    char what[64];
    double ends[2] = {0, 0};
    size_t n;
    snprintf(what, sizeof what, "stage %s: %s", stage, name);
    int rc = larder__numbers_parse(what, larder_args_text(args, name), ends, 2, &n);
    if (rc < 0)
        return rc;
    if (n == 1)
        ends[1] = ends[0];
    if (n == 0 || !(ends[0] >= least) || !(ends[1] <= most) || !(ends[0] <= ends[1]))
        return larder__fail(LARDER_E_ARGS, "%s is a number or low/high, within %g and %g", what,
                            least, most);
    *out = (larder__range){ends[0], ends[1]};
    return 0;
}

larder_filter larder__filter_read(const larder_args *args) {
    const char *name = larder_args_text(args, "interpolation");
    return strcmp(name, "bicubic") == 0   ? LARDER_BICUBIC
           : strcmp(name, "nearest") == 0 ? LARDER_NEAREST
                                          : LARDER_BILINEAR;
}

larder_edge larder__edge_read(const larder_args *args) {
    const char *name = larder_args_text(args, "mode");
    return strcmp(name, "edge") == 0        ? LARDER_EDGE_REPEAT
           : strcmp(name, "reflect") == 0   ? LARDER_EDGE_REFLECT
           : strcmp(name, "symmetric") == 0 ? LARDER_EDGE_SYMMETRIC
                                            : LARDER_EDGE_FILL;
}

int larder__fill_read(uint8_t fill[LARDER_CHANNELS_MAX], const char *stage,
                      const larder_args *args) {
    char what[64];
    double given[LARDER_CHANNELS_MAX];
    size_t n;
    snprintf(what, sizeof what, "stage %s: fill", stage);
    int rc =
        larder__numbers_parse(what, larder_args_text(args, "fill"), given, LARDER_CHANNELS_MAX, &n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (!(given[i] >= 0 && given[i] <= 255))
            return larder__fail(LARDER_E_ARGS, "%s is within 0 and 255, not %g", what, given[i]);
    for (size_t i = 0; n > 0 && i < LARDER_CHANNELS_MAX; i++)
        fill[i] = (uint8_t)given[i < n ? i : n - 1];
    return 0;
}

bool larder__yes(const larder_args *args, const char *name) {
    return strcmp(larder_args_text(args, name), "yes") == 0;
}
