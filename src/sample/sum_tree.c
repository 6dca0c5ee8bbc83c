#include "sample/sum_tree.h"

#include "base/mem.h"
#include "sample/weights.h"

enum { WIDE = 16 };

static uint64_t lines(uint64_t values) { return (values + WIDE - 1) / WIDE; }

int larder__sum_tree_open(larder__sum_tree *t, uint64_t n) {
    *t = (larder__sum_tree){.n = n};
    uint64_t counts[LARDER__TREE_LEVELS], all = 0, values = n + !n;
    do {
        counts[t->levels] = lines(values);
        all += counts[t->levels];
        values = counts[t->levels++];
    } while (values > 1);
    float *memory = larder__memalign(64, all * WIDE * sizeof *memory);
    if (!memory)
        return LARDER_E_NOMEM;
    memset(memory, 0, all * WIDE * sizeof *memory);
    for (int k = 0; k < t->levels; k++) {
        t->level[k] = memory;
        memory += counts[k] * WIDE;
    }
    return 0;
}

void larder__sum_tree_close(larder__sum_tree *t) {
    larder__free(t->level[0]);
    *t = (larder__sum_tree){0};
}

static double sum4(const float *v) { return ((double)v[0] + v[1]) + ((double)v[2] + v[3]); }

static double sum_line(const float *v) {
    return (sum4(v) + sum4(v + 4)) + (sum4(v + 8) + sum4(v + 12));
}

/* A sum past the largest float stays finite, so that a share of it is still a number. */
static float as_float(double sum) { return sum > 3.4028234e38 ? 3.4028234e38f : (float)sum; }

int larder__sum_tree_build(larder__sum_tree *t, const float *weights) {
    larder__weights_sum sum;
    int rc = larder__weights_check(weights, t->n, &sum);
    if (rc < 0)
        return rc;
    memcpy(t->level[0], weights, t->n * sizeof *weights);
    uint64_t count = lines(t->n);
    for (int k = 1; k < t->levels; k++) {
        for (uint64_t i = 0; i < count; i++)
            t->level[k][i] = as_float(sum_line(t->level[k - 1] + i * WIDE));
        count = lines(count);
    }
    return 0;
}

int larder__sum_tree_set(larder__sum_tree *t, uint64_t id, float weight) {
    return larder__sum_tree_set_many(t, &(uint32_t){(uint32_t)id}, &weight, 1);
}

typedef struct others { /* of one line, in the order in which sum_line adds them up */
    double one, two, four, eight;
} others;

static others others_of(const float *v, uint32_t i) {
    const float *two = v + ((i ^ 2) & ~1u), *four = v + ((i ^ 4) & ~3u), *eight = v + ((i ^ 8) & 8);
    return (others){v[i ^ 1], (double)two[0] + two[1], sum4(four), sum4(eight) + sum4(eight + 4)};
}

/* The sums of the lines on the way up, to the bit what sum_line gives, but in two steps: what the
 * other fifteen of each line add up to is known without waiting for the line below, so all lines
 * are on their way from memory at once; the changed value then passes through four additions a
 * line. */
static void change(larder__sum_tree *t, uint64_t id, float weight) {
    others rest[LARDER__TREE_LEVELS];
    uint64_t at = id;
    for (int k = 0; k + 1 < t->levels; k++, at /= WIDE)
        rest[k] = others_of(t->level[k] + at / WIDE * WIDE, at % WIDE);
    for (int k = 0; k + 1 < t->levels; k++, id /= WIDE) {
        t->level[k][id] = weight;
        weight = as_float((((weight + rest[k].one) + rest[k].two) + rest[k].four) + rest[k].eight);
    }
    t->level[t->levels - 1][id] = weight;
}

/* The lowest lines are far away: they are asked for while others are changed. */
int larder__sum_tree_set_many(larder__sum_tree *t, const uint32_t *ids, const float *weights,
                              size_t n) {
    enum { AHEAD = 8 };
    for (size_t i = 0; i < n; i++)
        if (!(weights[i] >= 0 && weights[i] <= 3.4028235e38f))
            return larder__fail(LARDER_E_RANGE, "the weight of sample %u is %g", ids[i],
                                (double)weights[i]);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            __builtin_prefetch(&t->level[0][ids[i + AHEAD]], 1);
            if (t->levels > 1)
                __builtin_prefetch(&t->level[1][ids[i + AHEAD] / WIDE], 1);
        }
        change(t, ids[i], weights[i]);
    }
    return 0;
}

double larder__sum_tree_total(const larder__sum_tree *t) {
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

uint32_t larder__sum_tree_draw(const larder__sum_tree *t, larder_rng *rng) {
    double total = larder__sum_tree_total(t), at = larder_rng_unit(rng) * total;
    if (!(total > 0))
        return UINT32_MAX;
    uint64_t place = 0;
    for (int k = t->levels - 1; k >= 0; k--) {
        place = place * WIDE + choose(t->level[k] + place * WIDE, &at);
        if (k)
            __builtin_prefetch(t->level[k - 1] + place * WIDE);
    }
    return (uint32_t)place;
}
