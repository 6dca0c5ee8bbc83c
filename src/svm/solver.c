#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/solver_state.h"
#include "svm/svm_device.h"
#include "svm/tiny.h"

#include <math.h>
#include <string.h>

enum { WS = LARDER__WS, HALF = LARDER__HALF_WS };
typedef larder__solver solver;

/* ---- gradient -------------------------------------------------------------------------------- */

typedef struct adding {
    solver *s;
    size_t rows;
    const larder__panel *columns;
    double *to;
    const uint32_t *ids; /* of the columns: where they belong in f; NULL: they lie there */
} adding;

static void add_tile(void *arg, size_t piece, unsigned thread) {
    adding *a = arg;
    solver *s = a->s;
    size_t c0 = piece * LARDER__TILE, c1 = c0 + LARDER__TILE;
    c1 = c1 < a->columns->n ? c1 : a->columns->n;
    larder__kernel_add(s->kernel, &s->left, a->rows, s->weight, a->columns, c0, c1, a->to + c0,
                       s->scratch[thread]);
    if (a->ids)
        larder__shrunk_spread(&s->shrunk, s->f, a->ids, c0, c1);
}

/* to += the rows of s->points with s->weight, as far as these columns go; with `ids`, then into f.
 */
static void add_columns(solver *s, size_t rows, const larder__panel *columns, double *to,
                        const uint32_t *ids) {
    if (rows == 0)
        return;
    double from = larder__now();
    if (s->conf->gram) {
        for (size_t r = 0; r < rows; r++)
            larder__gram_add(to,
                             larder__gram_row(s->conf->gram, larder__among_all(s, s->points[r])),
                             s->weight[r], s->runs, s->run_count);
        s->out->times.update += larder__now() - from;
        return;
    }
    larder__panel_pick(&s->left, s->kernel, s->all, s->points, rows);
    adding a = {s, rows, columns, to, ids};
    larder__team_run(s->conf->team, add_tile, &a, (columns->n + LARDER__TILE - 1) / LARDER__TILE);
    s->out->rows_made += rows;
    s->out->values += rows * columns->n;
    s->out->times.kernel += larder__now() - from;
}

/* f += them, but for idle points. */
static void add_rows(solver *s, size_t rows) {
    larder__shrunk *h = &s->shrunk;
    if (h->on)
        add_columns(s, rows, &h->part, h->sum, h->ids);
    else
        add_columns(s, rows, s->all, s->f, NULL);
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
        if (rows == s->left_rows || v + 1 == q->n) {
            add_rows(s, rows);
            rows = 0;
        }
    }
}

/* ---- the working set changes ----------------------------------------------------------------- */

/* How far a variable is from being chosen again, for policies that ask (ALGORITHMS 5: dist). */
static float distance(const solver *s, uint32_t v) {
    const double *e = s->seen.ends[larder__group_of(s->qp, v)];
    double f = larder__gradient(s, v), d = INFINITY;
    if (larder__may_rise(s->qp, v))
        d = f - e[0];
    if (larder__may_fall(s->qp, v))
        d = fmin(d, e[1] - f);
    return isfinite(d) ? (float)d : 3e38f;
}

/* Distances of all points, with the gradient as it is now. */
static int tell_scores(solver *s) {
    bool kept = s->rows && larder__row_cache_listens(s->rows->cache);
    if (!s->scores || (!kept && !s->conf->scores))
        return 0;
    for (size_t p = 0; p < s->all->n; p++)
        s->scores[p] = 3e38f;
    for (uint32_t v = 0; v < s->qp->n; v++) {
        float *to = &s->scores[s->qp->point[v]];
        *to = fminf(*to, distance(s, v));
    }
    if (kept)
        larder__held_score(&s->held_rows, s->scores);
    return s->conf->scores ? s->conf->scores(s->conf->arg, s->scores) : 0;
}

