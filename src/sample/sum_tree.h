/* Draws by weights that change between draws. Sixteen weights lie in one line of the processor's
 * cache, sixteen sums of lines in the line above, and so on: a draw walks down, a change re-sums
 * one line a level on the way up (nothing drifts), both O(log16 n). Sums are brought up to date
 * together, before the next draw or every thousand changes: memory is far, and lines near the top
 * are shared. Weights are finite and not
 * negative; whoever has weight zero is never drawn. */
#ifndef LARDER_SAMPLE_SUM_TREE_H
#define LARDER_SAMPLE_SUM_TREE_H

#include <larder/plugin.h>

enum { LARDER__TREE_LEVELS = 8, LARDER__TREE_CHANGED = 1024 }; /* 16^8 = 2^32 */

typedef struct larder__sum_tree {
    uint64_t n;
    int levels;                        /* level 0: the weights; the last one is a single line */
    float *level[LARDER__TREE_LEVELS]; /* whole lines, the rest zeros; one block of memory */
    uint32_t *changed, count;          /* lines of level 0 whose sums are not up to date */
    uint64_t *marks;                   /* a bit for each line of each level: is it among them? */
    uint64_t marks_from[LARDER__TREE_LEVELS];
} larder__sum_tree;

int larder__sum_tree_open(larder__sum_tree *, uint64_t n); /* all weights zero; n < 2^32 */
void larder__sum_tree_close(larder__sum_tree *);
int larder__sum_tree_build(larder__sum_tree *, const float *weights);
/* E_RANGE, and nothing changes, for a weight that is no weight. */
int larder__sum_tree_set(larder__sum_tree *, uint64_t id, float weight);
/* All or nothing. */
int larder__sum_tree_set_many(larder__sum_tree *, const uint32_t *ids, const float *weights,
                              size_t n);
static inline float larder__sum_tree_weight(const larder__sum_tree *t, uint64_t id) {
    return t->level[0][id];
}
double larder__sum_tree_total(larder__sum_tree *);
/* UINT32_MAX when all weights are zero. */
uint32_t larder__sum_tree_draw(larder__sum_tree *, larder_rng *);

#endif
