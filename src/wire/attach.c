#include "wire/attach.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/boarding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FETCH_AT_ONCE = 1024, SCORES_AT_ONCE = 1 << 16 };

/* ---- the rest of the talk -------------------------------------------------------------------- */

static void link_score(void *st, const uint64_t *keys, const float *scores, size_t n) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    for (size_t i = 0; i < n && larder__attachment_there(a);) {
        larder__attachment_begin(a);
        for (size_t end = n - i > SCORES_AT_ONCE ? i + SCORES_AT_ONCE : n; i < end; i++) {
            uint32_t bits;
            memcpy(&bits, &scores[i], sizeof bits);
            larder_write_u32(&a->body, (uint32_t)keys[i]);
            larder_write_u32(&a->body, bits);
        }
        larder__attachment_tell(a, LARDER__MSG_SCORES);
    }
    pthread_mutex_unlock(&a->talk);
}

static void link_accuracy(void *st, double accuracy) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    if (larder__attachment_there(a)) {
        larder__attachment_begin(a);
        larder_write_f64(&a->body, accuracy);
        larder__attachment_tell(a, LARDER__MSG_ACCURACY);
    }
    pthread_mutex_unlock(&a->talk);
}

static void link_relate(void *st, uint64_t key, const uint64_t *ids, size_t n) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    if (larder__attachment_there(a)) {
        larder__attachment_begin(a);
        larder_write_u32(&a->body, (uint32_t)key);
        for (size_t i = 0; i < n; i++)
            larder_write_u32(&a->body, (uint32_t)ids[i]);
        larder__attachment_tell(a, LARDER__MSG_RELATE);
    }
    pthread_mutex_unlock(&a->talk);
}

static void link_list(void *st, const uint8_t *tags) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    a->tags = tags;
    pthread_mutex_unlock(&a->talk);
}

static void note_seen(larder__attachment *a, uint64_t id) {
    if (a->seen && id < a->hello.keys)
        a->seen[id >> 6] |= (uint64_t)1 << (id & 63);
}

