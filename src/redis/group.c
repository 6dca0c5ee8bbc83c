#include "redis/group.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "redis/group_inside.h"

#include <math.h>
#include <stdio.h>
#include <sys/random.h>

#if LARDER_HAVE_HIREDIS

static const double LEASE = 10; /* seconds without a batch, then the others go on */
static const double LAST_WORDS = 2;
enum { FETCH_AT_ONCE = 1024 };

/* ---- claims ---------------------------------------------------------------------------------- */

static void link_alone(void *st, const larder_access *want, larder__ticket *out) {
    larder__group_alone(st, want, out);
}

/* Are these the requests that an exchange has answered already? */
static bool take_kept(larder__group *g, const larder_access *in, size_t n, larder__ticket *out) {
    size_t *left = g->rows ? &g->rows : &g->fetched;
    bool same = *left == n && g->replica;
    for (size_t i = 0; same && i < n; i++)
        same = g->answers[i].key == in[i].key;
    if (!same)
        return false;
    larder__group_board(g, in, n, out);
    *left = 0;
    memmove(g->answers, g->answers + n, g->fetched * sizeof *g->answers);
    return true;
}

static void write_rows(larder_writer *w, const larder_access *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        larder__rec_row row = {(uint32_t)in[i].key, in[i].size, in[i].tag, in[i].score};
        larder_write_bytes(w, &row, sizeof row);
    }
}

static void question_claim(larder__group *g, const void *in, size_t n) {
    larder__group_queue_made(g);
    write_rows(larder__group_begin(g, LARDER__REC_CLAIM), in, n);
    larder__group_end(g);
}

static void refuse_kept(larder__group *g) {
    for (size_t i = 0; i < g->rows + g->fetched; i++)
        if (g->answers[i].kind == LARDER_MISS && g->answers[i].kept)
            larder__group_made(g, &(larder__doomed){.key = g->answers[i].key,
                                                    .mark = g->answers[i].mark,
                                                    .form = g->answers[i].make});
    g->rows = g->fetched = 0;
}

static int link_claim(void *st, larder_access *in, size_t n, larder__ticket *out) {
    larder__group *g = st;
    if (n == 0)
        return 0;
    pthread_mutex_lock(&g->talk);
    if (!take_kept(g, in, n, out)) {
        refuse_kept(g);
        bool answered = larder__group_ask(g, question_claim, in, n) && g->rows == n;
        if (answered)
            larder__group_board(g, in, n, out);
        for (size_t i = 0; !answered && i < n; i++)
            larder__group_alone(g, &in[i], &out[i]);
        g->rows = g->fetched = 0;
    }
    pthread_mutex_unlock(&g->talk);
    return 0;
}

/* ---- the rest of the talk -------------------------------------------------------------------- */

static void link_score(void *st, const uint64_t *keys, const float *scores, size_t n) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    if (larder__group_room(g)) {
        larder_writer *w = larder__group_begin(g, LARDER__REC_SCORES);
        for (size_t i = 0; i < n; i++) {
            larder_write_u32(w, (uint32_t)keys[i]);
            larder_write_bytes(w, &scores[i], sizeof scores[i]);
        }
        larder__group_end(g);
    }
    pthread_mutex_unlock(&g->talk);
}

static void link_accuracy(void *st, double accuracy) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    if (larder__group_room(g)) {
        larder_write_f64(larder__group_begin(g, LARDER__REC_ACCURACY), accuracy);
        larder__group_end(g);
    }
    pthread_mutex_unlock(&g->talk);
}

static void link_list(void *st, const uint8_t *tags) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    g->tags = tags;
    pthread_mutex_unlock(&g->talk);
}

static void note_seen(larder__group *g, uint64_t id) {
    if (g->seen && id < g->mine.keys)
        g->seen[id >> 6] |= (uint64_t)1 << (id & 63);
}

