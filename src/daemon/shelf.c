#include "daemon/shelf.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "daemon/arena.h"
#include "daemon/lease.h"
#include "daemon/merge.h"
#include "daemon/ods_jobs.h"
#include "plugins.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUCKETS = 4096, HEAD = sizeof(larder__block_head) };
static const double PATIENCE = 2;    /* seconds a job may go without keeping any promise */
static const double PAUSES = 8;      /* and of its longest pauses between two batches of late, */
static const double PAUSE_MOST = 60; /* of which none counts for more */

typedef struct waiter { /* a ticket of somebody who wants what another job makes */
    struct waiter *next;
    larder__ticket ticket;
} waiter;

/* An entry somebody has promised to make. */
typedef struct making {
    struct making *next; /* of the bucket */
    uint64_t key;
    uint32_t job, lease; /* the maker's */
    larder_buf *buf;
    larder__ticket maker;
    waiter *waiters;
} making;

typedef struct job {
    bool here;
    larder__leases leases;
    uint64_t quota, brought; /* bytes this job may keep in the cache, and has brought in */
    double kept_at;          /* when it last kept a promise, or had none to keep */
    uint32_t promises;
    uint32_t counted; /* its number among the jobs that the policy counts */
    bool rests;
    double asked_at, pause; /* its last batch; the longest time between two, fading */
} job;

struct larder__shelf {
    larder__shelf_conf conf;
    larder__cache *cache;
    larder_args args;
    const larder_policy *policy;
    larder__arena *arena;
    int table_fd;
    larder__table_head *table; /* slots of all keys behind it */
    size_t table_bytes;
    making *buckets[BUCKETS];
    job jobs[LARDER__SHELF_JOBS];
    uint32_t job_count;
    larder__merge *merge;
    waiter *spare_waiters;
    size_t spares;
    larder__ticket *tickets; /* room for one claim */
    larder_access *accesses;
    size_t room;
    uint64_t now, no_block, capped;
    uint64_t makings;
    double clock;    /* seconds, of this look */
    bool counts;     /* the policy counts jobs: opportunistic sampling */
    uint32_t *sizes; /* bytes of every sample; NULL: nobody needs to know */
    uint64_t sized;  /* so many are known, from the first on */
    uint64_t *ids;   /* room for one exchange: wanted, then served */
    larder__wire_access *served;
    size_t exchange_room;
    larder_stream stream;
    bool streaming;
};

/* ---- entries being made ---------------------------------------------------------------------- */

static making **bucket_of(larder__shelf *s, uint64_t key) { return &s->buckets[key % BUCKETS]; }

/* The one that this ticket waits for. */
static making *making_find(larder__shelf *s, const larder__ticket *t) {
    making *m = *bucket_of(s, t->key);
    while (m && m->maker.flight != t->flight)
        m = m->next;
    return m;
}

static larder__block_head *head_of(larder_buf *b) {
    return (larder__block_head *)(void *)((char *)larder_buf_data(b) - HEAD);
}

/* Tells everybody who sleeps on the block how it ended. */
static void announce(larder_buf *b, uint32_t state) {
    _Atomic uint32_t *word = &head_of(b)->state;
    atomic_store(word, state);
    larder__word_wake(word);
}

static void let_go(void *whole, uint64_t unused) {
    (void)unused;
    larder_buf_unref(&(larder_buf *){whole});
}

/* The bytes of an entry as its maker says they are. It writes to memory that it shares with us, so
 * nothing is looked at twice. NULL: not as promised, or no memory. */
