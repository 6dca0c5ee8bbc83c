#include "disk/disk_span.h"

#include "base/mem.h"
#include "disk/disk_form.h"

#include <pthread.h>
#include <sys/mman.h>

enum {
    BINS = 128,
    HUGE_PAGE = 2 << 20,
    IDLE_MOST = 64 << 20, /* bytes that wait for a next read */
};

/* A huge page, cut into spans of one size; or one span that is larger than that. */
typedef struct larder__disk_slab {
    larder__disk_pool *pool;
    unsigned char *bytes;
    uint32_t bin, count, idle; /* idle: of its spans */
    larder__disk_span spans[];
} slab;

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

/* With the lock. */
static void push(slab *b, larder__disk_span *s) {
    larder__disk_pool *p = b->pool;
    larder__disk_span **first = &p->idle[b->bin];
    s->before = NULL;
    s->next = *first;
    if (s->next)
        s->next->before = s;
    *first = s;
    b->idle++;
    p->idle_bytes += (uint64_t)s->blocks * LARDER__DISK_BLOCK;
}

/* With the lock. */
static void take_out(larder__disk_pool *p, larder__disk_span *s) {
    if (s->next)
        s->next->before = s->before;
    if (s->before)
        s->before->next = s->next;
    else
        p->idle[s->slab->bin] = s->next;
    s->slab->idle--;
    p->idle_bytes -= (uint64_t)s->blocks * LARDER__DISK_BLOCK;
}

/* With the lock, when all of its spans are idle. */
static void free_slab(larder__disk_pool *p, slab *b) {
    for (uint32_t i = 0; i < b->count; i++)
        take_out(p, &b->spans[i]);
    larder__free(b->bytes);
    larder__free(b);
}

void larder__disk_pool_unref(larder__disk_pool **pp) {
    larder__disk_pool *p = *pp;
    *pp = NULL;
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < BINS; i++)
        while (p->idle[i])
            free_slab(p, p->idle[i]->slab);
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

/* With the lock; false: no memory. */
static bool add_slab(larder__disk_pool *p, uint32_t bin, uint32_t blocks) {
    size_t each = (size_t)blocks * LARDER__DISK_BLOCK;
    uint32_t count = each < HUGE_PAGE ? (uint32_t)(HUGE_PAGE / each) : 1;
    size_t all = each < HUGE_PAGE ? HUGE_PAGE : each;
    slab *b = larder__calloc(1, sizeof *b + count * sizeof b->spans[0]);
    void *bytes = b ? larder__memalign(HUGE_PAGE, all) : NULL;
    if (!bytes) {
        larder__free(b);
        return false;
    }
    madvise(bytes, all, MADV_HUGEPAGE); /* only advice */
    *b = (slab){.pool = p, .bytes = bytes, .bin = bin, .count = count};
    for (larder__disk_span *s = b->spans + count; s-- > b->spans;) {
        s->slab = b;
        s->bytes = b->bytes + (size_t)(s - b->spans) * each;
        s->blocks = blocks;
        push(b, s);
    }
    return true;
}

larder__disk_span *larder__disk_span_get(larder__disk_pool *p, uint32_t blocks) {
    uint32_t bin = bin_of(&blocks);
    pthread_mutex_lock(&p->lock);
    bool there = p->idle[bin] || add_slab(p, bin, blocks);
    larder__disk_span *s = p->idle[bin];
    if (there)
        take_out(p, s);
    pthread_mutex_unlock(&p->lock);
    if (there)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return there ? s : NULL;
}

void larder__disk_span_back(larder__disk_span *s) {
    larder__disk_pool *p = s->slab->pool;
    pthread_mutex_lock(&p->lock);
    push(s->slab, s);
    if (s->slab->idle == s->slab->count && p->idle_bytes > IDLE_MOST)
        free_slab(p, s->slab);
    pthread_mutex_unlock(&p->lock);
    larder__disk_pool_unref(&p);
}

static void let_go(void *span, uint64_t tag) {
    (void)tag;
    larder__disk_span_back(span);
}

larder_buf *larder__disk_span_hand_out(larder__disk_span *s, size_t at, uint32_t size) {
    return larder__buf_outside_at(&s->outside, s->bytes + at, size, let_go, s, 0);
}
