#include "disk/disk_span.h"

#include "base/mem.h"
#include "disk/disk_form.h"

#include <pthread.h>

enum { BINS = 128, IDLE_MOST = 64 << 20 }; /* bytes that wait for a next read */

struct larder__disk_pool {
    _Atomic uint32_t refs; /* the owner's and one a span that is out */
    pthread_mutex_t lock;
    uint64_t idle_bytes;
    larder__disk_span *idle[BINS];
};

larder__disk_pool *larder__disk_pool_new(void) {
    larder__disk_pool *p = larder__calloc(1, sizeof *p);
    if (!p)
        return NULL;
    atomic_init(&p->refs, 1);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

static void span_free(larder__disk_span *s) {
    larder__free(s->bytes);
    larder__free(s);
}

void larder__disk_pool_unref(larder__disk_pool **pp) {
    larder__disk_pool *p = *pp;
    *pp = NULL;
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < BINS; i++)
        for (larder__disk_span *s = p->idle[i], *next; s; s = next) {
            next = s->next;
            span_free(s);
        }
    pthread_mutex_destroy(&p->lock);
    larder__free(p);
}

/* Eight sizes an octave, so that at most an eighth is wasted. */
static uint32_t bin_of(uint32_t *blocks) {
    if (*blocks <= 8)
        return *blocks;
    uint32_t octave = 31 - (uint32_t)__builtin_clz(*blocks - 1), step = 1u << (octave - 3);
    *blocks = (*blocks + step - 1) / step * step;
    return 8 * (octave - 2) + (*blocks - (1u << octave)) / step;
}

larder__disk_span *larder__disk_span_get(larder__disk_pool *p, uint32_t blocks) {
    uint32_t bin = bin_of(&blocks);
    pthread_mutex_lock(&p->lock);
    larder__disk_span *s = p->idle[bin];
    if (s) {
        p->idle[bin] = s->next;
        p->idle_bytes -= (uint64_t)s->blocks * LARDER__DISK_BLOCK;
    }
    pthread_mutex_unlock(&p->lock);
    if (!s) {
        s = larder__calloc(1, sizeof *s);
        void *bytes =
            s ? larder__memalign(LARDER__DISK_BLOCK, (size_t)blocks * LARDER__DISK_BLOCK) : NULL;
        if (!bytes) {
            larder__free(s);
            return NULL;
        }
        s->bytes = bytes;
        s->blocks = blocks;
        s->bin = bin;
        s->pool = p;
    }
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return s;
}

void larder__disk_span_back(larder__disk_span *s) {
    larder__disk_pool *p = s->pool;
    uint64_t bytes = (uint64_t)s->blocks * LARDER__DISK_BLOCK;
    pthread_mutex_lock(&p->lock);
    bool keep = p->idle_bytes + bytes <= IDLE_MOST;
    if (keep) {
        s->next = p->idle[s->bin];
        p->idle[s->bin] = s;
        p->idle_bytes += bytes;
    }
    pthread_mutex_unlock(&p->lock);
    if (!keep)
        span_free(s);
    larder__disk_pool_unref(&p);
}

static void let_go(void *span, uint64_t tag) {
    (void)tag;
    larder__disk_span_back(span);
}

larder_buf *larder__disk_span_hand_out(larder__disk_span *s, size_t at, uint32_t size) {
    return larder__buf_outside_at(&s->outside, s->bytes + at, size, let_go, s, 0);
}
