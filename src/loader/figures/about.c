/* What a loader shows to whoever asks: what it is and how far, names and sentences, figures. */
#include "base/err.h"
#include "base/sized.h"
#include "loader/figures/shown.h"
#include "loader/inside.h"

#include <stdio.h>

/* ---- what it is, and how far ----------------------------------------------------------------- */

static uint64_t coming_epoch(larder_loader *l) {
    while (larder__decided_elsewhere(l) &&
           l->taken == l->planned) /* the epoch may change meanwhile */
        pthread_cond_wait(&l->ready, &l->lock);
    uint64_t epoch = l->taken < l->planned ? l->ring[l->taken % l->conf.ahead].plan.epoch
                     : l->kept             ? l->kept->epoch
                                           : larder__draw_epoch(l->draw);
    return epoch - l->epoch_over;
}

/* A table beside the data knows better. */
static uint32_t class_count(const larder_loader *l) {
    uint32_t told = l->targets ? larder__targets_classes(l->targets) : 0;
    return told ? told : larder__data_about(l->data)->classes;
}

int larder_loader_about(larder_loader *l, larder_about *out) {
    int rc = larder__sized_check(out, "larder_about");
    if (rc < 0 || (rc = larder__loader_enter(l)) < 0)
        return rc;
    const larder_dataset *data = larder__data_about(l->data);
    uint64_t ids = l->epoch_length, batch = larder__draw_batch(l->draw);
    char why[1];
    larder_about own = {.samples = data->count,
                        .payload = data->bytes,
                        .shape = larder__loader_shape(l),
                        .classes = class_count(l),
                        .epoch = coming_epoch(l),
                        .batches = ids / batch + (ids % batch != 0),
                        .listens = larder__draw_listens(l->draw) || l->tape,
                        .relies = larder__draw_relies(l->draw),
                        .together = larder__draw_ranks(l->draw) != NULL,
                        .compares = larder__draw_compares(l->draw),
                        .audit = l->audit,
                        .recorded = larder__tape_written(l->tape, why, sizeof why),
                        .refused =
                            l->crates ? larder__packages_refused(l->crates, why, sizeof why) : 0};
    pthread_mutex_unlock(&l->lock);
    return larder__sized_out(out, &own, sizeof own, "larder_about");
}

/* ---- names and sentences --------------------------------------------------------------------- */

static int say(char *out, size_t cap, const char *text) {
    snprintf(out, cap, "%s", text ? text : "");
    return 0;
}

static int say_note(larder_loader *l, uint64_t i, char *out, size_t cap) {
    const char *note = larder__note_at(l->stats, (size_t)i);
    return note ? say(out, cap, note) : larder__fail(LARDER_E_RANGE, "there are no more notes");
}

static int say_sample(larder_loader *l, uint64_t id, char *out, size_t cap) {
    uint64_t all = larder__data_about(l->data)->count;
    return id < all ? larder__data_name(l->data, id, out, cap)
                    : larder__fail(LARDER_E_RANGE, "sample %llu of %llu", (unsigned long long)id,
                                   (unsigned long long)all);
}

static int say_class(larder_loader *l, uint64_t label, char *out, size_t cap) {
    uint32_t all = class_count(l);
    bool told = l->targets && larder__targets_classes(l->targets);
    return label < all
               ? say(out, cap,
                     told ? larder__targets_class(l->targets, (uint32_t)label)
                          : larder__data_class(l->data, (uint32_t)label))
               : larder__fail(LARDER_E_RANGE, "class %llu of %u", (unsigned long long)label, all);
}

static int say_time(larder_loader *l, char *out, size_t cap) {
    larder__times t;
    int rc = larder__loader_times(l, &t);
    return rc < 0 ? rc : say(out, cap, t.says);
}

/* With the lock held: what follows from the loader's own state. */
static int say_state(larder_loader *l, larder_says what, char *out, size_t cap) {
    switch (what) {
    case LARDER_SAYS_AUDIT:
        return say(out, cap, l->audit_says);
    case LARDER_SAYS_CACHE:
        larder__cache_note(larder__draw_cache(l->draw), out, cap);
        return 0;
    case LARDER_SAYS_SCRATCH:
        if (l->crates)
            larder__packages_refused(l->crates, out, cap);
        return 0;
    case LARDER_SAYS_RECORD:
        larder__tape_written(l->tape, out, cap);
        return 0;
    default:
        return larder__fail(LARDER_E_ARGS, "there is nothing to say under the number %d",
                            (int)what);
    }
}

int larder_loader_says(larder_loader *l, larder_says what, uint64_t i, char *out, size_t cap) {
    if (!out || !cap)
        return larder__fail(LARDER_E_ARGS, "no room for a sentence");
    out[0] = 0;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    bool many = what == LARDER_SAYS_SAMPLE || what == LARDER_SAYS_CLASS ||
                what == LARDER_SAYS_NOTE || what == LARDER_SAYS_TIME;
    if (!many)
        rc = say_state(l, what, out, cap);
    pthread_mutex_unlock(&l->lock);
    return !many                        ? rc
           : what == LARDER_SAYS_SAMPLE ? say_sample(l, i, out, cap)
           : what == LARDER_SAYS_CLASS  ? say_class(l, i, out, cap)
           : what == LARDER_SAYS_NOTE   ? say_note(l, i, out, cap)
                                        : say_time(l, out, cap);
}

/* ---- figures --------------------------------------------------------------------------------- */

int larder_loader_figures(larder_loader *l, uint64_t epoch, larder_figures *out) {
    larder_figures own = {0};
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    rc = larder__ledger_figures(l->ledger, epoch, &own);
    pthread_mutex_unlock(&l->lock);
    return rc < 0 ? rc : larder__sized_out(out, &own, sizeof own, "larder_figures");
}

int larder_loader_bad(larder_loader *l, size_t i, larder_bad *out) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    if (i < l->bad_count)
        rc = larder__sized_out(out, &l->bad[i], sizeof *l->bad, "larder_bad");
    else
        rc = larder__fail(LARDER_E_RANGE, "%zu bad samples are listed", l->bad_count);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_stat(larder_loader *l, size_t i, larder_stat_value *out) {
    larder_stat_value own;
    int rc = larder__loader_enter(l); /* probes take the cache's lock */
    if (rc < 0)
        return rc;
    pthread_mutex_unlock(&l->lock);
    rc = larder__stat_read(l->stats, i, &own);
    return rc < 0 ? rc : larder__sized_out(out, &own, sizeof own, "larder_stat_value");
}

/* ---- for programs of ours -------------------------------------------------------------------- */

int larder__loader_replan(larder_loader *l, size_t i, larder__plan_turn *out) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    while (larder__decided_elsewhere(l)) /* the list may grow meanwhile */
        pthread_cond_wait(&l->ready, &l->lock);
    const larder__replan *r = larder__draw_replan(l->draw);
    size_t count = r ? r->turns.count : 0;
    if (i < count)
        *out = r->turns.at[i];
    else
        rc = larder__fail(LARDER_E_RANGE, "the cache was shared out anew %zu times", count);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
