#include "svm/solver.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/held_rows.h"
#include "svm/shrink.h"
#include "svm/smo.h"
#include "svm/working_set.h"

#include <math.h>
#include <string.h>

enum { WS = LARDER__WS, HALF = WS / 2 };
#define EMPTY UINT32_MAX /* a slot without a variable */

/* A round's small problem ends at a tenth of its first violation: more would be undone by the
 * variables outside, less would waste the rows. */
static const double local_share = 0.1;

typedef struct solver {
    larder__qp *qp;
    const larder__kernel *kernel;
    const larder__panel *all;
    const larder__solver_conf *conf;
    larder__solved *out;
    double *f;       /* a point each: K beta */
    float *diagonal; /* a point each */
    float *scores;   /* a point each, where somebody listens: the least distance of its variables */
    bool *inside;    /* a variable each: in the working set */
    uint16_t *held;  /* a point each: its variables in the working set */
    larder__candidate *up, *low;
    uint32_t var[WS];    /* of each slot, EMPTY: none */
    uint32_t points[WS]; /* work: points of slots */
    float dist[WS];
    double before[WS];         /* beta when the round began */
    larder__panel left, right; /* the new points, all points of the working set */
    double weight[WS];
    larder__smo smo;
    larder__held held_rows; /* where rows are kept */
    larder__shrunk shrunk;  /* where they are not */
    void **scratch;         /* a thread each */
    unsigned threads;
    double ends[2][2]; /* group: smallest f that may rise, largest that may fall */
    size_t slots;      /* WS, or less where there are fewer variables */
    unsigned half;     /* which half of the slots is replaced next */
} solver;

/* ---- gradient and ends ----------------------------------------------------------------------- */

static double gradient(const solver *s, size_t v) {
    return s->f[s->qp->point[v]] + s->qp->linear[v];
}
static bool may_rise(const larder__qp *q, size_t v) { return q->beta[v] < q->hi[v]; }
static bool may_fall(const larder__qp *q, size_t v) { return q->beta[v] > q->lo[v]; }
static unsigned group_of(const larder__qp *q, size_t v) { return q->group ? q->group[v] : 0; }

/* Left out by shrinking. */
static bool is_idle(const solver *s, size_t v) {
    return s->shrunk.on && s->shrunk.idle[s->qp->point[v]];
}

static double find_gap(solver *s) {
    double gap = 0;
    for (unsigned g = 0; g < 2; g++)
        s->ends[g][0] = INFINITY, s->ends[g][1] = -INFINITY;
    for (size_t v = 0; v < s->qp->n; v++) {
        if (is_idle(s, v))
            continue;
        double f = gradient(s, v), *e = s->ends[group_of(s->qp, v)];
        if (may_rise(s->qp, v) && f < e[0])
            e[0] = f;
        if (may_fall(s->qp, v) && f > e[1])
            e[1] = f;
    }
    for (unsigned g = 0; g < 2; g++)
        if (isfinite(s->ends[g][0]) && isfinite(s->ends[g][1]))
            gap = fmax(gap, s->ends[g][1] - s->ends[g][0]);
    return gap;
}

typedef struct adding {
    solver *s;
    size_t rows;
    const larder__panel *columns;
    double *to;
} adding;

static void add_tile(void *arg, size_t piece, unsigned thread) {
    adding *a = arg;
    solver *s = a->s;
    size_t c0 = piece * LARDER__TILE, c1 = c0 + LARDER__TILE;
    c1 = c1 < a->columns->n ? c1 : a->columns->n;
    larder__kernel_add(s->kernel, &s->left, a->rows, s->weight, a->columns, c0, c1, a->to + c0,
                       s->scratch[thread]);
}

/* to += the rows of s->points with s->weight, as far as these columns go. */
static void add_columns(solver *s, size_t rows, const larder__panel *columns, double *to) {
    if (rows == 0)
        return;
    double from = larder__now();
    larder__panel_pick(&s->left, s->kernel, s->all, s->points, rows);
    adding a = {s, rows, columns, to};
    larder__team_run(s->conf->team, add_tile, &a, (columns->n + LARDER__TILE - 1) / LARDER__TILE);
    s->out->rows_made += rows;
    s->out->values += rows * columns->n;
    s->out->times.kernel += larder__now() - from;
}

