/* Which samples an epoch trains on when the harder ones matter more, and how much each matters.
 *
 * A sample is kept with probability pct^beta, where pct in (0, 1] is the place of its loss among
 * all known losses, so 1/(1 + beta) of them are kept on average and the largest always is. Equal
 * losses are put in random order first. A sample without a loss is kept. Of those kept, the share
 * `h_share` with the largest losses (no loss: the largest) is tagged HIGH and the rest LOW; what is
 * left out is tagged LEFT. Samples without a loss are HIGH even past that share: they have to be
 * seen once before anything may stand in for them.
 *
 * Several ranks: losses are known only where the sample was served, so each rank has a pool of its
 * own, drawn once from the seed, and chooses within it. Ranks must have equally many batches: they
 * keep as many as 1/(1 + beta) of all samples come to, the count made up at the edges: with too
 * many the least important leave, with too few the most important of the left out come back.
 *
 * weight = 1/p to the power of `correct`, p the chance to be kept (1 in epochs on all, and without
 * a loss), scaled to a mean of one over the epoch. How ranks make up their count is not in p. */
#ifndef LARDER_SAMPLE_CHOOSE_H
#define LARDER_SAMPLE_CHOOSE_H

#include <larder/plugin.h>

typedef struct larder__choose {
    const larder_draw_env *env;
    double beta, h_share, correct;
    uint32_t *pool; /* this rank's samples; NULL: all */
    uint64_t pool_size;
    uint32_t *order; /* the epoch's, `count` long */
    uint64_t count, at;
    uint8_t *tags;            /* of each id of the data set; 0: not of this rank */
    uint64_t *sorted, *spare; /* score above place in the shuffled pool */
    float *weights;           /* of `order`; NULL: all are 1 */
} larder__choose;

/* The parameters that larder__choose_open reads. */
#define LARDER__CHOOSE_PARAMS                                                                      \
    {"beta", "float", "0.33", "kept with probability percentile^beta; keeps 1/(1+beta)", 0, 100},  \
        {"full_every", "int", "3", "every so many epochs train on all; 0: only the first does", 0, \
         1e9},                                                                                     \
        {"h_share", "float", "0.7", "share of the kept that counts as important", 0, 1}, {         \
        "correct", "float", "0", "exponent of the weights 1/p of those kept; 0: all are 1", 0, 1   \
    }

/* Zeroed before; close also of a half-open one. */
int larder__choose_open(larder__choose *, const larder_draw_env *, const larder_args *);
void larder__choose_close(larder__choose *);

/* Begins an epoch from the scores as they are; `all`: nothing is left out. */
void larder__choose_epoch(larder__choose *, uint64_t epoch, bool all);
/* As in larder_sampler, whose state begins with a larder__choose. */
size_t larder__choose_draw(void *, larder_pick *out, size_t want);
uint64_t larder__choose_length(const void *);
const uint8_t *larder__choose_tags(const void *);
void larder__choose_save(const void *, larder_writer *);
int larder__choose_load(void *, larder_reader *);

/* A score as a number that sorts like it; unknown ones above all. */
static inline uint32_t larder__choose_key(float score) {
    uint32_t bits;
    if (score != score)
        return UINT32_MAX;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Sorts n numbers by their upper half, equal ones stay in order. Returns where the result lies: a
 * or spare. */
uint64_t *larder__choose_sort(uint64_t *a, uint64_t *spare, uint64_t n);

#endif
