#include "unix/tickets.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"

#include <string.h>

/* The daemon sees to makers that are stuck. Should it be gone too, whoever waits reads for itself
 * after this long, and does not wait at all for a while after that. */
static const double MAKER_SECONDS = 5, IMPATIENCE_SECONDS = 10;

typedef struct passage { /* an entry in the arena that is promised to be made */
    larder__mapping *map;
    uint32_t lease;
    larder__block_head *head;
} passage;

/* ---- tickets --------------------------------------------------------------------------------- */

/* Believes nothing that would lead outside the arena. */
static bool sound(const larder__connection *a, const larder__mapping *m, const larder__reply *w) {
    return w->form < LARDER__SPLIT_FORMS && w->make < LARDER__SPLIT_FORMS &&
           w->held < LARDER__SPLIT_FORMS && w->key < a->hello.about.keys &&
           w->task <= LARDER__WAIT && w->offset % 64 == 0 && w->offset < m->arena_bytes &&
           sizeof(larder__block_head) < m->arena_bytes - w->offset &&
           w->size <= m->arena_bytes - w->offset - sizeof(larder__block_head);
}

/* Turns an answer into a ticket. False: no memory or nonsense; then the lease goes back and the
 * caller makes it alone. */
static bool board(larder__connection *a, larder__mapping *m, const larder__reply *w,
                  larder__ticket *t) {
    if (!sound(a, m, w))
        return false;
    larder__block_head *head = (larder__block_head *)(void *)(m->arena + w->offset);
    *t = (larder__ticket){.key = w->key,
                          .size = w->size,
                          .kind = w->kind,
                          .task = w->task,
                          .form = w->form,
                          .make = w->make,
                          .held = w->held,
                          .mark = w->mark};
    if (w->task == LARDER__READY) {
        t->buf = larder__buf_outside(head + 1, w->size, larder__mapping_done,
                                     larder__mapping_ref(m), w->lease);
        if (!t->buf)
            larder__mapping_unref(&(larder__mapping *){m});
        return t->buf != NULL;
    }
    passage *p = larder__malloc(sizeof *p);
    if (!p)
        return false;
    *p = (passage){.map = larder__mapping_ref(m), .lease = w->lease, .head = head};
    t->flight = (larder__flight *)(void *)p;
    return true;
}

void larder__tickets_tickets(void *st, const larder__reply *answers, const larder_access *in,
                             size_t n, larder__ticket *out) {
    larder__connection *a = st;
    for (size_t i = 0; i < n; i++) {
        const larder__reply *w = &answers[i];
        if (w->lease != LARDER__NO_LEASE && a->map && board(a, a->map, w, &out[i]))
            continue;
        larder__client_alone(a->client, &in[i], &out[i]);
        if (w->lease != LARDER__NO_LEASE)
            larder__connection_release(a, a->map, w->lease);
    }
}

void larder__tickets_refuse(void *st, const larder__reply *answers, size_t n) {
    larder__connection *a = st;
    for (size_t i = 0; i < n; i++)
        if (answers[i].lease != LARDER__NO_LEASE)
            larder__connection_release(a, a->map, answers[i].lease);
}

/* ---- filling --------------------------------------------------------------------------------- */

static void end_passage(passage *p) {
    larder__mapping_unref(&p->map);
    larder__free(p);
}

/* Where the arena is not ours to write the daemon tells those who wait. */
static void settle(larder__connection *a, passage *p, larder__ticket *t, larder_buf *b, int code) {
    if (p->map->sealed)
        larder__connection_bytes(a, p->map, p->lease, t->held, b, code);
    else {
        if (code == 0) {
            memcpy(p->head + 1, larder_buf_data(b), larder_buf_size(b));
            __atomic_store_n(&p->head->size, (uint32_t)larder_buf_size(b), __ATOMIC_RELAXED);
            __atomic_store_n(&p->head->held, t->held, __ATOMIC_RELAXED);
        }
        atomic_store(&p->head->state, code == 0 ? LARDER__BLOCK_FULL : LARDER__BLOCK_FAILED);
        larder__word_wake(&p->head->state);
        larder__connection_made(a, p->map, p->lease, code);
        larder__connection_release(a, p->map, p->lease);
    }
    end_passage(p);
}

void larder__tickets_fill(void *st, larder__ticket *t, larder_buf *b) {
    larder__connection *a = st;
    passage *p = (passage *)(void *)t->flight;
    size_t bytes = larder_buf_size(b);
    bool fits = t->make == LARDER_DECODED ? bytes <= t->size && t->held != LARDER_AUGMENTED
                                          : bytes == t->size && t->held == t->make;
    settle(a, p, t, b, fits ? 0 : LARDER_E_CHANGED);
}

void larder__tickets_fail(void *st, larder__ticket *t, int code) {
    settle(st, (passage *)(void *)t->flight, t, NULL, code < 0 ? code : LARDER_E_STATE);
}

int larder__tickets_wait(void *st, larder__ticket *t, larder_buf **out) {
    larder__connection *a = st;
    passage *p = (passage *)(void *)t->flight;
    bool patient = larder__world_now() > atomic_load(&a->impatient_until);
    double until = larder__world_now() + (patient ? MAKER_SECONDS : 0);
    uint32_t state;
    t->flight = NULL;
    while ((state = atomic_load(&p->head->state)) == LARDER__BLOCK_PENDING &&
           larder__world_now() < until)
        larder__word_wait(&p->head->state, LARDER__BLOCK_PENDING, 0.1);
    int rc = LARDER__TAKE_OVER;
    uint32_t size = __atomic_load_n(&p->head->size, __ATOMIC_RELAXED);
    uint8_t held = __atomic_load_n(&p->head->held, __ATOMIC_RELAXED);
    bool there = state == LARDER__BLOCK_FULL && size <= t->size && held < LARDER__SPLIT_FORMS;
    if (there && (*out = larder__buf_outside(p->head + 1, size, larder__mapping_done,
                                             larder__mapping_ref(p->map), p->lease))) {
        t->held = held;
        rc = 0;
    } else {
        if (there)
            larder__mapping_unref(&(larder__mapping *){p->map});
        if (state == LARDER__BLOCK_PENDING) {
            if (patient)
                atomic_store(&a->impatient_until, larder__world_now() + IMPATIENCE_SECONDS);
            if (a->stats)
                larder__stat_add(a->stats, a->stuck, 1);
        }
        larder__connection_release(a, p->map, p->lease);
    }
    end_passage(p);
    return rc;
}
