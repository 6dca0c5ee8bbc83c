/* larder train: a real small network through the loader, and what it says about the recipe. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/host.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/stoppable.h"
#include "loader/draw/recipe.h"
#include "loader/figures/shown.h"
#include "shared/redis_address.h"
#include "train/parts.h"
#include "train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    larder__trainer_conf conf;
    const char *uri, *slow, *out, *name;
    bool json, quiet;
} options;

/* ---- options --------------------------------------------------------------------------------- */

static const char about[] =
    "Trains a small network on URI through larder's loader and shows, epoch by epoch, accuracy on\n"
    "the test part, time, waiting, and where samples came from. Momentum SGD; the learning rate\n"
    "falls linearly to 0 over the epochs. Ctrl-C ends after the current batch with the figures so\n"
    "far and exit code 130.";

static const char examples[] =
    "  larder train /usr/share/datasets/fashion-mnist --recipe minio --cache 20% --epochs 5\n"
    "  larder train cifar10:folder --net cnn --slow bandwidth=20MiB,latency=2ms --json\n"
    "  larder train s3://bucket/photos/ --test none --recipe minio --ahead 16";

typedef struct numbers { /* as typed, before they are checked */
    uint64_t batch, threads, net_threads, inflight, ahead;
    const char *on_bad, *pace;
} numbers;

static int wrong(const char *why) { return larder__wrong_usage("train", why); }

static int check_numbers(options *o, const numbers *n) {
    if (o->conf.epochs < 1 || o->conf.epochs > 1000000)
        return wrong("--epochs is 1 to 1000000");
    if (n->batch < 1 || n->batch > 1 << 20)
        return wrong("--batch is 1 to 1048576");
    if (n->threads > 1024 || n->net_threads > 1024)
        return wrong("--threads and --net-threads are at most 1024");
    if (n->inflight > 1024 || n->ahead > 1024)
        return wrong("--inflight and --ahead are at most 1024");
    if (!(o->conf.rate >= 0 && o->conf.rate <= 1000))
        return wrong("--lr is 0 to 1000");
    if (!(o->conf.decay >= 0 && o->conf.decay <= 1))
        return wrong("--decay is 0 to 1");
    if (n->pace && larder__parse_seconds(n->pace, &o->conf.pace) < 0)
        return wrong("--pace is a time a step, as 4ms");
    if (o->conf.pace > 10)
        return wrong("--pace is at most 10s");
    o->conf.batch = (size_t)n->batch;
    static const char *const ways[] = {"fail", "skip", "replace"};
    size_t way = 0;
    while (way < 3 && strcmp(n->on_bad, ways[way]) != 0)
        way++;
    if (way == 3)
        return wrong("--on-bad is fail, skip or replace");
    o->conf.on_bad = (larder_on_bad)way;
    o->conf.threads = (uint32_t)n->threads;
    o->conf.net_threads = (uint32_t)n->net_threads;
    o->conf.inflight = (uint32_t)n->inflight;
    o->conf.ahead = (uint32_t)n->ahead;
    return 0;
}

