/* What a training run leaves behind: a folder with meta.json (one object, what was run) and
 * epochs.jsonl (one object a line and epoch, as `larder train --json` prints them); beside them
 * `decisions`, what was measured, for `larder train --replay` (LARDER_DECISIONS). The reader
 * takes such folders from anywhere: bounded, and every refusal names file and line. */
#ifndef LARDER_REPORT_RECORD_H
#define LARDER_REPORT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What some recipes show of their own: the loader's figures of these names at the end of the epoch.
 */
#define LARDER__SHOWN_FIELDS(XX)                                                                   \
    XX(opt, ratio)                                                                                 \
    XX(opt, ess)                                                                                   \
    XX(opt, sigma)                                                                                 \
    XX(opt, slope)                                                                                 \
    XX(opt, beta)                                                                                  \
    XX(opt, u)                                                                                     \
    XX(opt, hubs)                                                                                  \
    XX(opt, covered)                                                                               \
    XX(opt, withdrawn)                                                                             \
    XX(opt, hub_limited)                                                                           \
    XX(opt, served_again)                                                                          \
    XX(opt, fresh_learned)                                                                         \
    XX(opt, gate_open)                                                                             \
    XX(opt, score_seconds)                                                                         \
    XX(opt, score_late)                                                                            \
    XX(opt, score_rows_lost)                                                                       \
    XX(opt, plan_encoded)                                                                          \
    XX(opt, plan_decoded) XX(opt, plan_augmented) XX(opt, plan_rate) XX(opt, plan_changes)

/* Kind and name of every field of an epoch, in the order they are printed. f64 may be NAN: null;
 * opt may be NAN and word may be "": left out. Batches: seconds training waited for one (wait), and
 * from its first row taken by a thread to its last row there (fill), as mean and standard deviation
 * over the epoch; the percentiles are those of the run so far. training_seconds and wait_storage to
 * wait_assembly: seconds inside training steps, and of waiting by what was waited for
 * (larder__times); forward_ and backward_seconds: of the network alone. plan_bottleneck: what held
 * the feeding up when plan=auto last shared the cache out. h is the mean share of reused samples,
 * of recipes that have one; fresh_ and reused_ are larder_figures' (gap: fresh less reused loss),
 * of recipes that compare them; hits by form where the cache is shared out between forms. */
#define LARDER__EPOCH_FIELDS(XX)                                                                   \
    XX(u64, epoch)                                                                                 \
    XX(f64, accuracy)                                                                              \
    XX(f64, top5)                                                                                  \
    XX(f64, loss)                                                                                  \
    XX(f64, seconds)                                                                               \
    XX(f64, stall_seconds)                                                                         \
    XX(u64, served)                                                                                \
    XX(u64, hits)                                                                                  \
    XX(u64, substitutes)                                                                           \
    XX(u64, repeats)                                                                               \
    XX(u64, misses)                                                                                \
    XX(u64, background_reads)                                                                      \
    XX(f64, touched)                                                                               \
    XX(u64, storage_bytes)                                                                         \
    XX(opt, requests)                                                                              \
    XX(u64, evaluated)                                                                             \
    XX(u64, evaluation_reads)                                                                      \
    XX(f64, evaluation_seconds)                                                                    \
    XX(u64, scratch_reads)                                                                         \
    XX(u64, scratch_bytes)                                                                         \
    XX(u64, scratch_written)                                                                       \
    XX(f64, wait_mean)                                                                             \
    XX(f64, wait_sd)                                                                               \
    XX(f64, wait_p50)                                                                              \
    XX(f64, wait_p90)                                                                              \
    XX(f64, wait_p99)                                                                              \
    XX(f64, fill_mean)                                                                             \
    XX(f64, fill_sd)                                                                               \
    XX(f64, fill_p50)                                                                              \
    XX(f64, fill_p90)                                                                              \
    XX(f64, fill_p99)                                                                              \
    XX(opt, training_seconds)                                                                      \
    XX(opt, forward_seconds)                                                                       \
    XX(opt, backward_seconds)                                                                      \
    XX(opt, wait_storage)                                                                          \
    XX(opt, wait_decode)                                                                           \
    XX(opt, wait_augment)                                                                          \
    XX(opt, wait_cache)                                                                            \
    XX(opt, wait_assembly)                                                                         \
    XX(opt, h)                                                                                     \
    XX(opt, fresh_reported)                                                                        \
    XX(opt, reused_reported)                                                                       \
    XX(opt, fresh_loss)                                                                            \
    XX(opt, reused_loss)                                                                           \
    XX(opt, gap)                                                                                   \
    XX(opt, hits_encoded)                                                                          \
    XX(opt, hits_decoded)                                                                          \
    XX(opt, hits_augmented)                                                                        \
    XX(opt, hits_shrunk)                                                                           \
    XX(opt, hits_front)                                                                            \
    XX(word, plan_bottleneck)                                                                      \
    LARDER__SHOWN_FIELDS(XX)

