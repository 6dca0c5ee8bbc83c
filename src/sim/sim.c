#include "sim/sim.h"

#include "base/err.h"
#include "base/mem.h"
#include "sim/precision.h"
#include "sim/sim_inside.h"

#include <math.h>
#include <stdio.h>

typedef larder__sim_state run;

static int asked_to_stop(const larder__sim_conf *c) {
    return c->stop && *c->stop ? larder__fail(LARDER_E_CANCELLED, "interrupted") : 0;
}

/* ---- the future, for policies that want it --------------------------------------------------- */

/* All requests of the run, from a sampler whose order does not depend on the cache. */
static int collect_order(const run *r, larder__draw_conf conf, uint32_t **out, uint64_t *count) {
    const larder_sampler *sampler = larder__draw_sampler(r->draw);
    if (!sampler->fixed_order)
        return larder__fail(LARDER_E_ARGS,
                            "sampler %s follows the cache, so no policy can know "
                            "its future",
                            sampler->plugin.name);
    char recipe[96];
    snprintf(recipe, sizeof recipe, "minio:sampler=%s", sampler->plugin.name);
    larder__cache_text none;
    int rc = larder__cache_text_parse(&none, "0", "");
    conf.recipe = recipe;
    conf.cache = &none;
    conf.stats = NULL;
    uint64_t total = larder__draw_length(r->draw) * r->conf->epochs, at = 0;
    if (total >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "%llu requests are too many to know the future of",
                            (unsigned long long)total);
    larder__draw *d = NULL;
    larder__planned plan = {0};
    uint32_t *ids = larder__malloc(total * sizeof *ids);
    if (rc == 0)
        rc = ids ? larder__draw_open(&d, &conf) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__planned_open(&plan, d);
    while (rc == 0 && at < total && (rc = larder__draw_next(d, &plan)) == 0) {
        for (size_t i = 0; i < plan.n && at < total; i++)
            ids[at++] = (uint32_t)plan.ids[i];
        rc = asked_to_stop(r->conf);
    }
    larder__planned_close(&plan);
    larder__draw_close(&d);
    if (rc < 0)
        larder__free(ids);
    else {
        *out = ids;
        *count = at;
    }
    return rc;
}

/* Without them it would be lru or minio, and its figures theirs. */
static int check_scores(const run *r) {
    const larder_policy *p = larder__draw_policy(r->draw);
    if (!r->conf->refuse_unscored || !LARDER_HAS(p, hears, needs_scores) ||
        larder__draw_signal(r->draw))
        return 0;
    return larder__fail(
        LARDER_E_ARGS,
        "%s decides by scores, and nothing in this recipe gives any: name a signal, "
        "as in lru:policy=%s,signal=loss; a solver's words come with --access",
        p->plugin.name, p->plugin.name);
}

static int look_into_future(run *r, const larder__draw_conf *conf) {
    if (larder__draw_policy(r->draw)->future != LARDER_FUTURE_ALL)
        return 0;
    uint32_t *ids = NULL;
    uint64_t count = 0;
    int rc = collect_order(r, *conf, &ids, &count);
    if (rc == 0)
        rc = larder__next_uses(ids, count, conf->n, &r->future);
    if (rc == 0)
        larder__draw_set_future(r->draw, r->future, count);
    larder__free(ids);
    return rc;
}

int larder__next_uses(const uint32_t *ids, uint64_t count, uint64_t keys, uint32_t **next) {
    uint32_t *last = larder__malloc(keys * sizeof *last);
    uint32_t *out = larder__malloc(count * sizeof *out);
    *next = NULL;
    if (!last || !out) {
        larder__free(last);
        larder__free(out);
        return LARDER_E_NOMEM;
    }
    memset(last, 0xff, keys * sizeof *last);
    for (uint64_t i = count; i-- > 0;) {
        out[i] = last[ids[i]];
        last[ids[i]] = (uint32_t)i;
    }
    larder__free(last);
    *next = out;
    return 0;
}

/* ---- one batch ------------------------------------------------------------------------------- */

