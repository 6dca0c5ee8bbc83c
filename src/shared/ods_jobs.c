#include "shared/ods_jobs.h"

#include "cache/ods_core.h"

typedef struct news { /* about one job */
    uint32_t job;
    bool yes;
    const uint64_t *seen;
} news;

static int hear_join(void *ods, void *arg) {
    news *n = arg;
    int rc = larder__ods_join(ods, &n->job);
    if (rc == 0 && n->yes)
        larder__ods_had_all(ods, n->job);
    return rc;
}

static int hear_leave(void *ods, void *arg) {
    larder__ods_leave(ods, ((const news *)arg)->job);
    return 0;
}

static int hear_rest(void *ods, void *arg) {
    const news *n = arg;
    larder__ods_rest(ods, n->job, n->yes);
    return 0;
}

static int hear_epoch(void *ods, void *arg) {
    const news *n = arg;
    if (n->seen)
        larder__ods_resume(ods, n->job, n->seen);
    else
        larder__ods_epoch(ods, n->job, NULL);
    return 0;
}

int larder__ods_jobs_begin(larder__cache *c) {
    return larder__cache_change(c, hear_leave, &(news){0});
}

int larder__ods_jobs_join(larder__cache *c, bool again, uint32_t *job) {
    news n = {.yes = again};
    int rc = larder__cache_change(c, hear_join, &n);
    *job = n.job;
    return rc;
}

void larder__ods_jobs_leave(larder__cache *c, uint32_t job) {
    larder__cache_change(c, hear_leave, &(news){.job = job});
}

void larder__ods_jobs_rest(larder__cache *c, uint32_t job, bool rests) {
    larder__cache_change(c, hear_rest, &(news){.job = job, .yes = rests});
}

void larder__ods_jobs_epoch(larder__cache *c, uint32_t job, const uint64_t *seen) {
    larder__cache_change(c, hear_epoch, &(news){.job = job, .seen = seen});
}
