#include "wire/attach.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/frame.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const double ANSWER_SECONDS = 2, RETRY_FIRST = 1, RETRY_MOST = 30;
/* The daemon sees to makers that are stuck. Should it be gone too, whoever waits reads for itself
 * after this long, and does not wait at all for a while after that. */
static const double MAKER_SECONDS = 5, IMPATIENCE_SECONDS = 10;
enum { PICKS_AT_ONCE = 256, FETCH_AT_ONCE = 1024, SIZES_AT_ONCE = 1 << 20 };

/* Memory of one daemon's life; stays mapped until the last buffer in it is let go. */
typedef struct mapping {
    struct attachment *owner;
    _Atomic uint32_t refs;
    unsigned char *arena;
    larder__table_head *table;
    uint64_t arena_bytes, table_bytes, keys;
} mapping;

typedef struct passage { /* an entry in the arena that is promised to be made */
    mapping *map;
    uint32_t lease;
    larder__block_head *head;
} passage;

static passage nowhere_to_put_it; /* an entry that is made for this job alone */

/* Answers to an exchange that wait for the claims that follow it: rows, then entries besides. */
typedef struct kept {
    larder__wire_ticket *tickets;
    size_t room;
    size_t rows, fetched; /* still to be claimed; 0: none */
} kept;

typedef struct attachment {
    char path[108];
    larder__hello hello;
    larder__stats *stats;
    larder__stat lost, found, alone, stuck;
    pthread_mutex_t talk; /* the socket and what belongs to a question */
    int fd;               /* -1: the daemon is gone */
    larder__inbox in;
    larder_writer body;
    larder__wire_access *accesses;
    size_t room;
    larder__wire_pick picks[PICKS_AT_ONCE];
    size_t picked, pick_at;
    kept kept;
    bool exchanges;
    uint32_t (*size_of)(void *arg, uint64_t id);
    void *size_arg;
    /* This job's epoch, for a daemon that comes back: one bit a sample that was served in it. */
    uint64_t *seen;
    const uint8_t *tags; /* the sampler's; NULL: all samples are for this job */
    uint64_t epoch;
    bool epoch_begun;
    larder_stream stream; /* where the others were when we came */
    bool streaming;
    double retry_at, retry_after;
    _Atomic double impatient_until;
    pthread_mutex_t lists; /* what is to be returned, and which memory it is about */
    mapping *map;          /* NULL: none */
    uint32_t *released;
    larder__wire_made *made;
    size_t releases, release_cap, makes, make_cap;
    mapping *nowhere; /* a table that says that nothing is resident */
} attachment;

/* ---- memory ---------------------------------------------------------------------------------- */

static void map_unref(mapping **pm) {
    mapping *m = *pm;
    *pm = NULL;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    if (m->arena)
        munmap(m->arena, m->arena_bytes);
    if (m->table)
        munmap(m->table, m->table_bytes);
    larder__free(m);
}

static mapping *map_ref(mapping *m) {
    atomic_fetch_add(&m->refs, 1);
    return m;
}

/* The other side may say anything: what is mapped must be as large as we believe, or touching it
 * would be a signal. */
