/* The working set as a problem of its own: its kernel values, and SMO on them. */
#include "base/clock.h"
#include "svm/solver_state.h"

/* A round's small problem ends at a tenth of its first violation: more would be undone by the
 * variables outside, less would waste the rows. */
static const double local_share = 0.1;
enum { FILL_ROWS = 64, BLOCK = 16 };
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

/* ---- kernel values --------------------------------------------------------------------------- */

typedef struct filling {
    solver *s;
    size_t from, to;
} filling;

static size_t rows_of(const filling *j, size_t piece, size_t *r0) {
    size_t rows = j->to - j->from;
    *r0 = piece * FILL_ROWS;
    return rows - *r0 < FILL_ROWS ? rows - *r0 : FILL_ROWS;
}

static void compute_piece(void *arg, size_t piece, unsigned thread) {
    filling *j = arg;
    solver *s = j->s;
    size_t r0, n = rows_of(j, piece, &r0);
    larder__kernel_block(s->kernel, &s->left, r0, r0 + n, &s->right, 0, s->slots,
                         s->smo.k + (j->from + r0) * s->smo.stride, s->smo.stride,
                         s->scratch[thread]);
}

/* The same from rows that lie at hand. */
static void copy_piece(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    filling *j = arg;
    solver *s = j->s;
    size_t r0, n = rows_of(j, piece, &r0);
    for (size_t i = j->from + r0; i < j->from + r0 + n; i++) {
        if (s->var[i] == LARDER__NO_VARIABLE)
            continue;
        const float *row = larder__held_row(&s->held_rows, s->points[i]);
        float *to = s->smo.k + i * s->smo.stride;
        for (size_t c = 0; c < s->slots; c++)
            to[c] = row[s->columns[c]];
    }
}

/* The columns from..to of slots that are not new, from the rows of those that are. */
static void mirror_piece(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    filling *j = arg;
    solver *s = j->s;
    float *k = s->smo.k;
    size_t stride = s->smo.stride, i0 = piece * BLOCK;
    if (i0 >= j->from && i0 < j->to)
        return;
    for (size_t r0 = j->from; r0 < j->to; r0 += BLOCK)
        for (size_t i = i0; i < i0 + BLOCK; i++)
            for (size_t r = r0; r < r0 + BLOCK; r++)
                k[i * stride + r] = k[r * stride + i];
}

static void exact_piece(void *arg, size_t piece, unsigned thread) {
    filling *j = arg;
    solver *s = j->s;
    larder__precision *p = &s->precision;
    size_t r0, n = rows_of(j, piece, &r0);
    larder__exact_block(&p->points, s->points + j->from + r0, n, s->points, s->slots,
                        p->smo.k + (j->from + r0) * p->smo.stride, p->smo.stride,
                        p->scratch[thread]);
}

static void fill_exact(solver *s, filling *j, size_t pieces) {
    double *k = s->precision.smo.k;
    size_t stride = s->precision.smo.stride;
    larder__team_run(s->conf->team, exact_piece, j, pieces);
    for (size_t i = 0; i < s->slots; i++)
        for (size_t r = j->from; (i < j->from || i >= j->to) && r < j->to; r++)
            k[i * stride + r] = k[r * stride + i];
    s->out->values += (j->to - j->from) * s->slots;
}

/* An empty slot stands for point 0, whose values nobody uses. from and to are multiples of BLOCK.
 */
void larder__small_fill(solver *s, size_t from, size_t to) {
    double start = larder__now();
    filling j = {s, from, to};
    size_t pieces = (to - from + FILL_ROWS - 1) / FILL_ROWS;
    for (size_t i = 0; i < s->slots; i++)
        s->points[i] = s->var[i] == LARDER__NO_VARIABLE ? 0 : s->qp->point[s->var[i]];
    if (s->precision.on) {
        fill_exact(s, &j, pieces);
        s->out->times.kernel += larder__now() - start;
        return;
    }
    if (s->rows) {
        for (size_t i = 0; i < s->slots; i++)
            s->columns[i] = s->held_rows.column[s->points[i]];
        larder__team_run(s->conf->team, copy_piece, &j, pieces);
    } else {
        larder__panel_pick(&s->right, s->kernel, s->all, s->points, s->slots);
        larder__panel_pick(&s->left, s->kernel, s->all, s->points + from, to - from);
        larder__team_run(s->conf->team, compute_piece, &j, pieces);
        s->out->values += (to - from) * s->slots;
    }
    if (to - from < s->slots)
        larder__team_run(s->conf->team, mirror_piece, &j, s->slots / BLOCK);
    s->out->times.kernel += larder__now() - start;
}

/* ---- solving --------------------------------------------------------------------------------- */

void larder__small_solve(solver *s, bool whole) {
    double start = larder__now();
    larder__smo *m = &s->smo;
    for (size_t i = 0; i < s->slots; i++) {
        uint32_t v = s->var[i];
        m->beta[i] = s->before[i] = v == LARDER__NO_VARIABLE ? 0 : s->qp->beta[v];
        m->f[i] = v == LARDER__NO_VARIABLE ? 0 : larder__gradient(s, v);
    }
    uint64_t most = s->last_step - s->out->iterations;
    /* Not for ever, even where there is nobody else: floats may not be enough. */
    if (most > UINT64_C(100) * LARDER__WS)
        most = UINT64_C(100) * LARDER__WS;
    double share = whole ? 0 : local_share;
    s->out->iterations += s->precision.on
                              ? larder__smo_exact_run(&s->precision.smo, s->target, share, most)
                              : larder__smo_run(m, s->target, share, most);
    for (size_t i = 0; i < s->slots; i++)
        if (s->var[i] != LARDER__NO_VARIABLE)
            s->qp->beta[s->var[i]] = m->beta[i];
    s->out->times.solve += larder__now() - start;
}
