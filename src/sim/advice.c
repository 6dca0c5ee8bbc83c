#include "sim/advice.h"

#include "base/err.h"
#include "base/spec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EPOCHS = 3 };                     /* the first fills the cache, the others count */
static const double let_wait = 0.02;     /* share of the time that is no waiting */
static const double much_waiting = 0.10; /* more than chance and start-up make */
static const int sizes[] = {0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const int careful =
    40; /* percent that reuse gets where it fits: more in memory costs less */

const char *larder__verdict_name(larder__verdict v) {
    static const char *const names[] = {
#define XX(name, text) text,
        LARDER__VERDICTS(XX)
#undef XX
    };
    return names[v];
}

/* ---- trying ---------------------------------------------------------------------------------- */

static double part(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

static void fill_row(larder__advice_row *row, const larder__sim_result *r) {
    uint64_t later = r->count > 1 ? r->count - 1 : r->count;
    larder_figures sum = {0};
    for (uint64_t e = r->count - later; e < r->count; e++) {
        sum.served += r->epochs[e].served, sum.hits += r->epochs[e].hits;
        sum.repeats += r->epochs[e].repeats, sum.storage_bytes += r->epochs[e].storage_bytes;
        sum.touched += r->epochs[e].touched / (double)later;
        sum.requests += r->epochs[e].requests;
    }
    row->read_bytes = (double)sum.storage_bytes / (double)later;
    row->requests = (double)sum.requests / (double)later;
    row->first_bytes = (double)r->epochs[0].storage_bytes;
    row->first_requests = (double)r->epochs[0].requests;
    row->hits = part(sum.hits, sum.served);
    row->repeats = part(sum.repeats, sum.served);
    row->touched = sum.touched;
    double seconds = r->count > 1 ? r->later_seconds : r->seconds;
    double waited = r->count > 1 ? r->later_waited : r->waited;
    row->seconds = seconds > 0 ? seconds / (double)later : (double)NAN;
    row->waiting = seconds > 0 ? waited / seconds : (double)NAN;
}

static int try_one(larder__advice_row *row, const larder__tape *t, const char *recipe,
                   const char *cache, const larder__advice_conf *conf) {
    larder__sim_result r;
    larder__sim_conf sim = {.recipe = recipe,
                            .cache = cache,
                            .tape = t,
                            .epochs = EPOCHS,
                            .batch = t->job.batch,
                            .seed = t->job.seed,
                            .size = 1,
                            .stop = conf->stop};
    snprintf(row->recipe, sizeof row->recipe, "%s", recipe);
    snprintf(row->cache, sizeof row->cache, "%s", cache);
    int rc = larder__sim_run(&sim, &r);
    if (rc < 0)
        return rc;
    fill_row(row, &r);
    row->requests *= (double)(conf->each ? conf->each : 1);
    row->first_requests *= (double)(conf->each ? conf->each : 1);
    larder__sim_free(&r);
    return 0;
}

static int try_size(larder__advice *a, const larder__tape *t, const char *recipe, int percent,
                    const larder__advice_conf *conf) {
    char cache[16];
    larder__advice_row *row = &a->rows[a->count];
    snprintf(cache, sizeof cache, "%d%%", percent);
    int rc = try_one(row, t, recipe, cache, conf);
    if (rc < 0)
        return rc;
    row->percent = percent;
    row->cache_bytes = (double)t->job.payload * percent / 100;
    a->count++;
    if (conf->progress)
        conf->progress(conf->progress_arg, a->count, (conf->streams ? 3 : 2) * SIZES);
    return 0;
}

/* The job itself, for comparison; what cannot be replayed (embeddings, a shared cache) is taken as
 * it was measured. */
static int try_now(larder__advice *a, const larder__tape *t, const larder__advice_conf *conf) {
    larder__advice_row *now = &a->now;
    int rc = try_one(now, t, t->job.recipe, t->job.cache, conf);
    if (rc == LARDER_E_CANCELLED || rc == LARDER_E_NOMEM)
        return rc;
    a->now_replayed = rc == 0;
    now->percent = -1;
    now->cache_bytes = (double)t->job.budget;
    if (rc == 0)
        return 0;
    now->read_bytes = now->first_bytes = (double)a->rates.read_bytes;
    now->requests = now->first_requests = (double)NAN;
    now->seconds = a->rates.seconds;
    if (t->epoch_count) {
        const larder__tape_epoch *last = &t->epochs[t->epoch_count - 1];
        double before = t->epoch_count > 1 ? t->epochs[t->epoch_count - 2].seconds : 0;
        now->read_bytes = (double)last->figures.storage_bytes;
        now->hits = part(last->figures.hits, last->figures.served);
        now->repeats = part(last->figures.repeats, last->figures.served);
        now->seconds = last->seconds - before;
    }
    now->waiting = a->measured_waiting;
    return 0;
}

static uint64_t epochs_of(const larder__tape *t) {
    uint64_t n = 0;
    for (uint64_t b = 0; b < t->count; b++)
        n += b == 0 || t->batches[b].epoch != t->batches[b - 1].epoch;
    return n;
}

/* How much of the waiting follows from the speed of storage and training: the very epochs that were
 * recorded are replayed, the first, in which the cache is empty, among them. */
static int explain_waiting(larder__advice *a, const larder__tape *t,
                           const larder__advice_conf *conf) {
    larder__sim_result r;
    larder__sim_conf sim = {.recipe = t->job.recipe,
                            .cache = t->job.cache,
                            .tape = t,
                            .epochs = epochs_of(t),
                            .batch = t->job.batch,
                            .seed = t->job.seed,
                            .size = 1,
                            .stop = conf->stop};
    a->explained = (double)NAN;
    if (!a->now_replayed || !(a->starved > much_waiting))
        return 0;
    int rc = larder__sim_run(&sim, &r);
    if (rc < 0)
        return rc;
    a->explained = r.seconds > 0 ? r.waited / r.seconds : (double)NAN;
    larder__sim_free(&r);
    return 0;
}

/* ---- choosing -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(larder__advice *a, const char *format, ...) {
    va_list args;
    if (a->reason_count == LARDER__ADVICE_REASONS)
        return;
    va_start(args, format);
    vsnprintf(a->reasons[a->reason_count++], sizeof a->reasons[0], format, args);
    va_end(args);
}

static const larder__advice_row *find(const larder__advice *a, const char *recipe, int percent) {
    for (size_t i = 0; i < a->count; i++)
        if (a->rows[i].percent == percent && strcmp(a->rows[i].recipe, recipe) == 0)
            return &a->rows[i];
    return NULL;
}

static int knee_of(const larder__advice *a) {
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->rows[i].recipe, "minio") == 0 && a->rows[i].waiting <= let_wait)
            return a->rows[i].percent;
    return -1;
}

/* The largest size of the range that fits, at most `want`. */
static int fitting(const larder__advice *a, uint64_t payload, int want) {
    int out = 0;
    for (size_t i = 0; i < SIZES; i++)
        if (sizes[i] <= want && (double)payload * sizes[i] / 100 <= (double)a->memory)
            out = sizes[i];
    return out;
}

static void say_speed(larder__advice *a) {
    char need[32], give[32];
    say(a, "Training eats %s/s (%.1f us a sample), storage gave %s/s (%.1f us a sample).",
        larder__print_bytes(a->need, need), 1e6 * a->rates.step_seconds / (double)a->each,
        larder__print_bytes(a->give, give), 1e6 * a->rates.read_seconds / (double)a->each);
}

static void say_knee(larder__advice *a, uint64_t payload) {
    char bytes[32];
    if (a->knee == 0)
        say(a, "No cache is needed for speed; what one holds is not read again.");
    else if (a->knee > 0)
        say(a,
            "The knee is at %d %% of the data, %s: with less, exactly-once training waits; with "
            "more, "
            "only bytes are saved.",
            a->knee, larder__print_bytes((double)payload * a->knee / 100, bytes));
    else
        say(a, "No cache is large enough for exactly-once training not to wait in these epochs.");
}

static void say_accuracy(larder__advice *a) {
    if (strncmp(a->best.recipe, "rotate", 6) != 0) {
        say(a, "Accuracy: %s trains on exactly the batches a loader without cache would serve.",
            a->best.recipe);
        return;
    }
    say(a,
        "Accuracy: rotate repeats %.0f %% of the samples of an epoch. On Fashion-MNIST, a "
        "perceptron, 20 %% in memory, h = 0.8 cost 0.5 points and h = 0.5 none that could be told; "
        "with 40 %% wrong labels 0.8 and 0.1 (docs/results/rotate.md).",
        100 * a->best.repeats);
    say(a, "Harder data loses more: try %s and minio for some epochs on yours, and larder compare.",
        a->best.recipe);
}

static void choose_reuse(larder__advice *a, uint64_t payload) {
    int most = fitting(a, payload, 100), want = most < careful ? most : careful;
    if (want < 5)
        want = 5; /* less is no cache */
    const larder__advice_row *row = find(a, "rotate", want);
    a->verdict =
        row && row->waiting > much_waiting ? LARDER__VERDICT_TOO_SLOW : LARDER__VERDICT_REUSE;
    if (!row)
        row = find(a, "minio", most);
    if (row)
        a->best = *row;
}

static void choose(larder__advice *a, const larder__tape *t) {
    uint64_t payload = t->job.payload;
    a->knee = knee_of(a);
    double other = a->measured_waiting - a->starved;
    int keep = fitting(a, payload, 20);
    const larder__advice_row *row = find(a, "minio", a->knee > 0 ? a->knee : keep);
    if (a->knee >= 0 && row && row->cache_bytes <= (double)a->memory) {
        a->verdict = a->knee == 0 ? LARDER__VERDICT_KEEPS_UP : LARDER__VERDICT_CACHE;
        a->best = *row;
    } else
        choose_reuse(a, payload);
    if (a->measured_waiting > much_waiting && other > a->starved)
        a->verdict = LARDER__VERDICT_ELSEWHERE;
    else if (a->explained < a->starved / 4)
        a->verdict = LARDER__VERDICT_LATE;
}

static void explain(larder__advice *a, const larder__tape *t) {
    char bytes[32];
    say_speed(a);
    if (a->verdict == LARDER__VERDICT_ELSEWHERE)
        say(a,
            "The job waited for %.0f %% of its time, for storage only %.0f %%: the rest is "
            "decoding "
            "and the like. Try --threads, larder profile and plan.",
            100 * a->measured_waiting, 100 * a->starved);
    if (a->verdict == LARDER__VERDICT_LATE)
        say(a,
            "The job waited for storage for %.0f %% of its time; what it reads a second explains "
            "%.0f %%. Its answers come late: ask earlier (--ahead) or for more at once "
            "(--inflight).",
            100 * a->starved, 100 * a->explained);
    say_knee(a, t->job.payload);
    if (a->knee > 0 && strcmp(a->best.recipe, "minio") != 0)
        say(a, "That is more than the %s the cache may have (--memory).",
            larder__print_bytes((double)a->memory, bytes));
    if (a->verdict == LARDER__VERDICT_TOO_SLOW)
        say(a,
            "Training still waits for %.0f %% of its time with rotate: faster storage, smaller "
            "samples (larder pack) or a higher h_max= are what is left.",
            100 * a->best.waiting);
    say_accuracy(a);
    if (t->job.parts)
        say(a, "Samples were read in parts, the replay reads them whole: bytes are overestimated.");
}

int larder__advise(larder__advice *a, const larder__tape *t, const larder__advice_conf *conf) {
    *a = (larder__advice){.rates = larder__feed_measure(t), .memory = conf->memory, .knee = -1};
    a->each = conf->each ? conf->each : 1;
    if (t->count == 0 || t->job.payload == 0)
        return larder__fail(LARDER_E_FORMAT, "the record holds no batch");
    a->measured_waiting = a->rates.seconds > 0 ? a->rates.waited / a->rates.seconds : 0;
    a->starved = a->rates.seconds > 0 ? a->rates.starved / a->rates.seconds : 0;
    a->need = (double)t->job.payload / (double)t->job.samples / a->rates.step_seconds;
    a->give = a->rates.bytes_per_second;
    int rc = try_now(a, t, conf);
    if (rc == 0)
        rc = explain_waiting(a, t, conf);
    for (size_t i = 0; rc == 0 && i < SIZES; i++)
        rc = try_size(a, t, "minio", sizes[i], conf);
    for (size_t i = 1; rc == 0 && i + 1 < SIZES; i++)
        rc = try_size(a, t, "rotate", sizes[i], conf);
    /* A cache of less than two blocks is none for it. */
    for (size_t i = 1; conf->streams && rc == 0 && i + 1 < SIZES; i++)
        if ((rc = try_size(a, t, "stream", sizes[i], conf)) == LARDER_E_ARGS)
            rc = 0;
    if (rc < 0)
        return rc;
    if (!isfinite(a->need) || !isfinite(a->give)) {
        const larder__advice_row *row = find(a, "minio", fitting(a, t->job.payload, 20));
        a->verdict = LARDER__VERDICT_UNKNOWN;
        a->best = row ? *row : a->rows[0];
        say(a, "The job %s, so nothing is known about time; minio hits all it can hold.",
            isfinite(a->need) ? "read nothing from storage" : "took too few batches");
        say_accuracy(a);
        return 0;
    }
    choose(a, t);
    explain(a, t);
    return 0;
}