static void *map_fd(int fd, uint64_t bytes, int how) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size < bytes || bytes == 0)
        return NULL;
    void *at = mmap(NULL, bytes, how, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int map_new(mapping **out, attachment *a, const larder__welcome *w, int arena, int table) {
    mapping *m = larder__calloc(1, sizeof *m);
    *out = m;
    if (!m)
        return LARDER_E_NOMEM;
    atomic_init(&m->refs, 1);
    m->owner = a;
    m->keys = w->keys;
    m->arena_bytes = w->arena_bytes;
    m->table_bytes = sizeof *m->table + w->keys * sizeof(larder_slot);
    m->arena = map_fd(arena, m->arena_bytes, PROT_READ | PROT_WRITE);
    m->table = map_fd(table, m->table_bytes, PROT_READ);
    if (!m->arena || !m->table) {
        map_unref(out);
        return larder__fail(LARDER_E_IO, "%s: the daemon's memory cannot be mapped", a->path);
    }
    madvise(m->arena, m->arena_bytes, MADV_HUGEPAGE);
    return 0;
}

/* ---- talking --------------------------------------------------------------------------------- */

static int connect_to(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return larder__fail(LARDER_E_ARGS, "%.60s…: too long for a socket", path);
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval t = {.tv_sec = (time_t)ANSWER_SECONDS};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        int err = errno;
        if (fd >= 0)
            close(fd);
        return larder__fail(
            larder__code_of_errno(err), "%s: %s%s", path, strerror(err),
            err == ENOENT || err == ECONNREFUSED ? "; is larder serve running there?" : "");
    }
    return fd;
}

/* The next frame, which has to be of that type; a refusal is its own error. */
static int hear(int fd, larder__inbox *in, uint16_t want, larder_reader *body) {
    double until = larder__now() + ANSWER_SECONDS;
    uint16_t type;
    int rc;
    while ((rc = larder__inbox_next(in, &type, body)) == 0) {
        if ((rc = larder__inbox_read(in, fd)) < 0)
            return rc;
        if (rc == 0 && larder__now() > until)
            return larder__fail(LARDER_E_IO, "the daemon does not answer");
    }
    if (rc < 0)
        return rc;
    if (type == LARDER__MSG_REFUSED)
        return larder__refused_read(body);
    return type == want
               ? 0
               : larder__fail(LARDER_E_FORMAT, "the daemon answers something else (%u)", type);
}

static int greet(attachment *a, larder__welcome *w) {
    larder_reader body;
    a->body.size = 0;
    a->body.code = 0;
    larder__hello_write(&a->hello, &a->body);
    int rc = a->body.code;
    if (rc == 0)
        rc = larder__frame_send(a->fd, LARDER__MSG_HELLO, a->body.bytes, a->body.size, NULL, 0);
    if (rc == 0)
        rc = hear(a->fd, &a->in, LARDER__MSG_WELCOME, &body);
    if (rc == 0)
        rc = larder__welcome_read(w, &body);
    if (rc == 0 && w->keys != a->hello.keys)
        rc = larder__fail(LARDER_E_CHANGED, "the daemon's data set is another one");
    return rc;
}

/* Both lists belong to the memory they came with: after that is gone nobody wants them back. */
static void forget_memory(attachment *a) {
    pthread_mutex_lock(&a->lists);
    mapping *old = a->map;
    a->map = NULL;
    a->releases = a->makes = 0;
    pthread_mutex_unlock(&a->lists);
    map_unref(&old);
}

static void begin(attachment *a) { a->body.size = 0, a->body.code = 0; }

static int send_body(attachment *a, uint16_t type) {
    return a->body.code < 0 ? a->body.code
                            : larder__frame_send(a->fd, type, a->body.bytes, a->body.size, NULL, 0);
}

static size_t seen_words(const attachment *a) { return (size_t)(a->hello.keys / 64 + 1); }

static int send_epoch(attachment *a) {
    size_t bytes = a->seen ? seen_words(a) * sizeof *a->seen : 0;
    begin(a);
    larder_write_u64(&a->body, a->epoch);
    if (bytes <= LARDER__FRAME_MOST - 64) /* else it hears it with every batch, as it is refused */
        larder_write_bytes(&a->body, a->seen, bytes);
    return send_body(a, LARDER__MSG_EPOCH);
}

static int send_sizes(attachment *a) {
    int rc = 0;
    for (uint64_t from = 0; rc == 0 && from < a->hello.keys; from += SIZES_AT_ONCE) {
        begin(a);
        larder_write_u32(&a->body, (uint32_t)from);
        for (uint64_t i = from; i < a->hello.keys && i < from + SIZES_AT_ONCE; i++)
            larder_write_u32(&a->body, a->size_of(a->size_arg, i));
        rc = send_body(a, LARDER__MSG_SIZES);
    }
    return rc;
}

