/* Which sample each of several jobs is served when they share one cache, who leaves and who is
 * brought in: opportunistic sampling after Seneca (ALGORITHMS: seen bits per job, one byte a
 * sample).
 *
 * Every job passes through all samples once an epoch, at its own pace, in batches of its own size.
 * A sample is `seen` by a job once it was served to it in the job's current epoch. An augmented
 * entry is `used` by a job once it was served to it, and stays so until it is replaced: epochs do
 * not matter. An entry is done with when all live jobs have seen it (augmented: used it).
 *
 * - A job is served what it wants where that is resident and new to it. Instead of what is missing
 *   it gets residents that are new to it: first those that another job has had already, then the
 *   others. When there are none it gets what it wanted, a miss. Of the first it gets the one that
 *   most jobs have had among two draws a job: where jobs are not in step there is always one for
 *   whom all residents are new, and if it took any of them, none would be done with for long, and
 *   the others would have nothing new. So it finishes what the others have finished.
 * - A missing entry may push out one that is done with, provided that somebody is left to whom the
 *   newcomer is new. An augmented entry leaves as soon as it is done with.
 * - Refills are paced: over an epoch all samples but the N_r residents have to be read once for all
 *   J jobs, so every sample served earns (N - N_r) / (N J) of a read. For that, samples are brought
 *   in: at random among those that the fewest jobs have seen, unless half of the jobs or more have;
 *   then none. So storage is asked evenly over the epoch.
 *
 * Deciding alone: no bytes, no locks, no time; chance comes in or from a generator that is saved.
 * It works on the table of whoever owns the entries, as a policy (policy/ods.c) or beside it. */
#ifndef LARDER_CACHE_ODS_CORE_H
#define LARDER_CACHE_ODS_CORE_H

#include "base/pickset.h"

/* The count in a sample's byte has six bits, one value is spare. */
enum { LARDER__ODS_JOBS = 62 };

typedef struct larder__ods_job {
    bool joined, live;       /* live: counted in, see larder__ods_rest */
    uint64_t *seen;          /* one bit a sample */
    uint64_t *used;          /* one bit a slot; of augmented entries */
    larder__pickset touched; /* slots: new to this job, but not to every other */
    uint64_t served;         /* in this epoch */
} larder__ods_job;

typedef struct larder__ods {
    const larder_slots *slots;
    uint8_t *byte;   /* of each sample: whether it is resident, above the number of live jobs that
                        have seen it */
    uint32_t lately; /* newest job number + 1 */
    uint32_t live;   /* J */
    uint32_t stays;  /* N_r: residents that serve again in every epoch, so not augmented ones */
    int64_t credit;  /* reads earned, in units of 1 / (N J) */
    larder_rng rng;
    larder__pickset fresh; /* slots: new to all live jobs */
    larder__pickset done;  /* slots: done with, and not promised to a batch */
    larder__pickset *few;  /* few[k]: samples not resident, seen by k jobs, 2k < J */
    uint32_t few_count, few_cap;
    larder__pickset promised; /* slots chosen for a batch that has not asked for them yet */
    uint32_t *near; /* while a batch is chosen: its job's `touched`, listed, if it is worth it */
    uint32_t near_count;
    uint32_t *offered; /* samples last named by larder__ods_refill */
    size_t offered_count;
    larder__ods_job jobs[LARDER__ODS_JOBS];
} larder__ods;

enum {
    LARDER__ODS_OFFERS = 1024, /* refills at once, at most */
    LARDER__ODS_NEAR = 4096,   /* slots that are listed at most */
    LARDER__ODS_LOOKS = 2,     /* draws a live job, of which the nearest to done is served */
};

/* `byte` is zeroed memory of one byte a sample; both stay valid. No job is there yet. Seed `rng` to
 * your taste before the first refill. */
int larder__ods_open(larder__ods *, const larder_slots *, uint8_t *byte);
void larder__ods_close(larder__ods *);

/* A job begins its first epoch: its number. E_FULL when there are too many. O(N). */
int larder__ods_join(larder__ods *, uint32_t *job);
/* It is gone, with its bits. Entries that only it was still to have are done with. O(N). */
void larder__ods_leave(larder__ods *, uint32_t job);
/* A job that does not ask any more (or does again) counts neither as one who has seen nor as one
 * who is still to see; its bits stay. So one that is stuck holds nothing back. O(N). */
void larder__ods_rest(larder__ods *, uint32_t job, bool rests);
/* The job's next epoch: nothing is seen. `left_out` (NULL: none): a tag a sample, those tagged
 * LARDER_TAG_LEFT are not for this job and count as seen. O(N). */
void larder__ods_epoch(larder__ods *, uint32_t job, const uint8_t *left_out);
/* As larder__ods_epoch, in the middle of one: these samples were served already, one bit each, or
 * are not for this job. Bits behind the last sample are ignored. O(N). */
void larder__ods_resume(larder__ods *, uint32_t job, const uint64_t *seen);
/* This job may have had any augmented entry that is there now: it gets none of them. */
void larder__ods_had_all(larder__ods *, uint32_t job);

/* What a job is served of what it wants, as larder_policy_shares.exchange. The slots of residents
 * are promised until larder__ods_hit, or the next batch. E_ARGS with a sentence and nothing
 * changed: a sample that does not exist, is wanted twice or was seen already; E_STATE: no such job.
 */
int larder__ods_batch(larder__ods *, uint32_t job, larder_rng *, const uint64_t *wanted, size_t n,
                      uint64_t *served);
/* Samples to bring in now, at most `max`. Those that do not enter are put back next time. */
size_t larder__ods_refill(larder__ods *, uint64_t *ids, size_t max);

/* What became of it, told by the owner of the table: */
void larder__ods_missed(larder__ods *, const larder_access *); /* is about to be read */
void larder__ods_entered(larder__ods *, larder_slot, const larder_access *);
void larder__ods_hit(larder__ods *, larder_slot, const larder_access *);
void larder__ods_left(larder__ods *, larder_slot); /* while the table still has it */

bool larder__ods_serves(const larder__ods *, larder_slot, uint32_t job);
bool larder__ods_spent(const larder__ods *, larder_slot); /* augmented: all live jobs used it */
/* Forms this sample may enter in, as bits, and who leaves for it. */
uint32_t larder__ods_forms(const larder__ods *, const larder_access *);
larder_slot larder__ods_victim(const larder__ods *, const larder_access *);

static inline bool larder__ods_seen(const larder__ods *o, uint32_t job, uint64_t id) {
    return o->jobs[job].seen[id >> 6] >> (id & 63) & 1;
}

/* The entries are in the table already at load, which wants an ods just opened. */
void larder__ods_save(const larder__ods *, larder_writer *);
int larder__ods_load(larder__ods *, larder_reader *);

#endif
