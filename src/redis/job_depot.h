/* The depot of a job's ranks in Redis: the values of one owner, under a lease that ends by itself.
 */
#ifndef LARDER_REDIS_JOB_DEPOT_H
#define LARDER_REDIS_JOB_DEPOT_H

#include "base/stat.h"
#include "shared/depot.h"
#include "shared/redis_address.h"

typedef struct larder__job_depot_conf {
    const larder__redis_conf *redis; /* its `job` names the job */
    uint64_t identity;               /* as in larder__redis_store_conf */
    larder__stats *stats;
} larder__job_depot_conf;

int larder__job_depot_open(larder__depot *out, const larder__job_depot_conf *);

#endif
