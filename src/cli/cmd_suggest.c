/* larder suggest: which recipe and how large a cache, from a recorded job or, before any training,
 * from the data set. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/limit.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stoppable.h"
#include "cli/suggest_ahead.h"
#include "cli/tape_show.h"
#include "report/record.h"
#include "sim/advice.h"
#include "sim/price.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct options {
    const char *path, *memory, *price_text;
    larder__price price; /* if its text is there */
    larder__ahead_conf ahead;
    double rate, step; /* samples a second, and milliseconds; NAN: not said */
    bool json, quiet;
} options;

static int check_ahead(options *o) {
    if (o->ahead.batch < 1 || o->ahead.batch > 1 << 20)
        return larder__wrong_usage("suggest", "--batch is 1 to 1048576");
    if (!(o->ahead.seconds >= 0.1 && o->ahead.seconds <= 3600))
        return larder__wrong_usage("suggest", "--seconds is 0.1 to 3600");
    if (!isnan(o->rate) && !isnan(o->step))
        return larder__wrong_usage("suggest", "--rate or --step, not both");
    if (!isnan(o->step) && !(o->step > 0 && o->step <= 1e7))
        return larder__wrong_usage("suggest", "--step is above 0, in milliseconds");
    if (!isnan(o->step))
        o->rate = 1000 * (double)o->ahead.batch / o->step;
    if (!isnan(o->rate) && !(o->rate > 0 && o->rate <= 1e9))
        return larder__wrong_usage("suggest", "--rate is above 0, in samples a second");
    o->ahead.source = o->path;
    o->ahead.quiet = o->quiet || o->json;
    return 0;
}

