#include "daemon/server_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "daemon/shelf_plan.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- shelves --------------------------------------------------------------------------------- */

static void close_shelf(larder__server *s, size_t i) {
    s->promised -= larder__shelf_about(s->shelves[i])->promise;
    larder__shelf_close(&s->shelves[i]);
}

static uint64_t left(const larder__server *s) { return s->conf.cache - s->promised; }

/* Data sets nobody trains on make room for one that somebody does; `keep` is not one of them. */
static void drop_idle(larder__server *s, uint64_t want, const larder__shelf *keep) {
    for (size_t i = 0; i < LARDER__SHELVES && left(s) < want; i++) {
        larder__shelf_figures f;
        if (!s->shelves[i] || s->shelves[i] == keep)
            continue;
        larder__shelf_read_figures(s->shelves[i], &f);
        if (f.jobs == 0) {
            larder__server_say(s, "data set %016llx is forgotten: nobody trains on it",
                               (unsigned long long)larder__shelf_about(s->shelves[i])->identity);
            close_shelf(s, i);
        }
    }
}

/* Of memory that is not there. */
static int lacking(const larder__server *s, const char *what, uint64_t need) {
    char want[32], have[32], all[32];
    return larder__fail(LARDER_E_FULL,
                        "%s: %s are needed with all that belongs to it, the daemon has %s left of "
                        "%s; start it with a larger --cache, or ask for a smaller budget=",
                        what, larder__print_bytes((double)need, want),
                        larder__print_bytes((double)left(s), have),
                        larder__print_bytes((double)s->conf.cache, all));
}

int larder__server_budget(larder__server *s, const larder__cost *c, uint64_t want, bool exactly,
                          uint64_t *out) {
    enum { OTHERS = 3 }; /* jobs that may come later find room beside whoever takes all */
    char what[64], text[32];
    uint64_t need = larder__cost_all(c, want);
    drop_idle(s, need, NULL);
    if (exactly || need <= left(s)) {
        snprintf(what, sizeof what, "a cache of %s", larder__print_bytes((double)want, text));
        *out = want;
        return need <= left(s) ? 0 : lacking(s, what, need);
    }
    uint64_t others = OTHERS * c->job;
    *out = left(s) > others ? larder__cost_fit(c, want, left(s) - others) : 0;
    if (*out < c->mean)
        *out = larder__cost_fit(c, want, left(s));
    return *out ? 0 : lacking(s, "a cache for another data set", larder__cost_all(c, c->mean));
}

static int budget_of(larder__server *s, const larder__hello *h, const larder__cost *c,
                     uint64_t *out) {
    larder__budget b = {.bytes = UINT64_MAX};
    int rc = h->budget[0] ? larder__parse_budget(h->budget, &b) : 0;
    return rc < 0
               ? rc
               : larder__server_budget(s, c, larder__budget_bytes(&b, h->payload, h->forms_id != 0),
                                       h->budget[0] != '\0', out);
}

static uint32_t at_once(const larder__hello *h) {
    return h->at_once > LARDER__AT_ONCE_LEAST ? h->at_once : LARDER__AT_ONCE_LEAST;
}

/* What a job takes besides: its pins, twice; for each request at once an answer, somebody who waits
 * and somebody who makes; and for each sample a score and whether it was served, where the policy
 * wants to know. */
static uint64_t job_cost(const larder__hello *h, const larder_policy *p) {
    enum { A_REQUEST = 512 };
    uint64_t samples = p->score || p->ghost || p->exchange ? h->keys * 4 + h->keys / 2 : 0;
    return 2 * sizeof(larder__pins) + (uint64_t)at_once(h) * A_REQUEST + samples;
}

