#include "report/tape_run.h"

#include "base/gap.h"
#include "base/lately.h"
#include "base/mem.h"
#include "report/spread.h"
#include "tape/tape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void copy(larder__field_text out, const char *text) { snprintf(out, 256, "%.255s", text); }

static void fill_meta(larder__meta *m, const larder__tape *t) {
    const larder__tape_job *j = &t->job;
    copy(m->name, j->recipe);
    copy(m->status, t->ended ? "done" : "interrupted");
    copy(m->source, j->source);
    copy(m->recipe, j->recipe);
    copy(m->cache, j->cache);
    copy(m->augment, j->augment);
    copy(m->version, j->version);
    copy(m->machine, j->machine);
    m->samples = j->samples;
    m->batch = j->batch;
    m->seed = j->seed;
    m->threads = j->threads;
    m->epochs_asked = j->epochs ? j->epochs : t->epoch_count;
    m->rate = NAN;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Waits of the run up to batch `end`, of which those from `begin` on are this epoch's. */
static void fill_waits(larder__epoch *e, double *waits, const larder__tape *t, uint64_t begin,
                       uint64_t end) {
    for (uint64_t b = 0; b < end; b++)
        waits[b] = t->batches[b].waited;
    larder__spread s = larder__spread_of(waits + begin, end - begin);
    e->wait_mean = s.mean;
    e->wait_sd = s.n > 1 ? s.sd : 0;
    if (!end)
        return;
    qsort(waits, end, sizeof *waits, by_value);
    e->wait_p50 = waits[end / 2];
    e->wait_p90 = waits[end * 9 / 10];
    e->wait_p99 = waits[end * 99 / 100];
}

static void add_batch(larder__gap *gap, const larder__tape *t, const larder__tape_batch *b,
                      larder__lately *lately, uint8_t *reused) {
    larder__losses said = {.block =
                               larder__lately_serve(lately, t->served + b->begin, b->n, reused)};
    for (uint64_t i = 0; i < b->n; i++)
        if (isfinite(t->loss[b->begin + i])) {
            said.count[reused[i]]++;
            said.sum[reused[i]] += (double)t->loss[b->begin + i];
        }
    larder__gap_add(gap, &said, 1);
}

/* What reuse memorised, as the ledger of the job had it (larder_figures): of jobs in which samples
 * were served again or instead of others. */
static int fill_gaps(larder__run *run, const larder__tape *t) {
    larder__lately lately = {0};
    uint64_t most = 0, again = 0, world = t->job.world ? t->job.world : 1;
    for (uint64_t b = 0; b < t->count; b++)
        most = t->batches[b].n > most ? t->batches[b].n : most;
    for (size_t i = 0; i < run->count; i++)
        again += run->epochs[i].repeats + run->epochs[i].substitutes;
    if (!again)
        return 0;
    uint8_t *reused = larder__malloc(most + 1);
    int rc =
        reused ? larder__lately_open(&lately, t->job.samples, (t->job.samples + world - 1) / world)
               : LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < run->count; i++) {
        larder__gap gap = {0};
        for (uint64_t b = t->epochs[i].begin; b < t->epochs[i].end; b++)
            add_batch(&gap, t, &t->batches[b], &lately, reused);
        larder_memorised m = larder__gap_read(&gap);
        larder__epoch *e = &run->epochs[i];
        if (m.fresh > 0) {
            e->fresh_reported = m.fresh, e->reused_reported = m.reused;
            e->fresh_loss = m.fresh_loss, e->reused_loss = m.reused_loss;
            e->gap = m.fresh_loss - m.reused_loss;
        }
    }
    larder__lately_close(&lately);
    larder__free(reused);
    return rc;
}

static void fill_epoch(larder__epoch *e, double *waits, const larder__tape *t, uint64_t i) {
    const larder__tape_epoch *from = &t->epochs[i];
    const larder_figures *f = &from->figures;
    double sum = 0, known = 0;
    *e = larder__epoch_blank();
    e->epoch = f->epoch;
    e->served = f->served, e->hits = f->hits, e->substitutes = f->substitutes;
    e->repeats = f->repeats, e->misses = f->misses, e->touched = f->touched;
    e->background_reads = f->background_reads, e->storage_bytes = f->storage_bytes;
    e->requests = f->requests ? (double)f->requests : (double)NAN;
    e->evaluated = f->evaluated, e->evaluation_reads = f->evaluation_reads;
    e->scratch_reads = f->scratch_reads, e->scratch_bytes = f->scratch_bytes;
    e->scratch_written = f->scratch_written;
    e->fill_mean = e->fill_sd = e->fill_p50 = e->fill_p90 = e->fill_p99 = NAN;
    for (uint64_t b = from->begin; b < from->end; b++) {
        const larder__tape_batch *batch = &t->batches[b];
        e->seconds += batch->waited + batch->stepped;
        e->stall_seconds += batch->waited;
        if (!isnan(batch->accuracy))
            e->accuracy = batch->accuracy;
        for (uint64_t r = batch->begin; r < batch->begin + batch->n; r++)
            if (isfinite(t->loss[r]))
                sum += t->loss[r], known++;
    }
    e->loss = known > 0 ? sum / known : (double)NAN;
    fill_waits(e, waits, t, from->begin, from->end);
}

int larder__run_of_tape(larder__run *out, const char *path) {
    larder__tape t;
    *out = (larder__run){0};
    int rc = larder__tape_read(&t, path);
    if (rc < 0)
        return rc;
    double *waits = larder__malloc((t.count + 1) * sizeof *waits);
    out->epochs = larder__calloc(t.epoch_count + 1, sizeof *out->epochs);
    if (!waits || !out->epochs)
        rc = LARDER_E_NOMEM;
    for (uint64_t i = 0; rc == 0 && i < t.epoch_count; i++)
        fill_epoch(&out->epochs[out->count++], waits, &t, i);
    if (rc == 0)
        rc = fill_gaps(out, &t);
    fill_meta(&out->meta, &t);
    larder__free(waits);
    larder__tape_free(&t);
    if (rc < 0)
        larder__run_free(out);
    return rc;
}