static int let_go(solver *s, size_t from, size_t to) {
    size_t n = 0;
    int rc = s->out->rounds ? tell_scores(s) : 0;
    if (rc < 0)
        return rc;
    for (size_t i = from; i < to; i++) {
        if (s->var[i] == LARDER__NO_VARIABLE)
            continue;
        uint32_t point = s->qp->point[s->var[i]];
        s->inside[s->var[i]] = false;
        if (--s->held[point] == 0) {
            s->points[n] = point;
            s->dist[n++] = distance(s, s->var[i]);
        }
        s->var[i] = LARDER__NO_VARIABLE;
    }
    if (n && s->rows)
        larder__held_leave(&s->held_rows, s->points, s->dist, n);
    return n && s->conf->leave ? s->conf->leave(s->conf->arg, s->points, s->dist, n) : 0;
}

/* New variables into slots from..to. */
static size_t seat(solver *s, size_t from, size_t to, uint32_t *fresh) {
    size_t n = larder__survey_choose(s, fresh, to - from);
    for (size_t i = from; i < to; i++)
        larder__small_seat(s, i, i - from < n ? fresh[i - from] : LARDER__NO_VARIABLE);
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
    return rc == 0 && rows && s->rows ? larder__held_take(&s->held_rows, s->points, rows) : rc;
}

/* All variables were in the small problem, which kept their gradient. */
static size_t take_back(solver *s) {
    size_t changed = 0;
    for (size_t i = 0; i < s->slots; i++) {
        if (s->var[i] == LARDER__NO_VARIABLE)
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
        if (s->var[i] == LARDER__NO_VARIABLE || change == 0)
            continue;
        s->points[rows] = s->qp->point[s->var[i]];
        s->weight[rows++] = change;
    }
    if (s->precision.on) {
        double start = larder__now();
        for (size_t r = 0; r < rows; r++)
            s->points[r] = larder__among_all(s, s->points[r]);
        larder__precision_add(s, s->points, s->weight, rows);
        s->out->times.kernel += larder__now() - start;
    } else if (s->rows && rows) {
        double start = larder__now();
        larder__held_add(&s->held_rows, s->points, s->weight, rows, s->f);
        s->out->times.update += larder__now() - start;
    } else {
        add_rows(s, rows);
    }
    return rows;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

/* A look every so many rounds; a point that could be idle in two of them is. Laying out the rest
 * and adding up what it missed costs some rounds, so a quarter must be gained. */
enum { LOOK_ROUNDS = 8, QUIET_LOOKS = 2, MOST_TIMES = 4 };
static const double worth_shrinking = 0.25;

/* At a bound and beyond everybody it could be paired with (LIBSVM's rule). */
static bool could_idle(const solver *s, size_t v) {
    const double *e = s->seen.ends[larder__group_of(s->qp, v)];
    bool up = larder__may_rise(s->qp, v), low = larder__may_fall(s->qp, v);
    double f = larder__gradient(s, v);
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
            add_columns(s, rows, &h->rest, h->sum, h->ids + h->active);
            rows = 0;
        }
    }
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
    h->objective = s->seen.objective;
    memcpy(h->f, s->f, h->points * sizeof *h->f);
    return larder__shrunk_begin(h, s->kernel, s->all, s->qp->beta, s->qp->n);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool is_whole(const solver *s) { return s->qp->n <= s->slots; }

static int renew(solver *s) {
    double start = larder__now();
    size_t from = 0, to = s->slots;
    if (s->begun && !is_whole(s)) {
        from = s->half * HALF, to = from + HALF;
        s->half = !s->half;
    }
    int rc = let_go(s, from, to);
    size_t n = rc == 0 ? seat(s, from, to, s->fresh) : 0;
    s->out->times.select += larder__now() - start;
    if (rc == 0)
        rc = take_in(s, s->fresh, n);
    if (rc == 0)
        larder__small_fill(s, from, to);
    s->begun = true;
    return rc;
}

static void tell_state(solver *s) {
    double moved = larder__precision_moved(s);
    s->out->objective = s->seen.objective;
    for (unsigned g = 0; g < s->smo.groups; g++)
        s->out->rho[g] = larder__survey_multiplier(s, g) + moved;
}

/* Is it optimal enough? The gap is known afterwards. Points that were left out have a say. */
static bool is_done(solver *s) {
    double start = larder__now();
    s->out->gap = larder__survey_all(s);
    if (s->shrunk.on && !(s->out->gap > s->target)) {
        bring_back(s);
        s->out->gap = larder__survey_all(s);
    }
    s->out->times.select += larder__now() - start;
    return !(s->out->gap > s->target) || s->out->iterations >= s->last_step;
}

