#include "cli/suggest_ahead.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/spec.h"
#include "plan/rates.h"
#include "sim/job_ahead.h"
#include "source/source.h"

#include <larder/plan.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- measuring ------------------------------------------------------------------------------- */

static void ask_profiler(void *p) { larder__profiler_cancel(p); }

/* Pictures of any size have to become rows of one. */
static int choose_augment(larder__ahead *a, const larder__ahead_conf *c) {
    larder__data *d = NULL;
    int rc = c->augment ? 0 : larder__data_open(&d, c->source);
    bool raw = d && larder__data_about(d)->raw.h > 0;
    snprintf(a->augment, sizeof a->augment, "%s",
             c->augment ? c->augment
             : raw      ? ""
                        : "rrc:size=224|flip");
    larder__data_close(&d);
    return rc;
}

static void tell(void *quiet, const char *line) {
    if (!*(const bool *)quiet)
        fprintf(stderr, "larder suggest: %s\n", line);
}

int larder__ahead_measure(larder__ahead *a, const larder__ahead_conf *c, larder__stop *stop) {
    larder__profiler *p = NULL;
    bool quiet = c->quiet;
    *a = (larder__ahead){0};
    int rc = choose_augment(a, c);
    if (rc < 0)
        return rc;
    larder__profiler_conf conf = {.source = c->source,
                                  .augment = a->augment,
                                  .dtype = LARDER_F32,
                                  .seconds = c->seconds,
                                  .tell = tell,
                                  .tell_arg = &quiet};
    if ((rc = larder__profiler_open(&p, &conf)) < 0)
        return rc;
    larder__stop_tell(stop, ask_profiler, p);
    rc = larder__profiler_run(p, &a->profile);
    larder__stop_tell(stop, NULL, NULL);
    larder__profiler_close(&p);
    a->storage = larder__depth_rate(larder__profile_storage(&a->profile, &a->small));
    a->decode = a->profile.decode.all;
    return rc;
}

/* ---- advice ---------------------------------------------------------------------------------- */

