/* Rounds of one problem on the device. Where all values lie there, several are queued before the
 * host looks; where rows are kept, the host decides about them once a round. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/device_work.h"

#include <math.h>
#include <string.h>

enum {
    SLOTS = LARDER__DEVICE_SLOTS,
    HALF = SLOTS / 2,
    SLICES = LARDER__DEVICE_SLICES,
    THREADS = 256,
    CHOOSE_THREADS = 1024,
    SMALL_THREADS = SLOTS / 2,
    AHEAD = 4 /* rounds that are queued at once */
};
/* The host has to see the gap now and then: for progress, Ctrl-C and whether floats are enough. */
static const double look_seconds = 0.1;

typedef larder__device_state state;
typedef larder__device_problem problem;

struct larder__device_rounds {
    larder__svm_shared *shared;
    larder__device_work *work;
    larder__device_kept *kept; /* NULL: all values lie there */
    const larder__qp *qp;
    problem p;
    larder__gpu_ptr of, make, make_places; /* points among all; rows to be made, and where to */
    state *seen;                           /* pinned: the device's, as last looked at */
    uint32_t *new_var;                     /* pinned: of slots that were replaced, then places */
    float *dist;                           /* pinned: a variable each, where somebody listens */
    uint32_t var[SLOTS];
    uint32_t *among; /* a point each: among all */
    float *scores;   /* a point each */
    unsigned blocks; /* of `keys` */
    bool asked;      /* rounds have begun */
};
typedef larder__device_rounds rounds;

/* ---- memory for problems --------------------------------------------------------------------- */

static void close_work(larder__svm_shared *s, larder__device_work *w) {
    larder__gpu *g = s->device->gpu;
    larder__gpu_free(g, w->memory);
    larder__gpu_stream_close(g, &w->stream);
    larder__gpu_unpin(g, w->pinned);
    larder__free(w);
}

/* One that is large enough, or else any; NULL: none is idle. */
static larder__device_work *take_idle(larder__svm_shared *s, size_t bytes, size_t pinned) {
    pthread_mutex_lock(&s->lock);
    larder__device_work **at = &s->idle;
    while (*at && ((*at)->bytes < bytes || (*at)->pinned_bytes < pinned))
        at = &(*at)->next;
    if (!*at)
        at = &s->idle;
    larder__device_work *w = *at;
    if (w)
        *at = w->next;
    pthread_mutex_unlock(&s->lock);
    return w;
}

int larder__device_work_take(larder__svm_shared *s, larder__device_work **out, size_t bytes,
                             size_t pinned) {
    larder__gpu *g = s->device->gpu;
    larder__device_work *w = *out = take_idle(s, bytes, pinned);
    if (w && w->bytes >= bytes && w->pinned_bytes >= pinned)
        return 0;
    *out = NULL;
    if (w) /* it would lie there for ever */
        close_work(s, w);
    if (!(w = larder__calloc(1, sizeof *w)))
        return larder__fail(LARDER_E_NOMEM, "no memory to solve on a GPU");
    int rc = larder__gpu_alloc(g, &w->memory, bytes, "variables of a problem");
    if (rc == 0)
        rc = larder__gpu_stream_open(g, &w->stream, false);
    if (rc == 0)
        rc = larder__gpu_pinned(g, &w->pinned, pinned);
    w->bytes = bytes, w->pinned_bytes = pinned;
    if (rc < 0)
        close_work(s, w);
    else
        *out = w;
    return rc;
}

void larder__device_work_leave(larder__svm_shared *s, larder__device_work *w) {
    pthread_mutex_lock(&s->lock);
    w->next = s->idle;
    s->idle = w;
    pthread_mutex_unlock(&s->lock);
}

void larder__device_work_close_all(larder__svm_shared *s) {
    while (s->idle) {
        larder__device_work *w = s->idle;
        s->idle = w->next;
        close_work(s, w);
    }
}

/* ---- beginning ------------------------------------------------------------------------------- */

typedef struct part {
    larder__gpu_ptr *to;
    size_t bytes;
} part;

/* Sets each to its place behind the others; returns the size of all. */
static size_t lay_out(const part *parts, size_t n, larder__gpu_ptr base) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        *parts[i].to = base + at;
        at += (parts[i].bytes + 255) / 256 * 256;
    }
    return at;
}

