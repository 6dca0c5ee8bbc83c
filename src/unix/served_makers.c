#include "unix/served_set_inside.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"

#include <math.h>
#include <string.h>

static const double PATIENCE = 2; /* seconds a job may go without keeping any promise */
static const double PAUSES = 8;   /* and of its longest pauses between two batches of late */

/* ---- entries being made ---------------------------------------------------------------------- */

static larder__promised **bucket_of(larder__served *s, uint64_t key) {
    return &s->buckets[key % LARDER__MAKING_BUCKETS];
}

larder__promised *larder__promised_find(larder__served *s, const larder__ticket *t) {
    larder__promised *m = *bucket_of(s, t->key);
    while (m && m->maker.flight != t->flight)
        m = m->next;
    return m;
}

larder__block_head *larder__head_of(larder_buf *b) {
    return (larder__block_head *)(void *)((char *)larder_buf_data(b) - LARDER__BLOCK_HEAD);
}

uint64_t larder__served_offset(const larder__served *s, larder_buf *b) {
    return (uint64_t)((char *)larder__head_of(b) - (char *)larder__arena_base(s->arena));
}

/* Tells everybody who sleeps on the block how it ended. */
static void announce(larder_buf *b, uint32_t state) {
    _Atomic uint32_t *word = &larder__head_of(b)->state;
    atomic_store(word, state);
    larder__word_wake(word);
}

static void let_go(void *whole, uint64_t unused) {
    (void)unused;
    larder_buf_unref(&(larder_buf *){whole});
}

/* The bytes of an entry as its maker says they are. It writes to memory that it shares with us, so
 * nothing is looked at twice. NULL: not as promised, or no memory. */
static larder_buf *made_bytes(larder__promised *m) {
    const larder__block_head *head = larder__head_of(m->buf);
    uint32_t size = __atomic_load_n(&head->size, __ATOMIC_RELAXED);
    uint8_t held = __atomic_load_n(&head->held, __ATOMIC_RELAXED);
    if (size > larder_buf_size(m->buf) || held >= LARDER__SPLIT_FORMS)
        return NULL;
    m->maker.held = held;
    if (size == larder_buf_size(m->buf))
        return larder_buf_ref(m->buf);
    larder_buf *part =
        larder__buf_outside(larder_buf_data(m->buf), size, let_go, larder_buf_ref(m->buf), 0);
    if (!part)
        larder_buf_unref(&(larder_buf *){m->buf});
    return part;
}

/* Everybody may take it from here on, if the cache has kept it as it is. */
static void publish(larder__served *s, const larder__promised *m, const larder_buf *made) {
    const larder_slots *slots = larder__cache_slots(s->cache);
    larder_slot at = slots->slot_of[m->key];
    size_t size = larder_buf_size(made);
    if (!s->open_hand || at == LARDER_NO_SLOT || slots->form_of[at] != m->maker.held)
        return;
    if (m->maker.held == LARDER_DECODED ? size <= slots->size_of[at] : size == slots->size_of[at])
        larder__pinned_publish(&s->pinned, m->key, larder__served_offset(s, m->buf), m->maker.held,
                               (uint32_t)size);
}

/* The maker is done with it, or will never be. */
static void land(larder__served *s, larder__promised *m, int code) {
    larder__promised **at = bucket_of(s, m->key);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    s->makings--;
    s->jobs[m->job].promises--;
    if (code == 0)
        s->jobs[m->job].kept_at = larder__world_now();
    larder_buf *made = code == 0 ? made_bytes(m) : NULL;
    if (made) {
        larder__cache_fill(s->cache, &m->maker, made);
        publish(s, m, made);
    } else
        larder__cache_fail(s->cache, &m->maker, code < 0 ? code : LARDER_E_FORMAT,
                           "another job could not make it");
    announce(m->buf, made ? LARDER__BLOCK_FULL : LARDER__BLOCK_FAILED);
    larder_buf_unref(&made);
    for (larder__waiter *w; (w = m->waiters);) { /* has landed, so nobody waits here */
        larder_buf *bytes = NULL;
        m->waiters = w->next;
        larder__cache_wait(s->cache, &w->ticket, &bytes);
        larder_buf_unref(&bytes);
        w->next = s->spare_waiters;
        s->spare_waiters = w;
        s->spares++;
    }
    larder_buf_unref(&m->buf);
    larder__free(m);
}

static void give_back(void *pinned, uint64_t key_and_block) {
    larder__pinned_give(pinned, (larder__arena_block)key_and_block, key_and_block >> 32);
}

/* A block in the arena for an entry that is to be made; NULL: there is none. */
static larder_buf *block_new(larder__served *s, uint64_t key, uint32_t size) {
    larder__arena_block b = larder__pinned_take(&s->pinned, (uint64_t)size + LARDER__BLOCK_HEAD);
    if (b == LARDER__NO_BLOCK)
        return NULL;
    larder__block_head *head = larder__arena_at(s->arena, b);
    *head = (larder__block_head){.size = size, .key = key};
    atomic_store(&head->state, LARDER__BLOCK_PENDING);
    larder_buf *buf =
        larder__buf_outside(head + 1, size, give_back, &s->pinned, key << 32 | (uint64_t)b);
    if (!buf)
        larder__pinned_give(&s->pinned, b, key);
    return buf;
}

larder__promised *larder__promised_start(larder__served *s, const larder__ticket *t) {
    larder__promised *m = larder__calloc(1, sizeof *m);
    if (!m || !(m->buf = block_new(s, t->key, t->size))) {
        larder__free(m);
        return NULL;
    }
    m->key = t->key;
    m->maker = *t;
    m->next = *bucket_of(s, t->key);
    *bucket_of(s, t->key) = m;
    return m;
}