/* Beyond the tolerance, where a task wants it and as long as it is worth the work done so far. */
static bool goes_beyond(solver *s) {
    const larder__solver_conf *c = s->conf;
    if (!(c->beyond > 0) || s->target <= c->beyond || s->out->gap > s->target)
        return false;
    uint64_t more = s->out->iterations * c->beyond_share;
    more = more > c->beyond_least ? more : c->beyond_least;
    if (s->last_step - s->out->iterations > more)
        s->last_step = s->out->iterations + more;
    s->target = c->beyond;
    return true;
}

static int one_round(solver *s, bool whole) {
    int rc = consider_shrinking(s);
    if (rc == 0 && (!whole || !s->begun))
        rc = renew(s);
    if (rc == 0)
        larder__small_solve(s, whole);
    return rc;
}

/* From a problem that is one round to rounds: steps that look at all variables are dear. */
static int narrow(solver *s) {
    int rc = let_go(s, 0, s->slots);
    s->begun = false;
    if (s->slots > WS) {
        s->slots = s->smo.n = WS;
        s->as_seated = false;
    }
    return rc;
}

/* Floats cannot tell any more: all rows are given back, and points that were left out count again.
 */
static int go_exact(solver *s) {
    int rc = narrow(s);
    if (rc < 0)
        return rc;
    s->shrunk.on = false;
    s->shrunk.times = MOST_TIMES;
    s->rows = NULL;
    double start = larder__now();
    rc = larder__precision_begin(s);
    s->out->times.kernel += larder__now() - start;
    return rc;
}

/* Doubles cost next to nothing here, and a small model's digits are looked at. Not where rows are
 * recorded or kept on purpose. */
static bool is_small(const solver *s) {
    enum { CHEAP = 800 /* numbers of all points */ };
    bool held = s->conf->exact && s->conf->exact->held;
    bool cheap =
        held || s->kernel->engine == LARDER__ENGINE_GIVEN || s->all->n * s->kernel->dim <= CHEAP;
    return s->conf->data && s->qp->n <= LARDER__TINY && cheap && !s->conf->enter && !s->conf->rows;
}

/* Steps of two get nowhere: those of all free variables at once, which want doubles, may. Not where
 * points are so many that rows of doubles cost more. */
static bool creeps(const solver *s) {
    enum { STEPS = 100, MANY = 16384 };
    size_t n = s->qp->n < WS ? WS : s->qp->n;
    return s->conf->data && !s->precision.on && n <= MANY &&
           s->out->iterations >= (uint64_t)STEPS * n;
}

/* An end that is reached is looked at once more: in floats, by what they are off; in doubles, with
 * a gradient that no step has rounded. */
enum { MOST_CHECKS = 20 };
static int is_end(solver *s, bool *out) {
    larder__precision *p = &s->precision;
    bool fails = false;
    *out = is_done(s);
    if (s->out->iterations >= s->last_step)
        return 0;
    int rc = larder__precision_fails(s, s->out->gap, *out, &fails);
    if (rc == 0 && (fails || (!*out && creeps(s)))) {
        rc = go_exact(s);
        *out = rc == 0 && is_done(s);
    }
    if (rc == 0 && *out && p->on && !larder__precision_fresh(s) && p->checks++ < MOST_CHECKS) {
        larder__precision_refresh(s);
        *out = is_done(s);
    }
    return rc;
}

/* Nothing moved: what is left of the gap is rounding, of floats or of doubles. */
static int stuck(solver *s, bool *out) {
    larder__precision *p = &s->precision;
    *out = false;
    if (s->shrunk.on) {
        bring_back(s);
        return 0;
    }
    if (s->conf->data && !p->on)
        return go_exact(s);
    *out = !p->on || p->fresh;
    if (!*out)
        larder__precision_refresh(s);
    return 0;
}

/* Rounds on the device, until somebody should look. */
static int run_device(solver *s, bool *done) {
    bool moved;
    *done = false;
    int rc = larder__device_run(s->device, s->target, s->last_step, s->f, s->out, &moved);
    s->out->rows_hit = larder__device_hits(s->device);
    return rc < 0 || moved ? rc : stuck(s, done);
}