/* As larder__options_parse: 0, 1 after --help, -1 when wrong. */
static int read_options(options *o, int argc, char **argv) {
    *o = (options){.conf = {.recipe = LARDER__DEFAULT_RECIPE,
                            .cache = "20%",
                            .net = "mlp",
                            .seed = 1,
                            .epochs = 10}};
    numbers n = {.batch = 128, .net_threads = 1, .on_bad = "fail"};
    larder__trainer_conf *c = &o->conf;
    const larder__option table[] = {
        {"recipe", LARDER__TEXT, &c->recipe, "RECIPE",
         "what rules order and cache, see larder list (" LARDER__DEFAULT_RECIPE ")"},
        {"cache", LARDER__TEXT, &c->cache, "X",
         "20% of the data's bytes, or 8GiB in all; :58/42/0 after it shares it out; or "
         "redis://host?budget=20% (20%)"},
        {"epochs", LARDER__NUMBER, &c->epochs, "E", "how often to go through the data (10)"},
        {"seed", LARDER__NUMBER, &c->seed, "S", "same seed, same run (1)"},
        {"slow", LARDER__TEXT, &o->slow, "STORAGE",
         "storage speed for training, as bandwidth=20MiB"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object a line and epoch"},
        {"net", LARDER__TEXT, &c->net, "thin|mlp|cnn", "thin is quickest, cnn most accurate (mlp)"},
        {"batch", LARDER__NUMBER, &n.batch, "B", "samples a step (128)"},
        {"pace", LARDER__TEXT, &n.pace, "TIME",
         "a step takes as long at least, as on a slower device: 4ms (as it comes)"},
        {"lr", LARDER__REAL, &c->rate, "RATE", "first learning rate (0.05)"},
        {"decay", LARDER__REAL, &c->decay, "D", "weight decay (0)"},
        {"threads", LARDER__NUMBER, &n.threads, "T", "of the loader; 0: as many as cores (0)"},
        {"net-threads", LARDER__NUMBER, &n.net_threads, "T", "of matrix products (1)"},
        {"inflight", LARDER__NUMBER, &n.inflight, "N", "joint reads under way at once; 0: 64 (0)"},
        {"ahead", LARDER__NUMBER, &n.ahead, "K",
         "batches read ahead, for slow answers; 0: 4, or up to 16 (0)"},
        {"augment", LARDER__TEXT, &c->augment, "STAGES",
         "preparation of samples (what suits them)"},
        {"fields", LARDER__TEXT, &c->fields, "LIST",
         "members of samples, as jpg,json.label (picture and label)"},
        {"target", LARDER__TEXT, &c->target, "WHAT",
         "what the label is: a field, or csv:labels.csv?key=name&value=label"},
        {"test", LARDER__TEXT, &c->test, "URI",
         "what to validate on, or none (the test part of URI)"},
        {"test-augment", LARDER__TEXT, &c->test_augment, "STAGES",
         "(that of training, without chance)"},
        {"on-bad", LARDER__TEXT, &n.on_bad, "fail|skip|replace",
         "what becomes of a sample that cannot be read (fail)"},
        {"cage", LARDER__TEXT, &c->cage, "HOW",
         "decode in processes that may do nothing else: on, or limits as memory=1GiB,seconds=30"},
        {"out", LARDER__TEXT, &o->out, "DIR", "leave a record there for larder report"},
        {"record", LARDER__TEXT, &c->record, "FILE",
         "every request and loss, for larder sim --replay and larder suggest"},
        {"replay", LARDER__TEXT, &c->replay, "RUN",
         "do what an earlier run measured, not what this one would: its --out or --record"},
        {"name", LARDER__TEXT, &o->name, "NAME", "what the record calls this run (the recipe)"},
        {"quiet", LARDER__FLAG, &o->quiet, NULL, "no progress on standard error"},
        {0}};
    larder__command command = {"train", "larder train URI [options]", about, examples, table};
    size_t words;
    int rc = larder__options_parse(&command, argc, argv, &o->uri, 1, &words);
    if (rc != 0)
        return rc;
    if (words != 1)
        return wrong("name the data set to train on");
    if (!o->name)
        o->name = o->conf.recipe;
    return check_numbers(o, &n);
}

/* ---- output ---------------------------------------------------------------------------------- */

typedef struct output {
    const options *o;
    FILE *record; /* epochs.jsonl or NULL */
    larder__meta meta;
    larder__progress progress;
    bool compared;   /* losses of fresh and reused samples are */
    bool unrecorded; /* the tape ended early, and that was said */
    size_t noted[2]; /* sentences said so far, of training and of validation */
    larder__epoch total;
    double filled; /* samples whose batches' filling was timed */
} output;

static void tick(void *arg, const larder__tick *t) {
    output *out = arg;
    larder__progress_show(&out->progress,
                          &(larder__progress_view){.name = out->o->name,
                                                   .epoch = t->epoch + 1,
                                                   .epochs = out->o->conf.epochs,
                                                   .step = t->step,
                                                   .steps = t->steps,
                                                   .served = t->served,
                                                   .hits = t->hits,
                                                   .substitutes = t->substitutes,
                                                   .storage_bytes = t->storage_bytes,
                                                   .requests = t->requests,
                                                   .seconds = t->seconds,
                                                   .stall_seconds = t->stall_seconds,
                                                   .h = t->h,
                                                   .gap = t->gap,
                                                   .ratio = t->ratio,
                                                   .planned = isfinite(t->encoded),
                                                   .encoded = t->encoded,
                                                   .decoded = t->decoded,
                                                   .augmented = t->augmented},
                          larder__now());
}

static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* Does the recipe tell losses of fresh samples from those of reused ones? */
static bool compares(const larder__trainer *t) {
    larder_about a = {.size = sizeof a};
    return larder_loader_about(larder__trainer_loader(t, false), &a) == 0 && a.compares;
}

static void print_head(const output *out, const larder__trainer *t) {
    if (out->o->json)
        return;
    char cache[256];
    printf("%s: %s, cache ", out->o->name, out->o->conf.recipe);
    larder__shown_print(stdout, larder__cache_mask(out->o->conf.cache, cache, sizeof cache));
    printf(", %llu samples of ", (unsigned long long)larder__trainer_samples(t));
    larder__shown_print(stdout, out->o->uri);
    printf("%s%s\n", out->o->slow ? ", storage " : "", out->o->slow ? out->o->slow : "");
    printf("epoch  acc %%   loss  time s stall%% hits%% subs%% rept%% miss%% touch%% MB read %s\n",
           out->compared ? "   gap" : "  reqs");
}

/* Six letters at most. */
static const char *short_count(char out[16], double n) {
    if (n < 1e6)
        snprintf(out, 16, "%.0f", n);
    else
        snprintf(out, 16, n < 1e9 ? "%.1fM" : "%.1fG", n / (n < 1e9 ? 1e6 : 1e9));
    return out;
}

/* Four digits that matter, in six letters. */
static const char *short_real(char out[16], double x) {
    if (!isfinite(x))
        return "-";
    bool small = x < 9.99995 && x > -9.9995;
    snprintf(out, 16, small ? (x < 0 ? "%.3f" : "%.4f") : fabs(x) < 9999.5 ? "%.4g" : "%.0e", x);
    return out;
}

/* A line of 80 letters; --json has the rest (top5, fresh_loss, waits and so on). */
static void print_human(const larder__epoch *e, bool compared) {
    char accuracy[16] = "-", loss[16], last[16];
    if (isfinite(e->accuracy))
        snprintf(accuracy, sizeof accuracy, "%.2f", 100 * e->accuracy);
    double served = (double)e->served;
    printf("%5llu %6s %6s %7.2f %6.1f %5.1f %5.1f %5.1f %5.1f %6.1f %7.1f %6s\n",
           (unsigned long long)e->epoch, accuracy, short_real(loss, e->loss), e->seconds,
           share(e->stall_seconds, e->seconds), share((double)e->hits, served),
           share((double)e->substitutes, served), share((double)e->repeats, served),
           share((double)e->misses, served), 100 * e->touched, (double)e->storage_bytes / 1e6,
           compared ? short_real(last, e->gap) : short_count(last, e->requests));
}

/* What the run decided by measuring, for --replay: whole after every epoch, and at the end. */
static int keep_decisions(const output *out, const larder__trainer *t) {
    char path[LARDER__URI_BYTES];
    void *bytes;
    size_t size;
    if (!out->o->out)
        return 0;
    snprintf(path, sizeof path, "%s/decisions", out->o->out); /* the name's length was checked */
    int rc = larder_loader_save(larder__trainer_loader(t, false), LARDER_DECISIONS, &bytes, &size);
    if (rc == 0)
        rc = larder__file_write(path, bytes, size);
    larder_free(bytes);
    return rc;
}

static int show_epoch(output *out, const larder__epoch *e) {
    larder__progress_clear(&out->progress);
    if (out->o->json)
        larder__epoch_print(stdout, e);
    else
        print_human(e, out->compared);
    out->total.seconds += e->seconds, out->total.stall_seconds += e->stall_seconds;
    out->total.served += e->served, out->total.storage_bytes += e->storage_bytes;
    out->total.requests += e->requests;
    out->total.forward_seconds += e->forward_seconds;
    out->total.backward_seconds += e->backward_seconds;
    out->total.score_seconds = e->score_seconds; /* means and sums since the start */
    out->total.score_late = e->score_late, out->total.score_rows_lost = e->score_rows_lost;
    out->total.scratch_bytes += e->scratch_bytes;
    out->total.scratch_written += e->scratch_written;
    if (isfinite(e->fill_mean)) { /* else nothing was filled in it: all had been before */
        out->total.fill_mean += e->fill_mean * (double)e->served;
        out->filled += (double)e->served;
    }
    out->total.fill_p99 = e->fill_p99, out->total.wait_p99 = e->wait_p99;
    out->total.hits_encoded += e->hits_encoded, out->total.hits_decoded += e->hits_decoded;
    out->total.hits_augmented += e->hits_augmented, out->total.hits_shrunk += e->hits_shrunk;
    out->total.hits_front += e->hits_front;
    out->total.hits += e->hits, out->total.substitutes += e->substitutes;
    if (fflush(stdout) != 0 || ferror(stdout))
        return larder__fail(LARDER_E_IO, "standard output: %s", strerror(errno));
    if (!out->record)
        return 0;
    larder__epoch_print(out->record, e);
    if (fflush(out->record) != 0 || ferror(out->record))
        return larder__fail(larder__code_of_errno(errno), "%s/epochs.jsonl: %s", out->o->out,
                            strerror(errno));
    return 0;
}

/* Time a batch by stage: the scoring is beside the other two. */
static void print_stages(const output *out) {
    const larder__epoch *t = &out->total;
    double batches = (double)t->served / (double)out->o->conf.batch;
    if (out->o->json || !isfinite(t->score_seconds) || batches <= 0)
        return;
    printf(
        "%s: a batch waits %.2f ms and trains %.2f ms, %.2f of it forward and %.2f back; its "
        "scoring takes %.2f ms beside that; %.0f batches were scored late, %.1f%% of the samples "
        "not at all\n",
        out->o->name, 1e3 * t->stall_seconds / batches,
        1e3 * (t->seconds - t->stall_seconds) / batches, 1e3 * t->forward_seconds / batches,
        1e3 * t->backward_seconds / batches, 1e3 * t->score_seconds, t->score_late,
        share(t->score_rows_lost, (double)t->served));
}

static void print_tail(const output *out) {
    const larder__epoch *t = &out->total;
    if (!out->o->json && t->served)
        printf("%s: %.1f s of training, %.0f%% of it waiting; %.1f MB read from storage by %.0f "
               "requests, %.0f bytes a sample\n",
               out->o->name, t->seconds, share(t->stall_seconds, t->seconds),
               (double)t->storage_bytes / 1e6, t->requests,
               (double)t->storage_bytes / (double)t->served);
    if (!out->o->json && t->served)
        printf(
            "%s: a batch was filled in %.2f ms (99 %% below %.2f ms), 99 %% were waited for less "
            "than %.2f ms\n",
            out->o->name, 1e3 * t->fill_mean / out->filled, 1e3 * t->fill_p99, 1e3 * t->wait_p99);
    if (!out->o->json && (t->scratch_bytes || t->scratch_written))
        printf("%s: %.1f MB of packages laid down, %.1f MB read from them\n", out->o->name,
               (double)t->scratch_written / 1e6, (double)t->scratch_bytes / 1e6);
    double hits = t->hits_encoded + t->hits_decoded + t->hits_augmented + t->hits_shrunk;
    if (!out->o->json && hits > 0)
        printf(
            "%s: hits by form: %.1f%% encoded, %.1f%% decoded, %.1f%% augmented, %.1f%% shrunk\n",
            out->o->name, share(t->hits_encoded, hits), share(t->hits_decoded, hits),
            share(t->hits_augmented, hits), share(t->hits_shrunk, hits));
    double all = (double)(t->hits + t->substitutes);
    if (!out->o->json && all > 0 && isfinite(t->hits_front))
        printf("%s: hits by tier: %.1f%% in memory, %.1f%% behind it\n", out->o->name,
               share(t->hits_front, all), share(all - t->hits_front, all));
}

/* Where the time of a step went, and what would help. */
static void print_times(const output *out, const larder__times *t) {
    double all = 0;
    for (int k = 0; k < LARDER__TIMES; k++)
        all += t->seconds[k];
    if (out->o->json || !(t->seconds[LARDER__TIME_TRAINING] > 0)) /* no step was made */
        return;
    printf("%s: of a step's time", out->o->name);
    for (int k = 0; k < LARDER__TIMES; k++)
        printf("%s %.1f%% %s", k ? "," : "", share(t->seconds[k], all), larder__time_name(k));
    printf("\n%s: ", out->o->name);
    larder__shown_print(stdout, t->says);
    putchar('\n');
}

/* How plan=auto shared the cache out, and why. */
static void print_plans(const output *out, const larder__trainer *t) {
    larder_loader *l = larder__trainer_loader(t, false);
    larder__plan_turn p;
    for (size_t i = 0; !out->o->json && larder__loader_replan(l, i, &p) == 0; i++)
        printf("%s: from batch %llu on the cache is split %d/%d/%d: %.0f samples/s expected "
               "instead of %.0f, which %s held up; now it is %s\n",
               out->o->name, (unsigned long long)p.batch, p.encoded, p.decoded, p.augmented,
               p.expected, p.before, larder__resource_name(p.held_up_by),
               larder__resource_name(p.bottleneck));
}

/* What --on-bad passed over: never silent, but not line by line either. */
static void print_bad(const larder__trainer *t) {
    larder_loader *l = larder__trainer_loader(t, false);
    larder_bad bad = {.size = sizeof bad};
    size_t n = 0;
    while (larder_loader_bad(l, n, &bad) == 0 && n < 3) {
        fprintf(stderr, "larder train: passed over: %s\n", bad.why);
        n++;
    }
    while (larder_loader_bad(l, n, &bad) == 0)
        n++;
    if (n > 3)
        fprintf(stderr, "larder train: and %zu more bad samples\n", n - 3);
}

/* What is no error and should be known, as soon as it is. */
static void print_notes(output *out, const larder__trainer *t) {
    char says[512];
    for (int test = 0; test < 2; test++)
        while (larder_loader_says(larder__trainer_loader(t, test), LARDER_SAYS_NOTE,
                                  out->noted[test], says, sizeof says) == 0) {
            larder__progress_clear(&out->progress);
            fprintf(stderr, "larder train: %s\n", says);
            out->noted[test]++;
        }
}

static void print_cache_note(const larder__trainer *t) {
    char why[300];
    if (larder_loader_says(larder__trainer_loader(t, false), LARDER_SAYS_CACHE, 0, why,
                           sizeof why) == 0 &&
        why[0])
        fprintf(stderr, "larder train: some samples went without the cache elsewhere: %s\n", why);
}

/* A tape that ended early is said at once, and how long it is at the end. */
static bool print_recorded(const output *out, const larder__trainer *t, bool over) {
    larder_loader *l = larder__trainer_loader(t, false);
    larder_about now = {.size = sizeof now};
    char why[512], size[32];
    if (larder_loader_about(l, &now) < 0 ||
        larder_loader_says(l, LARDER_SAYS_RECORD, 0, why, sizeof why) < 0 ||
        (!now.recorded && !why[0]))
        return false;
    if (why[0] && !over)
        fprintf(stderr, "larder train: %s\n", why);
    else if (!why[0] && over && !out->o->json)
        printf("%s: %s recorded\n", out->o->name, larder__print_bytes((double)now.recorded, size));
    return why[0];
}

static void print_scratch(const larder__trainer *t) {
    larder_loader *l = larder__trainer_loader(t, false);
    larder_about now = {.size = sizeof now};
    char why[256];
    if (larder_loader_about(l, &now) == 0 && now.refused &&
        larder_loader_says(l, LARDER_SAYS_SCRATCH, 0, why, sizeof why) == 0)
        fprintf(stderr, "larder train: %llu packages went without the scratch folder: %s\n",
                (unsigned long long)now.refused, why);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void copy(char *out, const char *from) { snprintf(out, 256, "%s", from ? from : ""); }

static int open_record(output *out, const larder__trainer *t) {
    const options *o = out->o;
    larder__meta *m = &out->meta;
    char path[LARDER__URI_BYTES];
    if (!o->out)
        return 0;
    int rc = larder__folder_make(o->out, 0777);
    if (rc < 0)
        return rc;
    if (snprintf(path, sizeof path, "%s/epochs.jsonl", o->out) >= (int)sizeof path)
        return larder__fail(LARDER_E_ARGS, "the name of the folder for --out is too long");
    int fd;
    rc = larder__stream_open(&fd, path, O_WRONLY | O_TRUNC);
    if (rc < 0)
        return rc;
    if (!(out->record = fdopen(fd, "w"))) {
        close(fd);
        return larder__fail(LARDER_E_NOMEM, "%s: out of memory", path);
    }
    copy(m->name, o->name), copy(m->status, "running"), copy(m->source, o->uri);
    copy(m->recipe, o->conf.recipe), copy(m->slow, o->slow);
    larder__cache_mask(o->conf.cache, m->cache, sizeof m->cache);
    copy(m->net, o->conf.net), copy(m->augment, larder__trainer_augment(t));
    copy(m->version, larder_version()), copy(m->features, larder_features());
    larder__host_say(m->machine, sizeof m->machine);
    m->threads = o->conf.threads;
    m->samples = larder__trainer_samples(t), m->batch = o->conf.batch, m->seed = o->conf.seed;
    m->epochs_asked = o->conf.epochs, m->rate = larder__trainer_rate(t);
    return larder__meta_write(o->out, m);
}

static int close_record(output *out, const char *status) {
    if (!out->record)
        return 0;
    fclose(out->record); /* every line was flushed and checked */
    out->record = NULL;
    copy(out->meta.status, status);
    return larder__meta_write(out->o->out, &out->meta);
}

/* ---- the run --------------------------------------------------------------------------------- */

static int train(output *out, larder__trainer *t) {
    for (;;) {
        larder__epoch e;
        int rc = larder__trainer_epoch(t, &e);
        if (rc == LARDER_END)
            return 0;
        char why[512]; /* showing the part that was trained must not hide what went wrong */
        snprintf(why, sizeof why, "%s", rc < 0 ? larder_errmsg() : "");
        int shown = rc == 0 || e.served ? show_epoch(out, &e) : 0;
        if (rc == 0 && (rc = shown) < 0)
            snprintf(why, sizeof why, "%s", larder_errmsg());
        print_notes(out, t);
        if (!out->unrecorded)
            out->unrecorded = print_recorded(out, t, false);
        if (rc < 0) {
            larder__errmsg_set(why);
            return rc;
        }
        if ((rc = keep_decisions(out, t)) < 0)
            return rc;
    }
}

static void ask_trainer(void *t) { larder__trainer_cancel(t); }

static int run(void *arg, larder__stop *stop) {
    const options *o = arg;
    char slowed[LARDER__URI_BYTES], test[LARDER__URI_BYTES];
    larder__trainer_conf conf = o->conf;
    larder__trainer *t = NULL;
    output out = {.o = o, .total = larder__epoch_blank()};
    out.total.forward_seconds = out.total.backward_seconds = 0;
    out.total.hits_encoded = out.total.hits_decoded = out.total.hits_augmented = 0;
    out.total.hits_shrunk = out.total.requests = 0;
    int rc = 0;
    conf.source = o->uri;
    if (o->slow && (rc = larder__parts_slow_uri(slowed, o->slow, o->uri)) == 0)
        conf.source = slowed;
    if (rc == 0 && !conf.test && (rc = larder__parts_test_uri(test, o->uri)) == 0)
        conf.test = test, conf.derived = true;
    else if (conf.test && strcmp(conf.test, "none") == 0)
        conf.test = NULL;
    conf.tick = tick;
    conf.tick_arg = &out;
    larder__progress_open(&out.progress, o->json || o->quiet ? NULL : stderr);
    larder__stop_early(stop, "larder train: stopped\n");
    if (rc == 0)
        rc = larder__trainer_open(&t, &conf);
    larder__stop_early(stop, NULL);
    if (rc < 0)
        return rc;
    larder__stop_tell(stop, ask_trainer, t);
    print_notes(&out, t);
    if ((rc = open_record(&out, t)) == 0) {
        out.compared = compares(t);
        print_head(&out, t);
        rc = train(&out, t);
    }
    char why[512];
    snprintf(why, sizeof why, "%s", rc < 0 ? larder_errmsg() : "");
    larder__stop_tell(stop, NULL, NULL);
    larder__progress_clear(&out.progress);
    print_tail(&out);
    print_stages(&out);
    larder__times times = {0};
    larder__loader_times(larder__trainer_loader(t, false), &times);
    print_times(&out, &times);
    copy(out.meta.verdict, times.says);
    bool stopped = rc == LARDER_E_CANCELLED;
    int kept = stopped ? keep_decisions(&out, t) : 0;
    int closed = close_record(&out, rc == 0 ? "done" : stopped ? "interrupted" : "failed");
    print_plans(&out, t);
    print_bad(t);
    print_scratch(t);
    print_cache_note(t);
    print_recorded(&out, t, true);
    if (rc < 0)
        larder__errmsg_set(why);
    larder__trainer_close(&t);
    return rc < 0 ? rc : kept < 0 ? kept : closed;
}

int larder__cmd_train(int argc, char **argv) {
    options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    return larder__stoppable_run(
        &(larder__stoppable){.name = "train", .run = run, .options = &o, .stopped = "stopped"});
}