static void link_epoch(void *st, uint64_t epoch) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    a->epoch = epoch;
    if (a->seen)
        memset(a->seen, 0, larder__attachment_seen_words(a) * sizeof *a->seen);
    for (uint64_t id = 0; a->tags && id < a->hello.keys; id++)
        if ((a->tags[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            note_seen(a, id);
    bool was = a->fd >= 0;
    a->epoch_begun = true; /* whoever attaches from here on tells it */
    if (larder__attachment_there(a) && was && larder__attachment_send_epoch(a) < 0)
        larder__attachment_lose(a);
    pthread_mutex_unlock(&a->talk);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int keep_tickets(larder__attachment *a, larder_reader *body, size_t n) {
    uint32_t rows = larder_read_u32(body), fetched = larder_read_u32(body);
    uint64_t all = (uint64_t)rows + fetched;
    if (larder_read_status(body) < 0 || rows != n || fetched > FETCH_AT_ONCE ||
        larder__read_left(body) != all * sizeof *a->kept.tickets)
        return larder__fail(LARDER_E_FORMAT, "the daemon answers an exchange with something else");
    return larder__board_keep(a, body, rows, fetched);
}

/* 0: the answers are kept. */
static int ask_exchange(larder__attachment *a, const uint64_t *wanted, size_t n) {
    larder_reader body;
    int rc = larder__board_reserve(a, n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        a->accesses[i] = (larder__wire_access){
            .key = (uint32_t)wanted[i],
            .size = a->size_of ? a->size_of(a->size_arg, wanted[i]) : a->hello.size,
            .score = NAN,
            .next_use = LARDER_UNKNOWN};
    if (rc < 0)
        return rc;
    larder__board_write(a, NULL, n, FETCH_AT_ONCE);
    if ((rc = larder__attachment_ask(a, LARDER__MSG_EXCHANGE, LARDER__MSG_EXCHANGED, &body)) < 0)
        return rc;
    if ((rc = keep_tickets(a, &body, n)) < 0)
        larder__attachment_lose(a); /* its leases would stay with us */
    return rc;
}

static void link_exchange(void *st, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    larder__board_refuse_kept(a);
    bool answered = a->exchanges && n <= a->hello.at_once && larder__attachment_there(a) &&
                    ask_exchange(a, wanted, n) == 0;
    for (size_t i = 0; i < n; i++) {
        served[i] = answered ? a->kept.tickets[i].key : wanted[i];
        note_seen(a, served[i]);
    }
    pthread_mutex_unlock(&a->talk);
}

/* Every eighth time, if all of it is known. */
static void link_pace(void *st, const larder_pace *p, double cores) {
    larder__attachment *a = st;
    if (!(p->read_seconds > 0 && p->step_seconds > 0 && p->decode_seconds > 0 &&
          p->augment_seconds > 0))
        return;
    pthread_mutex_lock(&a->talk);
    if (a->paces++ % 8 == 0 && larder__attachment_there(a)) {
        larder__attachment_begin(a);
        larder_write_f64(&a->body, p->read_seconds);
        larder_write_f64(&a->body, p->step_seconds);
        larder_write_f64(&a->body, p->decode_seconds);
        larder_write_f64(&a->body, p->augment_seconds);
        larder_write_f64(&a->body, cores);
        larder__attachment_tell(a, LARDER__MSG_RATES);
    }
    pthread_mutex_unlock(&a->talk);
}

static bool link_stream(void *st, larder_stream *s, bool join) {
    larder__attachment *a = st;
    pthread_mutex_lock(&a->talk);
    bool got = join && a->streaming;
    if (got)
        *s = a->stream;
    if (!join && larder__attachment_there(a)) {
        larder__attachment_begin(a);
        larder_write_u64(&a->body, s->seed);
        larder_write_u64(&a->body, s->sweep);
        larder_write_u64(&a->body, s->at);
        larder__attachment_tell(a, LARDER__MSG_STREAM);
    }
    pthread_mutex_unlock(&a->talk);
    return got;
}

/* A page of picks at a time: they may be a batch old when they are used. */
static bool more_picks(larder__attachment *a, larder_rng *rng) {
    larder_reader body;
    a->picked = a->pick_at = 0;
    if (!larder__attachment_there(a))
        return false;
    larder__attachment_begin(a);
    larder_write_u32(&a->body, LARDER__PICKS_AT_ONCE);
    larder_write_u64(&a->body, larder_rng_next(rng));
    if (larder__attachment_ask(a, LARDER__MSG_PICKS, LARDER__MSG_PICKED, &body) < 0)
        return false;
    while (larder__read_left(&body) >= sizeof *a->picks && a->picked < LARDER__PICKS_AT_ONCE)
        larder_read_bytes(&body, &a->picks[a->picked++], sizeof *a->picks);
    return a->picked > 0;
}

static bool link_pick(void *st, larder_rng *rng, uint64_t *key, double *share) {
    larder__attachment *a = st;
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
    larder__attachment *a = st;
    larder_reader body;
    size_t n = 0;
    pthread_mutex_lock(&a->talk);
    if (a->exchanges) { /* they came with the answer to the exchange */
        for (; n < max && n < a->kept.fetched && !a->kept.rows; n++)
            keys[n] = a->kept.tickets[n].key;
    } else if (larder__attachment_there(a)) {
        larder__attachment_begin(a);
        larder_write_u32(&a->body, (uint32_t)(max < UINT32_MAX ? max : UINT32_MAX));
        if (larder__attachment_ask(a, LARDER__MSG_FETCH, LARDER__MSG_FETCHED, &body) == 0)
            while (n < max && larder__read_left(&body) >= 4) {
                keys[n] = larder_read_u32(&body);
                n += keys[n] < a->hello.keys;
            }
    }
    pthread_mutex_unlock(&a->talk);
    return n;
}

static void link_look(void *st, larder_slots *out) {
    larder__table_head *table = ((larder__attachment *)st)->window.table;
    out->slot_of = (const larder_slot *)(table + 1);
    out->resident = (uint32_t)atomic_load(&table->resident);
    out->bytes = atomic_load(&table->bytes);
    out->budget = atomic_load(&table->budget);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void link_close(void **st) {
    larder__attachment *a = *st;
    *st = NULL;
    if (!a)
        return;
    larder__attachment_flush(a);
    larder__attachment_part(a);
    larder__window_close(&a->window);
    larder__writer_free(&a->body);
    larder__writer_free(&a->touched);
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
    .claim = larder__board_claim,
    .fill = larder__board_fill,
    .fail = larder__board_fail,
    .wait = larder__board_wait,
    .score = link_score,
    .relate = link_relate,
    .accuracy = link_accuracy,
    .list = link_list,
    .epoch = link_epoch,
    .exchange = link_exchange,
    .stream = link_stream,
    .pace = link_pace,
    .alone = larder__board_alone,
    .pick = link_pick,
    .fetch = link_fetch,
    .look = link_look,
    .close = link_close,
};

static double probe_attached(const void *arg) {
    return ((const larder__attachment *)arg)->fd >= 0 ? 1 : 0;
}

static int show(larder__attachment *a) {
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
        rc = larder__stat_counter(a->stats, &a->unasked, "daemon_unasked", "samples",
                                  "hits that were taken without asking the daemon");
    if (rc == 0)
        rc = larder__stat_probe(a->stats, "daemon_attached", "", "1 while the daemon answers",
                                probe_attached, a);
    return rc;
}

static int attempt(void *attachment) { return larder__attachment_attach(attachment); }

void larder__attach_note(larder__cache *c, char *out, size_t cap) {
    larder__attachment *a = larder__cache_link_state(c, &link_daemon);
    if (!a)
        return;
    pthread_mutex_lock(&a->talk);
    snprintf(out, cap, "%s", a->note);
    pthread_mutex_unlock(&a->talk);
}

int larder__attach_open(larder__cache **out, const larder__attach_conf *conf) {
    *out = NULL;
    larder__attachment *a = larder__calloc(1, sizeof *a);
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
    a->hello.at_once = a->hello.batch < LARDER__AT_ONCE_LEAST  ? LARDER__AT_ONCE_LEAST
                       : a->hello.batch > LARDER__AT_ONCE_MOST ? LARDER__AT_ONCE_MOST
                                                               : a->hello.batch;
    a->stats = conf->stats;
    a->exchanges = conf->exchanges;
    a->size_of = conf->size_of;
    a->size_arg = conf->size_arg;
    a->door = conf->door;
    int rc = larder__window_open(&a->window, a->hello.keys);
    if (rc == 0 && a->exchanges &&
        !(a->seen = larder__calloc(larder__attachment_seen_words(a), sizeof *a->seen)))
        rc = LARDER_E_NOMEM;
    a->opening = &conf->await;
    if (rc == 0)
        rc = larder__await_there(&conf->await, attempt, a);
    a->opening = NULL;
    if (rc == LARDER__ABSENT) {
        larder__attachment_absent(a);
        rc = 0;
    }
    if (rc == 0) /* not before: whoever is refused goes on without us, and figures stay */
        rc = show(a);
    if (rc < 0) {
        link_close(&(void *){a});
        return rc;
    }
    return larder__cache_open_link(out, &link_daemon, a, a->hello.keys, a->stats);
}

int larder__attach_status(const larder__door *door, char **json) {
    larder__inbox in;
    larder_reader body;
    *json = NULL;
    int fd = larder__daemon_connect(door);
    if (fd < 0)
        return fd;
    larder__inbox_init(&in);
    int rc = larder__frame_send(fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0);
    if (rc == 0)
        rc = larder__daemon_hear(fd, &in, LARDER__MSG_STATUS_IS, &body);
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