/* After an epoch, for policies that follow accuracy. */
static int validate(run *r) {
    const larder__planned *p = &r->plan;
    double accuracy = larder__trace_accuracy(r->trace, p->epoch);
    if (!p->last || !LARDER_HAS(larder__draw_policy(r->draw), hears, accuracy) || isnan(accuracy))
        return 0;
    return larder__feedback_note_accuracy(larder__draw_feedback(r->draw), p->number, accuracy);
}

int larder__sim_report(run *r, const larder_feedback *fb) {
    const larder__planned *p = &r->plan;
    larder_report said = {.batch = p->number,
                          .epoch = p->epoch,
                          .n = p->n,
                          .ids = r->served,
                          .labels = r->labels,
                          .loss = fb->loss};
    larder__losses told;
    if (larder__draw_compares(r->draw)) {
        larder__draw_told(r->draw, &said, &told);
        larder__ledger_told(r->ledger, p->epoch, &told);
    }
    return larder__draw_listens(r->draw) ? larder__draw_note(r->draw, p->number, p->epoch, p->n,
                                                             r->served, r->labels, fb, true)
                                         : 0;
}

/* Training as the trace recorded it, for the samples that were served. */
static int train(run *r) {
    if (r->feed)
        return larder__sim_train_again(r);
    bool listens = larder__draw_listens(r->draw);
    if (!r->trace || (!listens && !larder__draw_compares(r->draw)))
        return 0;
    const larder__planned *p = &r->plan;
    for (size_t i = 0; i < p->n; i++) {
        r->losses[i] = larder__trace_loss(r->trace, p->epoch, r->served[i]);
        r->labels[i] = larder__trace_label(r->trace, r->served[i]);
    }
    larder_feedback fb = {.loss = r->losses, .embeddings = r->embeddings};
    fb.dim = r->embeddings ? larder__trace_dim(r->trace) : 0;
    int rc = 0;
    if (r->embeddings)
        rc = larder__trace_embeddings(r->trace, p->epoch, r->served, p->n, r->embeddings);
    if (rc < 0 || (rc = larder__sim_report(r, &fb)) < 0 || !listens)
        return rc;
    return validate(r);
}

/* The network as it was after the last epoch looks at what the sampler asks for. */
static int evaluate(run *r, uint64_t *samples, uint64_t *reads, uint64_t *bytes) {
    larder__planned *p = &r->plan, *next = &r->ahead;
    int rc = larder__draw_evaluation(r->draw, p);
    while (rc == 0 && p->n) { /* as the loader: a batch ahead */
        if ((rc = larder__draw_evaluation(r->draw, next)) < 0)
            break;
        for (size_t i = 0; i < p->n; i++) {
            *reads += p->tickets[i].kind == LARDER_MISS;
            *bytes += larder__planned_bytes(p, r->parts, i);
            if (r->trace)
                r->losses[i] = larder__trace_eval(r->trace, p->epoch - 1, p->ids[i]);
        }
        if (r->feed)
            larder__feed_looked(r->feed, p->epoch, p->ids, p->n, r->losses);
        larder__draw_evaluated(r->draw, p, p->ids, r->losses, p->n);
        *samples += p->n;
        larder__planned *t = p;
        p = next;
        next = t;
    }
    return rc;
}

/* An epoch begins: how good are the scores it was planned with? */
static int note_precision(run *r) {
    const larder__planned *p = &r->plan;
    const float *scores = larder__draw_scores(r->draw);
    double *out = &r->out->precision[r->out->count];
    *out = NAN;
    if (p->epoch == 0 || !scores || !r->trace || !larder__trace_evaluates(r->trace))
        return 0;
    return larder__precision_of(out, scores, r->trace, p->epoch - 1);
}

