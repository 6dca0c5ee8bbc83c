/* The loader's figures: what is counted and measured, by name, unit and meaning. Here they are
 * registered, and brought up to date whenever a batch is handed out. */
#include "base/limit.h"
#include "loader/figures/hint.h"
#include "loader/inside.h"

#include <math.h>
#include <string.h>

/* ---- registering ----------------------------------------------------------------------------- */

static double readers_started(const void *loader) {
    return __atomic_load_n(&((const larder_loader *)loader)->readers.started, __ATOMIC_RELAXED);
}

typedef struct entry {
    larder__stat *to;
    char type; /* 'c'ounter, 'h'istogram, 't'ime: a counter of seconds */
    const char *name, *unit, *help;
} entry;

static int enter(larder__stats *s, const entry *e, size_t n) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = e[i].type == 't' ? larder__stat_clock(s, e[i].to, e[i].name, e[i].help)
             : e[i].type == 'c'
                 ? larder__stat_counter(s, e[i].to, e[i].name, e[i].unit, e[i].help)
                 : larder__stat_histogram(s, e[i].to, e[i].name, e[i].unit, e[i].help);
    return rc;
}

int larder__measures_open(larder_loader *l) {
    larder__loader_stats *t = &l->stat;
    const entry all[] = {
        {&t->samples, 'c', "samples", "samples", "handed out"},
        {&t->batches, 'c', "batches", "batches", "handed out"},
        {&t->hits, 'c', "hits", "samples", "from memory, the id that was asked for"},
        {&t->substitutes, 'c', "substitutes", "samples", "another id instead of the one asked for"},
        {&t->misses, 'c', "misses", "samples", "read from storage for this request"},
        {&t->repeats, 'c', "repeats", "samples", "served before in the same epoch"},
        {&t->storage_reads, 'c', "storage_reads", "samples",
         "read from storage, for misses and ahead of need"},
        {&t->storage_bytes, 'c', "storage_bytes", "bytes", "read from storage"},
        {&t->storage_requests, 'c', "storage_requests", "requests",
         "to storage for those bytes: files, reads of a part of one, ranges of an object"},
        {&t->demand_bytes, 'c', "demand_bytes", "bytes",
         "what is served, as it lies in storage: what would be read without a cache"},
        {&t->bad, 'c', "bad_samples", "samples", "could not be read or decoded"},
        {&t->healed, 'c', "cache_healed", "samples",
         "what the cache held of them was no good: they were read again"},
        {&t->reports, 'c', "reports", "batches", "feedback given by training"},
        {&t->refused, 'c', "reports_refused", "batches",
         "feedback about anything but a batch at hand"},
        {&t->not_finite, 'c', "losses_not_finite", "samples",
         "reported losses that were NaN or infinite: no scores were made of them"},
        {&t->stall, 'h', "stall_seconds", "seconds", "time training waited for a batch"},
        {&t->fill, 'h', "fill_seconds", "seconds",
         "a batch from its first row taken to its last row there"},
        {&t->evaluation, 'h', "evaluation_seconds", "seconds",
         "looking at losses again before an epoch"},
        {&t->evaluated, 'c', "evaluated", "samples", "whose losses were looked at again"},
        {&t->scratch_read, 'c', "scratch_bytes", "bytes",
         "read from packages in the scratch folder"},
        {&t->scratch_written, 'c', "scratch_written", "bytes",
         "laid down as packages in the scratch folder"},
        {&t->scratch_time, 'h', "scratch_seconds", "seconds",
         "reading one package from the scratch folder"},
        {&t->read_time, 'h', "read_seconds", "seconds", "one joint read of up to 64 samples"},
        {&t->decode_time, 'h', "decode_seconds", "seconds",
         "decoding and augmenting up to 64 samples"},
        {&t->time[LARDER__TIME_TRAINING], 't', "training", "", "inside training steps"},
        {&t->time[LARDER__TIME_STORAGE], 't', "wait_storage", "", "training waited for reads"},
        {&t->time[LARDER__TIME_DECODE], 't', "wait_decode", "", "training waited for decoding"},
        {&t->time[LARDER__TIME_AUGMENT], 't', "wait_augment", "", "training waited for augmenting"},
        {&t->time[LARDER__TIME_CACHE], 't', "wait_cache", "",
         "training waited for order and cache to be decided"},
        {&t->time[LARDER__TIME_ASSEMBLY], 't', "wait_assembly", "",
         "training waited for a batch to be put together"},
    };
    int rc = larder__stats_open(&l->stats);
    if (rc == 0)
        rc = enter(l->stats, all, sizeof all / sizeof *all);
    if (rc < 0)
        return rc;
    return larder__stat_probe(l->stats, "readers", "threads",
                              "started beside, as storage answers late", readers_started, l);
}

