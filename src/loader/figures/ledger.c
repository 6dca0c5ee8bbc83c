#include "loader/figures/ledger.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <math.h>

/* One epoch. All are kept, since larder_loader_figures tells of any and a saved state has them:
 * these few hundred bytes are what a loader grows by with each. */
typedef struct page {
    larder_figures f;
    uint64_t expected, distinct;
    larder__gap gap;
} page;

struct larder__ledger {
    uint64_t n;
    uint32_t world;
    uint64_t *seen; /* one bit an id: served in the newest epoch */
    float *pull;    /* by id: the weights it was served with there, summed up; NULL: not kept */
    double sum, squares; /* of these */
    page *pages;
    size_t used, cap;
};

static uint64_t words(const larder__ledger *l) { return (l->n + 63) / 64; }

int larder__ledger_open(larder__ledger **out, uint64_t n, uint32_t world) {
    *out = larder__calloc(1, sizeof **out);
    if (!*out)
        return LARDER_E_NOMEM;
    (*out)->n = n;
    (*out)->world = world;
    (*out)->seen = larder__calloc(words(*out), sizeof(uint64_t));
    if (!(*out)->seen) {
        larder__ledger_close(out);
        return LARDER_E_NOMEM;
    }
    return 0;
}

void larder__ledger_close(larder__ledger **pl) {
    if (!*pl)
        return;
    larder__free((*pl)->seen);
    larder__free((*pl)->pull);
    larder__free((*pl)->pages);
    larder__free(*pl);
    *pl = NULL;
}

int larder__ledger_weigh(larder__ledger *l) {
    if (!l->pull)
        l->pull = larder__calloc(l->n, sizeof *l->pull);
    return l->pull ? 0 : LARDER_E_NOMEM;
}

double larder__ledger_ess(const larder__ledger *l) {
    double share = (double)l->n / l->world;
    return l->pull && l->squares > 0 ? l->sum * l->sum / l->squares / share : (double)NAN;
}

static page *add_page(larder__ledger *l) {
    if (larder__grow(&l->pages, &l->cap, l->used + 1, sizeof *l->pages) < 0)
        return NULL;
    page *p = &l->pages[l->used++];
    *p = (page){0};
    return p;
}

int larder__ledger_begin(larder__ledger *l, uint64_t epoch, uint64_t expected, bool first) {
    if (l->used && l->pages[l->used - 1].f.epoch == epoch &&
        !(first && l->pages[l->used - 1].f.served))
        return 0;
    page *p = add_page(l);
    if (!p)
        return LARDER_E_NOMEM;
    p->f.epoch = epoch;
    p->expected = expected;
    memset(l->seen, 0, words(l) * sizeof *l->seen);
    l->sum = l->squares = 0;
    if (l->pull)
        memset(l->pull, 0, l->n * sizeof *l->pull);
    return 0;
}

/* (a + w)^2 - a^2 */
static void weigh(larder__ledger *l, const uint64_t *served, const float *weights, size_t n) {
    for (size_t i = 0; l->pull && i < n; i++) {
        float *pull = &l->pull[served[i]], before = *pull;
        *pull += weights ? weights[i] : 1;
        l->sum += (double)*pull - (double)before;
        l->squares += (double)*pull * (double)*pull - (double)before * (double)before;
    }
}

void larder__ledger_record(larder__ledger *l, const uint64_t *served, const uint8_t *kind,
                           const uint8_t *form, const uint32_t *read_bytes, const float *weights,
                           size_t n) {
    page *p = &l->pages[l->used - 1];
    uint64_t kinds[4] = {0}, distinct = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t *word = &l->seen[served[i] >> 6], bit = (uint64_t)1 << (served[i] & 63);
        distinct += !(*word & bit);
        *word |= bit;
        kinds[kind[i] & 3]++;
        if (kind[i] == LARDER_HIT || kind[i] == LARDER_SUBSTITUTE) {
            p->f.form_hits[(form[i] & ~LARDER__FRONT) % LARDER_FORMS]++;
            p->f.front_hits += (form[i] & LARDER__FRONT) != 0;
        }
        bytes += read_bytes[i];
    }
    p->f.served += n;
    p->f.hits += kinds[LARDER_HIT];
    p->f.misses += kinds[LARDER_MISS];
    p->f.substitutes += kinds[LARDER_SUBSTITUTE] + kinds[LARDER_REPLACED];
    p->f.repeats += n - distinct;
    p->f.storage_bytes += bytes;
    p->distinct += distinct;
    weigh(l, served, weights, n);
}

void larder__ledger_bad(larder__ledger *l, size_t n) { l->pages[l->used - 1].f.bad += n; }

void larder__ledger_background(larder__ledger *l, uint64_t reads, uint64_t bytes) {
    larder_figures *f = &l->pages[l->used - 1].f;
    f->background_reads += reads;
    f->storage_bytes += bytes;
}

void larder__ledger_evaluation(larder__ledger *l, uint64_t samples, uint64_t reads,
                               uint64_t bytes) {
    larder_figures *f = &l->pages[l->used - 1].f;
    f->evaluated += samples;
    f->evaluation_reads += reads;
    f->storage_bytes += bytes;
}

void larder__ledger_requests(larder__ledger *l, uint64_t n) {
    l->pages[l->used - 1].f.requests += n;
}

void larder__ledger_scratch(larder__ledger *l, uint64_t reads, uint64_t bytes, uint64_t written) {
    larder_figures *f = &l->pages[l->used - 1].f;
    f->scratch_reads += reads;
    f->scratch_bytes += bytes;
    f->scratch_written += written;
}