static int step(run *r) {
    uint64_t evaluated = 0, reads = 0, read_bytes = 0;
    larder__sim_tell_pace(r);
    int rc = larder__draw_next(r->draw, &r->plan);
    if (rc == LARDER__EVALUATE && (rc = evaluate(r, &evaluated, &reads, &read_bytes)) == 0)
        rc = larder__draw_next(r->draw, &r->plan);
    if (rc < 0)
        return rc;
    const larder__planned *p = &r->plan;
    if (p->first && ((rc = larder__ledger_begin(r->ledger, p->epoch, p->length, true)) < 0 ||
                     (rc = note_precision(r)) < 0))
        return rc;
    for (size_t i = 0; i < p->n; i++) {
        const larder__ticket *t = &p->tickets[i];
        r->served[i] = t->key;
        r->kinds[i] = t->kind;
        r->forms[i] = (uint8_t)(t->form | (t->front ? LARDER__FRONT : 0));
        r->read_bytes[i] = larder__planned_bytes(p, r->parts, i);
    }
    larder__ledger_record(r->ledger, r->served, r->kinds, r->forms, r->read_bytes, NULL, p->n);
    uint64_t fetched = larder__planned_reads(p), bytes = 0;
    for (size_t i = p->n; i < p->n + p->fetched; i++)
        bytes += larder__planned_bytes(p, r->parts, i);
    if (p->package.again && fetched)
        larder__ledger_scratch(r->ledger, fetched, p->package.bytes, 0);
    else
        larder__ledger_background(r->ledger, fetched, bytes);
    if (p->package.number && !p->package.again)
        larder__ledger_scratch(r->ledger, 0, 0, p->package.bytes);
    larder__ledger_evaluation(r->ledger, evaluated, reads, read_bytes);
    larder__ledger_requests(r->ledger,
                            reads + (p->package.again ? 0 : larder__planned_requests(p)));
    for (size_t i = 0; i < p->n; i++)
        bytes += r->read_bytes[i];
    if (r->feed)
        larder__sim_keep_time(r->out, &r->clock, bytes + read_bytes, p->n);
    r->drawn = p->first ? 0 : r->drawn;
    rc = train(r);
    r->drawn += p->n;
    return rc;
}

/* ---- the run --------------------------------------------------------------------------------- */

static uint32_t sample_bytes(void *arg, uint64_t id) {
    const run *r = arg;
    larder_sample s = {0};
    if (!r->parts)
        return larder__data_stat(r->data, id, &s) == 0 ? s.bytes : 0;
    larder_rect whole = larder__parts_whole(r->parts, id);
    return larder__parts_bytes(r->parts, id, &whole);
}

static uint32_t sample_class(void *arg, uint64_t id) {
    const run *r = arg;
    larder_sample s = {.label = -1};
    return larder__data_stat(r->data, id, &s) < 0 || s.label < 0 ? LARDER_NO_GROUP
                                                                 : (uint32_t)s.label;
}

static int sample_file(void *data, uint64_t id, uint64_t *file) {
    return larder__data_file(data, id, file);
}

/* A real data set: its samples, their sizes, and what crops need of them. */
static int open_data(run *r, larder__draw_conf *conf) {
    const larder__sim_conf *c = r->conf;
    int rc = larder__data_open(&r->data, c->data);
    if (rc < 0)
        return rc;
    const larder_dataset *about = larder__data_about(r->data);
    conf->n = r->out->n = about->count;
    conf->payload = about->bytes;
    conf->size = 0;
    conf->size_of = sample_bytes;
    conf->size_arg = r;
    conf->group_of = sample_class;
    conf->group_arg = r;
    conf->file_of = sample_file;
    conf->file_arg = r->data;
    if (about->parts && c->parts != LARDER_PARTS_OFF && !larder__recipe_brings(c->recipe)) {
        larder__parts_conf parts = {.data = r->data,
                                    .augment = c->augment,
                                    .seed = c->seed,
                                    .batch = c->batch,
                                    .world = 1,
                                    .keep = c->parts == LARDER_PARTS_KEEP};
        rc = larder__parts_open(&r->parts, &parts);
        conf->parts = r->parts;
    }
    return rc;
}

static uint32_t class_of(void *trace, uint64_t id) {
    int64_t label = larder__trace_label(trace, id);
    return label < 0 ? LARDER_NO_GROUP : (uint32_t)label;
}

/* Signals that take long are those that look at embeddings. */
static int open_embeddings(run *r) {
    const larder_signal *signal = larder__draw_signal(r->draw);
    if (!r->trace || !signal || !signal->prepare)
        return 0;
    int rc = larder__trace_find_embeddings(r->trace);
    if (rc < 0)
        return rc;
    r->embeddings =
        larder__calloc(r->conf->batch * larder__trace_dim(r->trace), sizeof *r->embeddings);
    return r->embeddings ? 0 : LARDER_E_NOMEM;
}

