#include "loader/fill/pixels.h"

#include "base/dtype.h"
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
    unsigned char *memory; /* pixels, columns, then y, ids, served, weight, kind */
    larder_batch batch;
    larder_column *columns; /* NULL: none; then of each row of those with pieces: */
    larder_piece *pieces;
    larder_buf **held; /* what it lies in */
    void *beside;
};

typedef struct column { /* of every block */
    larder_column is;   /* its name is the pool's own */
    size_t bytes, at;   /* of a row; in the block's memory */
    size_t ragged;      /* it is this one of those with pieces; SIZE_MAX: it has none */
    bool in_y;          /* its rows are y */
} column;

struct larder__pool {
    larder__pool_conf conf;
    size_t pixels, block; /* bytes of pixels and columns, rounded up, and of all */
    column *columns;
    size_t column_count, ragged;
    pthread_mutex_t lock;
    larder__pixel_block *spare; /* given back and not in use */
    uint32_t blocks;            /* that exist */
    uint32_t spares;
    uint64_t unpinned; /* could not be pinned, so far */
    bool closed;       /* the loader is gone: what comes back is freed, the last one frees this */
    pid_t owner;
};

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Behind the pixels, each at a multiple of 64. */
static int lay_columns(larder__pool *p, const larder__columns *from) {
    p->column_count = from->count;
    p->columns = larder__calloc(from->count + 1, sizeof *p->columns);
    for (size_t i = 0; p->columns && i < from->count; i++) {
        const larder__column *f = &from->items[i];
        column *c = &p->columns[i];
        bool x = i == from->x, in_y = i == from->y && !from->typed;
        c->is = (larder_column){.name = larder__strdup(f->name),
                                .kind = f->shows,
                                .dtype = f->dtype,
                                .ndim = f->ndim,
                                .use = x           ? LARDER_COLUMN_X
                                       : f->target ? LARDER_COLUMN_Y
                                                   : LARDER_COLUMN_OTHER};
        if (!c->is.name)
            return LARDER_E_NOMEM;
        memcpy(c->is.shape, f->shape, sizeof f->shape);
        c->bytes = f->bytes;
        c->in_y = in_y;
        c->ragged = f->ragged ? p->ragged++ : SIZE_MAX;
        if (f->ragged || x || in_y)
            continue;
        if (f->bytes > (SIZE_MAX / 4 - p->pixels) / (p->conf.rows + 1))
            return larder__fail(LARDER_E_RANGE, "a batch of %zu rows of %zu bytes is too large",
                                p->conf.rows, f->bytes);
        c->at = p->pixels;
        p->pixels += round_up(p->conf.rows * f->bytes, 64);
    }
    return p->columns ? 0 : LARDER_E_NOMEM;
}

static void free_pool(larder__pool *p) {
    for (size_t i = 0; p->columns && i < p->column_count; i++)
        larder__free((void *)(uintptr_t)p->columns[i].is.name);
    larder__free(p->columns);
    pthread_mutex_destroy(&p->lock);
    if (p->conf.done)
        p->conf.done(p->conf.arg);
    larder__free(p);
}

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
    p->conf.columns = NULL;
    p->pixels = round_up(conf->rows * conf->row_bytes + 64, 64);
    pthread_mutex_init(&p->lock, NULL);
    int rc = conf->columns ? lay_columns(p, conf->columns) : 0;
    if (rc < 0) {
        p->conf.done = NULL; /* the caller's, still */
        free_pool(p);
        return rc;
    }
    p->block = round_up(p->pixels + conf->rows * BESIDES, PAGE);
    if (conf->most == 0) {
        uint64_t fit = larder__memory_limit() / 4 / p->block;
        p->conf.most = fit < 1 ? 1 : fit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)fit;
    }
    p->owner = getpid();
    *out = p;
    return 0;
}

