/* The working set as a problem of its own: its kernel values, and SMO on them. */
#include "base/clock.h"
#include "base/clones.h"
#include "svm/solver_state.h"

#include <math.h>
#include <string.h>

/* A round's small problem ends at a tenth of its first violation: more would be undone by the
 * variables outside, less would waste the rows. */
static const double local_share = 0.1;
enum { FEW_STEPS = 3, FILL_ROWS = 64, PIECE = LARDER__TILE_ROWS, BATCH = LARDER__BATCH, FEW = 4 };
typedef larder__solver solver;

void larder__small_seat(solver *s, size_t slot, uint32_t v) {
    larder__smo *m = &s->smo;
    const larder__qp *q = s->qp;
    bool none = v == LARDER__NO_VARIABLE;
    s->var[slot] = v;
    uint8_t bit = (uint8_t)(1u << slot % 8);
    for (unsigned g = 0; g < 2; g++) {
        m->in_group[g][slot / 8] &= (uint8_t)~bit;
        if (!none && larder__group_of(q, v) == g)
            m->in_group[g][slot / 8] |= bit;
    }
    m->lo[slot] = none ? 0 : q->lo[v];
    m->hi[slot] = none ? 0 : q->hi[v];
    m->diagonal[slot] = none ? 0 : s->diagonal[q->point[v]];
}

/* ---- kernel rows ----------------------------------------------------------------------------- */

/* Rows of some slots, columns from..to: of the panels, or of the points in doubles. */
typedef struct filling {
    solver *s;
    const uint32_t *slots;
    size_t n, from, to;
} filling;

static void copy_row(void *to, const void *from, size_t at, size_t n, size_t bytes) {
    memcpy((char *)to + at * bytes, from, n * bytes);
}

/* Rows of a piece are made side by side, which is quicker, and then put where they belong. */
static void make_piece(void *arg, size_t piece, unsigned thread) {
    filling *j = arg;
    solver *s = j->s;
    larder__precision *p = &s->precision;
    double *tile = s->tile + (size_t)thread * PIECE * s->slots;
    float *floats = (float *)(void *)tile;
    size_t r0 = piece * PIECE, r1 = r0 + PIECE < j->n ? r0 + PIECE : j->n, n = j->to - j->from;
    if (p->on) {
        uint32_t left[PIECE];
        for (size_t r = r0; r < r1; r++)
            left[r - r0] = s->columns[j->slots[r]];
        larder__exact_block(p->points, left, r1 - r0, s->columns + j->from, n, tile, n,
                            p->scratch[thread]);
    } else {
        const larder__panel *right = s->as_seated ? s->all : &s->right;
        larder__kernel_block(s->kernel, &s->left, r0, r1, right, j->from, j->to, floats, n,
                             s->scratch[thread]);
    }
    for (size_t r = r0; r < r1; r++) {
        size_t at = j->slots[r], done = (r - r0) * n;
        if (p->on)
            copy_row(p->smo.k + at * p->smo.stride, tile + done, j->from, n, sizeof(double));
        else
            copy_row(larder__smo_row(&s->smo, at), floats + done, j->from, n, sizeof(float));
    }
}

/* Values that lie at hand. */
static void copy_rows(solver *s, const uint32_t *slots, size_t n, size_t from, size_t to) {
    larder__smo *m = &s->smo;
    for (size_t i = 0; i < n; i++) {
        const float *row = larder__gram_row(s->conf->gram, s->columns[slots[i]]);
        float *out = larder__smo_row(m, slots[i]);
        m->made[slots[i]] = true;
        if (s->as_seated)
            larder__gram_copy(out, row, s->runs, s->run_count);
        else
            larder__gram_pick(out + from, row, s->columns + from, to - from);
    }
}

/* Rows lie in the order in which they are first made: the few that most problems want are near one
 * another, and where those of the problem before were. */
static void place_row(solver *s, size_t slot) {
    if (s->smo.place[slot] == UINT32_MAX)
        s->smo.place[slot] = s->placed++;
}