/* What the daemon has to know before the first batch. */
static int introduce(attachment *a, const larder__welcome *w) {
    int rc = w->wants_sizes && a->size_of ? send_sizes(a) : 0;
    return rc == 0 && a->epoch_begun ? send_epoch(a) : rc;
}

static int attach(attachment *a) {
    larder__welcome w = {0};
    mapping *m = NULL;
    a->fd = connect_to(a->path);
    if (a->fd < 0)
        return a->fd;
    larder__inbox_init(&a->in);
    int rc = greet(a, &w);
    if (rc == 0) {
        int arena = larder__inbox_take_fd(&a->in), table = larder__inbox_take_fd(&a->in);
        rc = map_new(&m, a, &w, arena, table);
        if (arena >= 0)
            close(arena);
        if (table >= 0)
            close(table);
    }
    if (rc == 0 && (rc = introduce(a, &w)) < 0)
        map_unref(&m);
    if (rc < 0) {
        close(a->fd);
        a->fd = -1;
        larder__inbox_free(&a->in);
        return rc;
    }
    a->hello.again = 1;
    a->stream = w.stream;
    a->streaming = w.streaming == 1 && w.stream.at <= a->hello.keys;
    a->picked = a->pick_at = 0;
    a->retry_after = RETRY_FIRST;
    pthread_mutex_lock(&a->lists);
    a->map = m;
    pthread_mutex_unlock(&a->lists);
    return 0;
}

static void lose(attachment *a) {
    if (a->fd < 0)
        return;
    close(a->fd);
    a->fd = -1;
    larder__inbox_free(&a->in);
    a->kept.rows = a->kept.fetched = 0;
    forget_memory(a);
    a->retry_at = larder__now() + a->retry_after;
    if (a->stats)
        larder__stat_add(a->stats, a->lost, 1);
}

/* Is there a daemon to talk to? Looks for it now and then when there is none. */
static bool there(attachment *a) {
    if (a->fd >= 0)
        return true;
    if (larder__now() < a->retry_at)
        return false;
    if (attach(a) == 0) {
        if (a->stats)
            larder__stat_add(a->stats, a->found, 1);
        return true;
    }
    a->retry_at = larder__now() + a->retry_after;
    a->retry_after = a->retry_after * 2 < RETRY_MOST ? a->retry_after * 2 : RETRY_MOST;
    return false;
}

/* Sends a->body; on failure the daemon counts as gone. */
static int tell(attachment *a, uint16_t type) {
    int rc = send_body(a, type);
    if (rc < 0)
        lose(a);
    return rc;
}

static int ask(attachment *a, uint16_t type, uint16_t answer, larder_reader *body) {
    int rc = tell(a, type);
    if (rc == 0 && (rc = hear(a->fd, &a->in, answer, body)) < 0)
        lose(a);
    return rc;
}

/* ---- what goes back -------------------------------------------------------------------------- */

static void *longer(void *list, size_t *cap, size_t element) {
    size_t more = *cap ? *cap * 2 : 256;
    void *grown = larder__realloc(list, more * element);
    if (grown)
        *cap = more;
    return grown;
}

/* A lease that cannot be noted stays with the daemon until this job leaves. */
static void return_lease(attachment *a, const mapping *m, uint32_t lease) {
    pthread_mutex_lock(&a->lists);
    if (a->map == m) {
        void *grown = a->released;
        if (a->releases == a->release_cap &&
            (grown = longer(a->released, &a->release_cap, sizeof *a->released)))
            a->released = grown;
        if (grown)
            a->released[a->releases++] = lease;
    }
    pthread_mutex_unlock(&a->lists);
}