static size_t lay_out_problem(rounds *r, larder__gpu_ptr base) {
    problem *p = &r->p;
    size_t n = p->n, points = p->points, d = sizeof(double), u = sizeof(uint32_t);
    const part parts[] = {{&p->f, points * d},
                          {&p->beta, n * d},
                          {&p->linear, n * d},
                          {&p->lo, n * d},
                          {&p->hi, n * d},
                          {&p->point, n * u},
                          {&r->of, points * u},
                          {&p->diagonal, points * sizeof(float)},
                          {&p->group, n},
                          {&p->seat, n * sizeof(uint16_t)},
                          {&p->keys, 2 * n * u},
                          {&p->lists, 4 * SLOTS * sizeof(uint64_t)},
                          {&p->found, 4 * u},
                          {&p->mark, n * u},
                          {&p->ends, 4 * LARDER__DEVICE_END_BLOCKS * d},
                          {&p->var, SLOTS * u},
                          {&p->where, SLOTS * u},
                          {&p->place, SLOTS * u},
                          {&p->k, (size_t)SLOTS * SLOTS * sizeof(float)},
                          {&p->list_place, SLOTS * u},
                          {&p->list_weight, SLOTS * d},
                          {&p->part, SLICES * points * d},
                          {&p->dist, n * sizeof(float)},
                          {&r->make, SLOTS * u},
                          {&r->make_places, SLOTS * u},
                          {&p->state, sizeof(state)}};
    return lay_out(parts, sizeof parts / sizeof *parts, base);
}

static int put(rounds *r, larder__gpu_ptr to, const void *from, size_t bytes) {
    return larder__gpu_put(r->shared->device->gpu, to, from, bytes, r->work->stream);
}
static int get(rounds *r, void *to, larder__gpu_ptr from, size_t bytes) {
    return larder__gpu_get(r->shared->device->gpu, to, from, bytes, r->work->stream);
}
static int zero(rounds *r, larder__gpu_ptr to, size_t bytes) {
    return larder__gpu_zero(r->shared->device->gpu, to, bytes, r->work->stream);
}
static int wait_for(rounds *r) { return larder__gpu_wait(r->shared->device->gpu, r->work->stream); }

static int launch(rounds *r, larder__gpu_function f, unsigned grid, unsigned across,
                  unsigned threads) {
    larder__gpu_shape shape = {.grid = {grid, across}, .block = {threads}};
    void *args[] = {&r->p, &r->blocks}; /* the second is of `choose` alone */
    return larder__gpu_launch(r->shared->device->gpu, f, shape, r->work->stream, args);
}

static unsigned pieces(size_t n) { return (unsigned)((n + THREADS - 1) / THREADS); }

static int send_variables(rounds *r, const uint32_t *of, const float *diagonal) {
    const larder__qp *q = r->qp;
    problem *p = &r->p;
    size_t d = sizeof(double);
    int rc = put(r, p->beta, q->beta, q->n * d);
    rc = rc < 0 ? rc : put(r, p->linear, q->linear, q->n * d);
    rc = rc < 0 ? rc : put(r, p->lo, q->lo, q->n * d);
    rc = rc < 0 ? rc : put(r, p->hi, q->hi, q->n * d);
    rc = rc < 0 ? rc : put(r, p->point, q->point, q->n * sizeof *q->point);
    rc = rc < 0 ? rc : put(r, p->diagonal, diagonal, p->points * sizeof *diagonal);
    if (rc == 0 && of)
        rc = put(r, r->of, of, p->points * sizeof *of);
    if (rc == 0 && q->group)
        rc = put(r, p->group, q->group, q->n);
    rc = rc < 0 ? rc : zero(r, p->seat, q->n * sizeof(uint16_t));
    rc = rc < 0 ? rc : zero(r, p->mark, q->n * sizeof(uint32_t));
    rc = rc < 0 ? rc : zero(r, p->where, SLOTS * sizeof(uint32_t));
    rc = rc < 0 ? rc : zero(r, p->place, SLOTS * sizeof(uint32_t));
    memset(r->var, 0xff, sizeof r->var);
    return rc < 0 ? rc : put(r, p->var, r->var, sizeof r->var);
}