/* As larder__options_parse: 0, 1 after --help, -1 when wrong. */
static int read_options(options *o, int argc, char **argv) {
    *o = (options){.ahead = {.batch = 256, .seconds = 5}, .rate = NAN, .step = NAN};
    const larder__option table[] = {
        {"memory", LARDER__TEXT, &o->memory, "SIZE",
         "what the cache may have, as 8GiB (half of this machine's memory)"},
        {"price", LARDER__TEXT, &o->price_text, "PRICE",
         "what reading costs: s3 (an example: 0.0004 for 1000 requests, 0.09 for a GiB), or "
         "get=0.0004/1000,byte=0.09/GiB"},
        {"rate", LARDER__REAL, &o->rate, "N",
         "of a data set: samples a second that training takes"},
        {"step", LARDER__REAL, &o->step, "MS", "or what a step of --batch samples takes"},
        {"batch", LARDER__NUMBER, &o->ahead.batch, "B", "samples a step (256)"},
        {"augment", LARDER__TEXT, &o->ahead.augment, "STAGES",
         "what is done to a sample (pictures: rrc:size=224|flip)"},
        {"seconds", LARDER__REAL, &o->ahead.seconds, "S", "for measuring a data set (5)"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object"},
        {"quiet", LARDER__FLAG, &o->quiet, NULL, "no progress"},
        {0}};
    larder__command command = {
        "suggest",
        "larder suggest URI|FILE [--rate N | --step MS --batch B] [--memory SIZE] [--price PRICE]",
        "Says which recipe and how large a cache suit training, with the reasons, what each would "
        "bring in\ntime and bytes, and what it would change (order, once an epoch).\n\n"
        "Of a data set, before any training: storage and decoding are measured for some seconds, "
        "and\ntraining is as fast as --rate or --step says; without them several rates are shown. "
        "Samples are\nread in random order; what the page cache holds already is still fast.\n\n"
        "Of a job that was recorded (larder train --record, LARDER_RECORD): the recipes are "
        "replayed "
        "with\nthe speed of storage and training that it measured.",
        "  larder suggest photos/ --rate 900\n"
        "  larder suggest s3://bucket/photos/ --step 140 --batch 256 --price s3\n"
        "  larder train cifar10:folder --slow nfs --epochs 3 --record job.tape\n"
        "  larder suggest job.tape --memory 4GiB\n"
        "  larder suggest job.tape --price s3",
        table};
    size_t count;
    int rc = larder__options_parse(&command, argc, argv, &o->path, 1, &count);
    if (rc == 0 && count != 1)
        return larder__wrong_usage("suggest", "name a data set, or the record of a job");
    if (rc == 0 && (rc = check_ahead(o)) < 0)
        return rc;
    if (rc == 0 && o->price_text && larder__price_parse(&o->price, o->price_text) < 0)
        return larder__wrong_usage("suggest", larder_errmsg());
    return rc;
}

/* ---- money ----------------------------------------------------------------------------------- */

static double epoch_price(const options *o, const larder__advice_row *r) {
    return larder__price_of(&o->price, r->requests, r->read_bytes);
}

/* Of the whole run: as many epochs as were asked for, or else were recorded. */
static uint64_t run_epochs(const larder__tape *t) {
    return t->job.epochs ? t->job.epochs : t->epoch_count ? t->epoch_count : 1;
}

static double run_price(const options *o, const larder__tape *t, const larder__advice_row *r) {
    return larder__price_of(&o->price, r->first_requests, r->first_bytes) +
           (double)(run_epochs(t) - 1) * epoch_price(o, r);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_row(const options *o, const larder__tape *t, const larder__advice_row *r,
                      const char *mark) {
    char time[16] = "-", wait[16] = "-";
    if (isfinite(r->seconds)) {
        snprintf(time, sizeof time, "%.2f", r->seconds);
        snprintf(wait, sizeof wait, "%.0f%%", 100 * r->waiting);
    }
    char requests[24] = "-";
    if (isfinite(r->requests))
        snprintf(requests, sizeof requests, "%.0f", r->requests);
    char recipe[2 * sizeof r->recipe], cache[2 * sizeof r->cache]; /* a record's are anybody's */
    larder__shown(recipe, sizeof recipe, r->recipe);
    larder__shown(cache, sizeof cache, r->cache);
    printf("%-20s %8s %9.1f %9s %9s %8s %7.1f%% %8.1f%%", recipe, cache, r->read_bytes / 1e6,
           requests, time, wait, 100 * r->hits, 100 * r->repeats);
    if (o->price_text && isfinite(r->requests))
        printf(" %12.6f %12.6f", epoch_price(o, r), run_price(o, t, r));
    else if (o->price_text)
        printf(" %12s %12s", "-", "-");
    printf("  %s\n", mark);
}

static void print_saved(const larder__advice *a, bool ahead) {
    const larder__advice_row *b = &a->best, *n = &a->now;
    double bytes = n->read_bytes - b->read_bytes, seconds = n->seconds - b->seconds;
    if (ahead)
        printf("against a loader without a cache, an epoch: ");
    else {
        fputs("against the job as it was (", stdout);
        larder__shown_print(stdout, n->recipe);
        fputs(", ", stdout);
        larder__shown_print(stdout, n->cache);
        fputs("), an epoch: ", stdout);
    }
    printf("%.1f MB %s", fabs(bytes) / 1e6, bytes >= 0 ? "less" : "more");
    if (isfinite(seconds))
        printf(", %.2f s %s (%.2f instead of %.2f)", fabs(seconds), seconds >= 0 ? "less" : "more",
               b->seconds, n->seconds);
    printf("\n");
}

/* Whatever recipe: what a disk holds is not read from storage again. */
static void print_disk(const larder__advice *a) {
    char all[32];
    if (!(a->best.read_bytes > 0))
        return;
    printf("- with a local disk behind memory (--cache '%s+disk:FOLDER?budget=100%%', about %s) "
           "storage is read in the first epoch of the first run alone\n",
           a->best.cache, larder__print_bytes(a->best.first_bytes, all));
}

/* What it does to training, besides its speed. */
static void print_changes(const larder__advice *a) {
    bool reuses = strncmp(a->best.recipe, "rotate", 6) == 0;
    printf("- it changes %s\n",
           reuses ? "the order (h is measured, recorded and can be replayed) and that each sample "
                    "comes once an epoch: some come again, others not"
                  : "nothing that training sees: the order follows from the seed, and each sample "
                    "comes once an epoch");
}

static void print_text(const options *o, const larder__tape *t, const larder__advice *a,
                       const larder__ahead *ahead) {
    char bytes[32];
    if (ahead)
        larder__ahead_print(ahead, &o->ahead, o->rate, a->memory);
    else
        larder__tape_print(t, &a->rates);
    if (!o->price_text &&
        (ahead ? larder__say_blink((double)t->job.payload, a->give) : larder__say_blink_of(t, a)))
        return;
    printf("\nsuggested: --recipe %s --cache %s (%s); %s\n\n", a->best.recipe, a->best.cache,
           larder__print_bytes(a->best.cache_bytes, bytes), larder__verdict_name(a->verdict));
    for (size_t i = 0; i < a->reason_count; i++)
        printf("- %s\n", a->reasons[i]);
    printf("- ");
    print_saved(a, ahead != NULL);
    print_changes(a);
    print_disk(a);
    printf("\nan epoch after the first, by replay\n%-20s %8s %9s %9s %9s %8s %8s %9s", "recipe",
           "cache", "MB read", "requests", "time s", "waiting", "hits", "repeats");
    if (o->price_text)
        printf(" %12s %12s", "price", "of the run");
    printf("\n");
    if (!ahead)
        print_row(o, t, &a->now, a->now_replayed ? "as recorded" : "as recorded, measured");
    for (size_t i = 0; i < a->count; i++) {
        const larder__advice_row *r = &a->rows[i];
        bool best = r->percent == a->best.percent && strcmp(r->recipe, a->best.recipe) == 0;
        bool knee = r->percent == a->knee && strcmp(r->recipe, "minio") == 0;
        print_row(o, t, r, best ? "<- suggested" : knee ? "the knee" : "");
    }
    if (o->price_text)
        printf("\nprices by %s, for %llu epochs; requests as replayed, one a sample or a block of "
               "neighbours\n",
               o->price_text, (unsigned long long)run_epochs(t));
}

static void json_row(larder__json *j, const options *o, const larder__tape *t, const char *key,
                     const larder__advice_row *r) {
    larder__json_open(j, key, '{');
    larder__json_text(j, "recipe", r->recipe);
    larder__json_text(j, "cache", r->cache);
    larder__json_f64(j, "cache_bytes", r->cache_bytes);
    larder__json_f64(j, "storage_bytes", r->read_bytes);
    larder__json_f64(j, "requests", r->requests);
    if (o->price_text) {
        larder__json_f64(j, "price_epoch", epoch_price(o, r));
        larder__json_f64(j, "price_run", run_price(o, t, r));
    }
    larder__json_f64(j, "seconds", r->seconds);
    larder__json_f64(j, "waiting", r->waiting);
    larder__json_f64(j, "hits", r->hits);
    larder__json_f64(j, "repeats", r->repeats);
    larder__json_f64(j, "touched", r->touched);
    larder__json_close(j, '}');
}

static void json_ahead(larder__json *j, const options *o, const larder__ahead *h) {
    const larder__profile *p = &h->profile;
    larder__json_text(j, "source", o->path);
    larder__json_text(j, "augment", h->augment);
    larder__json_f64(j, "rate", o->rate);
    larder__json_f64(j, "decode_per_second", h->decode);
    larder__json_f64(j, "decode_per_core", p->decode.core);
    larder__json_bool(j, "storage_small", h->small);
    larder__json_f64(j, "storage_from_device", p->from_device);
    larder__json_u64(j, "data_samples", p->samples);
    larder__json_u64(j, "data_bytes", p->bytes);
}

static void print_json(const options *o, const larder__tape *t, const larder__advice *a,
                       const larder__ahead *ahead) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "recipe", a->best.recipe);
    larder__json_text(&j, "cache", a->best.cache);
    larder__json_f64(&j, "cache_bytes", a->best.cache_bytes);
    larder__json_text(&j, "verdict", larder__verdict_name(a->verdict));
    larder__json_open(&j, "reasons", '[');
    for (size_t i = 0; i < a->reason_count; i++)
        larder__json_text(&j, NULL, a->reasons[i]);
    larder__json_close(&j, ']');
    larder__json_open(&j, "measured", '{');
    larder__json_f64(&j, "storage_bytes_per_second", a->give);
    larder__json_f64(&j, "training_bytes_per_second", a->need);
    larder__json_f64(&j, "read_seconds", a->rates.read_seconds);
    larder__json_f64(&j, "step_seconds", a->rates.step_seconds);
    larder__json_f64(&j, "waiting", a->measured_waiting);
    larder__json_f64(&j, "waiting_storage", a->starved);
    larder__json_u64(&j, "samples", t->job.samples);
    larder__json_u64(&j, "payload", t->job.payload);
    if (ahead)
        json_ahead(&j, o, ahead);
    larder__json_close(&j, '}');
    larder__json_f64(&j, "knee_percent", a->knee < 0 ? (double)NAN : a->knee);
    larder__json_open(&j, "saves", '{');
    larder__json_f64(&j, "storage_bytes", a->now.read_bytes - a->best.read_bytes);
    larder__json_f64(&j, "seconds", a->now.seconds - a->best.seconds);
    larder__json_close(&j, '}');
    json_row(&j, o, t, ahead ? "without" : "recorded", &a->now);
    larder__json_open(&j, "rows", '[');
    for (size_t i = 0; i < a->count; i++)
        json_row(&j, o, t, NULL, &a->rows[i]);
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
}