typedef uint64_t larder__field_u64;
typedef double larder__field_f64, larder__field_opt;
typedef char larder__field_text[256], larder__field_word[32];

typedef struct larder__epoch {
#define XX(kind, name) larder__field_##kind name;
    LARDER__EPOCH_FIELDS(XX)
#undef XX
} larder__epoch;

#define LARDER__META_FIELDS(XX)                                                                    \
    XX(text, name)                                                                                 \
    XX(text, status)                                                                               \
    XX(text, source)                                                                               \
    XX(text, recipe)                                                                               \
    XX(text, cache)                                                                                \
    XX(text, slow)                                                                                 \
    XX(text, net)                                                                                  \
    XX(text, augment)                                                                              \
    XX(u64, samples)                                                                               \
    XX(u64, batch)                                                                                 \
    XX(u64, epochs_asked)                                                                          \
    XX(u64, seed)                                                                                  \
    XX(f64, rate)                                                                                  \
    XX(text, version) XX(u64, threads) XX(text, features) XX(text, machine) XX(text, verdict)

/* status: "running", "done", "interrupted", "failed"; verdict: what held the run up, in words. */
typedef struct larder__meta {
#define XX(kind, name) larder__field_##kind name;
    LARDER__META_FIELDS(XX)
#undef XX
} larder__meta;

typedef struct larder__run {
    larder__meta meta;
    larder__epoch *epochs;
    size_t count;
    uint64_t device, inode; /* of where it was read from; 0: of no file */
} larder__run;

/* Nothing known: NAN for accuracies, loss and optional fields, else zeros. */
larder__epoch larder__epoch_blank(void);

/* One line of JSON each. */
void larder__epoch_print(FILE *, const larder__epoch *);
void larder__meta_print(FILE *, const larder__meta *);

/* Reads one line; fields it does not name become 0, NAN or "". `where` is for the sentence. */
int larder__epoch_parse(larder__epoch *out, const char *line, const char *where);
int larder__meta_parse(larder__meta *out, const char *line, const char *where);

/* Is this folder a run, as far as can be seen? */
bool larder__run_there(const char *folder);
/* A folder, or the record of a job (tape/tape.h). */
int larder__run_read(larder__run *out, const char *path);
/* Is one of them there twice? E_ARGS: a spread over seeds would be made of copies. */
int larder__runs_check(const larder__run *, size_t count);
void larder__run_free(larder__run *);
/* Writes folder/meta.json whole or not at all. */
int larder__meta_write(const char *folder, const larder__meta *);

/* Epoch e of several runs: the mean of every field, numbers of samples and bytes rounded. */
larder__epoch larder__epoch_mean(const larder__run *const *runs, size_t count, size_t e);
/* Sums over the epochs; accuracy, top5 and losses of the last epoch that has one, touched as the
 * mean, `epoch` their number. */
larder__epoch larder__run_total(const larder__run *);
/* Did it end by itself, after all epochs that were asked for? */
bool larder__run_whole(const larder__run *);
/* The best accuracy of all epochs, NAN without one. */
double larder__run_best(const larder__run *);

#endif