/* f += some rows, whose places and weights are on their way. */
static int add_rows(rounds *r) {
    larder__svm_device *d = r->shared->device;
    int rc = launch(r, d->add, pieces(r->p.points), SLICES, THREADS);
    return rc < 0 ? rc : launch(r, d->fold, pieces(r->p.points), 1, THREADS);
}

static int make_rows(rounds *r, const uint32_t *points, const uint32_t *places, size_t n) {
    larder__svm_shared *s = r->shared;
    uint32_t ids[SLOTS];
    for (size_t i = 0; i < n; i++)
        ids[i] = r->among ? r->among[points[i]] : points[i];
    int rc = put(r, r->make, ids, n * sizeof *ids);
    if (rc == 0)
        rc = put(r, r->make_places, places, n * sizeof *places);
    larder__device_block b = {.left = &s->points,
                              .right = &s->points,
                              .left_ids = r->make,
                              .right_ids = r->among ? r->of : 0,
                              .places = r->make_places,
                              .rows = n,
                              .columns = r->p.points,
                              .out = r->kept->memory,
                              .state = r->p.state,
                              .out_stride = r->kept->stride};
    return rc < 0 ? rc : larder__device_make(s->device, s->kernel, &b, r->work->stream);
}

/* f += the rows of these points. */
static int add_points(rounds *r, const uint32_t *points, const double *weight, size_t n) {
    uint32_t places[SLOTS];
    for (size_t i = 0; i < n; i++)
        places[i] = r->kept ? (uint32_t)i : r->among ? r->among[points[i]] : points[i];
    int rc = r->kept ? make_rows(r, points, places, n) : 0; /* nobody has rows there yet */
    r->seen->changed = (uint32_t)n;
    rc = rc < 0 ? rc : put(r, r->p.state, r->seen, sizeof *r->seen);
    rc = rc < 0 ? rc : put(r, r->p.list_place, places, n * sizeof *places);
    rc = rc < 0 ? rc : put(r, r->p.list_weight, weight, n * sizeof *weight);
    rc = rc < 0 ? rc : add_rows(r);
    return rc < 0 ? rc : wait_for(r);
}

/* The gradient of a start that is not zero. */
static int begin_gradient(rounds *r, double *f) {
    const larder__qp *q = r->qp;
    uint32_t points[SLOTS];
    double weight[SLOTS];
    size_t n = 0, all = 0;
    int rc = zero(r, r->p.f, r->p.points * sizeof *f);
    for (size_t v = 0; v < q->n && rc == 0; v++) {
        if (q->beta[v] != 0) {
            points[n] = q->point[v];
            weight[n++] = q->beta[v], all++;
        }
        if (n == SLOTS || (n && v + 1 == q->n)) {
            rc = add_points(r, points, weight, n);
            n = 0;
        }
    }
    if (rc == 0 && all)
        rc = get(r, f, r->p.f, r->p.points * sizeof *f);
    else
        memset(f, 0, r->p.points * sizeof *f);
    return rc < 0 ? rc : wait_for(r);
}

static int open_rows(rounds *r, const uint32_t *of, size_t points) {
    larder__svm_shared *s = r->shared;
    if (s->values) {
        r->p.rows = s->values;
        r->p.stride = s->stride;
        r->p.column = of ? r->of : 0;
        return 0;
    }
    int rc = larder__device_kept_open(&r->kept, s, points);
    if (rc < 0)
        return rc;
    r->p.rows = r->kept->memory;
    r->p.stride = r->kept->stride;
    r->p.places = 1;
    r->scores = larder__malloc((points + 1) * sizeof *r->scores);
    return r->scores ? 0 : larder__fail(LARDER_E_NOMEM, "no memory for %zu points", points);
}

static int open_work(rounds *r, size_t n) {
    size_t head = (sizeof(state) + 255) / 256 * 256, slots = SLOTS * sizeof(uint32_t);
    size_t pinned = head + 2 * slots + n * sizeof(float);
    int rc = larder__device_work_take(r->shared, &r->work, lay_out_problem(r, 0), pinned);
    if (rc < 0)
        return rc;
    char *at = r->work->pinned;
    r->seen = (state *)(void *)at;
    r->new_var = (uint32_t *)(void *)(at + head);
    r->dist = (float *)(void *)(at + head + 2 * slots);
    *r->seen = (state){.to = SLOTS};
    lay_out_problem(r, r->work->memory);
    return 0;
}

