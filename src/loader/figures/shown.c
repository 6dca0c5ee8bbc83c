/* What a look from outside sees of a loader, and the little that is kept for it: loss, accuracy and
 * scores of the last epochs. Looking takes the loader's lock for microseconds. */
#include "loader/figures/shown.h"
#include "base/clock.h"
#include "base/err.h"
#include "loader/inside.h"

#include <errno.h>
#include <math.h>

/* ---- noted while running --------------------------------------------------------------------- */

void larder__shown_begin(larder_loader *l) {
    l->opened = larder__now();
    l->shown_epoch = UINT64_MAX;
    for (int i = 0; i < LARDER__JOB_EPOCHS; i++)
        l->curves[i] = (larder__curve){.epoch = UINT64_MAX};
}

larder__curve *larder__shown_curve(larder_loader *l, uint64_t epoch) {
    larder__curve *c = &l->curves[epoch % LARDER__JOB_EPOCHS];
    if (c->epoch != epoch)
        *c = (larder__curve){
            .epoch = epoch, .accuracy = (double)NAN, .low = (double)NAN, .high = (double)NAN};
    return c;
}

/* A few thousand of them, spread over all ids, are enough for a picture. */
void larder__shown_scores(const larder__draw *draw, uint64_t n, larder__curve *out) {
    enum { LOOKED_AT = 16384 };
    const float *scores = larder__draw_scores(draw);
    uint64_t step = n / LOOKED_AT + 1, count = 0, bins[LARDER__JOB_BINS] = {0};
    double low = INFINITY, high = -INFINITY;
    out->low = out->high = (double)NAN;
    for (uint64_t i = 0; scores && i < n; i += step)
        if (isfinite(scores[i])) {
            low = fmin(low, scores[i]);
            high = fmax(high, scores[i]);
            count++;
        }
    if (count == 0)
        return;
    double scale = high > low ? LARDER__JOB_BINS / (high - low) : 0;
    for (uint64_t i = 0; i < n; i += step)
        if (isfinite(scores[i])) {
            size_t bin = (size_t)((scores[i] - low) * scale);
            bins[bin < LARDER__JOB_BINS ? bin : LARDER__JOB_BINS - 1]++;
        }
    out->low = low;
    out->high = high;
    for (int i = 0; i < LARDER__JOB_BINS; i++)
        out->bins[i] = (uint16_t)((bins[i] * 1000 + count / 2) / count);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void look_at_epochs(larder_loader *l, larder__job *out) {
    uint64_t last = l->shown_epoch, most = LARDER__JOB_EPOCHS;
    if (last == UINT64_MAX)
        return;
    for (uint64_t e = last >= most ? last - most + 1 : 0; e <= last; e++) {
        larder_figures f;
        if (larder__ledger_figures(l->ledger, e, &f) < 0)
            continue;
        const larder__curve *c = larder__shown_curve(l, e);
        larder__job_epoch *to = &out->past[out->past_count++];
        *to = (larder__job_epoch){.epoch = e + 1,
                                  .served = f.served,
                                  .hits = f.hits,
                                  .substitutes = f.substitutes,
                                  .repeats = f.repeats,
                                  .misses = f.misses,
                                  .background_reads = f.background_reads,
                                  .storage_bytes = f.storage_bytes,
                                  .requests = f.requests,
                                  .bad = f.bad,
                                  .touched = f.touched,
                                  .loss =
                                      c->reported ? c->loss_sum / (double)c->reported : (double)NAN,
                                  .accuracy = c->accuracy,
                                  .fresh_loss = f.fresh_loss,
                                  .reused_loss = f.reused_loss,
                                  .score_low = c->low,
                                  .score_high = c->high};
        memcpy(to->scores, c->bins, sizeof to->scores);
    }
}

static void look_at_bad(const larder_loader *l, larder__job *out) {
    size_t from = l->bad_count > LARDER__JOB_BAD ? l->bad_count - LARDER__JOB_BAD : 0;
    for (size_t i = from; i < l->bad_count; i++) {
        larder__job_bad *to = &out->bad[out->bad_count++];
        to->id = l->bad[i].id;
        snprintf(to->why, sizeof to->why, "%.*s", (int)sizeof to->why - 1, l->bad[i].why);
    }
}

static const char *state_of(const larder_loader *l) {
    bool all_taken = l->conf.epochs && l->shown_epoch + 1 >= l->conf.epochs &&
                     l->shown_epoch != UINT64_MAX && !l->epoch_over && l->taken == l->planned &&
                     l->shown_batch * larder__draw_batch(l->draw) >= l->epoch_length;
    return l->failed      ? "failed"
           : l->cancelled ? "cancelled"
           : all_taken    ? "done"
           : l->running   ? "running"
                          : "waiting";
}

static void look_inside(larder_loader *l, larder__job *out) {
    larder__job_say(out->kind, "loader");
    larder__job_say(out->name, program_invocation_short_name);
    larder__job_say(out->state, state_of(l));
    larder__job_say(out->source, l->conf.source);
    larder__job_say(out->recipe, l->conf.recipe);
    larder__job_say(out->cache, l->conf.cache);
    larder__job_say(out->audit,
                    l->audit == 0 ? "every id of the last epoch came exactly once" : l->audit_says);
    out->uptime = larder__now() - l->opened;
    out->batch = l->conf.batch;
    out->epochs = l->conf.epochs;
    out->epoch = l->shown_epoch == UINT64_MAX ? 0 : l->shown_epoch + 1;
    out->step = l->shown_batch;
    uint64_t batch = larder__draw_batch(l->draw);
    out->steps = l->epoch_length / batch + (l->epoch_length % batch != 0);
    look_at_epochs(l, out);
    look_at_bad(l, out);
}

static void look_at_times(larder_loader *l, larder__job *out) {
    larder__times t;
    if (larder__loader_times(l, &t) < 0)
        return;
    out->training = t.seconds[LARDER__TIME_TRAINING],
    out->storage = t.seconds[LARDER__TIME_STORAGE];
    out->decode = t.seconds[LARDER__TIME_DECODE], out->augment = t.seconds[LARDER__TIME_AUGMENT];
    out->deciding = t.seconds[LARDER__TIME_CACHE], out->assembly = t.seconds[LARDER__TIME_ASSEMBLY];
    larder__job_say(out->bottleneck, larder__time_name(t.bottleneck));
    larder__job_say(out->verdict, t.says);
}

static void look_at_cache(larder_loader *l, larder__job *out) {
    uint8_t map[LARDER__JOB_CELLS][LARDER_FORMS];
    char *to[LARDER_FORMS] = {out->map_encoded, out->map_decoded, out->map_augmented,
                              out->map_shrunk};
    if (!larder__cache_map(larder__draw_cache(l->draw), LARDER__JOB_CELLS, map))
        return;
    for (int form = 0; form < LARDER_FORMS; form++) {
        for (int i = 0; i < LARDER__JOB_CELLS; i++)
            to[form][i] = (char)('0' + map[i][form]);
        to[form][LARDER__JOB_CELLS] = 0;
    }
}

/* The figure of the recipe that people follow: what its sampler shows, else its policy's first. */
static const char *worth_a_curve(const larder_loader *l) {
    const char *shown = larder__draw_shown_name(l->draw);
    const larder_figure *f = larder__draw_shows(l->draw);
    return shown                                   ? shown
           : larder__draw_sampler(l->draw)->uneven ? "ess"
           : f && f[0].name                        ? f[0].name
           : l->plans                              ? "plan_decoded"
                                                   : "";
}

void larder__shown_look(void *loader, larder__job *out) {
    larder_loader *l = loader;
    larder_stat_value v;
    if (larder__loader_enter(l) < 0)
        return;
    look_inside(l, out);
    pthread_mutex_unlock(&l->lock);
    out->samples = larder__data_about(l->data)->count;
    larder__job_say(out->shown, worth_a_curve(l));
    for (size_t i = 0; larder__stat_read(l->stats, i, &v) == 0; i++) {
        uint64_t below[LARDER__STAT_BOUNDS + 1];
        larder__job_show(out, &v);
        if (v.type == 'h' && larder__stat_below(l->stats, i, below) == 0)
            larder__job_show_below(out, v.name, below, LARDER__STAT_BOUNDS + 1);
    }
    look_at_times(l, out);
    look_at_cache(l, out);
}

void larder__loader_hide(larder_loader *l) {
    l->hidden = true;
    larder__expose_end(&l->exposed);
}

int larder__loader_check_labels(larder_loader *l) {
    if (!l->columns)
        return larder__data_check_labels(l->data);
    return l->columns->y != SIZE_MAX
               ? 0
               : larder__fail(LARDER_E_ARGS, "there is no whole number among "
                                             "the fields; target= says which");
}
