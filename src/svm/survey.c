/* Looking at all variables once a round: how far from optimal, who enters. Shared out in pieces of
 * fixed size, so that sums are the same for any number of threads; the first k of an order without
 * ties are the same however they are found. */
#include "svm/solver_state.h"

#include <math.h>

enum { PIECE = 2048, LOOK_EVERY = 16 };
typedef larder__solver solver;

size_t larder__survey_pieces(size_t n) { return (n + PIECE - 1) / PIECE; }

static const larder__survey nothing = {.ends = {{INFINITY, -INFINITY}, {INFINITY, -INFINITY}}};

/* Twice the part of variable v. While some are idle, f is right for the others alone: the change
 * since then, from both ends. */
static double twice_objective(const solver *s, size_t v, double gradient) {
    const larder__qp *q = s->qp;
    const larder__shrunk *h = &s->shrunk;
    if (h->on)
        return (q->beta[v] - h->beta[v]) * (h->f[q->point[v]] + gradient + q->linear[v]);
    return q->beta[v] * (gradient + q->linear[v]);
}

static void survey_piece(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    solver *s = arg;
    const larder__qp *q = s->qp;
    larder__survey a = nothing;
    size_t v = piece * PIECE, end = v + PIECE < q->n ? v + PIECE : q->n;
    for (; v < end; v++) {
        unsigned g = larder__group_of(q, v);
        double f = larder__gradient(s, v), *e = a.ends[g];
        bool up = larder__may_rise(q, v), low = larder__may_fall(q, v);
        a.objective += twice_objective(s, v, f);
        if (up && low)
            a.free_sum[g] += f, a.free[g]++;
        if (larder__is_idle(s, v))
            continue;
        if (up && f < e[0])
            e[0] = f;
        if (low && f > e[1])
            e[1] = f;
    }
    s->surveys[piece] = a;
}

double larder__survey_all(solver *s) {
    larder__survey a = nothing;
    double gap = 0;
    larder__team_run(s->conf->team, survey_piece, s, s->pieces);
    for (size_t i = 0; i < s->pieces; i++) {
        const larder__survey *b = &s->surveys[i];
        a.objective += b->objective;
        for (unsigned g = 0; g < 2; g++) {
            a.ends[g][0] = fmin(a.ends[g][0], b->ends[g][0]);
            a.ends[g][1] = fmax(a.ends[g][1], b->ends[g][1]);
            a.free_sum[g] += b->free_sum[g];
            a.free[g] += b->free[g];
        }
    }
    a.objective = a.objective / 2 + (s->shrunk.on ? s->shrunk.objective : 0);
    for (unsigned g = 0; g < 2; g++)
        if (isfinite(a.ends[g][0]) && isfinite(a.ends[g][1]))
            gap = fmax(gap, a.ends[g][1] - a.ends[g][0]);
    s->seen = a;
    return isfinite(a.objective) ? gap : NAN; /* a gradient that is no number is in it */
}