/* The tables first, by what they take at least, before any is made. */
static int cost_of(larder__server *s, const larder__hello *h, const larder__shelf_conf *conf,
                   larder__cost *out) {
    enum { A_SAMPLE = 30 }; /* of table and cache, about */
    const larder_policy *policy = NULL;
    uint64_t least = h->keys < UINT32_MAX ? h->keys * A_SAMPLE : UINT64_MAX;
    char what[64];
    *out = (larder__cost){.entries = h->keys};
    snprintf(what, sizeof what, "tables for %llu samples", (unsigned long long)h->keys);
    drop_idle(s, least, NULL);
    if (least > left(s))
        return lacking(s, what, least);
    int rc = larder__shelf_measure(conf, left(s), &out->fixed, &policy);
    if (rc == LARDER_E_NOMEM) {
        drop_idle(s, UINT64_MAX, NULL);
        rc = larder__shelf_measure(conf, left(s), &out->fixed, &policy);
    }
    if (rc == LARDER_E_NOMEM)
        return lacking(s, what, left(s) + least);
    if (rc < 0)
        return rc;
    out->mean = h->payload / h->keys + 1;
    out->slack = larder__cost_slack(h->batch, out->mean, s->conf.cache);
    out->job = job_cost(h, policy);
    return 0;
}

static int free_shelf(larder__server *s, size_t *at) {
    for (int round = 0; round < 2; round++) {
        for (*at = 0; *at < LARDER__SHELVES; ++*at)
            if (!s->shelves[*at])
                return 0;
        drop_idle(s, UINT64_MAX, NULL);
    }
    return larder__fail(LARDER_E_FULL, "%d data sets are in use, and that is the most",
                        LARDER__SHELVES);
}

static int open_shelf(larder__server *s, const larder__hello *h, larder__shelf **out) {
    size_t i;
    larder__cost cost;
    larder__shelf_conf conf = {.identity = h->identity,
                               .keys = h->keys,
                               .seed = h->seed,
                               .budget = 1,
                               .batch = h->batch,
                               .mean =
                                   h->keys ? floor((double)h->payload / (double)h->keys) + 1 : 1,
                               .policy = h->policy,
                               .forms_id = h->forms_id,
                               .forms = {.decoded_ratio = h->decoded_ratio,
                                         .decoded_bytes = h->decoded_bytes,
                                         .row_bytes = h->row_bytes,
                                         .movable = (h->again & LARDER__HELLO_PLANS) != 0}};
    memcpy(conf.forms.share, h->share, sizeof conf.forms.share);
    int rc = free_shelf(s, &i);
    if (rc < 0 || (rc = cost_of(s, h, &conf, &cost)) < 0 ||
        (rc = budget_of(s, h, &cost, &conf.budget)) < 0)
        return rc;
    conf.spare = larder__cost_arena(&cost, conf.budget) - conf.budget;
    conf.promise = larder__cost_all(&cost, conf.budget) - cost.job;
    /* As much as a job may hold of what it has asked for. */
    uint64_t pins = (conf.budget + conf.spare / 2) / cost.mean;
    conf.pins = pins < LARDER__PINS ? (uint32_t)pins : LARDER__PINS;
    if ((rc = larder__shelf_open(&s->shelves[i], &conf)) == 0) {
        s->promised += conf.promise;
        *out = s->shelves[i];
    }
    return rc;
}

