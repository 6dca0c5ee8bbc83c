#include "loader/draw/recent.h"

#include "base/hash.h"
#include "base/mem.h"
#include "signal/cross_entropy.h"

#include <math.h>
#include <pthread.h>

typedef struct served { /* a batch that may still be reported */
    uint64_t number, block;
    uint32_t n;
    bool known, told;
} served;

struct larder__recent {
    larder__recent_conf conf;
    pthread_mutex_t lock;
    larder__lately lately;
    served *batches; /* batch k at k % conf.batches, as its rows */
    uint32_t *keys;
    uint8_t *reused;
};

int larder__recent_open(larder__recent **out, const larder__recent_conf *conf) {
    larder__recent *r = *out = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&r->lock, NULL);
    r->conf = *conf;
    size_t rows = (size_t)conf->batches * conf->batch;
    int rc = larder__lately_open(&r->lately, conf->n, conf->share);
    r->batches = larder__calloc(conf->batches, sizeof *r->batches);
    r->keys = larder__calloc(rows, sizeof *r->keys);
    r->reused = larder__calloc(rows, 1);
    if (rc == 0 && r->batches && r->keys && r->reused)
        return 0;
    larder__recent_close(out);
    return LARDER_E_NOMEM;
}

void larder__recent_close(larder__recent **pr) {
    larder__recent *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    larder__lately_close(&r->lately);
    larder__free(r->batches);
    larder__free(r->keys);
    larder__free(r->reused);
    pthread_mutex_destroy(&r->lock);
    larder__free(r);
}

uint64_t larder__recent_bytes(const larder__recent *r) {
    uint64_t row = sizeof *r->keys + sizeof *r->reused;
    return sizeof *r + r->conf.n + r->conf.batches * (sizeof *r->batches + r->conf.batch * row);
}

double larder__recent_keep(const larder__recent *r) { return larder__lately_keep(&r->lately); }

/* ---- serving --------------------------------------------------------------------------------- */

void larder__recent_serve(larder__recent *r, uint64_t number, const larder__ticket *rows,
                          size_t n) {
    pthread_mutex_lock(&r->lock);
    size_t slot = number % r->conf.batches, at = slot * r->conf.batch;
    for (size_t i = 0; i < n; i++)
        r->keys[at + i] = (uint32_t)rows[i].key;
    uint64_t block = larder__lately_serve(&r->lately, r->keys + at, n, r->reused + at);
    r->batches[slot] = (served){.number = number, .block = block, .n = (uint32_t)n, .known = true};
    pthread_mutex_unlock(&r->lock);
}

/* ---- reports --------------------------------------------------------------------------------- */

static served *find(const larder__recent *r, uint64_t number) {
    served *b = &r->batches[number % r->conf.batches];
    return b->known && b->number == number ? b : NULL;
}

/* Which row of the slice the report's next row is, if any: rows of both are in one order, and
 * either may lack some. With as many rows as the slice only a replaced one differs. */
static bool is_row(const uint32_t *keys, const larder__slice *s, const larder_report *said,
                   size_t i, size_t *at) {
    if (said->n == s->n)
        *at = i;
    while (said->n < s->n && *at < s->n && keys[larder__slice_row(s, *at)] != said->ids[i])
        ++*at;
    return *at < s->n && keys[larder__slice_row(s, *at)] == said->ids[i];
}

float larder__recent_loss(const larder_report *said, size_t i) {
    enum { CLASSES = 64 };
    uint64_t one_in = said->loss ? 1 : said->classes / CLASSES;
    if (one_in > 1 && larder__mix64(said->ids[i] + larder__mix64(said->batch)) % one_in)
        return NAN;
    return larder__report_loss(said, i);
}

static void tell(const larder__recent *r, const served *b, const larder__ranks *ranks,
                 const larder_report *said, larder__losses *out) {
    size_t first = b->number % r->conf.batches * r->conf.batch, at = 0;
    larder__slice s = larder__ranks_slice(ranks, b->number, b->n);
    out->block = b->block;
    for (size_t i = 0; i < said->n; i++) {
        if (!is_row(r->keys + first, &s, said, i, &at))
            continue;
        double loss = (double)larder__recent_loss(said, i);
        int sort = r->reused[first + larder__slice_row(&s, at++)];
        if (!isfinite(loss))
            continue;
        out->count[sort]++;
        out->sum[sort] += loss;
    }
}

