/* What held a run up, as a sentence a person can act on. */
#include "loader/figures/stall.h"

#include <stdio.h>
#include <string.h>

/* Below this share of waiting nothing in the loader is worth a change. */
static const double little = 0.1;

static const char *const names[LARDER__TIMES] = {"training", "storage", "decode",
                                                 "augment",  "cache",   "assembly"};

const char *larder__time_name(int part) {
    return part >= 0 && part < LARDER__TIMES ? names[part] : "?";
}

static void advise_storage(char *out, size_t cap, const larder__verdict_case *a) {
    char cache[96] = "a larger cache of the daemon";
    if (!a->shared)
        snprintf(cache, sizeof cache, "a larger cache (--cache, now %.40s, %.0f %% hits)", a->cache,
                 100 * a->hit_share);
    if (!a->told)
        snprintf(out, cap, "%s or more batches ahead (--ahead, now %u) would help", cache,
                 a->ahead);
    else if (a->late)
        snprintf(out, cap,
                 "answers come late: more batches ahead (--ahead, now %u) or a larger cache would "
                 "help",
                 a->ahead);
    else
        snprintf(out, cap, "%s or a recipe that reads less would help", cache);
}

static void advise_work(char *out, size_t cap, int part, const larder__verdict_case *a) {
    if (part == LARDER__TIME_DECODE && a->gpu_could)
        snprintf(out, cap, "leaving some of it to the GPU (decode=auto) would help");
    else if (a->threads < a->cores)
        snprintf(out, cap, "more loader threads (--threads, now %u of %u cores) would help",
                 a->threads, a->cores);
    else if (part == LARDER__TIME_DECODE && a->encoded_kept)
        snprintf(out, cap,
                 "all %u cores are at it: keeping decoded samples (--cache %.40s:0/100/0) or "
                 "smaller pictures would help",
                 a->cores, a->cache);
    else
        snprintf(out, cap, "all %u cores are at it: smaller pictures or more cores would help",
                 a->cores);
}

/* Said whenever there is one that decodes, whatever holds the run up. */
static void add_gpu(larder__times *t, const larder__verdict_case *a) {
    size_t n = strlen(t->says);
    if (a->gpu_on)
        snprintf(t->says + n, sizeof t->says - n, "; the GPU decodes %.0f %% of the samples",
                 100 * a->gpu_share);
}

static void find_verdict(larder__times *t, const larder__verdict_case *a) {
    static const char *const what[LARDER__TIMES] = {"",
                                                    "reads",
                                                    "pictures to be decoded",
                                                    "samples to be augmented",
                                                    "order and cache to be decided",
                                                    "batches to be put together"};
    double all = 0, waited = 0;
    int worst = LARDER__TIME_STORAGE;
    char advice[160] = "";
    for (int k = 0; k < LARDER__TIMES; k++) {
        all += t->seconds[k];
        waited += k == LARDER__TIME_TRAINING ? 0 : t->seconds[k];
        if (k > worst && t->seconds[k] > t->seconds[worst])
            worst = k;
    }
    if (!(all > 0)) {
        t->bottleneck = LARDER__TIME_TRAINING;
        snprintf(t->says, sizeof t->says, "nothing is known yet: no batch has been taken");
        return;
    }
    if (waited < little * all) {
        t->bottleneck = LARDER__TIME_TRAINING;
        snprintf(t->says, sizeof t->says,
                 "training: %.0f %% of the time was the training step itself; loading keeps up, "
                 "only faster training would help",
                 100 * (1 - waited / all));
        return;
    }
    t->bottleneck = worst;
    if (worst == LARDER__TIME_STORAGE)
        advise_storage(advice, sizeof advice, a);
    else if (worst == LARDER__TIME_DECODE || worst == LARDER__TIME_AUGMENT)
        advise_work(advice, sizeof advice, worst, a);
    else if (worst == LARDER__TIME_CACHE && a->scoring)
        snprintf(advice, sizeof advice,
                 "scores that are due are waited for: with scoring=beside nothing waits, and the "
                 "order depends on how fast scoring is");
    else if (worst == LARDER__TIME_CACHE)
        snprintf(advice, sizeof advice, "larger batches or a simpler recipe would help");
    else
        snprintf(advice, sizeof advice, "smaller samples, or u8 instead of f32, would help");
    snprintf(t->says, sizeof t->says, "%s: %.0f %% of the time training waited for %s; %s",
             names[worst], 100 * t->seconds[worst] / all, what[worst], advice);
}

void larder__verdict(larder__times *t, const larder__verdict_case *a) {
    find_verdict(t, a);
    add_gpu(t, a);
}