/* Of one data set, and of one way to make pixels and rows of it. */
static int find_shelf(larder__server *s, const larder__hello *h, larder__shelf **out) {
    for (size_t i = 0; i < LARDER__SHELVES; i++) {
        const larder__shelf_conf *a = s->shelves[i] ? larder__shelf_about(s->shelves[i]) : NULL;
        if (!a || a->identity != h->identity || a->forms_id != h->forms_id)
            continue;
        if (a->keys != h->keys)
            return larder__fail(LARDER_E_CHANGED,
                                "the data set has %llu samples here and %llu "
                                "there",
                                (unsigned long long)a->keys, (unsigned long long)h->keys);
        *out = s->shelves[i];
        return 0;
    }
    return open_shelf(s, h, out);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The descriptors go with the first bytes of the answer, so that one is sent at once. */
static int welcome(larder__server *s, larder__client *c) {
    larder__shelf *shelf = c->about.shelf;
    larder__welcome m = {.version = LARDER__WIRE_VERSION,
                         .job = c->about.job,
                         .arena_bytes = larder__shelf_arena_bytes(shelf),
                         .keys = larder__shelf_about(shelf)->keys,
                         .budget = larder__shelf_about(shelf)->budget,
                         .wants_sizes = larder__shelf_wants_sizes(shelf)};
    m.streaming = larder__shelf_streaming(shelf, &m.stream);
    memcpy(m.share, larder__shelf_about(shelf)->forms.share, sizeof m.share);
    snprintf(m.policy, sizeof m.policy, "%s", larder__shelf_about(shelf)->policy);
    int pins = larder__shelf_pins_fd(shelf, c->about.job);
    m.pins = pins >= 0 ? larder__shelf_about(shelf)->pins : 0;
    int fds[] = {larder__shelf_arena_fd(shelf), larder__shelf_table_fd(shelf), pins};
    s->body.size = 0;
    larder__welcome_write(&m, &s->body);
    if (s->body.code < 0)
        return s->body.code;
    return larder__frame_send(c->fd, LARDER__MSG_WELCOME, s->body.bytes, s->body.size, fds,
                              pins >= 0 ? 3 : 2);
}

/* One more job on this data set: it may come to this. */
static int promise_job(larder__server *s, larder__client *c, const larder__hello *h,
                       const larder__shelf *shelf) {
    uint64_t cost = job_cost(h, larder__policy_find(larder__shelf_policy(shelf)));
    drop_idle(s, cost, shelf);
    if (cost > left(s))
        return lacking(s, "one more job", cost);
    s->promised += c->promise = cost;
    c->at_once = at_once(h);
    return 0;
}

static int hello(larder__server *s, larder__client *c, larder_reader *r) {
    larder__hello h;
    larder__shelf *shelf = NULL;
    if (c->about.shelf || c->berth.crew)
        return larder__fail(LARDER_E_STATE, "it says hello twice");
    int rc = larder__hello_read(&h, r);
    if (rc == 0 && (rc = larder__frame_send(c->fd, LARDER__MSG_COMING, NULL, 0, NULL, 0)) < 0)
        return rc; /* it has given up */
    if (rc == 0)
        rc = find_shelf(s, &h, &shelf);
    if (rc == 0)
        rc = promise_job(s, c, &h, shelf);
    if (rc == 0)
        rc = larder__shelf_join(shelf, s->conf.quota, (h.again & LARDER__HELLO_AGAIN) != 0,
                                &c->about.job);
    larder_stream stream;
    if (rc == 0 && !(h.again & LARDER__HELLO_AGAIN) &&
        !larder__shelf_streaming(shelf, &stream)) { /* its order, if any */
        stream = (larder_stream){.seed = h.seed};
        larder__shelf_stream(shelf, &stream);
    }
    if (rc == 0 && h.size)
        larder__shelf_one_size(shelf, h.size);
    if (rc < 0) {
        larder__server_say(s, "refused %s (pid %u): %s", h.name, h.pid, larder_errmsg());
        return larder__server_refuse(s, c, rc);
    }
    c->about.shelf = shelf;
    c->about.pid = h.pid;
    c->about.since = larder__now();
    memcpy(c->about.name, h.name, sizeof c->about.name);
    larder__server_say(s, "job %u joined: %s (pid %u), %llu samples", c->about.job, h.name, h.pid,
                       (unsigned long long)h.keys);
    return welcome(s, c);
}

/* What was made and given back since the last batch. */
static int returns(larder__server *s, larder__client *c, larder_reader *r, larder__claim *m) {
    int rc = larder__claim_read(m, r, &s->room);
    if (rc == 0 && m->n > c->at_once)
        rc = larder__fail(LARDER_E_RANGE, "it makes %u requests at once and had said %u", m->n,
                          c->at_once);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < m->makes; i++)
        larder__shelf_made(c->about.shelf, c->about.job, m->made[i].lease, m->made[i].code);
    for (uint32_t i = 0; i < m->releases; i++)
        larder__shelf_release(c->about.shelf, c->about.job, m->released[i]);
    return 0;
}

