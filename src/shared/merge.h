/* Scores of several jobs made one. Losses of different models cannot be compared, ranks can: a
 * score's rank is the share of its job's last thousand scores that lie below it, and a sample
 * counts as much as in the job to which it matters most. A job that is alone is heard as it speaks.
 */
#ifndef LARDER_SHARED_MERGE_H
#define LARDER_SHARED_MERGE_H

#include <larder/plugin.h>

typedef struct larder__merge larder__merge;

int larder__merge_open(larder__merge **out, uint64_t keys, uint32_t jobs);
void larder__merge_close(larder__merge **);
/* *merged: what the policy is to hear about this key. `live`: jobs that share now. */
int larder__merge_add(larder__merge *, uint32_t job, uint32_t live, uint32_t key, float score,
                      float *merged);
void larder__merge_leave(larder__merge *, uint32_t job);
void larder__merge_save(const larder__merge *, larder_writer *);
int larder__merge_load(larder__merge *, larder_reader *); /* into one just opened */

#endif
