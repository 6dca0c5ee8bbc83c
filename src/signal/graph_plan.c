#include "signal/graph_plan.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>

/* With more classes than this, finding the nearest ones would cost more than it saves. */
enum { CLASSES_COMPARED = 4096 };

void larder__graph_plan_free(larder__graph_plan *p) {
    larder__free(p->finer);
    larder__free(p->centres);
    larder__free(p->distances);
    *p = (larder__graph_plan){0};
}

/* The smallest level at which a class of so many rows costs no more than this. */
static uint32_t level_for(uint64_t rows, uint64_t most) {
    uint32_t level = 0;
    while (level < LARDER__LEVELS - 1 && rows >> level > most)
        level++;
    return level;
}

/* The rest is never less than an eighth. */
static uint64_t own_share(uint64_t budget) { return budget - budget / 8; }

static int make_room(larder__graph_plan *p, const larder__graph_store *s, size_t n) {
    size_t want = n * (LARDER__NEAR_CLASSES + 1);
    if (want > p->room) {
        larder__graph_finer *grown = larder__realloc(p->finer, want * sizeof *grown);
        if (!grown)
            return larder__fail(LARDER_E_NOMEM, "graph: no memory for %zu queries", n);
        p->finer = grown;
        p->room = want;
    }
    uint32_t dims = s->dims;
    if (s->class_count <= p->classes || s->class_count > CLASSES_COMPARED)
        return 0;
    larder__free(p->centres);
    larder__free(p->distances);
    p->classes = 0;
    p->centres = larder__malloc((size_t)s->class_count * dims * sizeof *p->centres);
    p->distances = larder__malloc(s->class_count * sizeof *p->distances);
    if (!p->centres || !p->distances)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u centres", s->class_count);
    p->classes = s->class_count;
    p->dims = dims;
    return 0;
}

static void find_centres(larder__graph_plan *p, const larder__graph_store *s) {
    for (uint32_t c = 0; c < s->class_count; c++) {
        const uint32_t *sum = s->sums + (size_t)c * p->dims;
        float share = s->classes[c].rows ? 1 / (float)s->classes[c].rows : 0;
        for (uint32_t k = 0; k < p->dims; k++)
            p->centres[(size_t)k * s->class_count + c] = (float)sum[k] * share;
    }
}

LARDER__CLONES
static void add_squares(float *to, const float *centres, float at, uint32_t n) {
    for (uint32_t c = 0; c < n; c++)
        to[c] += (centres[c] - at) * (centres[c] - at);
}

/* The nearest classes but its own, nearest first. */
static size_t find_near(larder__graph_plan *p, const larder__graph_store *s, const uint8_t *codes,
                        uint32_t own, uint32_t *near) {
    memset(p->distances, 0, s->class_count * sizeof *p->distances);
    for (uint32_t k = 0; k < p->dims; k++)
        add_squares(p->distances, p->centres + (size_t)k * s->class_count, codes[k],
                    s->class_count);
    size_t count = 0;
    for (uint32_t c = 0; c < s->class_count; c++) {
        if (c == own || s->classes[c].rows == 0)
            continue;
        size_t at = count < LARDER__NEAR_CLASSES ? count++ : LARDER__NEAR_CLASSES;
        for (; at && p->distances[near[at - 1]] > p->distances[c]; at--)
            if (at < LARDER__NEAR_CLASSES)
                near[at] = near[at - 1];
        if (at < LARDER__NEAR_CLASSES)
            near[at] = c;
    }
    return count;
}

static void add_finer(larder__graph_plan *p, uint32_t class, size_t query, uint32_t level) {
    p->finer[p->count++] = (larder__graph_finer){class, (uint32_t)query, level};
}

static int by_class(const void *a, const void *b) {
    const larder__graph_finer *x = a, *y = b;
    return x->class != y->class ? (x->class > y->class) - (x->class < y->class)
                                : (x->query > y->query) - (x->query < y->query);
}

/* What is left of the budget goes half to the nearest classes, each taking at most half of what the
 * nearer ones left, and half to all evenly. */
static void plan_query(larder__graph_plan *p, const larder__graph_store *s, uint64_t budget,
                       const uint8_t *codes, uint32_t own, size_t query) {
    uint64_t rows = s->classes[own].rows;
    uint32_t level = level_for(rows, own_share(budget));
    if (level < p->common)
        add_finer(p, own, query, level);
    if (!p->centres || s->class_count > p->classes)
        return;
    uint64_t left = (budget - (rows >> level)) / 2;
    uint32_t near[LARDER__NEAR_CLASSES];
    size_t count = find_near(p, s, codes, own, near);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = s->classes[near[i]].rows;
        level = level_for(size, left / 2);
        if (level < p->common) {
            add_finer(p, near[i], query, level);
            left -= size >> level;
        }
    }
}

int larder__graph_plan_make(larder__graph_plan *p, const larder__graph_store *s, uint32_t budget,
                            const uint8_t *codes, const uint32_t *classes, size_t n) {
    p->count = 0;
    p->common = 0;
    if (budget == 0 || s->rows <= budget)
        return 0;
    int rc = make_room(p, s, n);
    if (rc < 0)
        return rc;
    /* The common level is made for a class of mean size; own classes differ, the sum stays near. */
    uint64_t mean = s->rows / s->class_count, own = own_share(budget);
    own = mean < own ? mean : own;
    p->common = level_for(s->rows, (budget - own) / 2);
    if (s->sums && s->class_count <= p->classes)
        find_centres(p, s);
    for (size_t i = 0; i < n; i++)
        plan_query(p, s, budget, codes + i * s->dims, classes[i], i);
    qsort(p->finer, p->count, sizeof *p->finer, by_class);
    return 0;
}
