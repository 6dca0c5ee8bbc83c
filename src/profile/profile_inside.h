/* What the files of the profiler share. Nobody else includes this. */
#ifndef LARDER_PROFILE_INSIDE_H
#define LARDER_PROFILE_INSIDE_H

#include "profile/profile.h"
#include "source/source.h"
#include "stage/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    LARDER__POOL_SAMPLES = 512,    /* kept of what was read, to decode them */
    LARDER__POOL_BYTES = 64 << 20, /* of them, and of their pixels */
};

typedef struct larder__pooled {
    uint64_t id;
    larder_buf *encoded, *decoded; /* decoded: NULL where there was no room any more */
} larder__pooled;

struct larder__profiler {
    larder__profiler_conf conf;
    larder__data *data;
    larder__pipeline *pipeline;
    _Atomic bool stop;
    pthread_mutex_t lock; /* over the pool and what went wrong, while storage is read */
    larder__pooled *pool;
    size_t pooled, pool_bytes;
    uint64_t bad;
    char why[512]; /* of the first bad one */
    larder__shrink shrink;
};

static inline int larder__profiler_stopped(larder__profiler *p) { return atomic_load(&p->stop); }

void larder__profiler_tell(larder__profiler *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A sample could not be read or decoded, for the reason this thread has. */
void larder__profiler_bad(larder__profiler *, uint64_t id, const char *why);

/* What is to be measured of shrinking, once there is a pipeline. */
int larder__measure_shrink_open(larder__profiler *);
int larder__measure_shrink(larder__profiler *, larder__profile *);
/* Each takes about so many seconds and fills its part of the profile. */
int larder__measure_storage(larder__profiler *, double seconds, larder__profile *);
int larder__measure_stages(larder__profiler *, double seconds, larder__profile *);
int larder__measure_memory(larder__profiler *, double seconds, larder__profile *);
int larder__measure_redis(larder__profiler *, double seconds, larder__profile *);
int larder__measure_disk(larder__profiler *, double seconds, larder__profile *);

#endif