static void note_made(attachment *a, const mapping *m, uint32_t lease, int code) {
    pthread_mutex_lock(&a->lists);
    if (a->map == m) {
        void *grown = a->made;
        if (a->makes == a->make_cap && (grown = longer(a->made, &a->make_cap, sizeof *a->made)))
            a->made = grown;
        if (grown)
            a->made[a->makes++] = (larder__wire_made){lease, code};
    }
    pthread_mutex_unlock(&a->lists);
}

static void buf_done(void *arg, uint64_t lease) {
    mapping *m = arg;
    return_lease(m->owner, m, (uint32_t)lease);
    map_unref(&m);
}

/* ---- claims ---------------------------------------------------------------------------------- */

/* Whoever did not ask (tag FETCH) need not read it either. */
static void answer_alone(attachment *a, const larder_access *want, larder__ticket *t) {
    bool asked = want->tag != LARDER_TAG_FETCH;
    *t = (larder__ticket){.key = want->key,
                          .flight = asked ? (larder__flight *)(void *)&nowhere_to_put_it : NULL,
                          .size = want->size,
                          .kind = asked ? LARDER_MISS : LARDER_HIT,
                          .task = asked ? LARDER__MAKE : LARDER__READY};
    if (a->stats && asked)
        larder__stat_add(a->stats, a->alone, 1);
}

static void link_alone(void *st, const larder_access *want, larder__ticket *out) {
    answer_alone(st, want, out);
}

/* Believes nothing that would lead outside the arena. */
static bool sound(const mapping *m, const larder__wire_ticket *w, uint64_t keys) {
    bool form = w->form < LARDER_FORMS && w->make < LARDER_FORMS && w->held < LARDER_FORMS;
    return form && w->key < keys && w->task <= LARDER__WAIT && w->offset % 64 == 0 &&
           w->offset < m->arena_bytes && sizeof(larder__block_head) < m->arena_bytes - w->offset &&
           w->size <= m->arena_bytes - w->offset - sizeof(larder__block_head);
}

/* Turns an answer into a ticket. False: no memory or nonsense; then the lease goes back and the
 * caller makes it alone. */
static bool board(attachment *a, mapping *m, const larder__wire_ticket *w, larder__ticket *t) {
    if (!sound(m, w, a->hello.keys))
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
        t->buf = larder__buf_outside(head + 1, w->size, buf_done, map_ref(m), w->lease);
        if (!t->buf)
            map_unref(&(mapping *){m});
        return t->buf != NULL;
    }
    passage *p = larder__malloc(sizeof *p);
    if (!p)
        return false;
    *p = (passage){.map = map_ref(m), .lease = w->lease, .head = head};
    t->flight = (larder__flight *)(void *)p;
    return true;
}

static void take_ticket(attachment *a, const larder__wire_ticket *w, const larder_access *in,
                        larder__ticket *out) {
    bool mine = w->lease != LARDER__NO_LEASE;
    if (mine && board(a, a->map, w, out))
        return;
    if (mine)
        return_lease(a, a->map, w->lease);
    answer_alone(a, in, out);
}

static void take_tickets(attachment *a, larder_reader *body, const larder_access *in, size_t n,
                         larder__ticket *out) {
    for (size_t i = 0; i < n; i++) {
        larder__wire_ticket w;
        larder_read_bytes(body, &w, sizeof w);
        take_ticket(a, &w, &in[i], &out[i]);
    }
}

static void write_claim(attachment *a, const larder_access *in, size_t n, uint32_t fetch) {
    for (size_t i = 0; in && i < n; i++)
        a->accesses[i] = (larder__wire_access){.key = (uint32_t)in[i].key,
                                               .size = in[i].size,
                                               .tag = in[i].tag,
                                               .score = in[i].score,
                                               .next_use = in[i].next_use};
    begin(a);
    pthread_mutex_lock(&a->lists);
    larder__claim c = {.released = a->released,
                       .made = a->made,
                       .accesses = a->accesses,
                       .releases = (uint32_t)a->releases,
                       .makes = (uint32_t)a->makes,
                       .n = (uint32_t)n,
                       .fetch = fetch};
    larder__claim_write(&c, &a->body);
    a->releases = a->makes = 0;
    pthread_mutex_unlock(&a->lists);
}