static void link_epoch(void *st, uint64_t epoch) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    g->epoch = epoch;
    if (g->seen)
        memset(g->seen, 0, larder__group_seen_words(g) * sizeof *g->seen);
    for (uint64_t id = 0; g->tags && id < g->mine.keys; id++)
        if ((g->tags[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            note_seen(g, id);
    if (larder__group_room(g))
        larder__group_queue_epoch(g);
    g->epoch_begun = true; /* whoever joins from here on tells it */
    pthread_mutex_unlock(&g->talk);
}

static void question_exchange(larder__group *g, const void *arg, size_t n) {
    const uint64_t *wanted = arg;
    larder__group_queue_made(g);
    larder_writer *w = larder__group_begin(g, LARDER__REC_EXCHANGE);
    larder_write_u32(w, FETCH_AT_ONCE);
    for (size_t i = 0; i < n; i++)
        write_rows(w, &(larder_access){.key = wanted[i], .score = NAN}, 1);
    larder__group_end(g);
}

static void link_exchange(void *st, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    refuse_kept(g);
    bool answered =
        g->exchanges && larder__group_ask(g, question_exchange, wanted, n) && g->rows == n;
    for (size_t i = 0; i < n; i++) {
        served[i] = answered ? g->answers[i].key : wanted[i];
        note_seen(g, served[i]);
    }
    pthread_mutex_unlock(&g->talk);
}

static bool link_stream(void *st, larder_stream *s, bool join) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    bool got = join && g->streaming;
    if (got)
        *s = g->stream;
    if (!join && larder__group_room(g)) {
        larder_writer *w = larder__group_begin(g, LARDER__REC_STREAM);
        larder_write_u64(w, s->seed);
        larder_write_u64(w, s->sweep);
        larder_write_u64(w, s->at);
        larder__group_end(g);
    }
    pthread_mutex_unlock(&g->talk);
    return got;
}

static void question_picks(larder__group *g, const void *seed, size_t n) {
    larder__group_queue_made(g);
    larder_writer *w = larder__group_begin(g, LARDER__REC_PICKS);
    larder_write_u32(w, (uint32_t)n);
    larder_write_u64(w, *(const uint64_t *)seed);
    larder__group_end(g);
}

static bool link_pick(void *st, larder_rng *rng, uint64_t *key, double *share) {
    larder__group *g = st;
    pthread_mutex_lock(&g->talk);
    if (g->pick_at >= g->picked) {
        g->picked = g->pick_at = 0;
        larder__group_ask(g, question_picks, &(uint64_t){larder_rng_next(rng)},
                          LARDER__PICKS_AT_ONCE);
    }
    bool got = g->pick_at < g->picked;
    if (got) {
        *key = g->picks[g->pick_at];
        *share = g->shares[g->pick_at++];
    }
    pthread_mutex_unlock(&g->talk);
    return got;
}

static void question_fetch(larder__group *g, const void *unused, size_t n) {
    (void)unused;
    larder__group_queue_made(g);
    larder_write_u32(larder__group_begin(g, LARDER__REC_FETCH), (uint32_t)(n < 65535 ? n : 65535));
    larder__group_end(g);
}

static size_t link_fetch(void *st, uint64_t *keys, size_t max) {
    larder__group *g = st;
    size_t n = 0;
    pthread_mutex_lock(&g->talk);
    if (g->exchanges) { /* they came with the answer to the exchange */
        for (; n < max && n < g->fetched && !g->rows; n++)
            keys[n] = g->answers[n].key;
    } else if (larder__group_ask(g, question_fetch, NULL, max)) {
        n = g->key_count < max ? g->key_count : max;
        if (n)
            memcpy(keys, g->keys, n * sizeof *keys);
    }
    pthread_mutex_unlock(&g->talk);
    return n;
}

static void link_look(void *st, larder_slots *out) {
    larder__group *g = st;
    pthread_mutex_lock(&g->state);
    const larder_slots *s =
        g->replica ? larder__cache_slots(larder__replica_cache(g->replica)) : NULL;
    out->slot_of = g->table;
    out->resident = s ? s->resident : 0;
    out->bytes = s ? s->bytes : 0;
    out->budget = s ? s->budget : g->mine.budget;
    pthread_mutex_unlock(&g->state);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void link_close(void **st) {
    larder__group *g = *st;
    *st = NULL;
    if (!g)
        return;
    if (g->replica &&
        larder__far_settle(g->far, LAST_WORDS)) { /* nothing is written later than it */
        larder__group_queue_made(g);
        larder__group_step(g);
    }
    if (g->replica) {
        g->doomed_old = g->doomed_count;
        larder__group_delete(g);
        larder__journal_leave(g->journal);
    }
    larder__replica_close(&g->replica);
    larder__journal_close(&g->journal);
    larder__far_close(&g->far); /* its thread calls `stored` */
    larder__writer_free(&g->queue);
    larder__free(g->answers);
    larder__free(g->keys);
    larder__free(g->doomed);
    larder__free(g->made);
    larder__free(g->told);
    larder__free(g->seen);
    larder__free(g->table);
    pthread_mutex_destroy(&g->talk);
    pthread_mutex_destroy(&g->state);
    pthread_mutex_destroy(&g->lists);
    larder__free(g);
}

const larder__link larder__link_group = {
    .name = "redis",
    .claim = link_claim,
    .fill = larder__group_fill,
    .fail = larder__group_fail,
    .wait = larder__group_wait,
    .receive = larder__group_receive,
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

static double probe_jobs(const void *arg) {
    larder__group *g = (larder__group *)(uintptr_t)arg;
    pthread_mutex_lock(&g->state);
    double jobs = g->replica ? larder__replica_jobs(g->replica) : 0;
    pthread_mutex_unlock(&g->state);
    return jobs;
}

static int show(larder__group *g, larder__stats *stats) {
    if (!stats)
        return 0;
    int rc = larder__stat_counter(stats, &g->alone, "group_unshared", "samples",
                                  "misses that were read for this job alone");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->waited, "group_waited", "samples",
                                  "another job was reading them");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->stuck, "group_stuck", "samples",
                                  "another job promised to read them and did not in time");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->joined, "group_joined", "times",
                                  "this job joined its group");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->renewed, "group_renewed", "times",
                                  "its keys were gone or damaged, and this job began it anew");
    if (rc == 0)
        rc = larder__stat_probe(stats, "group_jobs", "jobs", "that share the cache now", probe_jobs,
                                g);
    g->stats = stats;
    return rc;
}

