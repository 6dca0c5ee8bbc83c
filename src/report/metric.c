#include "report/metric.h"

#include <math.h>
#include <string.h>

static double share(double part, double whole) {
    return whole > 0 ? 100 * part / whole : (double)NAN;
}

#define METRIC(name, value)                                                                        \
    static double name(const larder__run *run, const larder__epoch *t) {                           \
        (void)run, (void)t;                                                                        \
        return value;                                                                              \
    }
METRIC(accuracy, 100 * t->accuracy)
METRIC(best, 100 * larder__run_best(run))
METRIC(top5, 100 * t->top5)
METRIC(loss, t->loss)
METRIC(fresh_loss, t->fresh_loss)
METRIC(gap, t->gap)
METRIC(seconds, t->seconds)
METRIC(waiting, share(t->stall_seconds, t->seconds))
METRIC(storage, (double)t->storage_bytes / 1e6)
METRIC(requests, t->requests)
METRIC(hits, share((double)t->hits, (double)t->served))
METRIC(misses, share((double)t->misses, (double)t->served))
METRIC(substitutes, share((double)t->substitutes, (double)t->served))
METRIC(repeats, share((double)t->repeats, (double)t->served))
METRIC(touched, 100 * t->touched)
METRIC(wait_mean, 1e3 * t->wait_mean)
METRIC(wait_sd, 1e3 * t->wait_sd)
METRIC(wait_p50, 1e3 * t->wait_p50)
METRIC(wait_p90, 1e3 * t->wait_p90)
METRIC(wait_p99, 1e3 * t->wait_p99)
METRIC(fill_mean, 1e3 * t->fill_mean)
METRIC(fill_sd, 1e3 * t->fill_sd)
METRIC(fill_p50, 1e3 * t->fill_p50)
METRIC(fill_p90, 1e3 * t->fill_p90)
METRIC(fill_p99, 1e3 * t->fill_p99)

const larder__metric larder__metrics[] = {
    {"accuracy", "acc %", "on the test part after the last epoch", 2, accuracy},
    {"seconds", "time s", "of training, waiting included, validation not", 1, seconds},
    {"waiting", "waiting %", "share of that time spent waiting for data", 1, waiting},
    {"storage_megabytes", "read MB", "read from storage, in millions of bytes", 1, storage},
    {"hits", "hits %", "served from memory, the sample that was asked for", 1, hits},
    {"substitutes", "subst %", "another sample served from memory instead", 1, substitutes},
    {"repeats", "repeats %", "served again in the same epoch, however it came", 1, repeats},
    {"misses", "misses %", "read from storage for this request", 1, misses},
    {"touched", "touched %", "of the data set, in an epoch", 1, touched},
    {"best_accuracy", "best %", "the best of all epochs", 2, best},
    {"top5", "top-5 %", "among the five likeliest, after the last epoch", 2, top5},
    {"loss", "loss", "mean over the last epoch's samples", 4, loss},
    {"fresh_loss", "fresh", "the same of samples that had not come for an epoch", 4, fresh_loss},
    {"gap", "gap", "that less the loss of samples that had: what reuse memorises", 4, gap},
    {"requests", "requests", "to storage for these bytes, as the source made them", 0, requests},
    {"wait_mean_ms", "wait ms", "training waited for a batch: mean", 3, wait_mean},
    {"wait_sd_ms", "sd", "standard deviation of the waits of a run's batches", 3, wait_sd},
    {"wait_p50_ms", "p50", "half of the batches were waited for less", 3, wait_p50},
    {"wait_p90_ms", "p90", "nine of ten were", 3, wait_p90},
    {"wait_p99_ms", "p99", "99 of 100 were", 3, wait_p99},
    {"fill_mean_ms", "fill ms", "a batch from its first row taken to its last row there: mean", 2,
     fill_mean},
    {"fill_sd_ms", "sd", "standard deviation of that over a run's batches", 2, fill_sd},
    {"fill_p50_ms", "p50", "half of the batches took less", 2, fill_p50},
    {"fill_p90_ms", "p90", "nine of ten did", 2, fill_p90},
    {"fill_p99_ms", "p99", "99 of 100 did", 2, fill_p99},
    {0}};

size_t larder__metric_count(void) { return sizeof larder__metrics / sizeof *larder__metrics - 1; }

const larder__metric *larder__metric_named(const char *name) {
    const larder__metric *m = larder__metrics;
    while (strcmp(m->name, name) != 0)
        m++;
    return m;
}

double larder__metric_of(const larder__metric *m, const larder__run *run) {
    larder__epoch total = larder__run_total(run);
    return m->of(run, &total);
}