/* f += them, but for idle points. */
static void add_rows(solver *s, size_t rows) {
    larder__shrunk *h = &s->shrunk;
    if (!h->on) {
        add_columns(s, rows, s->all, s->f);
        return;
    }
    add_columns(s, rows, &h->part, h->sum);
    larder__shrunk_spread(h, s->f, h->ids, h->active);
}

/* The gradient of a start that is not zero. */
static void begin_gradient(solver *s) {
    const larder__qp *q = s->qp;
    size_t rows = 0;
    for (size_t v = 0; v < q->n; v++) {
        if (q->beta[v] != 0) {
            s->points[rows] = q->point[v];
            s->weight[rows++] = q->beta[v];
        }
        if (rows == s->slots || v + 1 == q->n) {
            add_rows(s, rows);
            rows = 0;
        }
    }
}

/* ---- choosing the working set ---------------------------------------------------------------- */

static size_t choose(solver *s, uint32_t *out, size_t want) {
    const larder__qp *q = s->qp;
    unsigned groups = q->group ? 2 : 1;
    size_t n = 0;
    if (q->n <= want) { /* everybody */
        for (uint32_t v = 0; v < q->n; v++)
            s->inside[v] = true, out[n++] = v;
        return n;
    }
    for (unsigned g = 0; g < groups; g++) {
        size_t ups = 0, lows = 0, share = want / groups;
        for (uint32_t v = 0; v < q->n; v++) {
            if (s->inside[v] || group_of(q, v) != g || is_idle(s, v))
                continue;
            double f = gradient(s, v);
            if (may_rise(q, v))
                s->up[ups++] = (larder__candidate){f, v};
            if (may_fall(q, v))
                s->low[lows++] = (larder__candidate){-f, v};
        }
        ups = larder__candidates_first(s->up, ups, share);
        lows = larder__candidates_first(s->low, lows, share);
        n += larder__candidates_deal(s->up, ups, s->low, lows, s->inside, out + n, share);
    }
    return n;
}

/* How far a variable is from being chosen again, for policies that ask (ALGORITHMS 5: dist). */
static float distance(const solver *s, uint32_t v) {
    const double *e = s->ends[group_of(s->qp, v)];
    double f = gradient(s, v), d = INFINITY;
    if (may_rise(s->qp, v))
        d = f - e[0];
    if (may_fall(s->qp, v))
        d = fmin(d, e[1] - f);
    return isfinite(d) ? (float)d : 3e38f;
}

/* Distances of all points, with the gradient as it is now. */
static int tell_scores(solver *s) {
    if (!s->scores)
        return 0;
    for (size_t p = 0; p < s->all->n; p++)
        s->scores[p] = 3e38f;
    for (uint32_t v = 0; v < s->qp->n; v++) {
        float *to = &s->scores[s->qp->point[v]];
        *to = fminf(*to, distance(s, v));
    }
    if (s->conf->rows)
        larder__row_cache_scores(s->conf->rows, s->scores);
    return s->conf->scores ? s->conf->scores(s->conf->arg, s->scores) : 0;
}

static int let_go(solver *s, size_t from, size_t to) {
    size_t n = 0;
    int rc = s->out->rounds ? tell_scores(s) : 0;
    if (rc < 0)
        return rc;
    for (size_t i = from; i < to; i++) {
        if (s->var[i] == EMPTY)
            continue;
        uint32_t point = s->qp->point[s->var[i]];
        s->inside[s->var[i]] = false;
        if (--s->held[point] == 0) {
            s->points[n] = point;
            s->dist[n++] = distance(s, s->var[i]);
        }
        s->var[i] = EMPTY;
    }
    if (n && s->conf->rows)
        larder__held_leave(&s->held_rows, s->points, s->dist, n);
    return n && s->conf->leave ? s->conf->leave(s->conf->arg, s->points, s->dist, n) : 0;
}