static void make_rows(solver *s, const uint32_t *slots, size_t n, size_t from, size_t to) {
    filling j = {s, slots, n, from, to};
    for (size_t i = 0; i < n; i++)
        place_row(s, slots[i]);
    if (s->conf->gram && !s->precision.on) {
        copy_rows(s, slots, n, from, to);
        return;
    }
    double start = larder__now();
    if (!s->precision.on) {
        for (size_t i = 0; i < n; i++)
            s->points[i] = s->seated[slots[i]];
        larder__panel_pick(&s->left, s->kernel, s->all, s->points, n);
    }
    larder__team_run(s->conf->team, make_piece, &j, (n + PIECE - 1) / PIECE);
    for (size_t i = 0; i < n; i++)
        s->smo.made[slots[i]] = true;
    s->out->values += n * (to - from);
    s->out->times.kernel += larder__now() - start;
    s->making += larder__now() - start;
}

/* How far each slot is from the end it could be chosen at. */
LARDER__CLONES static void distances(size_t n, const double *restrict f,
                                     const double *restrict beta, const double *restrict lo,
                                     const double *restrict hi, const double *ends,
                                     double *restrict out) {
    double low = ends[0], high = ends[1];
    for (size_t i = 0; i < n; i++) {
        double rise = f[i] - low, fall = high - f[i];
        rise = beta[i] < hi[i] ? rise : INFINITY;
        fall = beta[i] > lo[i] ? fall : INFINITY;
        out[i] = rise < fall ? rise : fall;
    }
}

/* Whoever has a row is not wanted. */
static void leave_out(const bool *made, size_t n, double *out) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t some;
        memcpy(&some, made + i, sizeof some);
        for (size_t k = 0; some && k < 8; k++)
            out[i + k] = made[i + k] ? INFINITY : out[i + k];
    }
}

/* Is any of sixteen below? Most are not, and looked at no further. */
LARDER__CLONES static bool any_below(const double *far, double limit) {
    int any = 0;
    for (size_t i = 0; i < 16; i++)
        any |= far[i] < limit;
    return any;
}

/* Into its place among the first few, of which the last makes room. */
static size_t keep_few(larder__candidate *c, size_t n, size_t want, larder__candidate x) {
    size_t at = n < want ? n : want - 1;
    for (; at > 0 && x.key < c[at - 1].key; at--)
        c[at] = c[at - 1];
    c[at] = x;
    return n < want ? n + 1 : want;
}

/* The `want` nearest but one, into s->up. Most slots are only looked at where few are wanted. */
static size_t list_unmade(solver *s, size_t but, size_t want) {
    const larder__smo *m = &s->smo;
    size_t found = 0;
    double limit = want ? INFINITY : -INFINITY;
    for (unsigned g = 0; g < m->groups; g++) {
        const double ends[] = {m->lowest[g], m->highest[g]};
        distances(m->n, m->f, m->beta, m->lo, m->hi, ends, s->far);
        leave_out(m->made, m->n, s->far);
        for (uint32_t i = 0; i < s->slots; i++) {
            if (i % 16 == 0 && !any_below(s->far + i, limit)) {
                i += 15;
                continue;
            }
            bool member = m->groups == 1 || (m->in_group[g][i / 8] >> i % 8 & 1);
            if (!(s->far[i] < limit) || i == but || !member)
                continue;
            larder__candidate x = {s->far[i], i};
            if (want > FEW) {
                s->up[found++] = x;
                continue;
            }
            found = keep_few(s->up, found, want, x);
            limit = found == want ? s->up[want - 1].key : limit;
        }
    }
    return want > FEW ? larder__candidates_part(s->up, found, want) : found;
}

/* A step wants a row. Those who violate most are likely to be next; the more were wanted so far,
 * the more are made at once: easy problems end with few rows, hard ones want all of them. */
static void make_some(void *arg, size_t slot) {
    solver *s = arg;
    uint32_t slots[BATCH];
    /* SGEMM wants many at once, the others a few. */
    bool many = s->kernel->engine == LARDER__ENGINE_DENSE && !s->kernel->direct && !s->precision.on;
    bool at_hand = s->conf->gram && !s->precision.on;
    size_t n = 1, most = many ? BATCH : s->qp->n > s->slots ? 2 * PIECE : FEW;
    size_t found = at_hand ? 0 : list_unmade(s, slot, s->batch - 1);
    slots[0] = (uint32_t)slot;
    for (size_t i = 0; i < found; i++)
        slots[n++] = s->up[i].id;
    s->batch = 2 * s->batch < most ? 2 * s->batch : most;
    make_rows(s, slots, n, 0, s->as_seated ? s->all->n : s->slots);
}

