#include "signal/graph_plan.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "signal/graph_project.h"

#include <stdlib.h>

void larder__graph_plan_free(larder__graph_plan *p) {
    larder__free(p->pairs);
    larder__free(p->distances);
    *p = (larder__graph_plan){0};
}

uint32_t larder__graph_plan_level_for(uint64_t rows, uint64_t most) {
    uint32_t level = 0;
    while (level < LARDER__LEVELS - 1 && rows >> level > most)
        level++;
    return level;
}

static int make_room(larder__graph_plan *p, const larder__graph_centres *c, size_t n) {
    size_t want = n * (LARDER__NEAR_CLASSES + 1);
    size_t distances = LARDER__PROJECT_ROWS * larder__graph_centres_stride(c);
    if (larder__room(&p->pairs, &p->room, want, sizeof *p->pairs) < 0)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %zu queries", n);
    if (larder__room(&p->distances, &p->distances_room, distances, sizeof *p->distances) < 0)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u centres", c->count);
    return 0;
}

/* The nearest classes but its own, nearest first. */
static size_t find_near(const float *distances, const larder__graph_wish *w, uint32_t own,
                        uint32_t *near) {
    size_t count = 0;
    for (uint32_t c = 0; c < w->class_count; c++) {
        if (c == own || w->sizes[c] == 0 ||
            (count == LARDER__NEAR_CLASSES && distances[near[count - 1]] <= distances[c]))
            continue;
        size_t at = count < LARDER__NEAR_CLASSES ? count++ : LARDER__NEAR_CLASSES - 1;
        for (; at && distances[near[at - 1]] > distances[c]; at--)
            near[at] = near[at - 1];
        near[at] = c;
    }
    return count;
}

/* Some classes at random, where there are too many to compare; the same for all queries. */
static size_t pick_classes(const larder__graph_wish *w, uint32_t own, uint32_t *near,
                           float *weight) {
    size_t count = 0;
    uint64_t looked = 0, all = 0;
    for (uint32_t c = 0; c < w->class_count; c++)
        all += c == own ? 0 : w->sizes[c];
    for (uint64_t at = 0;
         w->class_count && count < LARDER__NEAR_CLASSES && at < 4 * LARDER__NEAR_CLASSES; at++) {
        uint32_t c = (uint32_t)(larder__mix64(w->turn * 1024 + at) % w->class_count);
        bool fresh = c != own && w->sizes[c];
        for (size_t i = 0; fresh && i < count; i++)
            fresh = near[i] != c;
        if (fresh) {
            near[count++] = c;
            looked += w->sizes[c];
        }
    }
    *weight = looked ? (float)((double)all / (double)looked) : 1;
    return count;
}

static void add_pair(larder__graph_plan *p, uint32_t class, size_t query, uint32_t level,
                     float weight) {
    p->pairs[p->count++] = (larder__graph_pair){class, (uint32_t)query, level, weight};
}

static int by_class(const void *a, const void *b) {
    const larder__graph_pair *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return (x->query > y->query) - (x->query < y->query);
}

/* Its own class may have seven eighths of the budget; of what is left each takes at most a third of
 * what nearer ones left, or all evenly when they are fewer. */
static void plan_query(larder__graph_plan *p, const larder__graph_wish *w, size_t query,
                       const float *distances) {
    uint32_t own = w->classes[query], near[LARDER__NEAR_CLASSES];
    uint32_t level = larder__graph_plan_level_for(w->sizes[own], w->budget - w->budget / 8);
    uint64_t left = w->budget - (w->sizes[own] >> level);
    float weight = 1;
    add_pair(p, own, query, level, 1);
    size_t count =
        distances ? find_near(distances, w, own, near) : pick_classes(w, own, near, &weight);
    for (size_t i = 0; i < count; i++) {
        level =
            larder__graph_plan_level_for(w->sizes[near[i]], left / (count - i < 3 ? count - i : 3));
        add_pair(p, near[i], query, level, weight);
        left -= w->sizes[near[i]] >> level;
    }
}

int larder__graph_plan_make(larder__graph_plan *p, const larder__graph_centres *c,
                            const larder__graph_wish *w) {
    p->count = 0;
    int rc = make_room(p, c, w->n);
    if (rc < 0)
        return rc;
    size_t stride = larder__graph_centres_stride(c);
    bool compare = w->class_count <= c->count;
    for (size_t i = 0; i < w->n; i += LARDER__PROJECT_ROWS) {
        const float *rows[LARDER__PROJECT_ROWS];
        for (size_t r = 0; r < LARDER__PROJECT_ROWS; r++)
            rows[r] = w->x + (i + r < w->n ? i + r : i) * c->dim;
        if (compare)
            larder__graph_centres_compare(c, rows, p->distances);
        for (size_t r = 0; r < LARDER__PROJECT_ROWS && i + r < w->n; r++)
            plan_query(p, w, i + r, compare ? p->distances + r * stride : NULL);
    }
    qsort(p->pairs, p->count, sizeof *p->pairs, by_class);
    return 0;
}
