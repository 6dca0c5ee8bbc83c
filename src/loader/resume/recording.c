/* The job's tape (tape/tape.h): what the loader writes onto it, and where. */
#include "base/clock.h"
#include "base/err.h"
#include "base/host.h"
#include "base/mem.h"
#include "loader/inside.h"
#include "shared/redis_address.h"
#include "signal/cross_entropy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NAME_BYTES = 4096 };

/* A name with %n filled in, and with the rank at its end where several would take the same. */
static int make_name(char out[NAME_BYTES], const char *pattern, const larder_loader_conf *conf,
                     unsigned number) {
    size_t at = 0;
    for (const char *p = pattern; *p && at < NAME_BYTES - 32; p++)
        if (p[0] == '%' && p[1] == 'n') {
            at += (size_t)snprintf(out + at, 16, "%u", number);
            p++;
        } else
            out[at++] = *p;
    out[at] = 0;
    if (at >= NAME_BYTES - 32)
        return larder__fail(LARDER_E_ARGS, "the name of the file to record to is too long");
    if (conf->rank && !strstr(pattern, "%r") && !strstr(pattern, "%p"))
        snprintf(out + at, NAME_BYTES - at, ".rank%u", conf->rank);
    return 0;
}

/* The file this loader records to; "": none. */
static int find_name(char out[NAME_BYTES], const larder_loader_conf *given,
                     const larder_loader_conf *conf) {
    static _Atomic unsigned loaders;
    const char *from = given->record;
    out[0] = 0;
    if (from && !from[0])
        return 0;
    unsigned number = atomic_fetch_add(&loaders, 1);
    if (!from)
        from = getenv("LARDER_RECORD");
    if (!from || !from[0] || (!given->record && number > 0 && !strstr(from, "%n")))
        return 0;
    return make_name(out, from, conf, number);
}

static void copy(char out[512], const char *text) { snprintf(out, 512, "%s", text ? text : ""); }

static void describe(const larder_loader *l, larder__tape_job *j) {
    const larder_dataset *about = larder__data_about(l->data);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *j = (larder__tape_job){.samples = about->count,
                            .payload = about->bytes,
                            .fingerprint = about->fingerprint,
                            .classes = about->classes,
                            .batch = l->conf.batch,
                            .seed = l->conf.seed,
                            .epochs = l->conf.epochs,
                            .lag = l->conf.lag,
                            .rank = l->conf.rank,
                            .world = l->conf.world,
                            .drop_last = l->conf.drop_last,
                            .threads = l->conf.threads,
                            .budget = larder__cache_slots(larder__draw_cache(l->draw))->budget,
                            .row_bytes = l->row_bytes,
                            .decoded_bytes = l->decoded_bytes,
                            .decoded_ratio = l->decoded_ratio,
                            .parts = l->parts != NULL,
                            .began = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec};
    copy(j->source, l->conf.source);
    copy(j->recipe, l->conf.recipe);
    larder__cache_mask(l->conf.cache, j->cache, sizeof j->cache);
    copy(j->augment, l->conf.augment);
    copy(j->version, larder_version());
    larder__host_say(j->machine, sizeof j->machine);
}

static double tape_bytes(const void *l) {
    char why[2];
    return (double)larder__tape_written(((const larder_loader *)l)->tape, why, sizeof why);
}

/* In pieces: a tape is written in blocks. */
static void record_classes(larder_loader *l) {
    enum { PIECE = 4096 };
    int64_t labels[PIECE];
    uint64_t n = larder__data_about(l->data)->count;
    if (!larder__draw_by_class(l->draw))
        return;
    for (uint64_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? (size_t)(n - first) : PIECE;
        for (size_t i = 0; i < count; i++) {
            larder_sample s = {.label = -1};
            labels[i] = larder__data_stat(l->data, first + i, &s) < 0 ? -1 : s.label;
        }
        larder__tape_add_classes(l->tape, first, labels, count);
        larder__tape_flush(l->tape);
    }
}

int larder__recording_open(larder_loader *l, const larder_loader_conf *given) {
    char name[NAME_BYTES];
    larder__tape_job job;
    l->opened = larder__now();
    int rc = find_name(name, given, &l->conf);
    if (rc < 0 || !name[0])
        return rc;
    l->tape_loss = larder__calloc(l->conf.batch, sizeof *l->tape_loss);
    if (!l->tape_loss)
        return LARDER_E_NOMEM;
    describe(l, &job);
    if ((rc = larder__tape_create(&l->tape, name, &job)) < 0)
        return given->record ? rc : larder__fail_in(rc, "LARDER_RECORD");
    record_classes(l);
    return larder__stat_probe(l->stats, "record_bytes", "bytes", "of the job's record so far",
                              tape_bytes, l);
}

void larder__recording_close(larder_loader *l) {
    larder__tape_finish(&l->tape);
    larder__free(l->tape_loss);
}

static uint32_t about(void *loader, uint64_t id, int64_t *label) {
    larder_loader *l = loader;
    larder_sample s = {.label = -1};
    if (larder__data_stat(l->data, id, &s) == 0)
        *label = s.label;
    return larder__entry_bytes(l, id);
}

void larder__recording_batch(larder_loader *l, const larder__place *p) {
    const larder__planned *plan = &p->plan;
    if (!l->tape)
        return;
    larder__tape_batch b = {.number = plan->number,
                            .epoch = plan->epoch,
                            .length = plan->length,
                            .n = plan->n,
                            .first = plan->first,
                            .last = plan->last,
                            .waited = l->waited,
                            .starved = l->starved < l->waited ? l->starved : l->waited,
                            .stepped = l->stepped,
                            .pace = plan->pace,
                            .fetched = larder__planned_reads(plan)};
    for (size_t i = 0; i < plan->n; i++)
        b.read_bytes += p->read_bytes[i];
    for (size_t i = plan->n; b.fetched && i < plan->n + plan->fetched; i++)
        b.fetched_bytes += larder__planned_bytes(plan, l->parts, i);
    larder__tape_rows rows = {
        .ids = plan->ids, .served = p->served, .kinds = p->kind, .about = about, .arg = l};
    if (!isnan(plan->measured) && plan->measured != l->tape_measured) {
        l->tape_measured = plan->measured;
        larder__tape_add_turn(l->tape, &(larder_turn){plan->number, plan->measured});
    }
    larder__tape_add_batch(l->tape, &b, &rows);
    l->stepped = 0;
    larder_figures f;
    if (plan->last && larder__ledger_figures(l->ledger, plan->epoch, &f) == 0)
        larder__tape_add_epoch(l->tape, &f, larder__now() - l->opened);
}

void larder__recording_losses(larder_loader *l, uint64_t number, const uint64_t *served,
                              const int64_t *labels, size_t n, const larder_feedback *fb,
                              bool whole) {
    if (!l->tape || (!fb->loss && !fb->logits))
        return;
    larder_report r = {.n = n,
                       .classes = fb->classes,
                       .ids = served,
                       .labels = labels,
                       .loss = fb->loss,
                       .logits = fb->logits};
    for (size_t at = 0, m; at < n; at += m) { /* rows of several ranks may come together */
        m = n - at < l->conf.batch ? n - at : l->conf.batch;
        for (size_t i = 0; i < m; i++)
            l->tape_loss[i] = larder__report_loss(&r, at + i);
        if (whole)
            larder__tape_add_losses(l->tape, number, l->tape_loss, m);
        else
            larder__tape_add_rows(l->tape, number, served + at, l->tape_loss, m);
    }
}