static const struct {
    const char *name, *unit, *help;
} plan_figures[LARDER__PLAN_STATS] = {
    {"plan_encoded", "percent", "of the cache for encoded samples"},
    {"plan_decoded", "percent", "of the cache for decoded samples"},
    {"plan_augmented", "percent", "of the cache for augmented samples"},
    {"plan_rate", "samples/s", "what the model promised at the last change"},
    {"plan_changes", "", "how often the cache was shared out anew"},
    {"plan_bottleneck", "", "what holds the last plan up: 0 storage 1 cache 4 processors 5 GPU"}};

static double source_figure(const void *arg) {
    const larder__source_figure *f = arg;
    return larder__data_figure(f->data, f->i);
}

static int open_source_figures(larder_loader *l) {
    const larder_figure *f = larder__data_figures(l->data);
    int rc = 0;
    for (size_t i = 0; rc == 0 && f && f[i].name && i < LARDER_FIGURES; i++) {
        l->source_figures[i] = (larder__source_figure){l->data, i};
        rc = larder__stat_probe(l->stats, f[i].name, f[i].unit, f[i].help, source_figure,
                                &l->source_figures[i]);
    }
    return rc;
}

static int open_losses(larder_loader *l) {
    larder__loader_stats *t = &l->stat;
    int rc;
    if ((rc = larder__stat_gauge(l->stats, &t->fresh_loss, "fresh_loss", "",
                                 "mean reported in this epoch, not served for an epoch before")) <
            0 ||
        (rc = larder__stat_gauge(l->stats, &t->reused_loss, "reused_loss", "",
                                 "mean reported in this epoch, served within the epoch before")) <
            0 ||
        (rc = larder__stat_gauge(l->stats, &t->loss_gap, "loss_gap", "",
                                 "fresh_loss less reused_loss: what reuse memorises")) < 0)
        return rc;
    larder__measures_told(l, 0);
    return 0;
}

int larder__measures_figures(larder_loader *l) {
    const char *shown = larder__draw_shown_name(l->draw);
    int rc = open_source_figures(l);
    if (rc == 0 && shown)
        rc = larder__stat_gauge(l->stats, &l->stat.shown, shown, "",
                                "the sampler's own figure for the batch handed out last");
    if (rc == 0 && larder__draw_sampler(l->draw)->uneven) {
        rc = larder__stat_gauge(l->stats, &l->stat.ess, "ess", "",
                                "effective size of what the last whole epoch served, of all");
        if (rc == 0)
            larder__stat_set(l->stats, l->stat.ess, (double)NAN);
    }
    if (rc == 0 && larder__draw_compares(l->draw))
        rc = open_losses(l);
    const larder_figure *f = larder__draw_shows(l->draw);
    for (size_t i = 0; rc == 0 && f && f[i].name && i < LARDER_FIGURES; i++)
        rc = larder__stat_gauge(l->stats, &l->stat.figures[i], f[i].name, f[i].unit, f[i].help);
    for (size_t i = 0; l->plans && rc == 0 && i < LARDER__PLAN_STATS; i++)
        rc = larder__stat_gauge(l->stats, &l->stat.plan[i], plan_figures[i].name,
                                plan_figures[i].unit, plan_figures[i].help);
    return rc;
}

/* ---- at every batch -------------------------------------------------------------------------- */

static void show_recipe(larder_loader *l, const larder__planned *plan) {
    if (larder__draw_shown_name(l->draw))
        larder__stat_set(l->stats, l->stat.shown, plan->shown);
    const double now[LARDER__PLAN_STATS] = {plan->split.encoded,        plan->split.decoded,
                                            plan->split.augmented,      plan->plan_rate,
                                            (double)plan->plan_changes, plan->plan_bottleneck};
    for (size_t i = 0; l->plans && i < LARDER__PLAN_STATS; i++)
        larder__stat_set(l->stats, l->stat.plan[i], now[i]);
    const larder_figure *f = larder__draw_shows(l->draw);
    for (size_t i = 0; f && f[i].name && i < LARDER_FIGURES; i++)
        larder__stat_set(l->stats, l->stat.figures[i], plan->figures[i]);
}

/* ---- a word about another recipe ------------------------------------------------------------- */

static double value_of(larder_loader *l, larder__stat id) {
    larder_stat_value v;
    return larder__stat_read(l->stats, id, &v) == 0 ? v.value : 0;
}

/* Would storage keep up if only it were asked earlier? Then the time it needs for one sample leaves
 * room in the time one sample takes. */
static bool answers_late(larder_loader *l, double seconds) {
    double served = value_of(l, l->stat.samples), reads = value_of(l, l->stat.storage_reads);
    double each = larder__pace_now(&l->pace).read_seconds;
    return served > 0 && each > 0 && each * reads / served < 0.7 * seconds / served;
}

/* Of exactly-once training alone: who reuses already knows why, and who goes by the order of the
 * data set does not train. */
