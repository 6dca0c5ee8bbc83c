#include "train/trainer.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/gemm.h"
#include "base/mem.h"
#include "loader/figures/shown.h"
#include "source/source.h"
#include "train/net.h"
#include "train/parts.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Figures of the recipe that go into an epoch as they are: the loader's name, and the place. */
static const struct {
    const char *name;
    size_t at;
} shown_fields[] = {
#define XX(kind, name) {#name, offsetof(larder__epoch, name)},
    LARDER__SHOWN_FIELDS(XX)
#undef XX
};
enum { SHOWN = sizeof shown_fields / sizeof *shown_fields, RATIO = 0 };

struct larder__trainer {
    larder__trainer_conf conf; /* its texts are not kept */
    larder_loader *train, *test;
    larder__net *net;
    uint64_t samples; /* of training, and what one is like */
    larder_shape shape;
    uint32_t classes;
    uint64_t epoch, step; /* of the next batch */
    double rate;
    larder__epoch before; /* sums of the finished epochs */
    size_t h_stat;        /* where the loader shows h; SIZE_MAX: it has none */
    size_t shown[SHOWN];  /* and the figures above */
    size_t split[3];      /* and plan=auto's percent of each form */
    size_t wait_stat, fill_stat, evaluation_stat;
    bool forms; /* its cache is shared out between forms */
    bool tiers; /* there is another in front of it */
    _Atomic bool cancelled;
    char augment[LARDER__URI_BYTES];
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Opens the data set just to look at it. */
static int look(larder_dataset *out, const char *uri) {
    larder__data *data = NULL;
    int rc = larder__data_open(&data, uri);
    if (rc < 0)
        return rc;
    *out = *larder__data_about(data);
    larder__data_close(&data);
    return 0;
}

/* Says what a person can do who never named a test set. */
static int no_test(int code) {
    return larder__fail_in(code, "no test part to validate on (--test URI names one, --test none "
                                 "does without)");
}

static int look_at_test(larder_dataset *out, const larder__trainer_conf *conf) {
    int rc = look(out, conf->test), source;
    if (rc == 0 || !conf->derived)
        return rc;
    char why[512];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    if ((source = look(out, conf->source)) < 0)
        return source; /* nothing is there at all: that is the sentence to read */
    larder__errmsg_set(why);
    return no_test(rc);
}

/* The preparation comes from what the samples are; the test part is the cheaper one to ask. */
static int choose_augment(larder__trainer *t, const larder__trainer_conf *conf) {
    const char *chosen = conf->augment;
    if (!chosen) {
        larder_dataset about;
        int rc = conf->test ? look_at_test(&about, conf) : look(&about, conf->source);
        if (rc < 0)
            return rc;
        chosen = larder__parts_augment(&about);
    }
    if (snprintf(t->augment, sizeof t->augment, "%s", chosen) >= (int)sizeof t->augment)
        return larder__fail(LARDER_E_ARGS, "the preparation is longer than %zu bytes",
                            sizeof t->augment - 1);
    return 0;
}

/* Some sources take ?split=test and have no parts: an accuracy on the training samples would look
 * like a good one. Only data sets of one size are worth a second look. */
static int check_apart(larder__trainer *t, const larder__trainer_conf *conf) {
    larder_dataset train, test;
    larder_about about = {.size = sizeof about};
    int rc = conf->derived ? larder_loader_about(t->test, &about) : 0;
    if (rc < 0 || !conf->derived || about.samples != t->samples)
        return rc;
    if ((rc = look(&train, conf->source)) < 0 || (rc = look(&test, conf->test)) < 0)
        return rc;
    if (train.identity != test.identity)
        return 0;
    larder__fail(LARDER_E_NOTFOUND, "%.200s is the training data itself", conf->test);
    return no_test(LARDER_E_NOTFOUND);
}

static size_t find_stat(const larder__trainer *t, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(t->train, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return i;
    return SIZE_MAX;
}

static void find_figures(larder__trainer *t) {
    t->h_stat = find_stat(t, "h");
    t->wait_stat = find_stat(t, "stall_seconds");
    t->fill_stat = find_stat(t, "fill_seconds");
    t->evaluation_stat = find_stat(t, "evaluation_seconds");
    static const char *const split[3] = {"plan_encoded", "plan_decoded", "plan_augmented"};
    for (size_t i = 0; i < 3; i++)
        t->split[i] = find_stat(t, split[i]);
    for (size_t i = 0; i < SHOWN; i++)
        t->shown[i] = find_stat(t, shown_fields[i].name);
}

static int open_train(larder__trainer *t, const larder__trainer_conf *conf) {
    larder_loader_conf lc = {.size = sizeof lc};
    lc.source = conf->source;
    lc.recipe = conf->recipe;
    lc.cache = conf->cache;
    lc.augment = t->augment;
    lc.fields = conf->fields;
    lc.target = conf->target;
    lc.cage = conf->cage;
    lc.batch = conf->batch;
    lc.seed = conf->seed;
    lc.epochs = conf->epochs;
    lc.threads = conf->threads;
    lc.inflight = conf->inflight;
    lc.ahead = conf->ahead;
    lc.on_bad = conf->on_bad;
    lc.record = conf->record;
    lc.replay = conf->replay;
    lc.dtype = LARDER_F32;
    lc.layout = LARDER_NCHW;
    int rc = larder_loader_open(&t->train, &lc);
    if (rc == 0 && (rc = larder__loader_check_labels(t->train)) < 0)
        rc = larder__fail_in(rc, "training needs labels");
    larder_about about = {.size = sizeof about};
    if (rc == 0)
        rc = larder_loader_about(t->train, &about);
    if (rc == 0) {
        t->samples = about.samples;
        t->shape = about.shape;
        t->classes = about.classes;
        find_figures(t);
        t->forms = find_stat(t, "cache_decoded_bytes") != SIZE_MAX;
        t->tiers = find_stat(t, "front_hits") != SIZE_MAX;
    }
    return rc;
}

/* Validation keeps its encoded samples in memory, as far as that is cheap, so that it costs the
 * storage nothing after the first time; its reads are in nobody's figures. */
static int open_test(larder__trainer *t, const larder__trainer_conf *conf) {
    char augment[LARDER__URI_BYTES];
    larder_loader_conf lc = {.size = sizeof lc};
    if (!conf->test)
        return 0;
    int rc = conf->test_augment ? 0 : larder__parts_test_augment(augment, t->augment);
    if (rc < 0)
        return rc;
    lc.source = conf->test;
    lc.recipe = "minio";
    lc.cache = "256MiB";
    lc.record = "";
    lc.augment = conf->test_augment ? conf->test_augment : augment;
    lc.fields = conf->fields;
    lc.target = conf->target;
    lc.cage = conf->cage;
    lc.batch = conf->batch;
    lc.seed = conf->seed;
    lc.epochs = 0;
    lc.threads = 1;
    lc.dtype = LARDER_F32;
    lc.layout = LARDER_NCHW;
    if ((rc = larder_loader_open(&t->test, &lc)) < 0)
        return conf->derived ? no_test(rc)
                             : larder__fail_in(rc, "validation on %.200s", conf->test);
    larder__loader_hide(t->test);
    if ((rc = larder__loader_check_labels(t->test)) < 0)
        return larder__fail_in(rc, "validation needs labels");
    if ((rc = check_apart(t, conf)) < 0)
        return rc;
    larder_about about = {.size = sizeof about};
    if ((rc = larder_loader_about(t->test, &about)) < 0)
        return rc;
    larder_shape a = t->shape, b = about.shape;
    if (a.h != b.h || a.w != b.w || a.c != b.c)
        return larder__fail(LARDER_E_ARGS,
                            "training samples are %ux%ux%u but test samples %ux%ux%u; "
                            "bring them to one size with --augment and --test-augment",
                            a.h, a.w, a.c, b.h, b.w, b.c);
    return 0;
}

static int look_again(void *arg, const larder_batch *b, float *loss) {
    larder__trainer *t = arg;
    larder__net_result r;
    int rc = larder__net_eval(t->net, b->x, b->y, b->n, &r);
    if (rc == 0)
        memcpy(loss, r.loss, b->n * sizeof *loss);
    return rc;
}

static int open_net(larder__trainer *t, const larder__trainer_conf *conf) {
    if (t->classes < 2)
        return larder__fail(LARDER_E_ARGS,
                            "%.200s has %u classes; training needs labels of at "
                            "least two",
                            conf->source, t->classes);
    larder__gemm_threads(conf->net_threads ? conf->net_threads : 1);
    return larder__net_open(&t->net, &(larder__net_conf){.kind = conf->net,
                                                         .shape = t->shape,
                                                         .classes = t->classes,
                                                         .batch = conf->batch,
                                                         .seed = conf->seed,
                                                         .momentum = 0.9f,
                                                         .decay = (float)conf->decay});
}

static void forget_texts(larder__trainer_conf *c) {
    c->source = c->test = c->recipe = c->cache = c->net = c->augment = c->test_augment = NULL;
    c->record = c->replay = NULL;
}

int larder__trainer_open(larder__trainer **out, const larder__trainer_conf *conf) {
    *out = NULL;
    if (conf->epochs == 0 || conf->batch == 0)
        return larder__fail(LARDER_E_ARGS, "training needs at least one epoch and a batch size");
    larder__trainer *t = larder__calloc(1, sizeof *t);
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "train: no memory");
    t->conf = *conf;
    t->rate = conf->rate > 0 ? conf->rate : larder__net_rate(conf->net);
    int rc;
    if ((rc = choose_augment(t, conf)) < 0 || (rc = open_train(t, conf)) < 0 ||
        (rc = open_test(t, conf)) < 0 || (rc = open_net(t, conf)) < 0 ||
        (rc = larder_loader_evaluator(t->train, look_again, t)) < 0) {
        larder__trainer_close(&t);
        return rc;
    }
    forget_texts(&t->conf);
    *out = t;
    return 0;
}

void larder__trainer_close(larder__trainer **where) {
    larder__trainer *t = *where;
    if (!t)
        return;
    larder_loader_close(&t->train);
    larder_loader_close(&t->test);
    larder__net_close(&t->net);
    larder__free(t);
    *where = NULL;
}

void larder__trainer_cancel(larder__trainer *t) {
    atomic_store(&t->cancelled, true);
    larder_loader_cancel(t->train);
    if (t->test)
        larder_loader_cancel(t->test);
}

larder_loader *larder__trainer_loader(const larder__trainer *t, bool test) {
    return test ? t->test : t->train;
}
uint64_t larder__trainer_samples(const larder__trainer *t) { return t->samples; }
double larder__trainer_rate(const larder__trainer *t) { return t->rate; }
const char *larder__trainer_augment(const larder__trainer *t) { return t->augment; }

/* ---- one batch ------------------------------------------------------------------------------- */

typedef struct times { /* of a histogram: observations, their sum and that of their squares */
    double count, sum, squares, p50, p90, p99;
} times;

static times times_of(const larder__trainer *t, size_t stat) {
    larder_stat_value v = {.size = sizeof v};
    if (stat == SIZE_MAX || larder_loader_stat(t->train, stat, &v) < 0)
        return (times){0};
    double n = (double)v.count;
    return (times){n, n * v.value, n * (v.value * v.value + v.sd * v.sd), v.p50, v.p90, v.p99};
}

static larder__times times_spent(const larder__trainer *t) {
    larder__times out = {0};
    larder__loader_times(t->train, &out); /* without a loader: no time was spent */
    return out;
}

/* What came between two looks. */
static void mean_between(times was, times is, double *mean, double *sd) {
    double n = is.count - was.count;
    *mean = n > 0 ? (is.sum - was.sum) / n : (double)NAN;
    *sd = n > 0 ? sqrt(fmax((is.squares - was.squares) / n - *mean * *mean, 0)) : (double)NAN;
}

typedef struct pass { /* the epoch under way */
    uint64_t batches, batch;
    double start, loss_sum, h_sum;
    double forward, backward; /* seconds of the network alone */
    uint64_t samples;
    times wait, fill, evaluation; /* as it began */
    larder__times spent;
} pass;

/* Falls to 0 at the end of the last epoch, also when recipes make epochs of different length. */
static float rate_now(const larder__trainer *t, const pass *p) {
    double within = p->batches ? fmin((double)p->batch / (double)p->batches, 1) : 0;
    return (float)(t->rate * (1 - ((double)t->epoch + within) / (double)t->conf.epochs));
}

static double stat_now(const larder__trainer *t, size_t stat) {
    larder_stat_value v = {.size = sizeof v};
    bool there = stat != SIZE_MAX && larder_loader_stat(t->train, stat, &v) == 0;
    return there ? v.value : (double)NAN;
}

static double h_now(const larder__trainer *t) { return stat_now(t, t->h_stat); }

static void take_shown(const larder__trainer *t, larder__epoch *out) {
    for (size_t i = 0; i < SHOWN; i++) {
        double value = stat_now(t, t->shown[i]);
        memcpy((char *)out + shown_fields[i].at, &value, sizeof value);
    }
}

static int learn(larder__trainer *t, pass *p, const larder_batch *b) {
    larder__net_result r;
    double begun = larder__now();
    int rc = larder__net_step(t->net, b->x, b->y, b->n, b->weight, rate_now(t, p), &r);
    if (rc < 0)
        return rc;
    p->forward += r.forward_seconds;
    p->backward += larder__now() - begun - r.forward_seconds;
    double sum = 0;
    for (size_t i = 0; i < b->n; i++)
        sum += (double)r.loss[i];
    if (!isfinite(sum))
        return larder__fail(LARDER_E_RANGE,
                            "training diverged in epoch %llu, batch %llu: the loss is "
                            "no number any more; a lower learning rate than %g (--lr) may help",
                            (unsigned long long)t->epoch, (unsigned long long)p->batch, t->rate);
    p->loss_sum += sum;
    p->samples += b->n;
    p->h_sum += h_now(t) * (double)b->n;
    return larder_loader_report(t->train, b,
                                &(larder_feedback){.size = sizeof(larder_feedback),
                                                   .loss = r.loss,
                                                   .logits = r.logits,
                                                   .classes = t->classes,
                                                   .embeddings = r.embeddings,
                                                   .dim = r.dim});
}

/* The ledger's figures and the clock into `out`; works in the middle of an epoch too. */
static int take_stock(larder__trainer *t, const pass *p, larder__epoch *out) {
    larder_figures f = {.size = sizeof f};
    int rc = larder_loader_figures(t->train, t->epoch, &f);
    if (rc < 0)
        return rc;
    out->epoch = t->epoch;
    out->loss = p->samples ? p->loss_sum / (double)p->samples : (double)NAN;
    out->h = p->samples ? p->h_sum / (double)p->samples : (double)NAN;
    out->served = f.served, out->hits = f.hits, out->substitutes = f.substitutes;
    out->repeats = f.repeats, out->misses = f.misses;
    out->background_reads = f.background_reads, out->touched = f.touched;
    out->storage_bytes = f.storage_bytes, out->requests = (double)f.requests;
    out->evaluated = f.evaluated, out->evaluation_reads = f.evaluation_reads;
    out->scratch_reads = f.scratch_reads, out->scratch_bytes = f.scratch_bytes;
    out->scratch_written = f.scratch_written;
    bool compared = f.fresh_reported > 0;
    out->fresh_reported = compared ? (double)f.fresh_reported : (double)NAN;
    out->reused_reported = compared ? (double)f.reused_reported : (double)NAN;
    out->fresh_loss = f.fresh_loss, out->reused_loss = f.reused_loss;
    out->gap = f.fresh_loss - f.reused_loss;
    out->hits_encoded = t->forms ? (double)f.form_hits[LARDER_ENCODED] : (double)NAN;
    out->hits_decoded = t->forms ? (double)f.form_hits[LARDER_DECODED] : (double)NAN;
    out->hits_augmented = t->forms ? (double)f.form_hits[LARDER_AUGMENTED] : (double)NAN;
    out->hits_shrunk = t->forms ? (double)f.form_hits[LARDER_SHRUNK] : (double)NAN;
    out->hits_front = t->tiers ? (double)f.front_hits : (double)NAN;
    return 0;
}

static void take_times(const larder__trainer *t, const pass *p, larder__epoch *out) {
    times wait = times_of(t, t->wait_stat), fill = times_of(t, t->fill_stat);
    mean_between(p->wait, wait, &out->wait_mean, &out->wait_sd);
    mean_between(p->fill, fill, &out->fill_mean, &out->fill_sd);
    out->wait_p50 = wait.p50, out->wait_p90 = wait.p90, out->wait_p99 = wait.p99;
    out->fill_p50 = fill.p50, out->fill_p90 = fill.p90, out->fill_p99 = fill.p99;
    out->evaluation_seconds = times_of(t, t->evaluation_stat).sum - p->evaluation.sum;
    larder__times spent = times_spent(t);
    double part[LARDER__TIMES];
    for (int k = 0; k < LARDER__TIMES; k++)
        part[k] = spent.seconds[k] - p->spent.seconds[k];
    out->training_seconds = part[LARDER__TIME_TRAINING];
    out->forward_seconds = p->forward, out->backward_seconds = p->backward;
    out->wait_storage = part[LARDER__TIME_STORAGE];
    out->wait_decode = part[LARDER__TIME_DECODE], out->wait_augment = part[LARDER__TIME_AUGMENT];
    out->wait_cache = part[LARDER__TIME_CACHE], out->wait_assembly = part[LARDER__TIME_ASSEMBLY];
}

/* What held the feeding up when the cache was last shared out. */
static void take_bottleneck(const larder__trainer *t, larder__epoch *out) {
    larder__plan_turn p;
    size_t n = 0;
    while (larder__loader_replan(t->train, n, &p) == 0)
        n++;
    if (n)
        snprintf(out->plan_bottleneck, sizeof out->plan_bottleneck, "%s",
                 larder__resource_name(p.held_up_by));
}

static void tell(larder__trainer *t, const pass *p, larder__epoch *now) {
    if (!t->conf.tick || take_stock(t, p, now) < 0)
        return;
    t->conf.tick(
        t->conf.tick_arg,
        &(larder__tick){.epoch = t->epoch,
                        .step = t->step,
                        .steps = t->step - p->batch + (t->conf.epochs - t->epoch) * p->batches,
                        .served = t->before.served + now->served,
                        .hits = t->before.hits + now->hits,
                        .substitutes = t->before.substitutes + now->substitutes,
                        .storage_bytes = t->before.storage_bytes + now->storage_bytes,
                        .requests = t->before.requests + now->requests,
                        .seconds = t->before.seconds + larder__now() - p->start,
                        .stall_seconds = t->before.stall_seconds + now->stall_seconds,
                        .h = h_now(t),
                        .gap = now->gap,
                        .ratio = stat_now(t, t->shown[RATIO]),
                        .encoded = stat_now(t, t->split[0]),
                        .decoded = stat_now(t, t->split[1]),
                        .augmented = stat_now(t, t->split[2])});
}

/* ---- one epoch ------------------------------------------------------------------------------- */

static int cancelled(void) { return larder__fail(LARDER_E_CANCELLED, "training was stopped"); }

static uint64_t batches_of(const larder__trainer *t) {
    larder_about about = {.size = sizeof about};
    return larder_loader_about(t->train, &about) < 0 ? 0 : about.batches;
}

/* A slower device's step: the batch is held as long as that would hold it. */
static void keep_pace(const larder__trainer *t, const larder_batch *b, double came) {
    double until = came + t->conf.pace * (double)b->n / (double)t->conf.batch;
    if (until > larder__now())
        larder__sleep_until(until);
}

/* 0 at the end of the epoch, LARDER_END if there was none to begin. */
static int train_epoch(larder__trainer *t, pass *p, larder__epoch *out) {
    for (;;) {
        const larder_batch *b;
        if (atomic_load(&t->cancelled))
            return cancelled();
        double before = larder__now();
        int rc = larder_loader_next(t->train, &b);
        out->stall_seconds += larder__now() - before;
        if (rc == LARDER_END && p->batch == 0)
            return LARDER_END;
        if (rc != 0)
            return rc < 0 ? rc : 0;
        if (p->batch == 0)
            p->batches = batches_of(t);
        double came = larder__now();
        if ((rc = learn(t, p, b)) == 0)
            keep_pace(t, b, came);
        int done = larder_loader_done(t->train, b);
        if (rc < 0 || done < 0)
            return rc < 0 ? rc : done;
        p->batch++;
        t->step++;
        tell(t, p, out);
    }
}

/* How many logits stand before the right one; ties go to the lower class. */
static size_t rank_of(const float *logits, size_t classes, size_t label) {
    size_t rank = 0;
    for (size_t j = 0; j < classes; j++)
        rank += logits[j] > logits[label] || (logits[j] == logits[label] && j < label);
    return rank;
}

static int validate(larder__trainer *t, larder__epoch *out) {
    size_t n = 0, top1 = 0, top5 = 0;
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(t->test, &b)) == 0) {
        larder__net_result r;
        rc = larder__net_eval(t->net, b->x, b->y, b->n, &r);
        for (size_t i = 0; rc == 0 && i < b->n; i++) {
            size_t rank = rank_of(r.logits + i * t->classes, t->classes, (size_t)b->y[i]);
            top1 += rank < 1;
            top5 += rank < 5;
        }
        n += b->n;
        int done = larder_loader_done(t->test, b);
        if (rc < 0 || done < 0)
            return larder__fail_in(rc < 0 ? rc : done, "validation");
    }
    if (rc < 0)
        return rc == LARDER_E_CANCELLED ? rc : larder__fail_in(rc, "validation");
    if (n == 0)
        return larder__fail(LARDER_E_FORMAT, "the test part is empty");
    out->accuracy = (double)top1 / (double)n;
    out->top5 = (double)top5 / (double)n;
    return larder_loader_validate(t->train, out->accuracy);
}