static int reserve(attachment *a, size_t n) {
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
static void refuse_kept(attachment *a) {
    size_t n = a->kept.rows + a->kept.fetched;
    for (size_t i = 0; i < n; i++)
        if (a->kept.tickets[i].lease != LARDER__NO_LEASE)
            return_lease(a, a->map, a->kept.tickets[i].lease);
    a->kept.rows = a->kept.fetched = 0;
}

/* Are these the requests that an exchange has answered already? Takes the answers if so. */
static bool take_kept(attachment *a, const larder_access *in, size_t n, larder__ticket *out) {
    kept *k = &a->kept;
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

static int link_claim(void *st, larder_access *in, size_t n, larder__ticket *out) {
    attachment *a = st;
    larder_reader body;
    if (n == 0)
        return 0;
    pthread_mutex_lock(&a->talk);
    if (take_kept(a, in, n, out)) {
        pthread_mutex_unlock(&a->talk);
        return 0;
    }
    refuse_kept(a);
    int rc = reserve(a, n);
    if (rc == 0) {
        bool answered = false;
        if (there(a)) {
            write_claim(a, in, n, 0);
            answered = ask(a, LARDER__MSG_CLAIM, LARDER__MSG_TICKETS, &body) == 0 &&
                       larder__read_left(&body) == n * sizeof(larder__wire_ticket);
        }
        if (answered)
            take_tickets(a, &body, in, n, out);
        for (size_t i = 0; !answered && i < n; i++)
            answer_alone(a, &in[i], &out[i]);
    }
    pthread_mutex_unlock(&a->talk);
    return rc;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void end_passage(passage *p) {
    map_unref(&p->map);
    larder__free(p);
}

static void settle(larder__block_head *head, uint32_t state) {
    atomic_store(&head->state, state);
    larder__word_wake(&head->state);
}

static void link_fill(void *st, larder__ticket *t, larder_buf *b) {
    attachment *a = st;
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
    note_made(a, p->map, p->lease, fits ? 0 : LARDER_E_CHANGED);
    return_lease(a, p->map, p->lease);
    end_passage(p);
}

static void link_fail(void *st, larder__ticket *t, int code, const char *why) {
    attachment *a = st;
    passage *p = (passage *)(void *)t->flight;
    (void)why;
    t->flight = NULL;
    if (p == &nowhere_to_put_it)
        return;
    settle(p->head, LARDER__BLOCK_FAILED);
    note_made(a, p->map, p->lease, code);
    return_lease(a, p->map, p->lease);
    end_passage(p);
}

static int link_wait(void *st, larder__ticket *t, larder_buf **out) {
    attachment *a = st;
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
    if (there &&
        (*out = larder__buf_outside(p->head + 1, size, buf_done, map_ref(p->map), p->lease))) {
        t->held = held;
        rc = 0;
    } else {
        if (there)
            map_unref(&(mapping *){p->map});
        if (state == LARDER__BLOCK_PENDING) {
            if (patient)
                atomic_store(&a->impatient_until, larder__now() + IMPATIENCE_SECONDS);
            if (a->stats)
                larder__stat_add(a->stats, a->stuck, 1);
        }
        return_lease(a, p->map, p->lease);
    }
    end_passage(p);
    return rc;
}

/* ---- the rest of the talk -------------------------------------------------------------------- */

static void link_score(void *st, const uint64_t *keys, const float *scores, size_t n) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    if (there(a)) {
        begin(a);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &scores[i], sizeof bits);
            larder_write_u32(&a->body, (uint32_t)keys[i]);
            larder_write_u32(&a->body, bits);
        }
        tell(a, LARDER__MSG_SCORES);
    }
    pthread_mutex_unlock(&a->talk);
}