/* Room for n answers behind `head` bytes, in the body. */
static larder__wire_ticket *ticket_room(larder__server *s, size_t head, size_t n) {
    s->body.size = 0;
    larder__write_space(&s->body, head + n * sizeof(larder__wire_ticket));
    return s->body.code < 0 ? NULL : (larder__wire_ticket *)(void *)(s->body.bytes + head);
}

static int claim(larder__server *s, larder__client *c, larder_reader *r) {
    larder__claim m;
    c->related = false;
    int rc = returns(s, c, r, &m);
    if (rc < 0)
        return rc;
    larder__wire_ticket *out = ticket_room(s, 0, m.n);
    if (!out)
        return s->body.code;
    rc = larder__shelf_claim(c->about.shelf, c->about.job, m.accesses, m.n, out);
    if (rc < 0)
        return rc;
    larder__client_count(&c->about, out, m.n);
    return larder__server_reply(s, c, LARDER__MSG_TICKETS);
}

/* The answer: how many rows, how many entries besides, then both. */
static int exchange(larder__server *s, larder__client *c, larder_reader *r) {
    enum { HEAD = 8 };
    larder__claim m;
    size_t fetched = 0;
    c->related = false;
    int rc = returns(s, c, r, &m);
    if (rc < 0)
        return rc;
    size_t most = m.fetch < c->at_once ? m.fetch : c->at_once;
    larder__wire_ticket *out = ticket_room(s, HEAD, m.n + most);
    if (!out)
        return s->body.code;
    rc = larder__shelf_exchange(c->about.shelf, c->about.job, m.accesses, m.n, most, out, &fetched);
    if (rc < 0)
        return rc;
    uint32_t counts[2] = {m.n, (uint32_t)fetched};
    memcpy(s->body.bytes, counts, HEAD);
    s->body.size = HEAD + (m.n + fetched) * sizeof *out;
    larder__client_count(&c->about, out, m.n);
    for (size_t i = 0; i < fetched; i++)
        c->about.background += out[m.n + i].kind == LARDER_MISS;
    return larder__server_reply(s, c, LARDER__MSG_EXCHANGED);
}

/* Nothing, or a bit for every sample that this job will not ask for in this epoch. */
static int epoch(larder__server *s, larder__client *c, larder_reader *r) {
    c->about.epoch = larder_read_u64(r);
    size_t bytes = larder__read_left(r);
    uint64_t keys = larder__shelf_about(c->about.shelf)->keys, words = keys / 64 + 1;
    if (larder_read_status(r) < 0 || (bytes && bytes != words * 8))
        return larder__fail(LARDER_E_FORMAT, "an epoch in which %zu bytes of samples are seen",
                            bytes);
    s->room.size = 0;
    larder__write_space(&s->room, bytes);
    if (s->room.code < 0)
        return s->room.code;
    larder_read_bytes(r, s->room.bytes, bytes);
    larder__shelf_epoch(c->about.shelf, c->about.job, c->about.epoch,
                        bytes ? (const uint64_t *)(const void *)s->room.bytes : NULL);
    return 0;
}

static int sizes(larder__server *s, larder__client *c, larder_reader *r) {
    uint32_t from = larder_read_u32(r);
    size_t n = larder__read_left(r) / sizeof(uint32_t);
    s->room.size = 0;
    larder__write_space(&s->room, n * sizeof(uint32_t));
    if (s->room.code < 0)
        return s->room.code;
    larder_read_bytes(r, s->room.bytes, n * sizeof(uint32_t));
    if (larder_read_status(r) < 0)
        return larder__fail(LARDER_E_FORMAT, "sizes that begin nowhere");
    return larder__shelf_sizes(c->about.shelf, from, (const uint32_t *)(const void *)s->room.bytes,
                               n);
}