static void fill_slot(solver *s, size_t slot, uint32_t v) {
    larder__smo *m = &s->smo;
    const larder__qp *q = s->qp;
    s->var[slot] = v;
    uint8_t bit = (uint8_t)(1u << slot % 8);
    for (unsigned g = 0; g < 2; g++) {
        m->in_group[g][slot / 8] &= (uint8_t)~bit;
        if (v != EMPTY && group_of(q, v) == g)
            m->in_group[g][slot / 8] |= bit;
    }
    m->lo[slot] = v == EMPTY ? 0 : q->lo[v];
    m->hi[slot] = v == EMPTY ? 0 : q->hi[v];
    m->diagonal[slot] = v == EMPTY ? 0 : s->diagonal[q->point[v]];
}

/* New variables into slots from..to; an empty slot stands for point 0, whose values nobody uses. */
static size_t seat(solver *s, size_t from, size_t to, uint32_t *fresh) {
    size_t n = choose(s, fresh, to - from);
    for (size_t i = from; i < to; i++)
        fill_slot(s, i, i - from < n ? fresh[i - from] : EMPTY);
    return n;
}

/* Their rows. */
static int take_in(solver *s, const uint32_t *fresh, size_t n) {
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t point = s->qp->point[fresh[i]];
        if (s->held[point]++ == 0)
            s->points[rows++] = point;
    }
    s->out->rows_asked += rows;
    int rc = rows && s->conf->enter ? s->conf->enter(s->conf->arg, s->points, rows) : 0;
    return rc == 0 && rows && s->conf->rows ? larder__held_take(&s->held_rows, s->points, rows)
                                            : rc;
}

/* ---- the small problem ----------------------------------------------------------------------- */

typedef struct filling {
    solver *s;
    size_t from, to;
} filling;
enum { FILL_ROWS = 64 };

static void fill_tile(void *arg, size_t piece, unsigned thread) {
    filling *j = arg;
    solver *s = j->s;
    size_t r0 = piece * FILL_ROWS, r1 = r0 + FILL_ROWS, rows = j->to - j->from;
    r1 = r1 < rows ? r1 : rows;
    larder__kernel_block(s->kernel, &s->left, r0, r1, &s->right, 0, s->slots,
                         s->smo.k + (j->from + r0) * s->slots, s->slots, s->scratch[thread]);
}

/* The same from rows that lie at hand. */
static void copy_small(solver *s, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (s->var[i] == EMPTY)
            continue;
        const float *row = larder__held_row(&s->held_rows, s->points[i]);
        for (size_t j = 0; j < s->slots; j++)
            s->smo.k[i * s->slots + j] = row[s->points[j]];
    }
}

static void compute_small(solver *s, size_t from, size_t to) {
    larder__panel_pick(&s->right, s->kernel, s->all, s->points, s->slots);
    larder__panel_pick(&s->left, s->kernel, s->all, s->points + from, to - from);
    filling j = {s, from, to};
    larder__team_run(s->conf->team, fill_tile, &j, (to - from + FILL_ROWS - 1) / FILL_ROWS);
    s->out->values += (to - from) * s->slots;
}

/* Rows of the new slots, and their mirror in the columns of the others. */
static void fill_small(solver *s, size_t from, size_t to) {
    double start = larder__now();
    for (size_t i = 0; i < s->slots; i++)
        s->points[i] = s->var[i] == EMPTY ? 0 : s->qp->point[s->var[i]];
    if (s->conf->rows)
        copy_small(s, from, to);
    else
        compute_small(s, from, to);
    for (size_t i = 0; i < s->slots; i++) {
        if (i >= from && i < to)
            continue;
        for (size_t r = from; r < to; r++)
            s->smo.k[i * s->slots + r] = s->smo.k[r * s->slots + i];
    }
    s->out->times.kernel += larder__now() - start;
}

static void solve_small(solver *s, bool whole) {
    double start = larder__now();
    larder__smo *m = &s->smo;
    for (size_t i = 0; i < s->slots; i++) {
        uint32_t v = s->var[i];
        m->beta[i] = s->before[i] = v == EMPTY ? 0 : s->qp->beta[v];
        m->f[i] = v == EMPTY ? 0 : gradient(s, v);
    }
    uint64_t most = s->conf->most_iterations ? s->conf->most_iterations - s->out->iterations
                                             : UINT64_C(100) * WS;
    s->out->iterations += larder__smo_run(m, s->conf->tolerance, whole ? 0 : local_share, most);
    for (size_t i = 0; i < s->slots; i++)
        if (s->var[i] != EMPTY)
            s->qp->beta[s->var[i]] = m->beta[i];
    s->out->times.solve += larder__now() - start;
}

