/* A store that the ranks of one distributed job have in common. Each of them decides for all, with
 * the same outcome, so it knows who is resident; the one whose row it was puts the bytes into the
 * depot and deletes them when they leave. The others expect them there.
 *
 * Names follow from the sample and its form alone (an augmented one has its mark besides): whoever
 * puts a value puts the same bytes. What leaves is deleted a number of batches later, since
 * ranks are not all at the same batch. A value that is not there yet was decided in an earlier
 * batch, at which its maker is now: it is waited for, as one process waits for what it reads. What
 * was decided in the same batch is not: two ranks could wait for each other. Where waiting was in
 * vain (a rank stands still, is gone, or so far ahead that it has deleted what it made) nobody is
 * waited for during as many batches as ranks may be apart, after the next time twice as many, and
 * so on. What does not come is read from storage by whoever asks, and counted (ranks_late). */
#ifndef LARDER_SHARED_RANK_STORE_H
#define LARDER_SHARED_RANK_STORE_H

#include "base/stat.h"
#include "cache/store.h"
#include "shared/depot.h"

extern const larder__store larder__store_job;

typedef struct larder__job_store_conf {
    larder__depot depot; /* becomes the store's, also where it cannot be opened */
    uint64_t keys, slots;
    uint32_t turns; /* batches that ranks may be apart */
    larder__stats *stats;
} larder__job_store_conf;

int larder__job_store_open(void **out, const larder__job_store_conf *);

#endif
