#include "svm/shrink.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

int larder__shrunk_open(larder__shrunk *s, size_t points, size_t variables) {
    *s = (larder__shrunk){.points = points, .active = points};
    s->idle = larder__calloc(points + 1, sizeof *s->idle);
    s->quiet = larder__calloc(points + 1, sizeof *s->quiet);
    s->ids = larder__calloc(points + 1, sizeof *s->ids);
    s->beta = larder__calloc(variables + 1, sizeof *s->beta);
    s->f = larder__calloc(points + 1, sizeof *s->f);
    s->sum = larder__calloc(points + 1, sizeof *s->sum);
    if (s->idle && s->quiet && s->ids && s->beta && s->f && s->sum)
        return 0;
    larder__shrunk_close(s);
    return larder__fail(LARDER_E_NOMEM, "no memory to shrink a problem of %zu points", points);
}

void larder__shrunk_close(larder__shrunk *s) {
    larder__free(s->idle);
    larder__free(s->quiet);
    larder__free(s->ids);
    larder__free(s->beta);
    larder__free(s->f);
    larder__free(s->sum);
    larder__panel_free(&s->part);
    larder__panel_free(&s->rest);
    *s = (larder__shrunk){0};
}

static int lay_out(larder__panel *to, const larder__kernel *k, const larder__panel *all,
                   const uint32_t *ids, size_t n) {
    larder__panel_free(to);
    int rc = larder__panel_room(to, k, n);
    if (rc == 0)
        larder__panel_pick(to, k, all, ids, n);
    return rc;
}

int larder__shrunk_begin(larder__shrunk *s, const larder__kernel *k, const larder__panel *all,
                         const double *beta, size_t variables) {
    s->active = 0;
    for (uint32_t p = 0; p < s->points; p++)
        if (!s->idle[p])
            s->ids[s->active++] = p;
    size_t n = s->active;
    for (uint32_t p = 0; p < s->points; p++)
        if (s->idle[p])
            s->ids[n++] = p;
    memcpy(s->beta, beta, variables * sizeof *beta);
    int rc = lay_out(&s->part, k, all, s->ids, s->active);
    if (rc == 0)
        rc = lay_out(&s->rest, k, all, s->ids + s->active, s->points - s->active);
    s->on = rc == 0;
    s->times++;
    return rc;
}

void larder__shrunk_spread(larder__shrunk *s, double *f, const uint32_t *ids, size_t from,
                           size_t to) {
    for (size_t i = from; i < to; i++) {
        f[ids[i]] += s->sum[i];
        s->sum[i] = 0;
    }
}