static int open_parts(larder__group *g, const larder__group_conf *conf) {
    char owner[64];
    snprintf(owner, sizeof owner, "g-%.40s", conf->redis->group);
    larder__far_conf far = {
        .redis = conf->redis, .identity = conf->identity, .owner = owner, .stats = conf->stats};
    g->table = larder__malloc(g->mine.keys * sizeof *g->table);
    if (!g->table ||
        (g->exchanges && !(g->seen = larder__calloc(larder__group_seen_words(g), sizeof *g->seen))))
        return LARDER_E_NOMEM;
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    g->replica_conf.slot_of = g->table;
    int rc = larder__far_open(&g->far, &far);
    if (rc == 0)
        rc = larder__journal_open(&g->journal, g->far, conf->redis->group, conf->identity, LEASE,
                                  conf->redis->ttl ? 7 * conf->redis->ttl : 0);
    return rc;
}

/* A server that is there and takes nothing (full, read-only, loading) may take it later. */
static int attempt(void *group) {
    int rc = larder__group_join(group);
    return rc == LARDER_E_STATE ? LARDER_E_IO : rc;
}

static int join_first(larder__group *g, const larder__await *await) {
    if (larder__far_away(g->far)) /* that was waited for already */
        return await->go_on ? 0 : larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__await_there(await, attempt, g);
    if (rc != LARDER__ABSENT)
        return rc;
    larder__far_say(g->far, larder_errmsg());
    return 0;
}

int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    *out = NULL;
    larder__group *g = larder__calloc(1, sizeof *g);
    uint32_t number;
    if (!g)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&g->talk, NULL);
    pthread_mutex_init(&g->state, NULL);
    pthread_mutex_init(&g->lists, NULL);
    g->mine = conf->agreement;
    g->ttl = conf->redis->ttl;
    g->replica_conf = (larder__replica_conf){
        .size = conf->size, .size_of = conf->size_of, .size_arg = conf->size_arg};
    /* No two jobs that have the same place one after the other count alike. */
    if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number)
        g->number = number;
    g->exchanges = strncmp(g->mine.policy, "ods", 3) == 0 &&
                   (g->mine.policy[3] == '\0' || g->mine.policy[3] == ':');
    int rc = open_parts(g, conf);
    if (rc == 0)
        rc = show(g, conf->stats);
    if (rc == 0)
        rc = join_first(g, &conf->redis->await);
    if (rc < 0) {
        link_close(&(void *){g});
        return rc;
    }
    return larder__cache_open_link(out, &larder__link_group, g, g->mine.keys, conf->stats);
}

void larder__group_note(void *st, char *out, size_t cap) {
    larder__far_note(((larder__group *)st)->far, out, cap);
}

#else
int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    larder__far *none;
    (void)conf;
    *out = NULL;
    return larder__far_open(&none, NULL);
}
void larder__group_note(void *st, char *out, size_t cap) {
    (void)st;
    snprintf(out, cap, "%s", "");
}
const larder__link larder__link_group = {.name = "redis"};
#endif
