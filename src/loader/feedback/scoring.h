/* Scoring beside training: the heavy half of a signal's work on a thread of its own.
 *
 * Reports go in as soon as training has given them, in batch order. The result of batch k takes
 * effect before batch k + lag is drawn if it is ready then, else before the first later batch at
 * which it is; always in order. Nothing waits for it. At most eight reports wait to be scored: from
 * two on a new one loses rows, the more the more are waiting (loader/feedback/thinning.h), with
 * eight it is dropped. Both are counted, and what took effect when is noted in the effects.
 *
 * The other two ways give the same results as each other: `inline_` scores when a report is due
 * (simulation), `wait` scores ahead on the thread, but lets a draw wait for what is due. */
#ifndef LARDER_LOADER_FEEDBACK_SCORING_H
#define LARDER_LOADER_FEEDBACK_SCORING_H

#include "base/stat.h"
#include "loader/feedback/effects.h"
#include "loader/feedback/feedback.h"

typedef struct larder__scoring larder__scoring;

typedef enum { LARDER__SCORE_BESIDE, LARDER__SCORE_WAIT, LARDER__SCORE_INLINE } larder__score_mode;

typedef struct larder__scoring_conf {
    const larder_signal *signal;
    void *state; /* the signal's */
    float *scores;
    uint64_t n; /* samples */
    uint32_t lag;
    larder__score_mode mode;
    larder__stats *stats; /* NULL: none */
} larder__scoring_conf;

typedef struct larder__scored { /* whom to tell when a result takes effect */
    larder_relation_fn relate;
    void (*told)(void *arg, const uint64_t *ids, size_t n); /* their scores have changed */
    void *arg;
} larder__scored;

enum { LARDER__SCORE_QUEUE = 8 };

int larder__scoring_open(larder__scoring **out, const larder__scoring_conf *);
void larder__scoring_close(larder__scoring **);

/* Takes over the reports that are there, in order, up to the first one that is missing and may
 * still come. From any thread. */
int larder__scoring_collect(larder__scoring *, larder__feedback *);
/* By whoever draws, before batch `number`: lets take effect what is due and ready. */
int larder__scoring_apply(larder__scoring *, uint64_t number, const larder__scored *);

/* Both wait for the report being scored, not for those that wait. They include the signal. */
void larder__scoring_save(larder__scoring *, larder_writer *);
int larder__scoring_load(larder__scoring *, larder_reader *);

/* What happened so far, and doing as another run did: then a draw waits. */
void larder__scoring_effects(larder__scoring *, larder_writer *);
int larder__scoring_past(larder__scoring *, larder_reader *);   /* of the run that goes on */
int larder__scoring_follow(larder__scoring *, larder_reader *); /* of the run to repeat */

#endif