/* All variables were in the small problem, which kept their gradient. */
static size_t take_back(solver *s) {
    size_t changed = 0;
    for (size_t i = 0; i < s->slots; i++) {
        if (s->var[i] == EMPTY)
            continue;
        changed += s->smo.beta[i] != s->before[i];
        s->f[s->qp->point[s->var[i]]] = s->smo.f[i] - s->qp->linear[s->var[i]];
    }
    return changed;
}

/* Rows of what changed go to the gradient. */
static size_t pass_on(solver *s) {
    size_t rows = 0;
    for (size_t i = 0; i < s->slots; i++) {
        double change = s->smo.beta[i] - s->before[i];
        if (s->var[i] == EMPTY || change == 0)
            continue;
        s->points[rows] = s->qp->point[s->var[i]];
        s->weight[rows++] = change;
    }
    if (s->conf->rows && rows) {
        double start = larder__now();
        larder__held_add(&s->held_rows, s->points, s->weight, rows, s->f);
        s->out->times.update += larder__now() - start;
    } else {
        add_rows(s, rows);
    }
    return rows;
}

/* While some are idle, f is right for the others alone: the change since then, from both ends. */
static double objective(const solver *s) {
    const larder__shrunk *h = &s->shrunk;
    const larder__qp *q = s->qp;
    double sum = 0;
    for (size_t v = 0; v < q->n; v++)
        if (h->on)
            sum += (q->beta[v] - h->beta[v]) *
                   (h->f[q->point[v]] + s->f[q->point[v]] + 2 * q->linear[v]);
        else
            sum += q->beta[v] * (gradient(s, v) + q->linear[v]);
    return sum / 2 + (h->on ? h->objective : 0);
}

/* ---- shrinking ------------------------------------------------------------------------------- */

/* A look every so many rounds; a point that could be idle in two of them is. Laying out the rest
 * and adding up what it missed costs some rounds, so a quarter must be gained. */
enum { LOOK_ROUNDS = 8, QUIET_LOOKS = 2, MOST_TIMES = 4 };
static const double worth_shrinking = 0.25;

/* At a bound and beyond everybody it could be paired with (LIBSVM's rule). */
static bool could_idle(const solver *s, size_t v) {
    const double *e = s->ends[group_of(s->qp, v)];
    bool up = may_rise(s->qp, v), low = may_fall(s->qp, v);
    double f = gradient(s, v);
    return !s->inside[v] && ((!up && !low) || (!low && f > e[1]) || (!up && f < e[0]));
}

/* The gradient of idle points, as if they had never been idle. */
static void bring_back(solver *s) {
    larder__shrunk *h = &s->shrunk;
    const larder__qp *q = s->qp;
    size_t rows = 0;
    if (!h->on)
        return;
    for (size_t v = 0; v < q->n; v++) {
        if (q->beta[v] != h->beta[v]) {
            s->points[rows] = q->point[v];
            s->weight[rows++] = q->beta[v] - h->beta[v];
        }
        if (rows == s->slots || v + 1 == q->n) {
            add_columns(s, rows, &h->rest, h->sum);
            rows = 0;
        }
    }
    larder__shrunk_spread(h, s->f, h->ids + h->active, h->points - h->active);
    h->on = false;
    memset(h->quiet, 0, h->points * sizeof *h->quiet);
}

