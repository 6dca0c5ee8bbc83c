#include "see/job_rates.h"

#include <math.h>

const larder__job *larder__job_same(const larder__jobs *in, const larder__job *job) {
    for (size_t i = 0; i < in->count; i++)
        if (in->at[i].pid == job->pid && in->at[i].number == job->number)
            return &in->at[i];
    return NULL;
}

/* Counters only grow; one that fell is of another job. */
static double rate(const larder__job *now, const larder__job *before, const char *name,
                   double seconds) {
    double a = larder__job_value(now, name), b = before ? larder__job_value(before, name) : 0;
    double grown = a - (isnan(b) ? 0 : b);
    return seconds > 0 && grown > 0 ? grown / seconds : 0;
}

static double waited(const larder__job *j) {
    return j->storage + j->decode + j->augment + j->deciding + j->assembly;
}

larder__rates larder__rates_of(const larder__job *now, const larder__job *before, double seconds) {
    double time = before ? seconds : now->uptime;
    double wait = waited(now) - (before ? waited(before) : 0);
    double all = wait + now->training - (before ? before->training : 0);
    return (larder__rates){.samples = rate(now, before, "samples", time),
                           .hits = rate(now, before, "hits", time),
                           .substitutes = rate(now, before, "substitutes", time),
                           .misses = rate(now, before, "misses", time),
                           .read_bytes = rate(now, before, "storage_bytes", time),
                           .requests = rate(now, before, "storage_requests", time),
                           .demand_bytes = rate(now, before, "demand_bytes", time),
                           .stall = all > 0 ? fmin(fmax(wait / all, 0), 1) : (double)NAN};
}