static page *find_page(const larder__ledger *l, uint64_t epoch) {
    for (size_t i = l->used; i-- > 0;)
        if (l->pages[i].f.epoch == epoch)
            return &l->pages[i];
    return NULL;
}

void larder__ledger_told(larder__ledger *l, uint64_t epoch, const larder__losses *said) {
    page *p = find_page(l, epoch);
    if (p)
        larder__gap_add(&p->gap, said, 1);
}

int larder__ledger_figures(const larder__ledger *l, uint64_t epoch, larder_figures *out) {
    const page *p = find_page(l, epoch);
    if (!p)
        return larder__fail(LARDER_E_RANGE, "epoch %llu has not begun", (unsigned long long)epoch);
    *out = p->f;
    out->size = sizeof *out;
    uint64_t share = l->world == 1 ? l->n : p->expected;
    out->touched = share ? (double)p->distinct / (double)share : 0;
    larder_memorised m = larder__gap_read(&p->gap);
    out->fresh_reported = (uint64_t)m.fresh;
    out->reused_reported = (uint64_t)m.reused;
    out->fresh_loss = m.fresh_loss;
    out->reused_loss = m.reused_loss;
    return 0;
}

int64_t larder__ledger_audit(const larder__ledger *l) {
    if (!l->used)
        return larder__fail(LARDER_E_STATE, "no epoch has begun");
    const page *p = &l->pages[l->used - 1];
    uint64_t set = 0;
    for (uint64_t i = 0; i < words(l); i++)
        set += (uint64_t)__builtin_popcountll(l->seen[i]);
    if (set != p->distinct || p->f.served != set + p->f.repeats)
        return larder__fail(LARDER_E_STATE, "the ledger contradicts itself: %llu ids, %llu marked",
                            (unsigned long long)p->distinct, (unsigned long long)set);
    uint64_t never = p->expected > set ? p->expected - set : 0;
    if (never + p->f.repeats)
        larder__fail(0, "epoch %llu: %llu of %llu ids never served, %llu served again",
                     (unsigned long long)p->f.epoch, (unsigned long long)never,
                     (unsigned long long)p->expected, (unsigned long long)p->f.repeats);
    return (int64_t)(never + p->f.repeats);
}

uint64_t larder__ledger_bytes(const larder__ledger *l) {
    return sizeof *l + words(l) * 8 + (l->pull ? l->n * sizeof *l->pull : 0) +
           l->cap * sizeof *l->pages;
}

/* ---- saved state ----------------------------------------------------------------------------- */

/* The counters of a page in a fixed order, for writing and reading alike. */
enum { COUNTERS = 22 };
static void page_counters(page *p, uint64_t *out[COUNTERS]) {
    uint64_t *all[COUNTERS] = {&p->f.epoch,
                               &p->f.served,
                               &p->f.hits,
                               &p->f.substitutes,
                               &p->f.repeats,
                               &p->f.misses,
                               &p->f.background_reads,
                               &p->f.storage_bytes,
                               &p->f.bad,
                               &p->expected,
                               &p->distinct,
                               &p->f.evaluated,
                               &p->f.evaluation_reads,
                               &p->f.scratch_reads,
                               &p->f.scratch_bytes,
                               &p->f.scratch_written,
                               &p->f.form_hits[LARDER_ENCODED],
                               &p->f.form_hits[LARDER_DECODED],
                               &p->f.form_hits[LARDER_AUGMENTED],
                               &p->f.form_hits[LARDER_SHRUNK],
                               &p->f.front_hits,
                               &p->f.requests};
    memcpy(out, all, sizeof all);
}

void larder__ledger_save(const larder__ledger *l, larder_writer *w) {
    larder_write_u64(w, l->used);
    for (uint64_t i = 0; i < l->used; i++) {
        uint64_t *c[COUNTERS];
        page_counters(&l->pages[i], c);
        for (int k = 0; k < COUNTERS; k++)
            larder_write_u64(w, *c[k]);
        larder__gap_save(&l->pages[i].gap, w);
    }
    for (uint64_t i = 0; i < words(l); i++)
        larder_write_u64(w, l->seen[i]);
    if (l->pull) {
        larder_write_f64(w, l->sum);
        larder_write_f64(w, l->squares);
        larder_write_bytes(w, l->pull, l->n * sizeof *l->pull);
    }
}

int larder__ledger_load(larder__ledger *l, larder_reader *r) {
    uint64_t used = larder_read_u64(r);
    if (used > larder__read_left(r) / (COUNTERS * 8 + LARDER__GAP_BYTES))
        return larder_read_reject(r, "more epochs than it has bytes");
    l->used = 0;
    for (uint64_t i = 0; i < used; i++) {
        page *p = add_page(l);
        if (!p)
            return LARDER_E_NOMEM;
        uint64_t *c[COUNTERS];
        page_counters(p, c);
        for (int k = 0; k < COUNTERS; k++)
            *c[k] = larder_read_u64(r);
        int rc = larder__gap_load(&p->gap, r);
        if (rc < 0)
            return rc;
    }
    for (uint64_t i = 0; i < words(l); i++)
        l->seen[i] = larder_read_u64(r);
    if (l->n % 64 && words(l) && l->seen[words(l) - 1] >> (l->n % 64))
        return larder_read_reject(r, "the ledger marks ids that do not exist");
    if (l->pull) {
        l->sum = larder_read_f64(r);
        l->squares = larder_read_f64(r);
        larder_read_bytes(r, l->pull, l->n * sizeof *l->pull);
    }
    return larder_read_status(r);
}
