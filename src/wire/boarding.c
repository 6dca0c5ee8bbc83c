#include "wire/boarding.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/pins.h"

#include <string.h>

/* The daemon sees to makers that are stuck. Should it be gone too, whoever waits reads for itself
 * after this long, and does not wait at all for a while after that. */
static const double MAKER_SECONDS = 5, IMPATIENCE_SECONDS = 10;

typedef struct passage { /* an entry in the arena that is promised to be made */
    larder__mapping *map;
    uint32_t lease;
    larder__block_head *head;
} passage;

static passage nowhere_to_put_it; /* an entry that is made for this job alone */

/* ---- claims ---------------------------------------------------------------------------------- */

/* Whoever did not ask (tag FETCH) need not read it either. */
static void answer_alone(larder__attachment *a, const larder_access *want, larder__ticket *t) {
    bool asked = want->tag != LARDER_TAG_FETCH;
    *t = (larder__ticket){.key = want->key,
                          .flight = asked ? (larder__flight *)(void *)&nowhere_to_put_it : NULL,
                          .size = want->size,
                          .kind = asked ? LARDER_MISS : LARDER_HIT,
                          .task = asked ? LARDER__MAKE : LARDER__READY};
    if (a->stats && asked)
        larder__stat_add(a->stats, a->alone, 1);
}

void larder__board_alone(void *st, const larder_access *want, larder__ticket *out) {
    answer_alone(st, want, out);
}

/* Believes nothing that would lead outside the arena. */
static bool sound(const larder__attachment *a, const larder__mapping *m,
                  const larder__wire_ticket *w) {
    return w->form < LARDER_FORMS && w->make < LARDER_FORMS && w->held < LARDER_FORMS &&
           w->key < a->hello.keys && w->task <= LARDER__WAIT && w->offset % 64 == 0 &&
           w->offset < m->arena_bytes && sizeof(larder__block_head) < m->arena_bytes - w->offset &&
           w->size <= m->arena_bytes - w->offset - sizeof(larder__block_head);
}

/* Turns an answer into a ticket. False: no memory or nonsense; then the lease goes back and the
 * caller makes it alone. */