static void link_accuracy(void *st, double accuracy) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    if (there(a)) {
        begin(a);
        larder_write_f64(&a->body, accuracy);
        tell(a, LARDER__MSG_ACCURACY);
    }
    pthread_mutex_unlock(&a->talk);
}

static void link_list(void *st, const uint8_t *tags) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    a->tags = tags;
    pthread_mutex_unlock(&a->talk);
}

static void note_seen(attachment *a, uint64_t id) {
    if (a->seen && id < a->hello.keys)
        a->seen[id >> 6] |= (uint64_t)1 << (id & 63);
}

static void link_epoch(void *st, uint64_t epoch) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    a->epoch = epoch;
    if (a->seen)
        memset(a->seen, 0, seen_words(a) * sizeof *a->seen);
    for (uint64_t id = 0; a->tags && id < a->hello.keys; id++)
        if ((a->tags[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            note_seen(a, id);
    bool was = a->fd >= 0;
    a->epoch_begun = true; /* whoever attaches from here on tells it */
    if (there(a) && was && send_epoch(a) < 0)
        lose(a);
    pthread_mutex_unlock(&a->talk);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int keep_tickets(attachment *a, larder_reader *body, size_t n) {
    kept *k = &a->kept;
    uint32_t rows = larder_read_u32(body), fetched = larder_read_u32(body);
    uint64_t all = (uint64_t)rows + fetched;
    if (larder_read_status(body) < 0 || rows != n || fetched > FETCH_AT_ONCE ||
        larder__read_left(body) != all * sizeof *k->tickets)
        return larder__fail(LARDER_E_FORMAT, "the daemon answers an exchange with something else");
    if (all > k->room) {
        larder__wire_ticket *grown = larder__realloc(k->tickets, all * sizeof *grown);
        if (!grown)
            return LARDER_E_NOMEM;
        k->tickets = grown;
        k->room = all;
    }
    larder_read_bytes(body, k->tickets, all * sizeof *k->tickets);
    k->rows = rows;
    k->fetched = fetched;
    return 0;
}

/* 0: the answers are kept. */
static int ask_exchange(attachment *a, const uint64_t *wanted, size_t n) {
    larder_reader body;
    int rc = reserve(a, n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        a->accesses[i] = (larder__wire_access){
            .key = (uint32_t)wanted[i],
            .size = a->size_of ? a->size_of(a->size_arg, wanted[i]) : a->hello.size,
            .score = NAN,
            .next_use = LARDER_UNKNOWN};
    if (rc < 0)
        return rc;
    write_claim(a, NULL, n, FETCH_AT_ONCE);
    if ((rc = ask(a, LARDER__MSG_EXCHANGE, LARDER__MSG_EXCHANGED, &body)) < 0)
        return rc;
    if ((rc = keep_tickets(a, &body, n)) < 0)
        lose(a); /* its leases would stay with us */
    return rc;
}

static void link_exchange(void *st, const uint64_t *wanted, size_t n, uint64_t *served) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    refuse_kept(a);
    bool answered = a->exchanges && there(a) && ask_exchange(a, wanted, n) == 0;
    for (size_t i = 0; i < n; i++) {
        served[i] = answered ? a->kept.tickets[i].key : wanted[i];
        note_seen(a, served[i]);
    }
    pthread_mutex_unlock(&a->talk);
}

static bool link_stream(void *st, larder_stream *s, bool join) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    bool got = join && a->streaming;
    if (got)
        *s = a->stream;
    if (!join && there(a)) {
        begin(a);
        larder_write_u64(&a->body, s->seed);
        larder_write_u64(&a->body, s->sweep);
        larder_write_u64(&a->body, s->at);
        tell(a, LARDER__MSG_STREAM);
    }
    pthread_mutex_unlock(&a->talk);
    return got;
}

/* A page of picks at a time: they may be a batch old when they are used. */
static bool more_picks(attachment *a, larder_rng *rng) {
    larder_reader body;
    a->picked = a->pick_at = 0;
    if (!there(a))
        return false;
    begin(a);
    larder_write_u32(&a->body, PICKS_AT_ONCE);
    larder_write_u64(&a->body, larder_rng_next(rng));
    if (ask(a, LARDER__MSG_PICKS, LARDER__MSG_PICKED, &body) < 0)
        return false;
    while (larder__read_left(&body) >= sizeof *a->picks && a->picked < PICKS_AT_ONCE)
        larder_read_bytes(&body, &a->picks[a->picked++], sizeof *a->picks);
    return a->picked > 0;
}

static bool link_pick(void *st, larder_rng *rng, uint64_t *key, double *share) {
    attachment *a = st;
    pthread_mutex_lock(&a->talk);
    bool got = a->pick_at < a->picked || more_picks(a, rng);
    if (got) {
        *key = a->picks[a->pick_at].key;
        *share = a->picks[a->pick_at++].share;
        got = *key < a->hello.keys;
    }
    pthread_mutex_unlock(&a->talk);
    return got;
}

static size_t link_fetch(void *st, uint64_t *keys, size_t max) {
    attachment *a = st;
    larder_reader body;
    size_t n = 0;
    pthread_mutex_lock(&a->talk);
    if (a->exchanges) { /* they came with the answer to the exchange */
        for (; n < max && n < a->kept.fetched && !a->kept.rows; n++)
            keys[n] = a->kept.tickets[n].key;
    } else if (there(a)) {
        begin(a);
        larder_write_u32(&a->body, (uint32_t)(max < UINT32_MAX ? max : UINT32_MAX));
        if (ask(a, LARDER__MSG_FETCH, LARDER__MSG_FETCHED, &body) == 0)
            while (n < max && larder__read_left(&body) >= 4) {
                keys[n] = larder_read_u32(&body);
                n += keys[n] < a->hello.keys;
            }
    }
    pthread_mutex_unlock(&a->talk);
    return n;
}

static void link_look(void *st, larder_slots *out) {
    attachment *a = st;
    pthread_mutex_lock(&a->lists);
    const mapping *m = a->map ? a->map : a->nowhere;
    out->slot_of = (const larder_slot *)(m->table + 1);
    out->resident = (uint32_t)atomic_load(&m->table->resident);
    out->bytes = atomic_load(&m->table->bytes);
    out->budget = atomic_load(&m->table->budget);
    pthread_mutex_unlock(&a->lists);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void link_close(void **st) {
    attachment *a = *st;
    *st = NULL;
    if (!a)
        return;
    if (a->fd >= 0)
        close(a->fd);
    larder__inbox_free(&a->in);
    forget_memory(a);
    map_unref(&a->nowhere);
    larder__writer_free(&a->body);
    larder__free(a->accesses);
    larder__free(a->kept.tickets);
    larder__free(a->seen);
    larder__free(a->released);
    larder__free(a->made);
    pthread_mutex_destroy(&a->talk);
    pthread_mutex_destroy(&a->lists);
    larder__free(a);
}

static const larder__link link_daemon = {
    .name = "daemon",
    .claim = link_claim,
    .fill = link_fill,
    .fail = link_fail,
    .wait = link_wait,
    .score = link_score,
    .accuracy = link_accuracy,
    .list = link_list,
    .epoch = link_epoch,
    .exchange = link_exchange,
    .stream = link_stream,
    .alone = link_alone,
    .pick = link_pick,
    .fetch = link_fetch,
    .look = link_look,
    .close = link_close,
};

/* A table for the time without a daemon: nothing is resident. */
static int map_nowhere(attachment *a) {
    mapping *m = a->nowhere = larder__calloc(1, sizeof *m);
    if (!m)
        return LARDER_E_NOMEM;
    atomic_init(&m->refs, 1);
    m->table_bytes = sizeof *m->table + a->hello.keys * sizeof(larder_slot);
    void *at =
        mmap(NULL, m->table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "no memory for a table of %llu samples",
                            (unsigned long long)a->hello.keys);
    m->table = at;
    memset(m->table + 1, 0xff, a->hello.keys * sizeof(larder_slot));
    return 0;
}

static double probe_attached(const void *arg) { return ((const attachment *)arg)->fd >= 0 ? 1 : 0; }

static int show(attachment *a) {
    if (!a->stats)
        return 0;
    int rc = larder__stat_counter(a->stats, &a->lost, "daemon_lost", "times",
                                  "the daemon went away and samples came straight from storage");
    if (rc == 0)
        rc = larder__stat_counter(a->stats, &a->found, "daemon_found", "times",
                                  "the daemon came back");
    if (rc == 0)
        rc = larder__stat_counter(a->stats, &a->alone, "daemon_unshared", "samples",
                                  "misses that were read for this job alone");
    if (rc == 0)
        rc = larder__stat_counter(a->stats, &a->stuck, "daemon_stuck", "samples",
                                  "another job promised to read them and did not in time");
    if (rc == 0)
        rc = larder__stat_probe(a->stats, "daemon_attached", "", "1 while the daemon answers",
                                probe_attached, a);
    return rc;
}

int larder__attach_open(larder__cache **out, const larder__attach_conf *conf) {
    *out = NULL;
    attachment *a = larder__calloc(1, sizeof *a);
    if (!a)
        return LARDER_E_NOMEM;
    a->fd = -1;
    larder__inbox_init(&a->in);
    pthread_mutex_init(&a->talk, NULL);
    pthread_mutex_init(&a->lists, NULL);
    a->hello = conf->hello;
    a->hello.magic = LARDER__WIRE_MAGIC;
    a->hello.version = LARDER__WIRE_VERSION;
    a->hello.pid = (uint32_t)getpid();
    a->stats = conf->stats;
    a->exchanges = conf->exchanges;
    a->size_of = conf->size_of;
    a->size_arg = conf->size_arg;
    a->retry_after = RETRY_FIRST;
    snprintf(a->path, sizeof a->path, "%s", conf->socket);
    int rc = strlen(conf->socket) < sizeof a->path
                 ? map_nowhere(a)
                 : larder__fail(LARDER_E_ARGS, "%.60s…: too long for a socket", conf->socket);
    if (rc == 0 && a->exchanges && !(a->seen = larder__calloc(seen_words(a), sizeof *a->seen)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = attach(a);
    if (rc == 0) /* not before: whoever is refused goes on without us, and figures stay */
        rc = show(a);
    if (rc < 0) {
        link_close(&(void *){a});
        return rc;
    }
    return larder__cache_open_link(out, &link_daemon, a, a->hello.keys, a->stats);
}

int larder__attach_status(const char *path, char **json) {
    larder__inbox in;
    larder_reader body;
    *json = NULL;
    int fd = connect_to(path);
    if (fd < 0)
        return fd;
    larder__inbox_init(&in);
    int rc = larder__frame_send(fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0);
    if (rc == 0)
        rc = hear(fd, &in, LARDER__MSG_STATUS_IS, &body);
    if (rc == 0) {
        size_t n = larder__read_left(&body);
        if ((*json = larder__malloc(n + 1))) {
            larder_read_bytes(&body, *json, n);
            (*json)[n] = '\0';
        } else
            rc = LARDER_E_NOMEM;
    }
    larder__inbox_free(&in);
    close(fd);
    return rc;
}

const char *larder__socket_path(char out[108]) {
    const char *given = getenv("LARDER_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    if (given && *given)
        snprintf(out, 108, "%s", given);
    else if (run && *run)
        snprintf(out, 108, "%s/larder.sock", run);
    else
        snprintf(out, 108, "/tmp/larder-%u.sock", (unsigned)getuid());
    return out;
}