/* What all of it is about: samples of a trace, or as many as were asked for. */
static int open_texts(run *r, larder__draw_conf *conf) {
    const larder__sim_conf *c = r->conf;
    larder__shrinking shrink;
    bool replan; /* there is no clock here: the split stays as it begins */
    int rc = c->trace ? larder__trace_open(&r->trace, c->trace) : 0;
    if (rc < 0 || (rc = larder__recipe_cache(&r->cache, c->recipe, c->cache, &replan, &shrink)) < 0)
        return rc;
    uint64_t n = r->out->n = r->trace ? larder__trace_samples(r->trace) : c->n;
    r->out->forms = larder__cache_back(&r->cache)->budget.share[LARDER_ENCODED] < 1;
    r->out->tiers = r->cache.tier_count > 1;
    *conf = (larder__draw_conf){.recipe = c->recipe,
                                .cache = &r->cache,
                                .store = &larder__store_null,
                                .n = n,
                                .payload = n * c->size,
                                .size = c->size,
                                .decoded_bytes = c->decoded ? c->decoded : c->size,
                                .row_bytes = c->row ? c->row : c->size,
                                .batch = c->batch,
                                .seed = c->seed,
                                .epochs = c->epochs,
                                .group_of = r->trace ? class_of : NULL,
                                .group_arg = r->trace,
                                .world = 1,
                                .lag = c->lag ? c->lag : 6};
    return c->data && c->trace
               ? larder__fail(LARDER_E_ARGS, "a data set or a recorded training, not both")
               : 0;
}

static int open_draw(run *r, larder__draw_conf *conf) {
    const larder__sim_conf *c = r->conf;
    int rc = c->data ? open_data(r, conf) : 0;
    if (rc == 0 && c->tape)
        rc = larder__sim_open_tape(r, conf);
    if (rc == 0 && c->size == 0)
        rc = larder__fail(LARDER_E_ARGS, "a sample has at least one byte");
    if (rc == 0)
        rc = larder__draw_open(&r->draw, conf);
    if (rc < 0)
        return rc;
    snprintf(r->out->says, sizeof r->out->says, "%s", larder__draw_says(r->draw));
    r->out->figures = larder__draw_shows(r->draw);
    if ((rc = larder__ledger_open(&r->ledger, conf->n, conf->world)) < 0 ||
        (rc = larder__planned_open(&r->plan, r->draw)) < 0)
        return rc;
    return larder__sim_check_feed(r);
}

static int open_evaluator(run *r) {
    const larder__tape *tape = r->conf->tape;
    bool evaluates =
        (r->trace && larder__trace_evaluates(r->trace)) || (tape && tape->looked_count);
    return evaluates && larder__draw_takes_evaluator(r->draw)
               ? larder__planned_open(&r->ahead, r->draw)
               : 0;
}

static int open_arrays(run *r) {
    const larder__sim_conf *c = r->conf;
    r->served = larder__calloc(c->batch, sizeof *r->served);
    r->kinds = larder__calloc(c->batch, sizeof *r->kinds);
    r->forms = larder__calloc(c->batch, sizeof *r->forms);
    r->read_bytes = larder__calloc(c->batch, sizeof *r->read_bytes);
    r->labels = larder__calloc(c->batch, sizeof *r->labels);
    r->losses = larder__calloc(c->batch, sizeof *r->losses);
    r->out->epochs = larder__calloc(c->epochs, sizeof *r->out->epochs);
    r->out->shown = larder__calloc(c->epochs, sizeof *r->out->shown);
    r->out->precision = larder__calloc(c->epochs, sizeof *r->out->precision);
    bool all = r->out->precision && r->out->shown && r->served && r->kinds && r->forms &&
               r->read_bytes && r->labels && r->losses && r->out->epochs;
    return all ? 0 : LARDER_E_NOMEM;
}