static int stream(larder__client *c, larder_reader *r) {
    larder_stream at = {.seed = larder_read_u64(r), .sweep = larder_read_u64(r)};
    at.at = larder_read_u64(r);
    if (larder_read_status(r) == 0)
        larder__shelf_stream(c->about.shelf, &at);
    return larder_read_status(r);
}

/* Batches of residents that were taken without asking. */
static int touched(larder__server *s, larder__client *c, larder_reader *r) {
    c->related = false;
    while (larder__read_left(r)) {
        uint32_t n = larder_read_u32(r);
        uint64_t bytes = (uint64_t)n * sizeof(larder__touch);
        if (larder_read_status(r) < 0 || bytes > larder__read_left(r))
            return larder__fail(LARDER_E_FORMAT, "a batch of hits that is shorter than it says");
        s->room.size = 0;
        larder__write_space(&s->room, (size_t)bytes);
        if (s->room.code < 0)
            return s->room.code;
        larder_read_bytes(r, s->room.bytes, (size_t)bytes);
        int rc = larder__shelf_touch(c->about.shelf, c->about.job,
                                     (const larder__touch *)(const void *)s->room.bytes, n);
        if (rc < 0)
            return rc;
        c->about.requests += n;
        c->about.hits += n;
    }
    return 0;
}

static int rates(larder__server *s, larder__client *c, larder_reader *r) {
    larder__plan_turn p;
    larder_pace pace = {.read_seconds = larder_read_f64(r), .step_seconds = larder_read_f64(r)};
    pace.decode_seconds = larder_read_f64(r);
    pace.augment_seconds = larder_read_f64(r);
    double cores = larder_read_f64(r);
    if (larder_read_status(r) < 0)
        return larder__fail(LARDER_E_FORMAT, "rates that are cut short");
    if (larder__shelf_rates(c->about.shelf, c->about.job, &pace, cores, &p))
        larder__server_say(s,
                           "the cache is split %d/%d/%d: %.0f samples/s expected instead of %.0f, "
                           "which %s held up; now it is %s",
                           p.encoded, p.decoded, p.augmented, p.expected, p.before,
                           larder__resource_name(p.held_up_by),
                           larder__resource_name(p.bottleneck));
    return 0;
}

static int scores(larder__client *c, larder_reader *r) {
    enum { AT_ONCE = 256 };
    uint32_t keys[AT_ONCE];
    float values[AT_ONCE];
    int rc = 0;
    while (rc == 0 && larder__read_left(r) >= 8) {
        size_t n = 0;
        for (; n < AT_ONCE && larder__read_left(r) >= 8; n++) {
            keys[n] = larder_read_u32(r);
            uint32_t bits = larder_read_u32(r);
            memcpy(&values[n], &bits, sizeof bits);
        }
        rc = larder__shelf_score(c->about.shelf, c->about.job, keys, values, n);
    }
    return rc;
}

/* Of those that come between two claims, the first one that the policy wants. */
static int relate(larder__server *s, larder__client *c, larder_reader *r) {
    larder__cache *cache = larder__shelf_cache(c->about.shelf);
    uint64_t key = larder_read_u32(r), n = larder__read_left(r) / sizeof(uint32_t);
    s->room.size = 0;
    larder__write_space(&s->room, n * sizeof(uint64_t));
    if (s->room.code < 0)
        return s->room.code;
    uint64_t *ids = (uint64_t *)(void *)s->room.bytes;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = larder_read_u32(r);
    if (!c->related && n)
        c->related = larder__cache_relate(cache, key, ids, n);
    return larder_read_status(r);
}