static int rounds(solver *s) {
    for (;;) {
        bool end;
        int rc = is_end(s, &end);
        bool whole = is_whole(s);
        if (rc < 0 || larder__precision_stands(s))
            return rc;
        if (end) {
            if (!goes_beyond(s))
                return 0;
            continue;
        }
        if (s->conf->watch) {
            tell_state(s);
            if (s->conf->watch(s->conf->watch_arg, s->qp, s->out)) {
                s->out->stopped = true;
                return 0;
            }
        }
        if (s->device && !s->precision.on) {
            if ((rc = run_device(s, &end)) < 0 || end)
                return rc;
            continue;
        }
        bool first = !s->begun;
        if ((rc = one_round(s, whole)) < 0)
            return rc;
        if ((whole ? take_back(s) : pass_on(s)) > 0) {
            s->precision.fresh = false;
            if (whole) /* SMO's steps have rounded it, and nobody knows how often */
                s->precision.added = INFINITY;
        } else if (whole || !first) {
            bool done;
            rc = stuck(s, &done);
            if (rc < 0 || done)
                return rc;
        }
        s->out->rounds++;
        if (whole && s->conf->gram && s->slots > WS && !s->precision.on && (rc = narrow(s)) < 0)
            return rc;
    }
}

/* Where steps ran out, what floats have summed up may be no objective of anything. */
static int settle(solver *s) {
    bool fails = false;
    int rc = s->out->stopped ? 0 : larder__precision_fails(s, 0, true, &fails);
    if (rc == 0 && (fails || (s->precision.on && !larder__precision_fresh(s))))
        larder__precision_refresh(s);
    if (rc == 0) {
        s->out->ran_out = s->out->iterations >= s->last_step;
        s->out->gap = larder__survey_all(s);
        tell_state(s);
        if (fails || s->precision.on) {
            s->out->gap = larder__precision_judge(s);
            tell_state(s);
        }
    }
    return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Many small problems spend their time on memory: what is zeroed is one block, what is written
 * before it is read another. */
typedef struct span {
    void *to; /* a pointer to be set */
    size_t count, bytes;
} span;

static void *lay_out(const span *parts, size_t n, bool zeroed) {
    size_t whole = 64;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].count > (SIZE_MAX / 2 - whole) / parts[i].bytes)
            return NULL;
        whole += (parts[i].count * parts[i].bytes + 63) / 64 * 64;
    }
    char *block = larder__memalign(64, whole), *at = block;
    if (!block)
        return NULL;
    if (zeroed)
        memset(block, 0, whole);
    for (size_t i = 0; i < n; i++) {
        memcpy(parts[i].to, &at, sizeof at);
        at += (parts[i].count * parts[i].bytes + 63) / 64 * 64;
    }
    return block;
}