double larder__survey_multiplier(const solver *s, unsigned g) {
    const double *e = s->seen.ends[g];
    if (s->seen.free[g])
        return s->seen.free_sum[g] / (double)s->seen.free[g];
    return !isfinite(e[0]) ? e[1] : !isfinite(e[1]) ? e[0] : (e[0] + e[1]) / 2;
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct choice {
    solver *s;
    unsigned group;
    size_t share;
    double most[2]; /* of up and of low: no candidate has a larger key */
    size_t found[2];
} choice;

static bool is_candidate(const solver *s, unsigned group, size_t v) {
    return !s->inside[v] && larder__group_of(s->qp, v) == group && !larder__is_idle(s, v);
}

/* The first candidates of one piece, at its own place of both lists. */
static void choose_piece(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    const choice *c = arg;
    solver *s = c->s;
    const larder__qp *q = s->qp;
    size_t from = piece * PIECE, end = from + PIECE < q->n ? from + PIECE : q->n;
    size_t ups = 0, lows = 0;
    for (size_t v = from; v < end; v++) {
        double f = larder__gradient(s, v);
        bool up = f <= c->most[0], low = -f <= c->most[1];
        if ((!up && !low) || !is_candidate(s, c->group, v))
            continue;
        if (up && larder__may_rise(q, v))
            s->up[from + ups++] = (larder__candidate){f, (uint32_t)v};
        if (low && larder__may_fall(q, v))
            s->low[from + lows++] = (larder__candidate){-f, (uint32_t)v};
    }
    s->found[2 * piece] = larder__candidates_part(s->up + from, ups, c->share);
    s->found[2 * piece + 1] = larder__candidates_part(s->low + from, lows, c->share);
}

/* What the pieces found, side by side; `which`: 0 or 1 of s->found. */
static size_t bring_together(const solver *s, larder__candidate *list, unsigned which) {
    size_t n = 0;
    for (size_t p = 0; p < s->pieces; p++)
        for (size_t i = 0; i < s->found[2 * p + which]; i++)
            list[n++] = list[p * PIECE + i];
    return n;
}

/* A key below which there should be about twice as many as are wanted, by a look at some. */
static double guess_most(larder__candidate *seen, size_t n, size_t share) {
    size_t few = 2 * share / LOOK_EVERY + 8;
    double most = -INFINITY;
    if (n <= few)
        return INFINITY;
    larder__candidates_part(seen, n, few);
    for (size_t i = 0; i < few; i++)
        most = fmax(most, seen[i].key);
    return most;
}

/* Few of many are wanted: a bound that most lie above spares sorting them out. If it was too low,
 * everybody is looked at, so it decides about time alone. `piece`: of which list. */
static void guess(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    choice *c = arg;
    solver *s = c->s;
    larder__candidate *list = piece ? s->low : s->up;
    size_t n = 0;
    for (size_t v = 0; v < s->qp->n; v += LOOK_EVERY) {
        bool may = piece ? larder__may_fall(s->qp, v) : larder__may_rise(s->qp, v);
        if (!may || !is_candidate(s, c->group, v))
            continue;
        double f = larder__gradient(s, v);
        list[n++] = (larder__candidate){piece ? -f : f, (uint32_t)v};
    }
    c->most[piece] = guess_most(list, n, c->share);
}

/* One of both lists, in order; `piece`: which. */
static void order_list(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    choice *c = arg;
    larder__candidate *list = piece ? c->s->low : c->s->up;
    c->found[piece] = larder__candidates_first(list, c->found[piece], c->share);
}

static bool enough(const choice *c) {
    return (c->found[0] >= c->share || isinf(c->most[0])) &&
           (c->found[1] >= c->share || isinf(c->most[1]));
}

size_t larder__survey_choose(solver *s, uint32_t *out, size_t want) {
    const larder__qp *q = s->qp;
    unsigned groups = q->group ? 2 : 1;
    size_t n = 0;
    if (q->n <= want) { /* everybody */
        for (uint32_t v = 0; v < q->n; v++)
            s->inside[v] = true, out[n++] = v;
        return n;
    }
    for (unsigned g = 0; g < groups; g++) {
        choice c = {.s = s, .group = g, .share = want / groups};
        larder__team_run(s->conf->team, guess, &c, 2);
        for (;;) {
            larder__team_run(s->conf->team, choose_piece, &c, s->pieces);
            c.found[0] = bring_together(s, s->up, 0);
            c.found[1] = bring_together(s, s->low, 1);
            if (enough(&c))
                break;
            c.most[0] = c.most[1] = INFINITY;
        }
        larder__team_run(s->conf->team, order_list, &c, 2);
        n += larder__candidates_deal(s->up, c.found[0], s->low, c.found[1], s->inside, out + n,
                                     c.share);
    }
    return n;
}