void larder__recent_tell(larder__recent *r, const larder__ranks *ranks, const larder_report *said,
                         larder__losses *out) {
    *out = (larder__losses){0};
    pthread_mutex_lock(&r->lock);
    const served *b = find(r, said->batch);
    if (b)
        tell(r, b, ranks, said, out);
    pthread_mutex_unlock(&r->lock);
}

void larder__recent_tell_once(larder__recent *r, const larder__ranks *ranks,
                              const larder_report *said, larder__losses *out) {
    *out = (larder__losses){0};
    pthread_mutex_lock(&r->lock);
    served *b = find(r, said->batch);
    if (b && !b->told) {
        tell(r, b, ranks, said, out);
        b->told = true;
    }
    pthread_mutex_unlock(&r->lock);
}

bool larder__recent_reused(larder__recent *r, uint64_t number, size_t row) {
    pthread_mutex_lock(&r->lock);
    const served *b = find(r, number);
    bool reused = b && row < b->n && r->reused[number % r->conf.batches * r->conf.batch + row];
    pthread_mutex_unlock(&r->lock);
    return reused;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__recent_save(larder__recent *r, larder_writer *w) {
    pthread_mutex_lock(&r->lock);
    larder__lately_save(&r->lately, w);
    larder_write_u32(w, r->conf.batches);
    for (uint32_t k = 0; k < r->conf.batches; k++) {
        const served *b = &r->batches[k];
        size_t at = (size_t)k * r->conf.batch;
        larder_write_u64(w, b->number);
        larder_write_u64(w, b->block);
        larder_write_u32(w, b->n);
        larder_write_u32(w, (uint32_t)b->known | (uint32_t)b->told << 1);
        for (uint32_t i = 0; i < b->n; i++)
            larder_write_u32(w, r->keys[at + i]);
        larder_write_bytes(w, r->reused + at, b->n);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Into its place, unless a newer one has it: who saved it may have remembered more batches. */
static int load_batch(larder__recent *r, larder_reader *in, bool skip) {
    served b = {.number = larder_read_u64(in)};
    b.block = larder_read_u64(in);
    b.n = larder_read_u32(in);
    uint32_t flags = larder_read_u32(in);
    b.known = flags & 1;
    b.told = flags >> 1 & 1;
    if (b.n > larder__read_left(in) / 5 || flags > 3 || (!skip && b.n > r->conf.batch))
        return larder_read_reject(in, "a batch that was served does not fit");
    size_t k = b.number % r->conf.batches, at = k * r->conf.batch;
    skip = skip || !b.known || (r->batches[k].known && r->batches[k].number >= b.number);
    for (uint32_t i = 0; i < b.n; i++) {
        uint32_t key = larder_read_index(in, r->conf.n, false);
        if (!skip)
            r->keys[at + i] = key;
    }
    for (uint32_t i = 0; i < b.n; i++) {
        uint8_t reused;
        larder_read_bytes(in, &reused, 1);
        if (!skip)
            r->reused[at + i] = reused & 1;
    }
    if (!skip)
        r->batches[k] = b;
    return larder_read_status(in);
}

static int load(larder__recent *r, larder_reader *in, bool skip) {
    int rc = larder__lately_load(&r->lately, in);
    uint32_t batches = larder_read_u32(in);
    for (uint32_t k = 0; rc == 0 && k < batches; k++)
        rc = load_batch(r, in, skip);
    return rc < 0 ? rc : larder_read_status(in);
}

int larder__recent_load(larder__recent *r, larder_reader *in) {
    pthread_mutex_lock(&r->lock);
    int rc = load(r, in, false);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int larder__recent_skip(larder__recent *r, larder_reader *in) {
    pthread_mutex_lock(&r->lock);
    int rc = load(r, in, true);
    larder__lately_clear(&r->lately);
    pthread_mutex_unlock(&r->lock);
    return rc;
}
