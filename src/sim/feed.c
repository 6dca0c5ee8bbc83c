#include "sim/feed.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

struct larder__feed {
    const larder__tape *tape;
    uint64_t epochs;   /* on the tape, one after the other, whatever their numbers */
    uint64_t *begin;   /* of each of them, in batches; one more at the end */
    uint64_t at;       /* batches whose losses are in `latest` */
    float *latest;     /* by id; NAN: none before this place */
    float *first;      /* by id; NAN: none at all */
    double sum, known; /* of all losses so far */
    uint64_t looked;   /* looks that are in `latest` */
    uint32_t mean_size;
};

static bool begins(const larder__tape *t, uint64_t b) {
    return b == 0 || t->batches[b].first || t->batches[b].epoch != t->batches[b - 1].epoch;
}

static int find_epochs(larder__feed *f) {
    const larder__tape *t = f->tape;
    for (uint64_t b = 0; b < t->count; b++)
        f->epochs += begins(t, b);
    f->begin = larder__calloc(f->epochs + 1, sizeof *f->begin);
    if (!f->begin)
        return LARDER_E_NOMEM;
    for (uint64_t b = 0, e = 0; b < t->count; b++)
        if (begins(t, b))
            f->begin[e++] = b;
    f->begin[f->epochs] = t->count;
    return 0;
}

static uint32_t mean_size(const larder__tape *t) {
    double sum = 0, count = 0;
    for (uint64_t i = 0; i < t->job.samples; i++)
        if (t->size_of[i])
            sum += t->size_of[i], count++;
    return count > 0 ? (uint32_t)(sum / count + 0.5) : 1;
}

int larder__feed_open(larder__feed **out, const larder__tape *t) {
    *out = NULL;
    larder__feed *f = larder__calloc(1, sizeof *f);
    if (!f)
        return LARDER_E_NOMEM;
    f->tape = t;
    f->mean_size = mean_size(t);
    f->latest = larder__malloc(t->job.samples * sizeof *f->latest);
    f->first = larder__malloc(t->job.samples * sizeof *f->first);
    int rc = f->latest && f->first ? find_epochs(f) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__feed_close(&f);
        return rc;
    }
    for (uint64_t i = 0; i < t->job.samples; i++)
        f->latest[i] = f->first[i] = NAN;
    for (uint64_t i = 0; i < t->requests; i++)
        if (isnan(f->first[t->served[i]]) && isfinite(t->loss[i]))
            f->first[t->served[i]] = t->loss[i];
    *out = f;
    return 0;
}

