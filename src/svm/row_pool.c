#include "svm/row_pool.h"

#include "base/buf.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

enum { ALIGN = 64 };

struct larder__row_pool {
    pthread_mutex_t lock;
    void *spare;   /* rows, chained through their first bytes */
    uint64_t refs; /* the owner's and one a row in use; under the lock */
    uint32_t row_bytes;
};

int larder__row_pool_open(larder__row_pool **out, uint32_t row_bytes) {
    larder__row_pool *p = *out = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    p->refs = 1;
    p->row_bytes = row_bytes;
    return 0;
}

static void *pop(larder__row_pool *p) {
    void *row = p->spare;
    if (row)
        memcpy(&p->spare, row, sizeof p->spare);
    return row;
}

/* Gives one reference back, and the row with it, if any. */
static void give_back(larder__row_pool *p, void *row) {
    pthread_mutex_lock(&p->lock);
    if (row) {
        memcpy(row, &p->spare, sizeof p->spare);
        p->spare = row;
    }
    bool last = --p->refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    while ((row = pop(p)))
        larder__free(row);
    pthread_mutex_destroy(&p->lock);
    larder__free(p);
}

void larder__row_pool_close(larder__row_pool **pp) {
    larder__row_pool *p = *pp;
    *pp = NULL;
    if (p)
        give_back(p, NULL);
}

static void done(void *arg, uint64_t row) { give_back(arg, (void *)(uintptr_t)row); }

larder_buf *larder__row_pool_take(larder__row_pool *p) {
    uint32_t bytes = p->row_bytes;
    pthread_mutex_lock(&p->lock);
    void *row = pop(p);
    p->refs++;
    pthread_mutex_unlock(&p->lock);
    if (!row) { /* room for the chain, at least */
        size_t room = bytes > sizeof row ? bytes : sizeof row;
        row = larder__memalign(ALIGN, (room + ALIGN - 1) / ALIGN * ALIGN);
    }
    larder_buf *b = row ? larder__buf_outside(row, bytes, done, p, (uintptr_t)row) : NULL;
    if (!b)
        give_back(p, row);
    return b;
}