static bool open_arrays(solver *s) {
    larder__smo *m = &s->smo;
    size_t n = s->qp->n, points = s->all->n, slots = s->slots;
    larder__smo_part *part = &s->smo_part;
    size_t room = part->room = is_small(s) ? 0 : larder__smo_part_room(slots);
    s->pieces = larder__survey_pieces(n);
    const span parts[] = {
        {&s->f, points, sizeof *s->f},
        {&s->diagonal, points, sizeof *s->diagonal},
        {&s->inside, n, sizeof *s->inside},
        {&s->held, points, sizeof *s->held},
        {&s->surveys, s->pieces, sizeof *s->surveys},
        {&s->found, 2 * s->pieces, sizeof *s->found},
        {&s->var, slots, sizeof *s->var},
        {&s->points, slots, sizeof *s->points},
        {&s->fresh, slots, sizeof *s->fresh},
        {&s->seated, slots, sizeof *s->seated},
        {&s->columns, slots, sizeof *s->columns},
        {&s->dist, slots, sizeof *s->dist},
        {&s->before, slots, sizeof *s->before},
        {&s->weight, slots, sizeof *s->weight},
        {&m->made, slots, sizeof *m->made},
        {&m->place, slots, sizeof *m->place},
        {&m->f, slots, sizeof *m->f},
        {&m->beta, slots, sizeof *m->beta},
        {&m->lo, slots, sizeof *m->lo},
        {&m->hi, slots, sizeof *m->hi},
        {&m->diagonal, slots, sizeof *m->diagonal},
        {&m->up, slots / 8 + 2, 1},
        {&m->low, slots / 8 + 2, 1},
        {&m->in_group[0], slots / 8 + 2, 1},
        {&m->in_group[1], slots / 8 + 2, 1},
        {&part->slot, room, sizeof *part->slot},
        {&part->smo.made, room, sizeof *part->smo.made},
        {&part->wanted, slots / 8 + 2, 1},
        {&part->smo.up, room / 8 + 2, 1},
        {&part->smo.low, room / 8 + 2, 1},
        {&part->smo.in_group[0], room / 8 + 2, 1},
        {&part->smo.in_group[1], room / 8 + 2, 1},
    };
    if (!(s->zeroed = lay_out(parts, sizeof parts / sizeof *parts, true)))
        return false;
    memset(s->var, 0xff, slots * sizeof *s->var);
    memset(m->place, 0xff, slots * sizeof *m->place);
    bool listened = s->conf->scores || (s->conf->rows && s->conf->rows->dist);
    if (listened && !(s->scores = larder__calloc(points + 16, sizeof *s->scores)))
        return false;
    m->stride = slots + 16;
    const span rows[] = {
        {&m->k, is_small(s) ? 0 : slots * m->stride, sizeof *m->k},
        {&s->far, slots, sizeof *s->far},
        {&s->up, n, sizeof *s->up},
        {&s->low, n, sizeof *s->low},
        {&s->tile, (size_t)s->threads * LARDER__TILE_ROWS * slots, sizeof(double)},
        {&part->smo.k, room * (room + 16), sizeof *part->smo.k},
        {&part->smo.f, room, sizeof *part->smo.f},
        {&part->smo.beta, room, sizeof *part->smo.beta},
        {&part->before, room, sizeof *part->before},
        {&part->smo.lo, room, sizeof *part->smo.lo},
        {&part->smo.hi, room, sizeof *part->smo.hi},
        {&part->smo.diagonal, room, sizeof *part->smo.diagonal},
        {&part->smo.place, room, sizeof *part->smo.place},
    };
    /* With several optima another order of steps may end in a worse one. */
    larder_svm_kernel kernel = s->kernel->conf.type;
    bool one = kernel != LARDER_SVM_SIGMOID && kernel != LARDER_SVM_PRECOMPUTED;
    m->part = room >= LARDER__FEW_SLOTS && one ? part : NULL;
    return (s->written = lay_out(rows, sizeof rows / sizeof *rows, false)) != NULL;
}

static bool open_scratch(solver *s) {
    bool bare = is_small(s) || s->conf->gram;
    size_t bytes = bare ? 0 : larder__kernel_scratch(s->kernel, s->slots);
    s->scratch = larder__calloc(s->threads, sizeof *s->scratch);
    for (unsigned i = 0; s->scratch && i < s->threads; i++) {
        if (!(s->scratch[i] = larder__memalign(64, bytes + 64)))
            return false;
        memset(s->scratch[i], 0, bare ? 0 : larder__kernel_zeroed(s->kernel));
    }
    return s->scratch != NULL;
}

/* Everybody is seated, in the order of points: their panel is that of the slots. */
static bool will_be_as_seated(const solver *s) {
    bool same = is_whole(s) && s->qp->n == s->all->n;
    for (size_t v = 0; same && v < s->qp->n; v++)
        same = s->qp->point[v] == v;
    return same;
}

static int open_rows(solver *s) {
    int rc = 0;
    if (s->conf->device)
        return 0;
    s->as_seated = will_be_as_seated(s);
    if (s->conf->gram) {
        s->left_rows = s->slots;
        if (!(s->runs = larder__malloc((s->all->n + 1) * sizeof *s->runs)))
            return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", s->qp->n);
        s->run_count = larder__gram_runs(s->runs, s->conf->all_of, s->all->n);
        return 0;
    }
    s->left_rows = s->as_seated && s->slots > LARDER__BATCH ? LARDER__BATCH : s->slots;
    if (!is_small(s))
        rc = larder__panel_room(&s->left, s->kernel, s->left_rows);
    if (rc == 0 && !is_small(s) && !s->as_seated)
        rc = larder__panel_room(&s->right, s->kernel, s->slots);
    s->held_rows = (larder__held){.rows = s->conf->rows,
                                  .parts = s->conf->parts,
                                  .part_count = s->conf->part_count,
                                  .kernel = s->kernel,
                                  .all = s->all,
                                  .team = s->conf->team,
                                  .scratch = s->scratch,
                                  .threads = s->threads};
    /* Whoever keeps or records rows wants them whole. */
    if (rc == 0 && s->conf->shrinking && !s->conf->rows && !s->conf->scores && s->qp->n > s->slots)
        rc = larder__shrunk_open(&s->shrunk, s->all->n, s->qp->n);
    s->rows = s->conf->rows;
    return rc == 0 && s->rows ? larder__held_open(&s->held_rows) : rc;
}