/* ---- running --------------------------------------------------------------------------------- */

static void show_progress(void *arg, size_t done, size_t of) {
    (void)arg;
    fprintf(stderr, "\r\033[K%zu of %zu replays", done, of);
    if (done == of)
        fprintf(stderr, "\r\033[K");
}

/* A data set: it is measured first. */
static int suggest_ahead(const options *o, larder__stop *stop, larder__advice_conf *conf) {
    enum { MANY = 200000 };
    larder__ahead ahead;
    larder__tape t;
    larder__advice a;
    if (isnan(o->rate) && o->json)
        return larder__fail(LARDER_E_ARGS, "--json needs --rate, or --step and --batch");
    int rc = larder__ahead_measure(&ahead, &o->ahead, stop);
    if (rc < 0)
        return rc;
    if (isnan(o->rate)) {
        larder__ahead_print(&ahead, &o->ahead, 0, conf->memory);
        return larder__ahead_print_rates(&ahead, &o->ahead, conf);
    }
    rc = larder__ahead_advise(&ahead, &o->ahead, o->rate, MANY, conf, &t, &a);
    if (conf->progress)
        fprintf(stderr, "\r\033[K");
    if (rc < 0)
        return rc;
    if (o->json)
        print_json(o, &t, &a, &ahead);
    else
        print_text(o, &t, &a, &ahead);
    larder__tape_free(&t);
    return 0;
}