int larder__device_begin(rounds **out, larder__svm_shared *s, const larder__qp *q, size_t points,
                         const uint32_t *of, const float *diagonal, double *f) {
    rounds *r = *out = larder__calloc(1, sizeof *r);
    if (!r)
        return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", q->n);
    r->shared = s, r->qp = q;
    r->p = (problem){.n = (uint32_t)q->n,
                     .points = (uint32_t)points,
                     .groups = q->group ? 2 : 1,
                     .share = 0.1f, /* as small_problem.c */
                     .tight = 1 - 1e-6f};
    r->blocks = pieces(q->n) < LARDER__DEVICE_END_BLOCKS ? pieces(q->n) : LARDER__DEVICE_END_BLOCKS;
    if (of && !(r->among = larder__malloc((points + 1) * sizeof *r->among))) {
        larder__device_end(out);
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu points", points);
    }
    if (of)
        memcpy(r->among, of, points * sizeof *of);
    int rc = open_work(r, q->n);
    if (rc == 0)
        rc = open_rows(r, of, points);
    if (!q->group)
        r->p.group = 0;
    if (rc == 0)
        rc = send_variables(r, of, diagonal);
    if (rc == 0)
        rc = q->knows_f ? put(r, r->p.f, f, points * sizeof *f) : begin_gradient(r, f);
    if (rc < 0)
        larder__device_end(out);
    return rc;
}

void larder__device_end(rounds **slot) {
    rounds *r = *slot;
    *slot = NULL;
    if (!r)
        return;
    if (r->work) {
        wait_for(r);
        larder__device_work_leave(r->shared, r->work);
    }
    larder__device_kept_close(&r->kept);
    larder__free(r->among);
    larder__free(r->scores);
    larder__free(r);
}

uint64_t larder__device_hits(const rounds *r) { return r->kept ? r->kept->hits : 0; }

/* ---- rounds ---------------------------------------------------------------------------------- */

static int choose(rounds *r) {
    larder__svm_device *d = r->shared->device;
    int rc = launch(r, d->keys, r->blocks, 1, THREADS);
    rc = rc < 0 ? rc : launch(r, d->choose, 2, r->p.groups, CHOOSE_THREADS);
    return rc < 0 ? rc : launch(r, d->seat, 1, 1, CHOOSE_THREADS);
}

static int solve(rounds *r) {
    larder__svm_device *d = r->shared->device;
    int rc = launch(r, d->gather, SLOTS, 1, THREADS);
    rc = rc < 0 ? rc : launch(r, d->small, 1, 1, SMALL_THREADS);
    return rc < 0 ? rc : add_rows(r);
}

static int look(rounds *r) {
    int rc = get(r, r->seen, r->p.state, sizeof *r->seen);
    return rc < 0 ? rc : wait_for(r);
}

static int some_rounds(rounds *r) {
    int rc = 0;
    for (int i = 0; rc == 0 && i < AHEAD; i++) {
        rc = choose(r);
        rc = rc < 0 ? rc : solve(r);
    }
    return rc < 0 ? rc : look(r);
}

/* ---- rounds whose rows the host decides about ------------------------------------------------ */

static void take_scores(rounds *r) {
    const larder__qp *q = r->qp;
    for (size_t i = 0; i < r->p.points; i++)
        r->scores[i] = 3e38f;
    for (size_t v = 0; v < q->n; v++)
        r->scores[q->point[v]] = fminf(r->scores[q->point[v]], r->dist[v]);
}

