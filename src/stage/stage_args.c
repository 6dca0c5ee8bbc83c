/* The parameters that several stages share. */
#include "base/err.h"
#include "base/spec.h"
#include "stage/stage.h"

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