/* From rows that lie at hand: those of new slots, and the new columns of the others. */
static void copy_piece(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    filling *j = arg;
    solver *s = j->s;
    size_t end = (piece + 1) * FILL_ROWS;
    for (size_t i = piece * FILL_ROWS; i < end && i < s->slots; i++) {
        if (s->var[i] == LARDER__NO_VARIABLE)
            continue;
        bool fresh = i >= j->from && i < j->to;
        const float *row = larder__held_row(&s->held_rows, s->seated[i]);
        float *to = larder__smo_row(&s->smo, i);
        for (size_t c = fresh ? 0 : j->from; c < (fresh ? s->slots : j->to); c++)
            to[c] = row[s->columns[c]];
    }
}

/* An empty slot stands for point 0, whose values nobody uses. */
void larder__small_fill(solver *s, size_t from, size_t to) {
    double start = larder__now();
    larder__smo *m = &s->smo;
    size_t n = 0;
    for (size_t i = 0; i < s->slots; i++)
        s->seated[i] = s->var[i] == LARDER__NO_VARIABLE ? 0 : s->qp->point[s->var[i]];
    m->make = make_some, m->make_arg = s;
    memset(m->made + from, s->rows != NULL, to - from);
    for (size_t i = 0; i < s->slots; i++)
        s->columns[i] =
            s->rows ? s->held_rows.column[s->seated[i]] : larder__among_all(s, s->seated[i]);
    if (s->rows) {
        for (size_t i = 0; i < s->slots; i++)
            place_row(s, i);
        filling j = {.s = s, .from = from, .to = to};
        larder__team_run(s->conf->team, copy_piece, &j, (s->slots + FILL_ROWS - 1) / FILL_ROWS);
        s->out->times.kernel += larder__now() - start;
        return;
    }
    if (s->precision.on)
        for (size_t i = from; i < to; i++)
            larder__exact_block(s->precision.points, s->columns + i, 1, s->columns + i, 1,
                                s->precision.smo.diagonal + i, 1, s->precision.scratch[0]);
    else if (!s->as_seated && !s->conf->gram)
        larder__panel_pick(&s->right, s->kernel, s->all, s->seated, s->slots);
    if (s->conf->gram && !s->precision.on) /* a row is copied sooner than completed */
        memset(m->made, false, s->slots);
    for (uint32_t i = 0; i < s->slots; i++)
        if (m->made[i])
            s->fresh[n++] = i;
    s->out->times.kernel += larder__now() - start;
    if (n)
        make_rows(s, s->fresh, n, from, to);
}

/* ---- solving --------------------------------------------------------------------------------- */

void larder__small_solve(solver *s, bool whole) {
    double start = larder__now();
    larder__smo *m = &s->smo;
    s->making = 0;
    for (size_t i = 0; i < s->slots; i++) {
        uint32_t v = s->var[i];
        m->beta[i] = s->before[i] = v == LARDER__NO_VARIABLE ? 0 : s->qp->beta[v];
        m->f[i] = v == LARDER__NO_VARIABLE ? 0 : larder__gradient(s, v);
    }
    uint64_t most = s->last_step - s->out->iterations;
    /* Not for ever, even where there is nobody else: floats may not be enough. */
    if (most > UINT64_C(100) * LARDER__WHOLE)
        most = UINT64_C(100) * LARDER__WHOLE;
    if (s->conf->gram && s->slots > LARDER__WS && most > FEW_STEPS * s->slots)
        most = FEW_STEPS * s->slots; /* then rounds are cheaper */
    double share = whole ? 0 : local_share;
    s->out->iterations += s->precision.on
                              ? larder__smo_exact_run(&s->precision.smo, s->target, share, most)
                              : larder__smo_run(m, s->target, share, most);
    for (size_t i = 0; i < s->slots; i++)
        if (s->var[i] != LARDER__NO_VARIABLE)
            s->qp->beta[s->var[i]] = m->beta[i];
    s->out->times.solve += larder__now() - start - s->making;
}