/* Slots from..to have other variables: rows of the old ones are let go, of the new ones taken. */
static int change_rows(rounds *r, size_t from, size_t to, bool listens) {
    const larder__qp *q = r->qp;
    uint32_t points[SLOTS] = {0}, make[SLOTS], places[SLOTS];
    float dist[SLOTS] = {0};
    size_t n = 0, made = 0;
    if (listens)
        take_scores(r);
    for (size_t i = from; i < to; i++)
        if (r->var[i] != LARDER__NO_POINT) {
            points[n] = q->point[r->var[i]];
            dist[n++] = listens ? r->dist[r->var[i]] : 0;
        }
    larder__device_kept_leave(r->kept, points, listens ? dist : NULL, n,
                              listens ? r->scores : NULL);
    memcpy(r->var + from, r->new_var, (to - from) * sizeof *r->var);
    n = 0;
    for (size_t i = from; i < to; i++)
        if (r->var[i] != LARDER__NO_POINT)
            points[n++] = q->point[r->var[i]];
    int rc = larder__device_kept_enter(r->kept, points, n, make, &made);
    for (size_t i = 0; rc == 0 && i < made; i++)
        places[i] = r->kept->place[make[i]];
    rc = rc < 0 ? rc : make_rows(r, make, places, made);
    uint32_t *all = r->new_var + SLOTS;
    for (size_t i = 0; i < SLOTS; i++)
        all[i] = r->var[i] == LARDER__NO_POINT ? 0 : r->kept->place[q->point[r->var[i]]];
    return rc < 0 ? rc : put(r, r->p.place, all, SLOTS * sizeof *all);
}

static int one_round(rounds *r) {
    larder__svm_device *d = r->shared->device;
    bool listens = r->asked && larder__device_kept_listens(r->kept);
    size_t from = r->seen->from, to = r->seen->to; /* as they are before this round */
    int rc = choose(r);
    if (rc == 0 && listens)
        rc = launch(r, d->distance, r->blocks, 1, THREADS);
    if (rc == 0 && listens)
        rc = get(r, r->dist, r->p.dist, r->p.n * sizeof *r->dist);
    rc = rc < 0 ? rc
                : get(r, r->new_var, r->p.var + from * sizeof(uint32_t),
                      (to - from) * sizeof(uint32_t));
    rc = rc < 0 ? rc : look(r);
    if (rc < 0 || r->seen->done)
        return rc;
    r->asked = true;
    rc = change_rows(r, from, to, listens);
    return rc < 0 ? rc : solve(r);
}

/* ---- some of them ---------------------------------------------------------------------------- */

/* Goes on from where it was. */
static int resume(rounds *r, double target, uint64_t last, const larder__solved *out) {
    state *s = r->seen;
    s->target = target;
    s->most_steps = s->steps + (last - out->iterations);
    s->done = LARDER__DEVICE_GOING;
    s->stamp = 0; /* what the host did in between is nobody's */
    return put(r, r->p.state, s, sizeof *s);
}

static void count(const rounds *r, const state *before, larder__solved *out) {
    const state *s = r->seen;
    const double second = 1e9;
    out->iterations += s->steps - before->steps;
    out->rounds += s->rounds - before->rounds;
    out->times.select += (double)(s->spent[0] - before->spent[0]) / second;
    out->times.kernel +=
        (double)(s->spent[1] - before->spent[1] + s->spent[4] - before->spent[4]) / second;
    out->times.solve += (double)(s->spent[2] - before->spent[2]) / second;
    out->times.update += (double)(s->spent[3] - before->spent[3]) / second;
    out->gap = s->gap;
    if (!r->kept)
        return;
    out->rows_asked = r->kept->asked;
    out->rows_made = r->kept->made;
    out->values = r->kept->made * r->p.points;
    out->times.cache = r->kept->seconds;
}

int larder__device_run(rounds *r, double target, uint64_t last, double *f, larder__solved *out,
                       bool *moved) {
    double start = larder__now();
    state before = *r->seen;
    int rc = resume(r, target, last, out);
    do {
        if (rc == 0)
            rc = r->kept ? one_round(r) : some_rounds(r);
    } while (rc == 0 && r->seen->done == LARDER__DEVICE_GOING &&
             larder__now() - start < look_seconds);
    if (rc == 0 && r->kept)
        rc = look(r);
    rc = rc < 0 ? rc : get(r, f, r->p.f, r->p.points * sizeof *f);
    rc = rc < 0 ? rc : get(r, r->qp->beta, r->p.beta, r->qp->n * sizeof(double));
    rc = rc < 0 ? rc : wait_for(r);
    if (rc < 0)
        return rc;
    count(r, &before, out);
    *moved = r->seen->steps > before.steps || r->seen->done == LARDER__DEVICE_OPTIMAL;
    return 0;
}