void larder__promised_wait(larder__served *s, larder__promised *m, const larder__ticket *t) {
    larder__waiter *w = s->spare_waiters; /* a claim reserves as many as it may need */
    s->spare_waiters = w->next;
    s->spares--;
    *w = (larder__waiter){.next = m->waiters, .ticket = *t};
    m->waiters = w;
}

/* ---- how it ends ----------------------------------------------------------------------------- */

/* 0: its bytes are; 1: not yet. */
static int is_there(larder__served *s, const larder__promised *m) {
    (void)s;
    return atomic_load(&larder__head_of(m->buf)->state) == LARDER__BLOCK_FULL ? 0 : 1;
}

void larder__served_made(larder__served *s, uint32_t number, uint32_t lease, int code) {
    larder__lease *l = larder__leases_find(&s->jobs[number].leases, lease);
    if (!l || !l->making)
        return;
    larder__promised *m = l->making;
    l->making = NULL;
    land(s, m, code < 0 ? LARDER_E_IO : 0);
}

/* Of what this lease promised n bytes come now. Where they go; NULL: nobody wants them, or, with a
 * code, they do not fit. */
static char *place_of(larder__served *s, uint32_t number, const larder__wire_piece *p, size_t n,
                      int *rc) {
    const larder__lease *l = larder__leases_find(&s->jobs[number].leases, p->lease);
    const larder__promised *m = l ? l->making : NULL;
    *rc = 0;
    if (!m || p->code < 0)
        return NULL;
    if (p->at == m->got && p->at <= p->whole && p->whole <= larder_buf_size(m->buf) &&
        p->held < LARDER__SPLIT_FORMS && n <= p->whole - p->at)
        return (char *)larder_buf_data(m->buf) + p->at;
    *rc = larder__fail(LARDER_E_FORMAT, "bytes that do not fit what it promised to make");
    return NULL;
}

/* They are there. */
static void arrived(larder__served *s, uint32_t number, const larder__wire_piece *p, size_t n) {
    larder__promised *m = larder__leases_find(&s->jobs[number].leases, p->lease)->making;
    larder__block_head *head = larder__head_of(m->buf);
    m->got += (uint32_t)n;
    if (m->got < p->whole)
        return;
    head->size = p->whole;
    head->held = (uint8_t)p->held;
    larder__served_made(s, number, p->lease, 0);
}

int larder__served_bytes(larder__served *s, uint32_t number, larder_reader *r) {
    larder__wire_piece p;
    larder_read_bytes(r, &p, sizeof p);
    size_t n = larder__read_left(r);
    int rc = larder_read_status(r);
    char *to = rc == 0 ? place_of(s, number, &p, n, &rc) : NULL;
    if (to) {
        larder_read_bytes(r, to, n);
        arrived(s, number, &p, n);
    } else if (rc == 0 && p.code < 0)
        larder__served_made(s, number, p.lease, p.code);
    return rc;
}

int larder__served_laid(larder__served *s, uint32_t number, larder_reader *r) {
    larder__served_job *j = &s->jobs[number];
    larder__wire_piece p;
    larder_read_bytes(r, &p, sizeof p);
    int rc = larder_read_status(r);
    if (rc == 0 && (!j->tray || p.whole > LARDER__TRAY_BYTES))
        rc = larder__fail(LARDER_E_FORMAT, "it laid down more than its tray holds");
    char *to = rc == 0 ? place_of(s, number, &p, p.whole, &rc) : NULL;
    if (rc < 0)
        return rc;
    larder__tray_take(j->tray, &j->taken, to, p.whole);
    if (to)
        arrived(s, number, &p, p.whole);
    larder__served_release(s, number, p.lease);
    return 0;
}

void larder__served_release(larder__served *s, uint32_t number, uint32_t lease) {
    larder__leases *all = &s->jobs[number].leases;
    larder__lease *l = larder__leases_find(all, lease);
    if (!l)
        return;
    /* Given back without a word: it was not made, unless the bytes are there. Whoever leaves, or is
     * killed, may not have come to say so. */
    if (l->making)
        larder__served_made(s, number, lease, is_there(s, l->making) ? LARDER_E_CANCELLED : 0);
    larder__leases_drop(all, lease);
}

/* Ends every making that `over` says so of, with what it says. */
static void watch_each(larder__served *s, int (*over)(larder__served *, const larder__promised *)) {
    for (size_t b = 0; b < LARDER__MAKING_BUCKETS && s->makings; b++)
        for (larder__promised *m = s->buckets[b], *next; m; m = next) {
            next = m->next;
            int code = over(s, m);
            if (code <= 0)
                larder__served_made(s, m->job, m->lease, code);
        }
}

void larder__served_land(larder__served *s) { watch_each(s, is_there); }

static int is_void(larder__served *s, const larder__promised *m) {
    bool overdue = s->clock - s->jobs[m->job].kept_at > PATIENCE;
    s->overdue += overdue;
    return overdue ? LARDER_E_STATE : 1;
}

bool larder__served_watch(larder__served *s, double now) {
    s->clock = now;
    larder__served_land(s);
    watch_each(s, is_void);
    bool counts = larder__machine_counts(s->machine);
    for (uint32_t i = 0; counts && i < LARDER__SERVED_JOBS; i++) {
        larder__served_job *j = &s->jobs[i];
        bool silent = now - j->asked_at > fmax(PATIENCE, PAUSES * j->pause);
        if (!j->here || j->rests || !silent)
            continue;
        larder__served_feed(s, i, &(larder__op){.type = LARDER__OP_REST, .number = {1}});
        j->rests = true;
    }
    return s->makings > 0 || (counts && larder__machine_jobs(s->machine) > 1);
}