static void add_to(larder__epoch *sum, const larder__epoch *e) {
    sum->served += e->served, sum->hits += e->hits;
    sum->substitutes += e->substitutes, sum->storage_bytes += e->storage_bytes;
    sum->seconds += e->seconds, sum->stall_seconds += e->stall_seconds;
    sum->requests += e->requests;
}

int larder__trainer_epoch(larder__trainer *t, larder__epoch *out) {
    pass p = {.start = larder__now(),
              .wait = times_of(t, t->wait_stat),
              .fill = times_of(t, t->fill_stat),
              .evaluation = times_of(t, t->evaluation_stat),
              .spent = times_spent(t)};
    *out = larder__epoch_blank();
    out->epoch = t->epoch;
    if (t->epoch >= t->conf.epochs)
        return LARDER_END;
    int rc = train_epoch(t, &p, out);
    out->seconds = larder__now() - p.start;
    if (rc == LARDER_END)
        return rc;
    char why[512]; /* taking stock must not hide what went wrong first */
    snprintf(why, sizeof why, "%s", rc < 0 ? larder_errmsg() : "");
    int stock = take_stock(t, &p, out);
    take_shown(t, out);
    take_times(t, &p, out);
    take_bottleneck(t, out);
    if (rc < 0) {
        larder__errmsg_set(why);
        return rc;
    }
    if (stock < 0)
        return stock;
    add_to(&t->before, out);
    if (t->test && (rc = validate(t, out)) < 0)
        return rc;
    t->epoch++;
    return 0;
}