int larder__ahead_advise(const larder__ahead *a, const larder__ahead_conf *c, double rate,
                         uint64_t most, larder__advice_conf *conf, larder__tape *t,
                         larder__advice *out) {
    const larder__profile *p = &a->profile;
    double mean = (double)p->bytes / (double)p->samples;
    larder__job_ahead job = {.source = c->source,
                             .samples = p->samples,
                             .payload = p->bytes,
                             .batch = c->batch,
                             .read_seconds = mean / a->storage,
                             .step_seconds = 1 / fmin(rate, a->decode),
                             .most = most};
    int rc = larder__tape_ahead(t, &conf->each, &job);
    if (rc == 0 && (rc = larder__advise(out, t, conf)) < 0)
        larder__tape_free(t);
    return rc;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Decoding is slower than training: what shares of a cache would help, by larder plan's model. */
static void print_split(const larder__ahead *a, double rate, uint64_t memory) {
    larder_rates r;
    larder_plan p;
    larder__rates_defaults(&r);
    larder__profile_rates(&a->profile, &r);
    r.t_gpu = rate;
    r.s_cache = (double)memory;
    printf("          that is less than training takes: more cores, larder pack or --augment with "
           "less to do help");
    if (larder__plan_make(&p, &r, LARDER_PLAN_SHARED) == 0 && p.best.throughput > 1.05 * a->decode)
        printf(
            ";\n          so does --cache SIZE:%d/%d/%d (%.0f samples/s with %.1f GiB, by larder "
            "plan)",
            p.best.split.encoded, p.best.split.decoded, p.best.split.augmented, p.best.throughput,
            (double)memory / (1 << 30));
    printf("\n");
}

void larder__ahead_print(const larder__ahead *a, const larder__ahead_conf *c, double rate,
                         uint64_t memory) {
    const larder__profile *p = &a->profile;
    bool small;
    const larder__depth *d = larder__profile_storage(p, &small);
    char all[32], each[32], give[32];
    fputs("measured: ", stdout);
    larder__shown_print(stdout, c->source);
    printf(", %llu samples, %s, %s each\n          storage %s/s, %.0f reads/s with %u at once, "
           "%.2f ms for one alone%s\n",
           (unsigned long long)p->samples, larder__print_bytes((double)p->bytes, all),
           larder__print_bytes((double)p->bytes / (double)p->samples, each),
           larder__print_bytes(a->storage, give), (double)d->reads / fmax(d->seconds, 1e-9),
           d->inflight, 1e3 * p->depths[0].latency,
           small ? " (a guess: there are few samples)"
           : p->from_device < 0.5 && strncmp(c->source, "slow:", 5) != 0
               ? " (much of it from the page cache)"
               : "");
    printf("          decoding %.0f samples/s a core, %.0f on %u (%s)\n", p->decode.core, a->decode,
           p->threads, a->augment[0] ? a->augment : "as they are");
    if (rate > a->decode)
        print_split(a, rate, memory);
}

static const double blink = 0.1; /* seconds: less is not worth a table */

bool larder__say_blink(double bytes, double bytes_per_second) {
    double seconds = bytes / bytes_per_second;
    char all[32], give[32];
    if (!(seconds < blink))
        return false;
    printf(
        "\nstorage takes %.2g s an epoch (%s at %s/s): nothing is to be gained by reading less\n",
        seconds, larder__print_bytes(bytes, all), larder__print_bytes(bytes_per_second, give));
    return true;
}

bool larder__say_blink_of(const larder__tape *t, const larder__advice *a) {
    double epochs = t->epoch_count ? (double)t->epoch_count : 1;
    double seconds = a->rates.seconds / epochs, starved = a->rates.starved / epochs;
    if (seconds < blink) {
        printf("\nan epoch took %.2g s in all, and %.2g s of it storage was waited for: nothing is "
               "to be gained\n",
               seconds, starved);
        return true;
    }
    /* What waited for decoding, or for late answers, has more to hear. */
    return a->verdict != LARDER__VERDICT_ELSEWHERE && a->verdict != LARDER__VERDICT_LATE &&
           starved < blink && larder__say_blink((double)t->job.payload, a->give);
}

static void print_rate(const larder__ahead *a, double rate, const larder__advice *v) {
    char bytes[32];
    printf("%9.0f  %9.2f %7.0f%%   %-8s %6s %10s %9.2f %7.0f%% %8.1f%% %s\n", rate, v->now.seconds,
           100 * v->now.waiting, v->best.recipe, v->best.cache,
           larder__print_bytes(v->best.cache_bytes, bytes), v->best.seconds, 100 * v->best.waiting,
           100 * v->best.repeats, rate > a->decode ? "decoding" : "");
}

int larder__ahead_print_rates(const larder__ahead *a, const larder__ahead_conf *c,
                              const larder__advice_conf *given) {
    static const double rates[] = {100, 300, 1000, 3000, 10000, 30000, 100000};
    enum { FEW = 20000 };
    if (larder__say_blink((double)a->profile.bytes, a->storage))
        return 0;
    printf(
        "\nHow fast is training? --rate IMAGES/S, or --step MS --batch N, gives the whole answer. "
        "For some:\n\n%9s  %19s   %s\n%9s  %9s %8s   %-8s %6s %10s %9s %8s %9s %s\n",
        "", "without a cache", "suggested", "samples/s", "epoch s", "waiting", "recipe", "cache",
        "size", "epoch s", "waiting", "repeats", "held up by");
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        larder__tape t;
        larder__advice v = {0};
        larder__advice_conf conf = *given;
        int rc = larder__ahead_advise(a, c, rates[i], FEW, &conf, &t, &v);
        if (rc < 0)
            return rc;
        print_rate(a, rates[i], &v);
        larder__tape_free(&t);
    }
    return 0;
}