static void hint(larder_loader *l, uint64_t epoch, const larder_figures *f) {
    const larder_sampler *s = larder__draw_sampler(l->draw);
    char says[512];
    if (l->hidden || l->conf.rank || s->repeats || strcmp(s->plugin.name, "sequential") == 0 ||
        ++l->epochs_over != LARDER__HINT_EPOCHS || f->served == 0)
        return;
    larder_pace pace = larder__pace_now(&l->pace);
    const larder_dataset *about = larder__data_about(l->data);
    larder__cache_figures cache;
    larder__cache_read_figures(larder__draw_cache(l->draw), &cache);
    larder__hint_seen seen = {.first = epoch - 1,
                              .starved = value_of(l, l->stat.time[LARDER__TIME_STORAGE]),
                              .step = pace.step_seconds,
                              .read = pace.read_seconds,
                              .reads =
                                  (double)(f->misses + f->background_reads) / (double)f->served,
                              .cache = (double)cache.budget / (double)about->bytes};
    for (int k = 0; k < LARDER__TIMES; k++)
        seen.seconds += value_of(l, l->stat.time[k]);
    if (larder__pace_known(&l->pace) && answers_late(l, seen.seconds))
        return; /* asking for less would not help */
    if (larder__hint(says, sizeof says, &seen))
        larder__note(l->stats, "%s", says);
}

/* Reuse that storage needs and the gap of losses does not allow: said once, at an epoch's end. */
static void note_held(larder_loader *l, const larder__planned *plan) {
    if (l->held_told || l->hidden || l->conf.rank || !plan->last || !(plan->held > plan->shown))
        return;
    l->held_told = true;
    larder__note(l->stats,
                 "storage needs h=%.2f, the gap between losses of fresh and of reused samples "
                 "allows %.2f: training waits for storage instead; a larger cache or faster "
                 "storage would help, and a higher gap= allows more",
                 plan->held, plan->shown);
}

void larder__measures_handed(larder_loader *l, const larder__place *p,
                             const larder_figures *before) {
    larder_figures after;
    if (larder__ledger_figures(l->ledger, p->plan.epoch, &after) == 0) {
        larder__stat_add(l->stats, l->stat.hits, after.hits - before->hits);
        larder__stat_add(l->stats, l->stat.misses, after.misses - before->misses);
        larder__stat_add(l->stats, l->stat.repeats, after.repeats - before->repeats);
        larder__stat_add(l->stats, l->stat.substitutes, after.substitutes - before->substitutes);
        if (p->plan.last)
            hint(l, p->plan.epoch, &after);
    }
    note_held(l, &p->plan);
    larder__stat_add(l->stats, l->stat.samples, p->plan.n);
    larder__stat_add(l->stats, l->stat.batches, 1);
    if (p->plan.last && larder__draw_sampler(l->draw)->uneven)
        larder__stat_set(l->stats, l->stat.ess, larder__ledger_ess(l->ledger));
    show_recipe(l, &p->plan);
}

void larder__measures_told(larder_loader *l, uint64_t epoch) {
    larder_figures f = {.fresh_loss = (double)NAN, .reused_loss = (double)NAN};
    if (l->ledger)
        larder__ledger_figures(l->ledger, epoch, &f);
    larder__stat_set(l->stats, l->stat.fresh_loss, f.fresh_loss);
    larder__stat_set(l->stats, l->stat.reused_loss, f.reused_loss);
    larder__stat_set(l->stats, l->stat.loss_gap, f.fresh_loss - f.reused_loss);
}

/* ---- where the time went --------------------------------------------------------------------- */

/* Have draws waited for scores for most of the time that training waited for draws? */
static bool awaits_scores(larder_loader *l) {
    larder_stat_value v;
    for (size_t i = 0; larder__stat_read(l->stats, i, &v) == 0; i++)
        if (strcmp(v.name, "score_wait") == 0)
            return v.value > value_of(l, l->stat.time[LARDER__TIME_CACHE]) / 2;
    return false;
}

int larder__loader_times(larder_loader *l, larder__times *out) {
    double all = 0;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    uint32_t threads = l->conf.threads; /* fewer may have started than were wished for */
    double on_gpu = larder__freight_share(l);
    pthread_mutex_unlock(&l->lock);
    *out = (larder__times){.bottleneck = LARDER__TIME_TRAINING};
    for (int k = 0; k < LARDER__TIMES; k++)
        all += out->seconds[k] = value_of(l, l->stat.time[k]);
    double served = value_of(l, l->stat.samples);
    larder__verdict_case about = {.threads = threads,
                                  .cores = larder__cpu_count(),
                                  .ahead = l->conf.ahead,
                                  .cache = l->conf.cache,
                                  .hit_share = served > 0 ? value_of(l, l->stat.hits) / served : 0,
                                  .late = answers_late(l, all),
                                  .told = larder__pace_known(&l->pace),
                                  .encoded_kept = !l->plans && !l->spread &&
                                                  larder__data_about(l->data)->raw.h == 0 &&
                                                  !strchr(l->conf.cache, ':'),
                                  .gpu_could = on_gpu == -1,
                                  .gpu_on = on_gpu >= 0,
                                  .gpu_share = on_gpu,
                                  .scoring = awaits_scores(l),
                                  .shared = strncmp(l->conf.cache, "unix:", 5) == 0};
    larder__verdict(out, &about);
    return 0;
}