static larder_buf *made_bytes(making *m) {
    const larder__block_head *head = head_of(m->buf);
    uint32_t size = __atomic_load_n(&head->size, __ATOMIC_RELAXED);
    uint8_t held = __atomic_load_n(&head->held, __ATOMIC_RELAXED);
    if (size > larder_buf_size(m->buf) || held >= LARDER_FORMS)
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

/* The maker is done with it, or will never be. */
static void land(larder__shelf *s, making *m, int code) {
    making **at = bucket_of(s, m->key);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    s->makings--;
    s->jobs[m->job].promises--;
    if (code == 0)
        s->jobs[m->job].kept_at = larder__now();
    larder_buf *made = code == 0 ? made_bytes(m) : NULL;
    if (made)
        larder__cache_fill(s->cache, &m->maker, made);
    else
        larder__cache_fail(s->cache, &m->maker, code < 0 ? code : LARDER_E_FORMAT,
                           "another job could not make it");
    announce(m->buf, made ? LARDER__BLOCK_FULL : LARDER__BLOCK_FAILED);
    larder_buf_unref(&made);
    for (waiter *w; (w = m->waiters);) { /* has landed, so nobody waits here */
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

static void give_back(void *arena, uint64_t block) {
    larder__arena_give(arena, (larder__block)block);
}

/* A block in the arena for an entry that is to be made; NULL: there is none. */
static larder_buf *block_new(larder__shelf *s, uint64_t key, uint32_t size) {
    larder__block b = larder__arena_take(s->arena, (uint64_t)size + HEAD);
    if (b == LARDER__NO_BLOCK)
        return NULL;
    larder__block_head *head = larder__arena_at(s->arena, b);
    *head = (larder__block_head){.size = size, .key = key};
    atomic_store(&head->state, LARDER__BLOCK_PENDING);
    larder_buf *buf = larder__buf_outside(head + 1, size, give_back, s->arena, b);
    if (!buf)
        larder__arena_give(s->arena, b);
    return buf;
}

static making *making_start(larder__shelf *s, const larder__ticket *t) {
    making *m = larder__calloc(1, sizeof *m);
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

static void making_wait(larder__shelf *s, making *m, const larder__ticket *t) {
    waiter *w = s->spare_waiters; /* a claim reserves as many as it may need */
    s->spare_waiters = w->next;
    s->spares--;
    *w = (waiter){.next = m->waiters, .ticket = *t};
    m->waiters = w;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static uint64_t offset_of(const larder__shelf *s, larder_buf *b) {
    return (uint64_t)((char *)head_of(b) - (char *)larder__arena_base(s->arena));
}

static void lend(larder__shelf *s, job *j, larder__wire_ticket *out, larder_buf *b, void *promise) {
    out->offset = offset_of(s, b);
    out->lease = larder__leases_add(&j->leases, b, promise);
}

/* A job that gives nothing back may hold so much and no more: what is evicted under its hands still
 * takes room. */
static bool holds_too_much(const larder__shelf *s, const job *j) {
    return j->leases.bytes > s->conf.spare / 2 + s->conf.budget;
}

/* The job has to make it. In the arena if there is a place, for itself alone otherwise. */
static void answer_make(larder__shelf *s, job *j, larder__ticket *t, larder__wire_ticket *out) {
    larder__ticket_drop(t); /* a shorter version of it: nobody extends over the wire */
    bool stays = larder__ticket_stays(t);
    making *m = stays ? making_start(s, t) : NULL;
    if (m) {
        lend(s, j, out, larder_buf_ref(m->buf), m);
        m->job = (uint32_t)(j - s->jobs);
        m->lease = out->lease;
        s->makings++;
        if (j->promises++ == 0)
            j->kept_at = larder__now();
        j->brought += t->size;
        return;
    }
    s->no_block += stays;
    larder__cache_fail(s->cache, t, LARDER_E_FULL, "no room in shared memory");
}

/* The flight has its maker among ours, or has landed since for want of a place. */
static void answer_wait(larder__shelf *s, job *j, larder__ticket *t, larder__wire_ticket *out) {
    making *m = making_find(s, t);
    if (m) {
        making_wait(s, m, t);
        lend(s, j, out, larder_buf_ref(m->buf), NULL);
        return;
    }
    larder_buf *bytes = NULL;
    larder__cache_wait(s->cache, t, &bytes);
    larder_buf_unref(&bytes);
    out->task = LARDER__MAKE;
}

static void answer(larder__shelf *s, job *j, larder__ticket *t, larder__wire_ticket *out) {
    *out = (larder__wire_ticket){.key = (uint32_t)t->key,
                                 .lease = LARDER__NO_LEASE,
                                 .size = t->size,
                                 .task = t->task,
                                 .kind = t->kind,
                                 .form = t->form,
                                 .make = t->make,
                                 .held = t->held,
                                 .mark = t->mark};
    if (t->task == LARDER__MAKE) {
        answer_make(s, j, t, out);
    } else if (t->task == LARDER__WAIT) {
        answer_wait(s, j, t, out);
    } else if (t->buf) { /* else it was to be brought in and was not let in */
        out->size = (uint32_t)larder_buf_size(t->buf);
        lend(s, j, out, t->buf, NULL);
    }
}

static int reserve(larder__shelf *s, job *j, size_t n) {
    int rc = larder__leases_reserve(&j->leases, n);
    for (; rc == 0 && s->spares < n; s->spares++) {
        waiter *w = larder__malloc(sizeof *w);
        if (!w)
            return LARDER_E_NOMEM;
        w->next = s->spare_waiters;
        s->spare_waiters = w;
    }
    if (rc < 0 || n <= s->room)
        return rc;
    larder__ticket *t = larder__realloc(s->tickets, n * sizeof *t);
    if (t)
        s->tickets = t;
    larder_access *a = larder__realloc(s->accesses, n * sizeof *a);
    if (a)
        s->accesses = a;
    if (!t || !a)
        return LARDER_E_NOMEM;
    s->room = n;
    return 0;
}

/* Not through the cache at all: the job reads it for itself, or if nobody asked, not at all. */
static void answer_alone(const larder__wire_access *a, larder__wire_ticket *out) {
    bool asked = a->tag != LARDER_TAG_FETCH;
    *out = (larder__wire_ticket){.key = a->key,
                                 .lease = LARDER__NO_LEASE,
                                 .size = a->size,
                                 .task = asked ? LARDER__MAKE : LARDER__READY,
                                 .kind = asked ? LARDER_MISS : LARDER_HIT};
}

static void note_table(larder__shelf *s) {
    const larder_slots *slots = larder__cache_slots(s->cache);
    atomic_store_explicit(&s->table->resident, slots->resident, memory_order_relaxed);
    atomic_store_explicit(&s->table->bytes, slots->bytes, memory_order_relaxed);
    atomic_store_explicit(&s->table->budget, slots->budget, memory_order_relaxed);
}

static int check_keys(const larder__shelf *s, const larder__wire_access *in, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (in[i].key >= s->conf.keys)
            return larder__fail(LARDER_E_RANGE, "sample %u: the data set has %llu", in[i].key,
                                (unsigned long long)s->conf.keys);
    return 0;
}

static int claim(larder__shelf *s, job *j, const larder__wire_access *in, size_t n,
                 larder__wire_ticket *out) {
    int rc = reserve(s, j, n);
    if (rc < 0)
        return rc;
    bool alone = holds_too_much(s, j), full = j->quota && j->brought >= j->quota;
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        bool there = larder__cache_resident(s->cache, in[i].key);
        if (alone || (full && !there)) {
            answer_alone(&in[i], &out[i]);
            s->capped += alone;
            continue;
        }
        s->accesses[m++] = (larder_access){.key = in[i].key,
                                           .now = s->now++,
                                           .next_use = in[i].next_use,
                                           .size = in[i].size,
                                           .job = s->counts ? j->counted : (uint32_t)(j - s->jobs),
                                           .tag = in[i].tag,
                                           .score = in[i].score};
        out[i].task = UINT8_MAX; /* still to be answered */
    }
    if ((rc = larder__cache_claim(s->cache, s->accesses, m, s->tickets)) < 0)
        return rc;
    for (size_t i = 0, k = 0; i < n; i++) {
        if (out[i].task != UINT8_MAX)
            continue;
        answer(s, j, &s->tickets[k++], &out[i]);
        if (out[i].lease == LARDER__NO_LEASE && in[i].tag == LARDER_TAG_FETCH)
            answer_alone(&in[i], &out[i]);
    }
    return 0;
}

/* It asks: it counts. */
static void note_asking(larder__shelf *s, job *j) {
    double now = larder__now();
    if (j->rests)
        larder__ods_jobs_rest(s->cache, j->counted, false);
    j->pause = fmax(0.9 * j->pause, fmin(now - j->asked_at, PAUSE_MOST));
    j->rests = false;
    j->asked_at = now;
}

int larder__shelf_claim(larder__shelf *s, uint32_t number, const larder__wire_access *in, size_t n,
                        larder__wire_ticket *out) {
    int rc = check_keys(s, in, n);
    note_asking(s, &s->jobs[number]);
    if (rc == 0)
        rc = claim(s, &s->jobs[number], in, n, out);
    if (rc < 0)
        return rc;
    larder__cache_batch(s->cache);
    note_table(s);
    return 0;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int exchange_reserve(larder__shelf *s, size_t n) {
    if (n <= s->exchange_room)
        return 0;
    uint64_t *ids = larder__realloc(s->ids, 2 * n * sizeof *ids);
    if (ids)
        s->ids = ids;
    larder__wire_access *served = larder__realloc(s->served, n * sizeof *served);
    if (served)
        s->served = served;
    if (!ids || !served)
        return LARDER_E_NOMEM;
    s->exchange_room = n;
    return 0;
}

static uint32_t known_size(const larder__shelf *s, const larder__wire_access *in, uint64_t id) {
    bool asked = in->key == id; /* another one is resident: then its size is known */
    return s->sizes && (s->sized == s->conf.keys || !asked) ? s->sizes[id] : in->size;
}

/* What it wants besides what is asked for. */
static int bring_in(larder__shelf *s, job *j, size_t most, larder__wire_ticket *out, size_t *n) {
    *n = s->sized == s->conf.keys && !holds_too_much(s, j)
             ? larder__cache_fetch(s->cache, s->ids, most)
             : 0;
    for (size_t i = 0; i < *n; i++)
        s->served[i] = (larder__wire_access){.key = (uint32_t)s->ids[i],
                                             .size = s->sizes[s->ids[i]],
                                             .tag = LARDER_TAG_FETCH,
                                             .score = NAN,
                                             .next_use = LARDER_UNKNOWN};
    return claim(s, j, s->served, *n, out);
}

int larder__shelf_exchange(larder__shelf *s, uint32_t number, const larder__wire_access *in,
                           size_t n, size_t fetch, larder__wire_ticket *out, size_t *fetched) {
    job *j = &s->jobs[number];
    int rc = check_keys(s, in, n);
    *fetched = 0;
    if (rc == 0)
        rc = exchange_reserve(s, n > fetch ? n : fetch);
    if (rc < 0)
        return rc;
    note_asking(s, j);
    uint64_t *wanted = s->ids, *served = s->ids + n;
    for (size_t i = 0; i < n; i++)
        wanted[i] = in[i].key;
    larder__cache_exchange(s->cache, j->counted, wanted, n, served);
    for (size_t i = 0; i < n; i++) {
        s->served[i] = in[i];
        s->served[i].size = known_size(s, &in[i], served[i]);
        s->served[i].key = (uint32_t)served[i];
    }
    rc = claim(s, j, s->served, n, out);
    if (rc == 0)
        rc = bring_in(s, j, fetch, out + n, fetched);
    larder__cache_batch(s->cache);
    note_table(s);
    return rc;
}

int larder__shelf_sizes(larder__shelf *s, uint32_t from, const uint32_t *sizes, size_t n) {
    if (from > s->conf.keys || n > s->conf.keys - from)
        return larder__fail(LARDER_E_RANGE, "sizes of %zu samples from %u on: there are %llu", n,
                            from, (unsigned long long)s->conf.keys);
    if (!s->sizes || from != s->sized)
        return 0; /* another job has told it */
    memcpy(s->sizes + from, sizes, n * sizeof *sizes);
    s->sized += n;
    return 0;
}

int larder__shelf_one_size(larder__shelf *s, uint32_t size) {
    for (; s->sizes && s->sized < s->conf.keys; s->sized++)
        s->sizes[s->sized] = size;
    return 0;
}

bool larder__shelf_wants_sizes(const larder__shelf *s) {
    return s->sizes && s->sized < s->conf.keys;
}

void larder__shelf_stream(larder__shelf *s, const larder_stream *at) {
    const larder_stream *here = &s->stream;
    bool begun = s->streaming && (here->sweep || here->at); /* else any order will do */
    bool ahead = at->sweep > here->sweep || (at->sweep == here->sweep && at->at > here->at);
    if (at->at > s->conf.keys || (begun && (at->seed != here->seed || !ahead)))
        return;
    s->stream = *at;
    s->streaming = true;
}

bool larder__shelf_streaming(const larder__shelf *s, larder_stream *out) {
    *out = s->stream;
    return s->streaming;
}

void larder__shelf_made(larder__shelf *s, uint32_t number, uint32_t lease, int code) {
    larder__lease *l = larder__leases_find(&s->jobs[number].leases, lease);
    if (!l || !l->making)
        return;
    making *m = l->making;
    l->making = NULL;
    land(s, m, code < 0 ? LARDER_E_IO : 0);
}

void larder__shelf_release(larder__shelf *s, uint32_t number, uint32_t lease) {
    larder__leases *all = &s->jobs[number].leases;
    larder__lease *l = larder__leases_find(all, lease);
    if (!l)
        return;
    if (l->making) /* given back without a word: it was not made */
        larder__shelf_made(s, number, lease, LARDER_E_CANCELLED);
    larder__leases_drop(all, lease);
}

/* Ends every making that `over` says so of, with what it says. */
static void watch_each(larder__shelf *s, int (*over)(larder__shelf *, const making *)) {
    for (size_t b = 0; b < BUCKETS && s->makings; b++)
        for (making *m = s->buckets[b], *next; m; m = next) {
            next = m->next;
            int code = over(s, m);
            if (code <= 0)
                larder__shelf_made(s, m->job, m->lease, code);
        }
}

static int is_there(larder__shelf *s, const making *m) {
    (void)s;
    return atomic_load(&head_of(m->buf)->state) == LARDER__BLOCK_FULL ? 0 : 1;
}

static int is_void(larder__shelf *s, const making *m) {
    return s->clock - s->jobs[m->job].kept_at > PATIENCE ? LARDER_E_STATE : 1;
}

bool larder__shelf_watch(larder__shelf *s, double now) {
    s->clock = now;
    watch_each(s, is_there);
    watch_each(s, is_void);
    for (uint32_t i = 0; s->counts && i < LARDER__SHELF_JOBS; i++) {
        job *j = &s->jobs[i];
        bool silent = now - j->asked_at > fmax(PATIENCE, PAUSES * j->pause);
        if (!j->here || j->rests || !silent)
            continue;
        larder__ods_jobs_rest(s->cache, j->counted, true);
        j->rests = true;
    }
    return s->makings > 0 || (s->counts && s->job_count > 1);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

int larder__shelf_join(larder__shelf *s, uint64_t quota, bool again, uint32_t *number) {
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++)
        if (!s->jobs[i].here) {
            job j = {.here = true, .quota = quota, .asked_at = larder__now()};
            int rc = s->counts ? larder__ods_jobs_join(s->cache, again, &j.counted) : 0;
            if (rc < 0)
                return rc;
            s->jobs[i] = j;
            s->job_count++;
            *number = i;
            return 0;
        }
    return larder__fail(LARDER_E_FULL, "%d jobs share this data set already, and that is the most",
                        LARDER__SHELF_JOBS);
}

void larder__shelf_leave(larder__shelf *s, uint32_t number) {
    job *j = &s->jobs[number];
    if (!j->here)
        return;
    for (uint32_t i = 0; i < j->leases.cap; i++)
        larder__shelf_release(s, number, i);
    larder__leases_free(&j->leases);
    larder__merge_leave(s->merge, number);
    if (s->counts)
        larder__ods_jobs_leave(s->cache, j->counted);
    j->here = false;
    if (--s->job_count == 0)
        s->streaming = false;
}

void larder__shelf_epoch(larder__shelf *s, uint32_t number, uint64_t epoch, const uint64_t *seen) {
    if (s->counts)
        larder__ods_jobs_epoch(s->cache, s->jobs[number].counted, seen);
    else
        larder__cache_epoch(s->cache, epoch);
}

/* ---- scores ---------------------------------------------------------------------------------- */

int larder__shelf_score(larder__shelf *s, uint32_t number, const uint32_t *keys,
                        const float *scores, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (keys[i] >= s->conf.keys)
            return larder__fail(LARDER_E_RANGE, "a score for sample %u of %llu", keys[i],
                                (unsigned long long)s->conf.keys);
        if (!isfinite(scores[i]))
            continue;
        float merged = scores[i];
        int rc = larder__merge_add(s->merge, number, s->job_count, keys[i], scores[i], &merged);
        if (rc < 0)
            return rc;
        larder__cache_score(s->cache, &(uint64_t){keys[i]}, &merged, 1);
    }
    return 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_policy(larder__shelf *s) {
    char name[64];
    const char *rest;
    int rc = larder__spec_name(s->conf.policy, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    s->policy = larder__policy_find(name);
    if (!s->policy)
        return larder__fail(LARDER_E_ARGS, "there is no policy \"%s\"; larder list shows them",
                            name);
    if (s->policy->needs_future || s->policy->needs_order)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s has to know one job's order: it cannot be "
                            "shared",
                            name);
    return larder__args_parse(&s->args, "policy", &s->policy->plugin, rest, ',', NULL);
}

static int open_table(larder__shelf *s) {
    s->table_bytes = sizeof *s->table + s->conf.keys * sizeof(larder_slot);
    s->table_fd = memfd_create("larder-table", MFD_CLOEXEC);
    if (s->table_fd < 0 || ftruncate(s->table_fd, (off_t)s->table_bytes) < 0)
        return larder__fail(larder__code_of_errno(errno), "a table of %llu samples: %s",
                            (unsigned long long)s->conf.keys, strerror(errno));
    void *at = mmap(NULL, s->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->table_fd, 0);
    if (at == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "mapping a table: %s", strerror(errno));
    s->table = at;
    return 0;
}

static int open_counting(larder__shelf *s) {
    s->counts = strcmp(s->policy->plugin.name, "ods") == 0;
    if (s->policy->exchange && !(s->sizes = larder__calloc(s->conf.keys, sizeof *s->sizes)))
        return LARDER_E_NOMEM;
    return s->counts ? larder__ods_jobs_begin(s->cache) : 0;
}

int larder__shelf_open(larder__shelf **out, const larder__shelf_conf *conf) {
    *out = NULL;
    if (conf->keys == 0 || conf->keys >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "a data set of %llu samples cannot be shared",
                            (unsigned long long)conf->keys);
    larder__shelf *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    if (conf->forms_id == 0)
        s->conf.forms = (larder__forms){.share = {1}};
    s->table_fd = -1;
    int rc = open_policy(s);
    if (rc == 0)
        rc = open_table(s);
    if (rc == 0)
        rc = larder__arena_open(&s->arena, conf->budget + conf->spare);
    if (rc == 0)
        rc = larder__merge_open(&s->merge, conf->keys, LARDER__SHELF_JOBS);
    larder__cache_conf cache = {.policy = s->policy,
                                .args = &s->args,
                                .store = &larder__store_heap,
                                .keys = conf->keys,
                                .budget = conf->budget,
                                .forms = &s->conf.forms,
                                .seed = conf->seed,
                                .slot_of = rc == 0 ? (larder_slot *)(s->table + 1) : NULL};
    if (rc == 0)
        rc = larder__cache_open(&s->cache, &cache);
    if (rc == 0)
        rc = open_counting(s);
    s->conf.policy = s->policy ? s->policy->plugin.name : "";
    if (rc < 0) {
        larder__shelf_close(&s);
        return rc;
    }
    note_table(s);
    *out = s;
    return 0;
}

void larder__shelf_close(larder__shelf **ps) {
    larder__shelf *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++)
        larder__shelf_leave(s, i);
    larder__cache_close(&s->cache); /* gives its blocks back: before the arena */
    larder__merge_close(&s->merge);
    larder__args_free(&s->args);
    larder__arena_close(&s->arena);
    if (s->table)
        munmap(s->table, s->table_bytes);
    if (s->table_fd >= 0)
        close(s->table_fd);
    for (waiter *w; (w = s->spare_waiters);) {
        s->spare_waiters = w->next;
        larder__free(w);
    }
    larder__free(s->tickets);
    larder__free(s->accesses);
    larder__free(s->sizes);
    larder__free(s->ids);
    larder__free(s->served);
    larder__free(s);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__cache *larder__shelf_cache(larder__shelf *s) { return s->cache; }
int larder__shelf_arena_fd(const larder__shelf *s) { return larder__arena_fd(s->arena); }
int larder__shelf_table_fd(const larder__shelf *s) { return s->table_fd; }
uint64_t larder__shelf_arena_bytes(const larder__shelf *s) { return larder__arena_bytes(s->arena); }
const larder__shelf_conf *larder__shelf_about(const larder__shelf *s) { return &s->conf; }

void larder__shelf_read_figures(const larder__shelf *s, larder__shelf_figures *f) {
    *f = (larder__shelf_figures){.jobs = s->job_count,
                                 .arena_bytes = larder__arena_bytes(s->arena),
                                 .arena_taken = larder__arena_taken(s->arena),
                                 .no_block = s->no_block,
                                 .capped = s->capped,
                                 .huge_pages = larder__arena_huge(s->arena)};
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++) {
        f->leases += s->jobs[i].leases.count;
        f->leased_bytes += s->jobs[i].leases.bytes;
    }
}