static bool board(larder__attachment *a, larder__mapping *m, const larder__wire_ticket *w,
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

static void take_ticket(larder__attachment *a, const larder__wire_ticket *w,
                        const larder_access *in, larder__ticket *out) {
    if (w->lease != LARDER__NO_LEASE && board(a, a->map, w, out))
        return;
    if (w->lease != LARDER__NO_LEASE)
        larder__attachment_release(a, a->map, w->lease);
    answer_alone(a, in, out);
}

static void take_tickets(larder__attachment *a, larder_reader *body, const larder_access *in,
                         size_t n, larder__ticket *out) {
    for (size_t i = 0; i < n; i++) {
        larder__wire_ticket w;
        larder_read_bytes(body, &w, sizeof w);
        take_ticket(a, &w, &in[i], &out[i]);
    }
}

void larder__board_write(larder__attachment *a, const larder_access *in, size_t n, uint32_t fetch) {
    for (size_t i = 0; in && i < n; i++)
        a->accesses[i] = (larder__wire_access){.key = (uint32_t)in[i].key,
                                               .size = in[i].size,
                                               .tag = in[i].tag,
                                               .score = in[i].score,
                                               .next_use = in[i].next_use};
    larder__attachment_begin(a);
    enum { RETURNS_AT_ONCE = 1 << 16 }; /* the newest; the others go with the next message */
    pthread_mutex_lock(&a->lists);
    size_t releases = a->releases < RETURNS_AT_ONCE ? a->releases : RETURNS_AT_ONCE;
    size_t makes = a->makes < RETURNS_AT_ONCE ? a->makes : RETURNS_AT_ONCE;
    a->releases -= releases;
    a->makes -= makes;
    larder__claim c = {.released = a->released + a->releases,
                       .made = a->made + a->makes,
                       .accesses = a->accesses,
                       .releases = (uint32_t)releases,
                       .makes = (uint32_t)makes,
                       .n = (uint32_t)n,
                       .fetch = fetch};
    larder__claim_write(&c, &a->body);
    pthread_mutex_unlock(&a->lists);
}

int larder__board_reserve(larder__attachment *a, size_t n) {
    if (n <= a->room)
        return 0;
    larder__wire_access *grown = larder__realloc(a->accesses, n * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    a->accesses = grown;
    a->room = n;
    return 0;
}

/* Answers that nobody comes for go back. */
void larder__board_refuse_kept(larder__attachment *a) {
    size_t n = a->kept.rows + a->kept.fetched;
    for (size_t i = 0; i < n; i++)
        if (a->kept.tickets[i].lease != LARDER__NO_LEASE)
            larder__attachment_release(a, a->map, a->kept.tickets[i].lease);
    a->kept.rows = a->kept.fetched = 0;
}

static int kept_reserve(larder__kept *k, size_t n) {
    if (n <= k->room)
        return 0;
    larder__wire_ticket *grown = larder__realloc(k->tickets, n * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    k->tickets = grown;
    k->room = n;
    return 0;
}

int larder__board_keep(larder__attachment *a, larder_reader *body, size_t rows, size_t fetched) {
    larder__kept *k = &a->kept;
    int rc = kept_reserve(k, rows + fetched);
    if (rc < 0)
        return rc;
    larder_read_bytes(body, k->tickets, (rows + fetched) * sizeof *k->tickets);
    k->rows = rows;
    k->fetched = fetched;
    return 0;
}

/* Are these the requests that an exchange has answered already? Takes the answers if so. */
static bool take_kept(larder__attachment *a, const larder_access *in, size_t n,
                      larder__ticket *out) {
    larder__kept *k = &a->kept;
    size_t *count = k->rows ? &k->rows : &k->fetched;
    bool same = *count == n && a->fd >= 0;
    for (size_t i = 0; same && i < n; i++)
        same = k->tickets[i].key == in[i].key;
    if (!same)
        return false;
    for (size_t i = 0; i < n; i++)
        take_ticket(a, &k->tickets[i], &in[i], &out[i]);
    *count = 0;
    memmove(k->tickets, k->tickets + n, k->fetched * sizeof *k->tickets);
    return true;
}

/* When the daemon was just told of such batches, what goes back goes along. */
static bool take_pinned(larder__attachment *a, const larder_access *in, size_t n,
                        larder__ticket *out) {
    if (!larder__pins_take(a, in, n, out))
        return false;
    pthread_mutex_lock(&a->lists);
    bool due = a->touched_batches == 0 && a->map && a->releases + a->makes > 0;
    pthread_mutex_unlock(&a->lists);
    if (due) {
        larder__board_write(a, NULL, 0, 0);
        larder__attachment_tell(a, LARDER__MSG_RETURNS);
    }
    return true;
}

/* As many requests as may be made at once; there is room for them. */
static void claim(larder__attachment *a, const larder_access *in, size_t n, larder__ticket *out) {
    larder_reader body;
    bool answered = false;
    if (larder__attachment_there(a)) {
        larder__board_write(a, in, n, 0);
        answered = larder__attachment_ask(a, LARDER__MSG_CLAIM, LARDER__MSG_TICKETS, &body) == 0 &&
                   larder__read_left(&body) == n * sizeof(larder__wire_ticket);
    }
    if (answered)
        take_tickets(a, &body, in, n, out);
    for (size_t i = 0; !answered && i < n; i++)
        answer_alone(a, &in[i], &out[i]);
}

int larder__board_claim(void *st, larder_access *in, size_t n, larder__ticket *out) {
    larder__attachment *a = st;
    if (n == 0)
        return 0;
    pthread_mutex_lock(&a->talk);
    if (take_kept(a, in, n, out) || take_pinned(a, in, n, out)) {
        pthread_mutex_unlock(&a->talk);
        return 0;
    }
    larder__board_refuse_kept(a);
    size_t most = a->hello.at_once;
    int rc = larder__board_reserve(a, n < most ? n : most);
    for (size_t i = 0; rc == 0 && i < n; i += most)
        claim(a, in + i, n - i < most ? n - i : most, out + i);
    pthread_mutex_unlock(&a->talk);
    return rc;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void end_passage(passage *p) {
    larder__mapping_unref(&p->map);
    larder__free(p);
}

static void settle(larder__block_head *head, uint32_t state) {
    atomic_store(&head->state, state);
    larder__word_wake(&head->state);
}

void larder__board_fill(void *st, larder__ticket *t, larder_buf *b) {
    larder__attachment *a = st;
    passage *p = (passage *)(void *)t->flight;
    t->flight = NULL;
    if (p == &nowhere_to_put_it)
        return;
    size_t bytes = larder_buf_size(b);
    bool fits = t->make == LARDER_DECODED ? bytes <= t->size && t->held != LARDER_AUGMENTED
                                          : bytes == t->size && t->held == t->make;
    if (fits) {
        memcpy(p->head + 1, larder_buf_data(b), bytes);
        __atomic_store_n(&p->head->size, (uint32_t)bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&p->head->held, t->held, __ATOMIC_RELAXED);
    }
    settle(p->head, fits ? LARDER__BLOCK_FULL : LARDER__BLOCK_FAILED);
    larder__attachment_made(a, p->map, p->lease, fits ? 0 : LARDER_E_CHANGED);
    larder__attachment_release(a, p->map, p->lease);
    end_passage(p);
}

void larder__board_fail(void *st, larder__ticket *t, int code, const char *why) {
    larder__attachment *a = st;
    passage *p = (passage *)(void *)t->flight;
    (void)why;
    t->flight = NULL;
    if (p == &nowhere_to_put_it)
        return;
    settle(p->head, LARDER__BLOCK_FAILED);
    larder__attachment_made(a, p->map, p->lease, code);
    larder__attachment_release(a, p->map, p->lease);
    end_passage(p);
}

int larder__board_wait(void *st, larder__ticket *t, larder_buf **out) {
    larder__attachment *a = st;
    passage *p = (passage *)(void *)t->flight;
    bool patient = larder__now() > atomic_load(&a->impatient_until);
    double until = larder__now() + (patient ? MAKER_SECONDS : 0);
    uint32_t state;
    t->flight = NULL;
    while ((state = atomic_load(&p->head->state)) == LARDER__BLOCK_PENDING && larder__now() < until)
        larder__word_wait(&p->head->state, LARDER__BLOCK_PENDING, 0.1);
    int rc = LARDER__TAKE_OVER;
    uint32_t size = __atomic_load_n(&p->head->size, __ATOMIC_RELAXED);
    uint8_t held = __atomic_load_n(&p->head->held, __ATOMIC_RELAXED);
    bool there = state == LARDER__BLOCK_FULL && size <= t->size && held < LARDER_FORMS;
    if (there && (*out = larder__buf_outside(p->head + 1, size, larder__mapping_done,
                                             larder__mapping_ref(p->map), p->lease))) {
        t->held = held;
        rc = 0;
    } else {
        if (there)
            larder__mapping_unref(&(larder__mapping *){p->map});
        if (state == LARDER__BLOCK_PENDING) {
            if (patient)
                atomic_store(&a->impatient_until, larder__now() + IMPATIENCE_SECONDS);
            if (a->stats)
                larder__stat_add(a->stats, a->stuck, 1);
        }
        larder__attachment_release(a, p->map, p->lease);
    }
    end_passage(p);
    return rc;
}