static int open_solver(solver *s) {
    size_t n = s->qp->n;
    /* Whoever keeps or records rows is asked about those of a round. */
    bool told = s->conf->rows || s->conf->enter || s->conf->scores;
    size_t whole = told ? WS : s->conf->gram ? LARDER__WHOLE_AT_HAND : LARDER__WHOLE;
    whole = s->conf->whole ? s->conf->whole : whole;
    s->slots = n <= whole ? (n + 15) / 16 * 16 : WS;
    s->smo.n = s->slots;
    s->smo.groups = s->qp->group ? 2 : 1;
    for (size_t v = 0; v < n; v++)
        s->sums[larder__group_of(s->qp, v)] += s->qp->beta[v];
    s->target = s->conf->tolerance;
    s->batch = LARDER__FIRST_BATCH;
    s->last_step = s->conf->most_iterations ? s->conf->most_iterations : UINT64_MAX;
    s->threads = larder__team_threads(s->conf->team);
    if (!open_arrays(s) || !open_scratch(s))
        return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", n);
    return open_rows(s);
}

static void close_solver(solver *s) {
    larder__device_end(&s->device);
    if (s->conf->rows)
        larder__held_close(&s->held_rows);
    larder__precision_close(s);
    larder__shrunk_close(&s->shrunk);
    larder__free(s->scores);
    larder__free(s->zeroed);
    larder__free(s->written);
    larder__panel_free(&s->left);
    larder__panel_free(&s->right);
    larder__free(s->runs);
    for (unsigned i = 0; s->scratch && i < s->threads; i++)
        larder__free(s->scratch[i]);
    larder__free(s->scratch);
    larder__free(s);
}

int larder__solve(larder__qp *q, const larder__kernel *k, const larder__panel *all,
                  const larder__solver_conf *conf, larder__solved *out) {
    *out = (larder__solved){0};
    if (larder__tiny_solve(q, k, conf, out))
        return 0;
    *out = (larder__solved){.iterations = out->iterations};
    solver *s = larder__calloc(1, sizeof *s);
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "no memory to solve for %zu variables", q->n);
    s->qp = q, s->kernel = k, s->all = all, s->conf = conf, s->out = out;
    int rc = open_solver(s);
    if (rc == 0) {
        if (conf->gram)
            for (uint32_t i = 0; i < all->n; i++)
                s->diagonal[i] =
                    larder__gram_row(conf->gram, larder__among_all(s, i))[larder__among_all(s, i)];
        else
            larder__kernel_diagonal(k, all, s->diagonal);
        if (is_small(s))
            rc = go_exact(s);
        else if (conf->device)
            rc = larder__device_begin(&s->device, conf->device, q, all->n, conf->device_of,
                                      s->diagonal, q->knows_f ? q->f : s->f);
        else if (!q->knows_f)
            begin_gradient(s);
        if (q->knows_f && !s->precision.on)
            memcpy(s->f, q->f, all->n * sizeof *s->f);
        if (rc == 0)
            rc = rounds(s);
        bring_back(s);
    }
    out->rows_made += s->held_rows.made;
    out->values += s->held_rows.values;
    out->shrunk = s->shrunk.times;
    out->times.kernel += s->held_rows.kernel_seconds;
    out->times.cache += s->held_rows.cache_seconds;
    if (rc == 0)
        rc = settle(s);
    if (rc == 0 && q->f) { /* what doubles have summed up may be of points that were moved */
        q->knows_f = !s->precision.on;
        memcpy(q->f, s->f, all->n * sizeof *s->f);
    }
    close_solver(s);
    return rc;
}