void larder__feed_close(larder__feed **pf) {
    larder__feed *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    larder__free(f->begin);
    larder__free(f->latest);
    larder__free(f->first);
    larder__free(f);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* An epoch of the tape for this one: the nearest there is. */
static uint64_t epoch_of(const larder__feed *f, uint64_t epoch) {
    return epoch < f->epochs ? epoch : f->epochs - 1;
}

/* Whole numbers throughout: with epochs of the recorded length this is the same batch, exactly. */
static uint64_t find_batch(const larder__feed *f, const larder__feed_place *p) {
    uint64_t e = epoch_of(f, p->epoch), count = f->begin[e + 1] - f->begin[e];
    const larder__tape_batch *b = &f->tape->batches[f->begin[e]];
    if (p->length && p->length == b->length) { /* the last epoch may be there in part */
        uint64_t whole = (b->length + f->tape->job.batch - 1) / f->tape->job.batch;
        uint64_t at = p->drawn * whole / p->length;
        return f->begin[e] + (at < count ? at : count - 1);
    }
    uint64_t at = p->length ? p->drawn * count / p->length : 0;
    return f->begin[e] + (at < count ? at : count - 1);
}

static void roll(larder__feed *f, uint64_t to) {
    const larder__tape *t = f->tape;
    for (; f->at < to; f->at++) {
        const larder__tape_batch *b = &t->batches[f->at];
        for (uint64_t i = b->begin; i < b->begin + b->n; i++)
            if (isfinite(t->loss[i])) {
                f->latest[t->served[i]] = t->loss[i];
                f->sum += t->loss[i];
                f->known++;
            }
    }
}

static float guess(const larder__feed *f, uint64_t id) {
    if (isfinite(f->latest[id]))
        return f->latest[id];
    if (isfinite(f->first[id]))
        return f->first[id];
    return f->known > 0 ? (float)(f->sum / f->known) : NAN;
}

bool larder__feed_losses(larder__feed *f, const larder__feed_place *p, const uint64_t *served,
                         size_t n, float *loss) {
    const larder__tape *t = f->tape;
    if (!t->count || !t->losses)
        return false;
    uint64_t k = find_batch(f, p);
    const larder__tape_batch *b = &t->batches[k];
    roll(f, k);
    bool any = false;
    for (uint64_t i = b->begin; i < b->begin + b->n && !any; i++)
        any = isfinite(t->loss[i]);
    for (size_t i = 0; i < n; i++)
        loss[i] = i < b->n && t->served[b->begin + i] == served[i] ? t->loss[b->begin + i]
                                                                   : guess(f, served[i]);
    return any;
}

void larder__feed_looked(larder__feed *f, uint64_t epoch, const uint64_t *ids, size_t n,
                         float *loss) {
    const larder__tape *t = f->tape;
    for (; f->looked < t->looked_count && t->looked[f->looked].epoch <= epoch; f->looked++) {
        const larder__tape_looked *k = &t->looked[f->looked];
        if (f->epochs) /* training came before */
            roll(f, f->begin[epoch_of(f, k->epoch)]);
        for (uint64_t i = k->begin; i < k->begin + k->n; i++)
            if (isfinite(t->looked_loss[i]))
                f->latest[t->looked_ids[i]] = t->looked_loss[i];
    }
    for (size_t i = 0; i < n; i++)
        loss[i] = guess(f, ids[i]);
}

double larder__feed_accuracy(const larder__feed *f, uint64_t epoch) {
    if (!f->epochs)
        return NAN;
    uint64_t e = epoch_of(f, epoch);
    for (uint64_t b = f->begin[e + 1]; b-- > f->begin[e];)
        if (!isnan(f->tape->batches[b].accuracy))
            return f->tape->batches[b].accuracy;
    return NAN;
}

larder_pace larder__feed_pace(const larder__feed *f, uint64_t number) {
    const larder__tape_batch *b = larder__tape_find(f->tape, number);
    return b ? b->pace : (larder_pace){0};
}

uint32_t larder__feed_size(const larder__feed *f, uint64_t id) {
    return f->tape->size_of[id] ? f->tape->size_of[id] : f->mean_size;
}

uint32_t larder__feed_class(const larder__feed *f, uint64_t id) {
    return f->tape->label_of[id] < 0 ? LARDER_NO_GROUP : (uint32_t)f->tape->label_of[id];
}

/* ---- time ------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What storage takes for one sample: the middle one of all batches, as the job measured it. */
static double middle_pace(const larder__tape *t) {
    double *all = larder__malloc((t->count + 1) * sizeof *all), out = NAN;
    size_t n = 0;
    for (uint64_t b = 0; all && b < t->count; b++)
        if (t->batches[b].pace.read_seconds > 0)
            all[n++] = t->batches[b].pace.read_seconds;
    if (n) {
        qsort(all, n, sizeof *all, by_value);
        out = all[n / 2];
    }
    larder__free(all);
    return out;
}

larder__feed_rates larder__feed_measure(const larder__tape *t) {
    larder__feed_rates r = {.read_seconds = middle_pace(t)};
    uint64_t reads = 0, rows = 0;
    double stepped = 0;
    for (uint64_t k = 0; k < t->count; k++) {
        const larder__tape_batch *b = &t->batches[k];
        r.read_bytes += b->read_bytes + b->fetched_bytes;
        reads += b->fetched;
        for (uint64_t i = b->begin; i < b->begin + b->n; i++)
            reads += t->kinds[i] == LARDER_MISS;
        if (k && b->stepped > 0) {
            stepped += b->stepped;
            rows += t->batches[k - 1].n;
        }
        r.seconds += b->stepped + b->waited;
        r.waited += b->waited;
        r.starved += b->starved;
    }
    double each = reads ? (double)r.read_bytes / (double)reads : (double)NAN;
    r.bytes_per_second = each / r.read_seconds;
    r.step_seconds = rows ? stepped / (double)rows : (double)NAN;
    return r;
}

void larder__feed_clock_open(larder__feed_clock *c, const larder__feed_rates *r, uint64_t lag) {
    *c = (larder__feed_clock){.seconds_per_byte =
                                  r->bytes_per_second > 0 ? 1 / r->bytes_per_second : 0,
                              .step_seconds = r->step_seconds > 0 ? r->step_seconds : 0,
                              .ahead = lag > 6 ? (lag < 64 ? (uint32_t)lag - 2 : 62) : 4};
}

void larder__feed_clock_batch(larder__feed_clock *c, uint64_t bytes, size_t samples) {
    double *slot = &c->begun[c->batches++ % c->ahead];
    double from = fmax(c->read_until, *slot); /* its place in memory is free again */
    c->read_until = from + (double)bytes * c->seconds_per_byte;
    double begun = fmax(c->read_until, c->trained_until);
    c->waited += begun - c->trained_until;
    c->trained += (double)samples * c->step_seconds;
    *slot = begun;
    c->trained_until = begun + (double)samples * c->step_seconds;
}
