#include "loader/fill/pixels.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    LARGE_PAGE = 2 << 20,
    PORTABLE = 1 /* cudaHostRegisterPortable: for every device */
};

struct larder__pixel_block {
    larder__pool *pool;
    larder__pixel_block *next; /* among those given back */
    _Atomic uint32_t refs;
    bool pinned;
    unsigned char *memory; /* pixels, then y, ids, served, weight, kind */
    larder_batch batch;
};

struct larder__pool {
    larder__pool_conf conf;
    size_t pixels, block; /* bytes of the pixels, rounded up, and of all */
    pthread_mutex_t lock;
    larder__pixel_block *spare; /* given back and not in use */
    uint32_t blocks;            /* that exist */
    uint32_t spares;
    uint64_t unpinned; /* could not be pinned, so far */
    bool closed;       /* the loader is gone: what comes back is freed, the last one frees this */
    pid_t owner;
};

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

int larder__pool_open(larder__pool **out, const larder__pool_conf *conf) {
    *out = NULL;
    enum { BESIDES = 8 + 8 + 8 + 4 + 1 }; /* bytes a row */
    if (conf->rows > SIZE_MAX / 4 / (conf->row_bytes + BESIDES))
        return larder__fail(LARDER_E_RANGE, "a batch of %zu samples of %zu bytes is too large",
                            conf->rows, conf->row_bytes);
    larder__pool *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->conf = *conf;
    p->pixels = round_up(conf->rows * conf->row_bytes + 64, 64);
    p->block = round_up(p->pixels + conf->rows * BESIDES, PAGE);
    if (conf->most == 0) {
        uint64_t fit = larder__memory_limit() / 4 / p->block;
        p->conf.most = fit < 1 ? 1 : fit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)fit;
    }
    p->owner = getpid();
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return 0;
}

static void free_block(larder__pool *p, larder__pixel_block *b) {
    if (b->pinned)
        p->conf.unpin(b->memory);
    larder__free(b->memory);
    larder__free(b);
}

static void free_pool(larder__pool *p) {
    pthread_mutex_destroy(&p->lock);
    larder__free(p);
}

void larder__pool_close(larder__pool **pp) {
    larder__pool *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    for (larder__pixel_block *b = p->spare, *next; b; b = next) {
        next = b->next;
        free_block(p, b);
        p->blocks--;
    }
    p->spare = NULL;
    p->closed = true;
    bool last = p->blocks == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        free_pool(p);
}

/* Pages are locked one by one by a device's driver, so the memory has them to itself. Large blocks
 * get large pages where the system has any to give: they are written from end to end. */
static larder__pixel_block *make_block(larder__pool *p) {
    larder__pixel_block *b = larder__calloc(1, sizeof *b);
    if (!b)
        return NULL;
    bool large = p->block >= LARGE_PAGE;
    b->memory = larder__memalign(large ? LARGE_PAGE : p->conf.pin ? PAGE : 64, p->block);
    if (!b->memory) {
        larder__free(b);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (large)
        madvise(b->memory, p->block / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#endif
    b->pool = p;
    b->pinned = p->conf.pin && p->conf.unpin && p->conf.pin(b->memory, p->block, PORTABLE) == 0;
    return b;
}

int larder__pixel_block_take(larder__pool *p, larder__pixel_block **out) {
    pthread_mutex_lock(&p->lock);
    larder__pixel_block *b = p->spare;
    int rc = 0;
    if (b) {
        p->spare = b->next;
        p->spares--;
    } else if (p->blocks >= p->conf.own + p->conf.most)
        rc = larder__fail(LARDER_E_FULL,
                          "%u batches are on hold, more than may be at once: let go of some, or "
                          "raise hold_most",
                          p->conf.most);
    else if (!(b = make_block(p)))
        rc = LARDER_E_NOMEM;
    else {
        p->blocks++;
        p->unpinned += p->conf.pin && !b->pinned;
    }
    pthread_mutex_unlock(&p->lock);
    if (b) {
        b->next = NULL;
        atomic_store(&b->refs, 1);
    }
    *out = b;
    return rc;
}

/* As many are kept in reserve as the ring has: whoever holds one batch or two, as training does,
 * gets memory that was in use before. */
void larder__pixel_block_unref(larder__pixel_block **pb) {
    larder__pixel_block *b = *pb;
    *pb = NULL;
    if (!b || b->pool->owner != getpid()) /* a forked child's memory is a copy: its end frees it */
        return;
    if (atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    larder__pool *p = b->pool;
    pthread_mutex_lock(&p->lock);
    bool spare = !p->closed && p->spares < p->conf.own;
    if (spare) {
        b->next = p->spare;
        p->spare = b;
        p->spares++;
    } else {
        free_block(p, b);
        p->blocks--;
    }
    bool last = p->closed && p->blocks == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        free_pool(p);
}

unsigned char *larder__pixel_block_pixels(const larder__pixel_block *b) { return b->memory; }
bool larder__pixel_block_shared(const larder__pixel_block *b) { return atomic_load(&b->refs) > 1; }

larder__pixel_block *larder__pixel_block_of(const larder_batch *held) {
    return (larder__pixel_block *)((uintptr_t)held - offsetof(larder__pixel_block, batch));
}

/* Copies what is not pixels, and points at the block's own. */
static void describe(larder__pixel_block *b, const larder_batch *from) {
    size_t most = b->pool->conf.rows, n = from->n;
    unsigned char *at = b->memory + b->pool->pixels;
    b->batch = *from;
    b->batch.x = from->x ? b->memory : NULL;
    b->batch.y = memcpy(at, from->y, n * 8);
    b->batch.ids = memcpy(at + most * 8, from->ids, n * 8);
    b->batch.served = memcpy(at + most * 16, from->served, n * 8);
    b->batch.weight = memcpy(at + most * 24, from->weight, n * 4);
    b->batch.kind = memcpy(at + most * 28, from->kind, n);
}

const larder_batch *larder__pixel_block_hold(larder__pixel_block *b, const larder_batch *from) {
    if (!larder__pixel_block_shared(b))
        describe(b, from);
    atomic_fetch_add(&b->refs, 1);
    return &b->batch;
}

double larder__pool_out(const void *pool) {
    larder__pool *p = (larder__pool *)(uintptr_t)pool;
    pthread_mutex_lock(&p->lock);
    uint32_t out = p->blocks - p->spares;
    out = out > p->conf.own ? out - p->conf.own : 0;
    pthread_mutex_unlock(&p->lock);
    return out;
}

double larder__pool_unpinned(const void *pool) {
    larder__pool *p = (larder__pool *)(uintptr_t)pool;
    pthread_mutex_lock(&p->lock);
    uint64_t n = p->unpinned;
    pthread_mutex_unlock(&p->lock);
    return (double)n;
}
