/* The jobs of a shared cache as opportunistic sampling counts them (cache/ods_core.h), told to a
 * cache whose policy is `ods`. A job that has not asked for long rests, so that it holds nothing
 * back. */
#ifndef LARDER_SHARED_ODS_JOBS_H
#define LARDER_SHARED_ODS_JOBS_H

#include "cache/local.h"

/* Nobody is there yet: the policy begins with one job, which leaves. */
int larder__ods_jobs_begin(larder__cache *);
/* `again`: it was here before, so what it had of the augmented entries is not known. */
int larder__ods_jobs_join(larder__cache *, bool again, uint32_t *job);
void larder__ods_jobs_leave(larder__cache *, uint32_t job);
void larder__ods_jobs_rest(larder__cache *, uint32_t job, bool rests);
/* An epoch of this job, of which these samples (one bit each) are seen already; NULL: none. */
void larder__ods_jobs_epoch(larder__cache *, uint32_t job, const uint64_t *seen);

#endif
