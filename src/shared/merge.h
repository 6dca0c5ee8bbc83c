/* Scores of several jobs on one scale. Losses of different models cannot be compared, ranks can: a
 * score's rank is the share of its job's last thousand scores that lie below it. A sample is worth
 * the mean of its ranks, each job's weighed by how much of late it asks for: what is kept is what
 * is asked for most, by all of them together.
 *
 * A job that is alone is heard as it speaks, so the scale changes when a second one joins and when
 * the last but one leaves. All that was told before is then of the other scale: whoever told it
 * tells all of it again. What nobody who is there has spoken of keeps its rank, or becomes the
 * score that has this rank for the one who is left. */
#ifndef LARDER_SHARED_MERGE_H
#define LARDER_SHARED_MERGE_H

#include <larder/plugin.h>

typedef struct larder__merge larder__merge;

int larder__merge_open(larder__merge **out, uint64_t keys, uint32_t jobs);
void larder__merge_close(larder__merge **);

/* A job asks for so many samples. */
void larder__merge_asked(larder__merge *, uint32_t job, size_t rows);
/* What a job says of a sample. E_NOMEM: nothing has changed. */
int larder__merge_add(larder__merge *, uint32_t job, uint32_t key, float score);
/* With so many jobs there, of which `job` said or did the last: is the scale another one now? Then
 * all keys are to be told again. */
bool larder__merge_rescales(larder__merge *, uint32_t live, uint32_t job);
void larder__merge_leave(larder__merge *, uint32_t job);

/* What the policy is to hear about this key, NAN: nobody has spoken of it. */
float larder__merge_value(const larder__merge *, uint32_t key);
/* The same for a score that a job has of a sample it asks for. */
float larder__merge_view(const larder__merge *, uint32_t job, uint32_t key, float score);

void larder__merge_save(const larder__merge *, larder_writer *);
int larder__merge_load(larder__merge *, larder_reader *); /* into one just opened */

#endif