static int picks(larder__server *s, larder__client *c, larder_reader *r) {
    enum { PICKS_MOST = 4096 };
    uint32_t want = larder_read_u32(r);
    uint64_t seed = larder_read_u64(r);
    larder_rng rng;
    larder_rng_seed(&rng, seed, c->about.job);
    s->body.size = 0;
    for (uint32_t i = 0; i < want && i < PICKS_MOST; i++) {
        uint64_t key;
        larder__wire_pick p = {0};
        if (!larder__cache_pick(larder__shelf_cache(c->about.shelf), &rng, &key, &p.share))
            break;
        p.key = (uint32_t)key;
        larder_write_bytes(&s->body, &p, sizeof p);
    }
    return larder__server_reply(s, c, LARDER__MSG_PICKED);
}

static int fetch(larder__server *s, larder__client *c, larder_reader *r) {
    uint32_t want = larder_read_u32(r);
    uint64_t keys[1024];
    size_t n =
        larder__cache_fetch(larder__shelf_cache(c->about.shelf), keys, want < 1024 ? want : 1024);
    s->body.size = 0;
    for (size_t i = 0; i < n; i++)
        larder_write_u32(&s->body, (uint32_t)keys[i]);
    return larder__server_reply(s, c, LARDER__MSG_FETCHED);
}

int larder__server_about(larder__server *s, larder__status_conf *out) {
    const larder__client_about **all = larder__calloc(s->count + 1, sizeof *all);
    *out = (larder__status_conf){.shelves = s->shelves,
                                 .crews = s->crews,
                                 .clients = all,
                                 .cache = s->conf.cache,
                                 .promised = s->promised,
                                 .used = s->purse.used,
                                 .uptime = larder__now() - s->started};
    if (!all)
        return LARDER_E_NOMEM;
    for (const larder__client *o = s->clients; o; o = o->next)
        if (o->about.shelf)
            all[out->count++] = &o->about;
    return 0;
}

static int status(larder__server *s, larder__client *c) {
    larder__status_conf conf;
    int rc = larder__server_about(s, &conf);
    s->body.size = 0;
    if (rc == 0)
        rc = larder__status_write(&conf, &s->body);
    larder__free((void *)(uintptr_t)conf.clients);
    return rc < 0 ? rc : larder__server_reply(s, c, LARDER__MSG_STATUS_IS);
}

int larder__server_hear(larder__server *s, larder__client *c, uint16_t type, larder_reader *r) {
    if (type == LARDER__MSG_HELLO)
        return hello(s, c, r);
    if (type == LARDER__MSG_STATUS)
        return status(s, c);
    if (type == LARDER__MSG_JOIN)
        return larder__crew_join(s, c, r);
    if (c->berth.crew)
        return larder__crew_hear(s, c, type, r);
    if (!c->about.shelf)
        return larder__fail(LARDER_E_STATE, "it did not say hello");
    switch (type) {
    case LARDER__MSG_CLAIM:
        return claim(s, c, r);
    case LARDER__MSG_EXCHANGE:
        return exchange(s, c, r);
    case LARDER__MSG_RETURNS:
        return returns(s, c, r, &(larder__claim){0});
    case LARDER__MSG_TOUCHED:
        return touched(s, c, r);
    case LARDER__MSG_RATES:
        return rates(s, c, r);
    case LARDER__MSG_SIZES:
        return sizes(s, c, r);
    case LARDER__MSG_STREAM:
        return stream(c, r);
    case LARDER__MSG_SCORES:
        return scores(c, r);
    case LARDER__MSG_RELATE:
        return relate(s, c, r);
    case LARDER__MSG_ACCURACY:
        larder__cache_accuracy(larder__shelf_cache(c->about.shelf), larder_read_f64(r));
        return 0;
    case LARDER__MSG_EPOCH:
        return epoch(s, c, r);
    case LARDER__MSG_PICKS:
        return picks(s, c, r);
    case LARDER__MSG_FETCH:
        return fetch(s, c, r);
    default:
        return larder__fail(LARDER_E_FORMAT, "message %u is unknown", type);
    }
}