static int consider_shrinking(solver *s) {
    larder__shrunk *h = &s->shrunk;
    if (!h->idle || h->on || h->times == MOST_TIMES || s->out->rounds % LOOK_ROUNDS != 0)
        return 0;
    size_t many = 0, before = h->many;
    memset(h->idle, true, h->points * sizeof *h->idle);
    for (size_t v = 0; v < s->qp->n; v++)
        if (!could_idle(s, v))
            h->idle[s->qp->point[v]] = false;
    for (size_t p = 0; p < h->points; p++) {
        h->quiet[p] = h->idle[p] ? (uint8_t)(h->quiet[p] + (h->quiet[p] < QUIET_LOOKS)) : 0;
        many += h->idle[p] = h->quiet[p] == QUIET_LOOKS;
    }
    h->many = many;
    /* Not while their number still grows fast: it is done once, and whoever is not idle then stays.
     */
    if ((double)many < worth_shrinking * (double)h->points || many - many / 8 > before)
        return 0;
    h->objective = objective(s);
    memcpy(h->f, s->f, h->points * sizeof *h->f);
    return larder__shrunk_begin(h, s->kernel, s->all, s->qp->beta, s->qp->n);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int renew(solver *s) {
    double start = larder__now();
    size_t from = 0, to = s->slots;
    if (s->out->rounds > 0 && s->slots == WS) {
        from = s->half * HALF, to = from + HALF;
        s->half = !s->half;
    }
    uint32_t fresh[WS];
    int rc = let_go(s, from, to);
    size_t n = rc == 0 ? seat(s, from, to, fresh) : 0;
    s->out->times.select += larder__now() - start;
    if (rc == 0)
        rc = take_in(s, fresh, n);
    if (rc == 0)
        fill_small(s, from, to);
    return rc;
}

/* The multiplier of a group: the mean gradient of free variables, else the middle (LIBSVM's). */
static double multiplier(const solver *s, unsigned g) {
    const larder__qp *q = s->qp;
    double sum = 0;
    size_t count = 0;
    for (size_t v = 0; v < q->n; v++)
        if (group_of(q, v) == g && may_rise(q, v) && may_fall(q, v))
            sum += gradient(s, v), count++;
    if (count)
        return sum / (double)count;
    const double *e = s->ends[g];
    return !isfinite(e[0]) ? e[1] : !isfinite(e[1]) ? e[0] : (e[0] + e[1]) / 2;
}

static void take_multipliers(solver *s) {
    for (unsigned g = 0; g < s->smo.groups; g++)
        s->out->rho[g] = multiplier(s, g);
}

static int rounds(solver *s) {
    bool whole = s->qp->n <= s->slots;
    for (;;) {
        double start = larder__now();
        s->out->gap = find_gap(s);
        if (s->shrunk.on && !(s->out->gap > s->conf->tolerance)) {
            bring_back(s);
            s->out->gap = find_gap(s);
        }
        s->out->times.select += larder__now() - start;
        if (!(s->out->gap > s->conf->tolerance))
            return 0;
        if (s->conf->most_iterations && s->out->iterations >= s->conf->most_iterations)
            return 0;
        if (s->conf->watch) {
            s->out->objective = objective(s);
            take_multipliers(s);
            if (s->conf->watch(s->conf->watch_arg, s->qp, s->out)) {
                s->out->stopped = true;
                return 0;
            }
        }
        int rc = consider_shrinking(s);
        if (rc == 0 && (!whole || s->out->rounds == 0))
            rc = renew(s);
        if (rc < 0)
            return rc;
        solve_small(s, whole);
        /* Nothing moved: what is left of the gap is rounding. */
        if ((whole ? take_back(s) : pass_on(s)) == 0 && (whole || s->out->rounds > 0)) {
            if (!s->shrunk.on)
                return 0;
            bring_back(s);
        }
        s->out->rounds++;
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *zeros(size_t count, size_t bytes) {
    void *p = count > (SIZE_MAX - 64) / bytes ? NULL : larder__memalign(64, count * bytes + 64);
    return p ? memset(p, 0, count * bytes + 64) : NULL;
}

static bool open_smo(larder__smo *m) {
    return (m->k = zeros(m->n * m->n, sizeof *m->k)) && (m->f = zeros(WS, sizeof *m->f)) &&
           (m->beta = zeros(WS, sizeof *m->beta)) && (m->lo = zeros(WS, sizeof *m->lo)) &&
           (m->hi = zeros(WS, sizeof *m->hi)) && (m->diagonal = zeros(WS, sizeof *m->diagonal)) &&
           (m->up = zeros(LARDER__WS_BYTES, 1)) && (m->low = zeros(LARDER__WS_BYTES, 1)) &&
           (m->in_group[0] = zeros(LARDER__WS_BYTES, 1)) &&
           (m->in_group[1] = zeros(LARDER__WS_BYTES, 1));
}

static void close_smo(larder__smo *m) {
    larder__free(m->k);
    larder__free(m->f);
    larder__free(m->beta);
    larder__free(m->lo);
    larder__free(m->hi);
    larder__free(m->diagonal);
    larder__free(m->up);
    larder__free(m->low);
    larder__free(m->in_group[0]);
    larder__free(m->in_group[1]);
}

static bool open_scratch(solver *s) {
    size_t bytes = larder__kernel_scratch(s->kernel, s->slots);
    s->threads = larder__team_threads(s->conf->team);
    if (!(s->scratch = larder__calloc(s->threads, sizeof *s->scratch)))
        return false;
    for (unsigned i = 0; i < s->threads; i++)
        if (!(s->scratch[i] = zeros(bytes, 1)))
            return false;
    return true;
}

static int open_solver(solver *s) {
    size_t n = s->qp->n, points = s->all->n;
    s->slots = n < WS ? (n + 15) / 16 * 16 : WS;
    s->smo.n = s->slots;
    s->smo.groups = s->qp->group ? 2 : 1;
    memset(s->var, 0xff, sizeof s->var);
    s->f = zeros(points, sizeof *s->f);
    s->diagonal = zeros(points, sizeof *s->diagonal);
    bool listened = s->conf->scores || (s->conf->rows && larder__row_cache_listens(s->conf->rows));
    s->scores = listened ? zeros(points, sizeof *s->scores) : NULL;
    s->inside = zeros(n, sizeof *s->inside);
    s->held = zeros(points, sizeof *s->held);
    s->up = zeros(n, sizeof *s->up);
    s->low = zeros(n, sizeof *s->low);
    if (!s->f || !s->diagonal || (listened && !s->scores) || !s->inside || !s->held || !s->up ||
        !s->low || !open_smo(&s->smo) || !open_scratch(s))
        return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", n);
    int rc = larder__panel_room(&s->left, s->kernel, s->slots);
    if (rc == 0)
        rc = larder__panel_room(&s->right, s->kernel, s->slots);
    s->held_rows = (larder__held){.cache = s->conf->rows,
                                  .kernel = s->kernel,
                                  .all = s->all,
                                  .team = s->conf->team,
                                  .scratch = s->scratch,
                                  .threads = s->threads};
    /* Whoever keeps or records rows wants them whole. */
    if (rc == 0 && s->conf->shrinking && !s->conf->rows && !s->conf->scores && n > s->slots)
        rc = larder__shrunk_open(&s->shrunk, points, n);
    return rc == 0 && s->conf->rows ? larder__held_open(&s->held_rows) : rc;
}

static void close_solver(solver *s) {
    if (s->conf->rows)
        larder__held_close(&s->held_rows);
    larder__shrunk_close(&s->shrunk);
    larder__free(s->f);
    larder__free(s->diagonal);
    larder__free(s->scores);
    larder__free(s->inside);
    larder__free(s->held);
    larder__free(s->up);
    larder__free(s->low);
    close_smo(&s->smo);
    larder__panel_free(&s->left);
    larder__panel_free(&s->right);
    for (unsigned i = 0; s->scratch && i < s->threads; i++)
        larder__free(s->scratch[i]);
    larder__free(s->scratch);
    larder__free(s);
}

int larder__solve(larder__qp *q, const larder__kernel *k, const larder__panel *all,
                  const larder__solver_conf *conf, larder__solved *out) {
    solver *s = larder__calloc(1, sizeof *s);
    *out = (larder__solved){0};
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", q->n);
    s->qp = q, s->kernel = k, s->all = all, s->conf = conf, s->out = out;
    int rc = open_solver(s);
    if (rc == 0) {
        larder__kernel_diagonal(k, all, s->diagonal);
        begin_gradient(s);
        rc = rounds(s);
        bring_back(s);
    }
    out->rows_made += s->held_rows.made;
    out->values += s->held_rows.made * all->n;
    out->shrunk = s->shrunk.times;
    out->times.kernel += s->held_rows.kernel_seconds;
    out->times.cache += s->held_rows.cache_seconds;
    if (rc == 0) {
        out->objective = objective(s);
        take_multipliers(s);
    }
    close_solver(s);
    return rc;
}