static int open_run(run *r, larder__draw_conf *conf) {
    int rc = open_texts(r, conf);
    if (rc < 0 || (rc = open_draw(r, conf)) < 0 || (rc = open_evaluator(r)) < 0 ||
        (rc = open_arrays(r)) < 0 || (rc = open_embeddings(r)) < 0 || (rc = check_scores(r)) < 0)
        return rc;
    return look_into_future(r, conf);
}

void larder__sim_add_epoch(larder__sim_result *out, const larder_figures *f) {
    larder_figures *t = &out->total;
    out->epochs[out->count++] = *f;
    double sum = 0, known = 0;
    for (uint64_t e = 0; e < out->count; e++)
        if (!isnan(out->precision[e]))
            sum += out->precision[e], known++;
    out->precision_mean = known > 0 ? sum / known : (double)NAN;
    t->served += f->served;
    t->hits += f->hits;
    t->substitutes += f->substitutes;
    t->repeats += f->repeats;
    t->misses += f->misses;
    t->background_reads += f->background_reads;
    t->storage_bytes += f->storage_bytes;
    t->requests += f->requests;
    t->evaluated += f->evaluated;
    t->evaluation_reads += f->evaluation_reads;
    t->scratch_reads += f->scratch_reads;
    t->scratch_bytes += f->scratch_bytes;
    t->scratch_written += f->scratch_written;
    for (int i = 0; i < LARDER_FORMS; i++)
        t->form_hits[i] += f->form_hits[i];
    t->front_hits += f->front_hits;
    t->touched += (f->touched - t->touched) / (double)out->count;
    out->hit_ratio = t->served ? (double)t->hits / (double)t->served : 0;
}

static int run_epochs(run *r) {
    const larder__sim_conf *c = r->conf;
    uint64_t served = 0;
    while (r->out->count < c->epochs) {
        int rc = step(r);
        if (rc < 0)
            return rc;
        served += r->plan.n;
        if (c->progress && r->plan.number % 256 == 0)
            c->progress(c->progress_arg, r->plan.epoch, served);
        int stop = asked_to_stop(c);
        if (r->plan.last || stop < 0) { /* interrupted: what there is of the epoch */
            larder_figures f;
            if ((rc = larder__ledger_figures(r->ledger, r->plan.epoch, &f)) < 0)
                return rc;
            memcpy(r->out->shown[r->out->count], r->plan.figures, sizeof *r->out->shown);
            larder__sim_add_epoch(r->out, &f);
        }
        if (stop < 0)
            return stop;
    }
    return 0;
}

int larder__sim_run(const larder__sim_conf *conf, larder__sim_result *out) {
    *out = (larder__sim_result){0};
    run r = {.conf = conf, .out = out};
    larder__draw_conf draw;
    int rc = conf->epochs && conf->epochs < 1u << 24
                 ? open_run(&r, &draw)
                 : larder__fail(LARDER_E_ARGS, "the number of epochs makes no sense");
    if (rc == 0)
        rc = run_epochs(&r);
    if (r.draw && r.ledger) {
        larder__cache_figures f;
        larder__cache_read_figures(larder__draw_cache(r.draw), &f);
        out->evictions = f.evictions;
        out->metadata_bytes =
            f.metadata_bytes + larder__ledger_bytes(r.ledger) + larder__draw_recent_bytes(r.draw);
    }
    larder__planned_close(&r.plan);
    larder__planned_close(&r.ahead);
    larder__draw_close(&r.draw);
    larder__parts_close(&r.parts);
    larder__data_close(&r.data);
    larder__ledger_close(&r.ledger);
    larder__trace_close(&r.trace);
    larder__feed_close(&r.feed);
    larder__free(r.served);
    larder__free(r.kinds);
    larder__free(r.forms);
    larder__free(r.read_bytes);
    larder__free(r.labels);
    larder__free(r.losses);
    larder__free(r.embeddings);
    larder__free(r.future);
    if (rc < 0 && rc != LARDER_E_CANCELLED)
        larder__sim_free(out);
    return rc;
}

void larder__sim_free(larder__sim_result *out) {
    larder__free(out->epochs);
    larder__free(out->shown);
    larder__free(out->precision);
    *out = (larder__sim_result){0};
}
