#include "sample/sum_tree.h"

#include "base/mem.h"
#include "sample/weights.h"

#include <assert.h>

enum { WIDE = 16 };

static uint64_t lines(uint64_t values) { return (values + WIDE - 1) / WIDE; }

int larder__sum_tree_open(larder__sum_tree *t, uint64_t n) {
    *t = (larder__sum_tree){.n = n};
    uint64_t counts[LARDER__TREE_LEVELS], all = 0, words = 0, values = n + !n;
    do {
        counts[t->levels] = lines(values);
        t->marks_from[t->levels] = words;
        words += counts[t->levels] / 64 + 1;
        all += counts[t->levels];
        values = counts[t->levels++];
    } while (values > 1);
    float *memory = larder__memalign(64, all * WIDE * sizeof *memory);
    t->level[0] = memory;
    t->marks = larder__calloc(words, sizeof *t->marks);
    t->changed = larder__calloc(LARDER__TREE_CHANGED, sizeof *t->changed);
    if (!memory || !t->marks || !t->changed) {
        larder__sum_tree_close(t);
        return LARDER_E_NOMEM;
    }
    memset(memory, 0, all * WIDE * sizeof *memory);
    for (int k = 0; k < t->levels; k++) {
        t->level[k] = memory;
        memory += counts[k] * WIDE;
    }
    return 0;
}

void larder__sum_tree_close(larder__sum_tree *t) {
    larder__free(t->level[0]);
    larder__free(t->marks);
    larder__free(t->changed);
    *t = (larder__sum_tree){0};
}

static double sum4(const float *v) { return ((double)v[0] + v[1]) + ((double)v[2] + v[3]); }

static double sum_line(const float *v) {
    return (sum4(v) + sum4(v + 4)) + (sum4(v + 8) + sum4(v + 12));
}

/* A sum past the largest float stays finite, so that a share of it is still a number. */
static float as_float(double sum) { return sum > 3.4028234e38 ? 3.4028234e38f : (float)sum; }

static void settle(larder__sum_tree *);

int larder__sum_tree_build(larder__sum_tree *t, const float *weights) {
    larder__weights_sum sum;
    int rc = larder__weights_check(weights, t->n, &sum);
    if (rc < 0)
        return rc;
    settle(t);
    memcpy(t->level[0], weights, t->n * sizeof *weights);
    uint64_t count = lines(t->n);
    for (int k = 1; k < t->levels; k++) {
        for (uint64_t i = 0; i < count; i++)
            t->level[k][i] = as_float(sum_line(t->level[k - 1] + i * WIDE));
        count = lines(count);
    }
    return 0;
}

/* ---- changes: the weight at once, the sums above it before the next draw --------------------- */

static void mark(larder__sum_tree *t, int k, uint64_t line) {
    uint64_t *word = &t->marks[t->marks_from[k] + line / 64], bit = (uint64_t)1 << line % 64;
    if (*word & bit)
        return;
    *word |= bit;
    t->changed[t->count++] = (uint32_t)line;
}

/* Lines that changed, one level after the other. The list of a level is written over that of the
 * one below as it is read: it is never longer. */
static void settle(larder__sum_tree *t) {
    enum { AHEAD = 8 };
    for (int k = 0; k + 1 < t->levels; k++) {
        uint32_t n = t->count;
        t->count = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (i + AHEAD < n)
                __builtin_prefetch(t->level[k] + (uint64_t)t->changed[i + AHEAD] * WIDE);
            uint64_t line = t->changed[i];
            t->marks[t->marks_from[k] + line / 64] &= ~((uint64_t)1 << line % 64);
            t->level[k + 1][line] = as_float(sum_line(t->level[k] + line * WIDE));
            if (k + 2 < t->levels)
                mark(t, k + 1, line / WIDE);
        }
    }
    t->count = 0;
}

static void change(larder__sum_tree *t, uint64_t id, float weight) {
    assert(id < t->n);
    t->level[0][id] = weight;
    if (t->levels > 1)
        mark(t, 0, id / WIDE);
    if (t->count == LARDER__TREE_CHANGED)
        settle(t);
}

static int check(uint32_t id, float weight) {
    if (weight >= 0 && weight <= 3.4028235e38f)
        return 0;
    return larder__fail(LARDER_E_RANGE, "the weight of sample %u is %g", id, (double)weight);
}

int larder__sum_tree_set(larder__sum_tree *t, uint64_t id, float weight) {
    int rc = check((uint32_t)id, weight);
    if (rc == 0)
        change(t, id, weight);
    return rc;
}

int larder__sum_tree_set_many(larder__sum_tree *t, const uint32_t *ids, const float *weights,
                              size_t n) {
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check(ids[i], weights[i]);
    for (size_t i = 0; i < n && rc == 0; i++)
        change(t, ids[i], weights[i]);
    return rc;
}

/* ---- draws ----------------------------------------------------------------------------------- */

double larder__sum_tree_total(larder__sum_tree *t) {
    if (t->count)
        settle(t);
    return sum_line(t->level[t->levels - 1]);
}

/* Which of sixteen `at` falls on, first by fours: short chains of additions and no branches but the
 * last. What is left of `at` goes on. Sums were rounded: past the end means the last that is not
 * zero. */
static uint32_t choose(const float *v, double *at) {
    double four[4], x = *at;
    for (int i = 0; i < 4; i++)
        four[i] = sum4(v + 4 * i);
    double two = four[0] + four[1], three = two + four[2];
    uint32_t quad = (uint32_t)(x >= four[0]) + (uint32_t)(x >= two) + (uint32_t)(x >= three);
    const double before[4] = {0, four[0], two, three};
    x -= before[quad];
    const float *q = v + 4 * quad;
    double a = q[0], b = a + q[1], c = b + q[2];
    uint32_t one = (uint32_t)(x >= a) + (uint32_t)(x >= b) + (uint32_t)(x >= c);
    const double within[4] = {0, a, b, c};
    *at = x - within[one];
    uint32_t found = 4 * quad + one;
    if (v[found] > 0)
        return found;
    found = WIDE - 1;
    while (found && !(v[found] > 0))
        found--;
    return found;
}

uint32_t larder__sum_tree_draw(larder__sum_tree *t, larder_rng *rng) {
    double total = larder__sum_tree_total(t), at = larder_rng_unit(rng) * total;
    if (!(total > 0))
        return UINT32_MAX;
    uint64_t place = 0;
    for (int k = t->levels - 1; k >= 0; k--) {
        place = place * WIDE + choose(t->level[k] + place * WIDE, &at);
        if (k)
            __builtin_prefetch(t->level[k - 1] + place * WIDE);
    }
    assert(place < t->n && t->level[0][place] > 0);
    return (uint32_t)place;
}
