/* What ranks that decide together tell each other, as it travels: before each batch a turn (what
 * they measured, whether they decided the same so far), and what training said about their rows.
 * Everything that comes in is checked. */
#ifndef LARDER_LOADER_DRAW_RANK_TALK_H
#define LARDER_LOADER_DRAW_RANK_TALK_H

#include "base/state.h"
#include "loader/feedback/feedback.h"

typedef struct larder__rank_turn {
    uint64_t digest; /* of all that was decided so far */
    uint32_t said;   /* larder__said about the batch whose feedback is due */
    double accuracy; /* with it; NAN: none */
    larder_pace pace;
} larder__rank_turn;

void larder__rank_turn_write(const larder__rank_turn *, larder_writer *);
int larder__rank_turn_read(larder__rank_turn *out, const void *bytes, size_t size);
/* What one process would have measured: the mean of what is known. */
larder_pace larder__rank_turns_pace(const larder__rank_turn *, size_t n);
/* The same of all, or their mean; NAN: nobody gave one. */
double larder__rank_turns_accuracy(const larder__rank_turn *, size_t n);

/* A rank's part of a report, as larder__feedback_own wrote it. */
int larder__rank_rows_read(larder_report *out, void **memory, uint64_t samples, const void *bytes,
                           size_t size);
/* The parts of n ranks as one report about a batch of `most` rows, in its order: they were dealt
 * out one by one, rank `first` began (ranks.h), and what lies beyond was taken once more. A field
 * counts where every part that has rows has it. */
int larder__rank_rows_join(larder_report *out, void **memory, const larder_report *parts, size_t n,
                           size_t first, size_t most);

/* Losses that a rank's evaluator gave. */
void larder__rank_losses_write(larder_writer *, const uint64_t *ids, const float *loss, size_t n);
int larder__rank_losses_read(uint64_t **ids, float **loss, size_t *n, uint64_t samples,
                             const void *bytes, size_t size);

#endif
