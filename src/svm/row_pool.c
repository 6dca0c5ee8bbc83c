#include "svm/row_pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <string.h>

/* A row lies behind its buffer's head, which ends where an aligned address begins. */
enum { ALIGN = 64, HEAD_AT = ALIGN - (int)sizeof(larder_buf) };

typedef struct pool {
    larder__account account; /* first: the account is the pool */
    pthread_mutex_t lock;
    larder_buf *spare; /* chained through the first bytes of their rows */
    uint32_t row_bytes;
} pool;

static void drop(larder_buf *b) { larder__free((char *)b - HEAD_AT); }

static larder_buf *next_of(larder_buf *b) {
    larder_buf *next;
    memcpy(&next, larder_buf_data(b), sizeof next);
    return next;
}

static void recycle(larder__account *a, larder_buf *b) {
    pool *p = (pool *)a;
    if (b->size != p->row_bytes) {
        larder__free(b);
        return;
    }
    pthread_mutex_lock(&p->lock);
    memcpy(larder_buf_data(b), &p->spare, sizeof p->spare);
    p->spare = b;
    pthread_mutex_unlock(&p->lock);
}

static void end(larder__account *a) {
    pool *p = (pool *)a;
    for (larder_buf *b = p->spare, *next; b; b = next) {
        next = next_of(b);
        drop(b);
    }
    pthread_mutex_destroy(&p->lock);
    larder__free(p);
}

int larder__row_pool_new(larder__account **out, uint32_t row_bytes) {
    pool *p = larder__calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    p->account.recycle = recycle;
    p->account.end = end;
    atomic_init(&p->account.refs, 1);
    p->row_bytes = row_bytes;
    *out = &p->account;
    return 0;
}

static larder_buf *whole_row(pool *p) {
    pthread_mutex_lock(&p->lock);
    larder_buf *b = p->spare;
    if (b)
        p->spare = next_of(b);
    pthread_mutex_unlock(&p->lock);
    if (b)
        return b;
    size_t room = p->row_bytes > sizeof b ? p->row_bytes : sizeof b; /* for the chain */
    char *base = larder__memalign(ALIGN, (ALIGN + room + ALIGN - 1) / ALIGN * ALIGN);
    return base ? (larder_buf *)(void *)(base + HEAD_AT) : NULL;
}

larder_buf *larder__row_pool_take(larder__account *a, uint32_t bytes) {
    pool *p = (pool *)a;
    larder_buf *b = bytes == p->row_bytes ? whole_row(p) : larder_buf_new(bytes);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    b->account = NULL;
    b->size = bytes;
    larder__buf_enter(b, a);
    return b;
}