/* A file may have been meant as a record. */
static int suggest_other(const options *o, larder__stop *stop, larder__advice_conf *conf) {
    struct stat st;
    char why[400];
    if (larder__run_there(o->path))
        return larder__fail(LARDER_E_ARGS,
                            "%s is a run, of which larder report tells; advice is about a data "
                            "set, or a job that larder train --record FILE has recorded",
                            o->path);
    int rc = suggest_ahead(o, stop, conf);
    if (rc >= 0 || rc == LARDER_E_CANCELLED || stat(o->path, &st) != 0 || !S_ISREG(st.st_mode))
        return rc;
    snprintf(why, sizeof why, "%s", larder_errmsg());
    return larder__fail(LARDER_E_FORMAT, "%s is no record of a job; as a data set: %s", o->path,
                        why);
}

static int suggest(void *arg, larder__stop *stop) {
    const options *o = arg;
    larder__tape t;
    larder__advice a;
    bool shown = !o->quiet && !o->json && isatty(2);
    larder__advice_conf conf = {.memory = larder__memory_limit() / 2,
                                .streams = o->price_text != NULL,
                                .stop = &stop->signal,
                                .progress = shown ? show_progress : NULL};
    int rc = o->memory ? larder__parse_bytes(o->memory, &conf.memory) : 0;
    if (rc < 0)
        return larder__fail_in(rc, "--memory");
    if (!larder__tape_probe(o->path))
        return suggest_other(o, stop, &conf);
    if (!isnan(o->rate))
        return larder__fail(LARDER_E_ARGS,
                            "--rate and --step are for a data set; %s has the speed of the job "
                            "that was recorded",
                            o->path);
    if ((rc = larder__tape_read(&t, o->path)) < 0)
        return rc;
    if (t.torn[0])
        fprintf(stderr, "larder suggest: %s\n", t.torn);
    rc = larder__advise(&a, &t, &conf);
    if (shown)
        fprintf(stderr, "\r\033[K");
    if (rc < 0)
        rc = larder__fail_in(rc, "%s", o->path);
    else if (o->json)
        print_json(o, &t, &a, NULL);
    else
        print_text(o, &t, &a, NULL);
    larder__tape_free(&t);
    return rc;
}

int larder__cmd_suggest(int argc, char **argv) {
    options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    return larder__stoppable_run(&(larder__stoppable){
        .name = "suggest", .run = suggest, .options = &o, .stopped = "stopped"});
}
