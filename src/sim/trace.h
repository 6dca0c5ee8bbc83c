/* A recorded training: what a real network said about every sample, epoch by epoch. A folder with
 * labels.npy (n, u8), train_loss.npy (epochs x n, f16 or f32) and perhaps eval_loss.npy (the same),
 * correct_bits.npy (epochs x n bits, u8, the highest bit first: classified rightly after that
 * epoch) and embNNN.npy (n x dim: embeddings after epoch NNN), as NumPy writes them. */
#ifndef LARDER_SIM_TRACE_H
#define LARDER_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__trace larder__trace;

int larder__trace_open(larder__trace **out, const char *folder);
void larder__trace_close(larder__trace **);
uint64_t larder__trace_samples(const larder__trace *);
/* The loss when sample `id` was trained on in `epoch`; the last epoch stands for later ones. */
float larder__trace_loss(const larder__trace *, uint64_t epoch, uint64_t id);
/* Its loss after `epoch` in evaluation mode; NAN where the folder has no eval_loss.npy. */
float larder__trace_eval(const larder__trace *, uint64_t epoch, uint64_t id);
bool larder__trace_evaluates(const larder__trace *);
/* Share of samples classified rightly after `epoch`; NAN without correct_bits.npy. */
double larder__trace_accuracy(const larder__trace *, uint64_t epoch);

/* Reads which snapshots of embeddings there are; E_NOTFOUND: none. Before the two below. */
int larder__trace_find_embeddings(larder__trace *);
size_t larder__trace_dim(const larder__trace *);
/* Rows of these ids from the latest snapshot not after `epoch` (the first one before that). */
int larder__trace_embeddings(larder__trace *, uint64_t epoch, const uint64_t *ids, size_t n,
                             float *out);

int64_t larder__trace_label(const larder__trace *, uint64_t id);

#endif