static void free_block(larder__pool *p, larder__pixel_block *b) {
    if (b->pinned)
        p->conf.unpin(b->memory);
    if (b->held)
        larder__pixel_block_clear(b);
    if (b->beside)
        p->conf.beside_end(p->conf.arg, b->beside);
    larder__free(b->columns);
    larder__free(b->pieces);
    larder__free(b->held);
    larder__free(b->memory);
    larder__free(b);
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

static int add_columns(larder__pool *p, larder__pixel_block *b) {
    size_t n = p->ragged * p->conf.rows, r = 0;
    b->columns = larder__calloc(p->column_count + 1, sizeof *b->columns);
    b->pieces = n ? larder__calloc(n, sizeof *b->pieces) : NULL;
    b->held = n ? larder__calloc(n, sizeof *b->held) : NULL;
    if (!b->columns || (n && (!b->pieces || !b->held)))
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < p->column_count; i++) {
        const column *c = &p->columns[i];
        b->columns[i] = c->is;
        if (c->ragged != SIZE_MAX)
            b->columns[i].pieces = b->pieces + r++ * p->conf.rows;
        else
            b->columns[i].data = b->memory + c->at; /* that of y differs from batch to batch */
    }
    return 0;
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
    if ((p->column_count && add_columns(p, b) < 0) ||
        (p->conf.beside && !(b->beside = p->conf.beside(p->conf.arg)))) {
        free_block(p, b);
        return NULL;
    }
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

int larder__pixel_block_add(larder__pool *p, larder__pixel_block **out) {
    pthread_mutex_lock(&p->lock);
    p->conf.own++;
    pthread_mutex_unlock(&p->lock);
    return larder__pixel_block_take(p, out);
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
    larder__pixel_block_clear(b);
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
void *larder__pixel_block_beside(const larder__pixel_block *b) { return b->beside; }
bool larder__pixel_block_shared(const larder__pixel_block *b) { return atomic_load(&b->refs) > 1; }

larder__pixel_block *larder__pixel_block_of(const larder_batch *held) {
    return (larder__pixel_block *)((uintptr_t)held - offsetof(larder__pixel_block, batch));
}

/* ---- columns --------------------------------------------------------------------------------- */

const larder_column *larder__pixel_block_columns(larder__pixel_block *b, const int64_t *y) {
    for (size_t i = 0; b->columns && i < b->pool->column_count; i++)
        if (b->pool->columns[i].in_y)
            b->columns[i].data = y;
    return b->columns;
}

void *larder__pixel_block_cell(const larder__pixel_block *b, size_t i, size_t row) {
    const column *c = &b->pool->columns[i];
    return c->ragged != SIZE_MAX ? NULL : b->memory + c->at + row * c->bytes;
}

void larder__pixel_block_put(larder__pixel_block *b, size_t i, size_t row,
                             const larder_piece *piece, larder_buf *in) {
    size_t at = b->pool->columns[i].ragged * b->pool->conf.rows + row;
    larder_buf_unref(&b->held[at]);
    b->held[at] = in;
    b->pieces[at] = *piece;
}

void larder__pixel_block_move(larder__pixel_block *b, size_t to, size_t from) {
    size_t rows = b->pool->conf.rows;
    for (size_t i = 0; i < b->pool->column_count; i++) {
        const column *c = &b->pool->columns[i];
        if (c->is.use == LARDER_COLUMN_X || c->in_y)
            continue; /* the place's own */
        if (c->ragged == SIZE_MAX) {
            memcpy(b->memory + c->at + to * c->bytes, b->memory + c->at + from * c->bytes,
                   c->bytes);
            continue;
        }
        size_t at = c->ragged * rows;
        larder_buf_unref(&b->held[at + to]);
        b->held[at + to] = b->held[at + from];
        b->held[at + from] = NULL;
        b->pieces[at + to] = b->pieces[at + from];
    }
}

void larder__pixel_block_clear(larder__pixel_block *b) {
    size_t n = b->held ? b->pool->ragged * b->pool->conf.rows : 0;
    for (size_t i = 0; i < n; i++)
        if (b->held[i])
            larder_buf_unref(&b->held[i]);
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
    if (b->columns)
        b->batch.columns = larder__pixel_block_columns(b, b->batch.y);
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
