#include "unix/server_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "plugins.h"
#include "unix/served_plan.h"
#include "unix/tray.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Other users than root and its own. */
static bool lets_others_in(const larder__server *s) { return (s->conf.mode & 066) != 0; }

/* ---- served sets ----------------------------------------------------------------------------- */

static void close_set(larder__server *s, size_t i) {
    s->promised -= larder__served_about(s->sets[i])->promise;
    larder__served_vacate(s->sets[i]);
    larder__served_close(&s->sets[i]);
}

static uint64_t left(const larder__server *s) { return s->conf.cache - s->promised; }

/* Data sets nobody trains on make room for one that somebody does; `keep` is not one of them. */
static void drop_idle(larder__server *s, uint64_t want, const larder__served *keep) {
    for (size_t i = 0; i < LARDER__SETS && left(s) < want; i++) {
        larder__served_figures f;
        if (!s->sets[i] || s->sets[i] == keep)
            continue;
        larder__served_read_figures(s->sets[i], &f);
        if (f.jobs == 0) {
            larder__server_say(s, "data set %016llx is forgotten: nobody trains on it",
                               (unsigned long long)larder__served_about(s->sets[i])->identity);
            close_set(s, i);
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
    uint64_t others = OTHERS * (c->job + (lets_others_in(s) ? sizeof(larder__tray) : 0));
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
               : larder__server_budget(s, c,
                                       larder__budget_bytes(&b, h->payload, h->about.forms_id != 0),
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
    bool wants = LARDER_HAS(p, hears, score) || LARDER_HAS(p, shares, exchange);
    uint64_t samples = wants ? h->about.keys * 4 + h->about.keys / 2 : 0;
    return 2 * sizeof(larder__pins) + (uint64_t)at_once(h) * A_REQUEST + samples;
}

/* The tables first, by what they take at least, before any is made. */
static int cost_of(larder__server *s, const larder__hello *h, const larder__served_conf *conf,
                   larder__cost *out) {
    enum { A_SAMPLE = 30 }; /* of table and cache, about */
    const larder_policy *policy = NULL;
    uint64_t least = h->about.keys < UINT32_MAX ? h->about.keys * A_SAMPLE : UINT64_MAX;
    char what[64];
    *out = (larder__cost){.entries = h->about.keys};
    snprintf(what, sizeof what, "tables for %llu samples", (unsigned long long)h->about.keys);
    drop_idle(s, least, NULL);
    if (least > left(s))
        return lacking(s, what, least);
    int rc = larder__served_measure(conf, left(s), &out->fixed, &policy);
    if (rc == LARDER_E_NOMEM) {
        drop_idle(s, UINT64_MAX, NULL);
        rc = larder__served_measure(conf, left(s), &out->fixed, &policy);
    }
    if (rc == LARDER_E_NOMEM)
        return lacking(s, what, left(s) + least);
    if (rc < 0)
        return rc;
    out->mean = conf->mean > 1 ? (uint64_t)conf->mean : 1;
    out->slack = larder__cost_slack(h->batch, out->mean, s->conf.cache);
    out->job = job_cost(h, policy);
    return 0;
}

static int free_set(larder__server *s, size_t *at) {
    for (int round = 0; round < 2; round++) {
        for (*at = 0; *at < LARDER__SETS; ++*at)
            if (!s->sets[*at])
                return 0;
        drop_idle(s, UINT64_MAX, NULL);
    }
    return larder__fail(LARDER_E_FULL, "%d data sets are in use, and that is the most",
                        LARDER__SETS);
}

static int open_set(larder__server *s, const larder__hello *h, larder__served **out) {
    size_t i;
    larder__cost cost;
    larder__served_conf conf = {
        .identity = h->identity,
        .about = h->about,
        .movable = (h->again & LARDER__HELLO_PLANS) != 0,
        .size = h->size,
        .batch = h->batch,
        .all_pages = &s->pages,
        .mean = h->about.keys ? floor((double)h->payload / (double)h->about.keys) + 1 : 1};
    uint64_t *budget = &conf.about.budget;
    *budget = 1; /* until it is known what all takes */
    int rc = free_set(s, &i);
    if (rc < 0 || (rc = cost_of(s, h, &conf, &cost)) < 0 ||
        (rc = budget_of(s, h, &cost, budget)) < 0)
        return rc;
    conf.spare = larder__cost_arena(&cost, *budget) - *budget;
    conf.promise = larder__cost_all(&cost, *budget) - cost.job;
    conf.entries = larder__cost_entries(&cost, *budget);
    /* As much as a job may hold of what it has asked for. */
    uint64_t pins = (*budget + conf.spare / 2) / cost.mean;
    conf.pins = pins < LARDER__PINS ? (uint32_t)pins : LARDER__PINS;
    if ((rc = larder__served_open(&s->sets[i], &conf)) == 0) {
        s->promised += conf.promise;
        *out = s->sets[i];
    }
    return rc;
}

/* Whose job it is. Root could be the daemon's user at any time, so both are one. */
static uint32_t owner_of(const larder__server_client *c) { return c->user ? c->user : geteuid(); }

static bool admits(const larder__server *s, const larder__server_client *c, larder__served *set) {
    return s->conf.share_data || larder__witness_knows(larder__served_witness(set), owner_of(c));
}

/* Of one data set, and of one way to make pixels and rows of it: one that this user shares, or else
 * one of users who have shown the same. NULL: there is none, or *others alone have one. What
 * another user says that the data set has is no reason to refuse anybody. */
static int find_set(const larder__server *s, const larder__server_client *c, const larder__hello *h,
                    const larder__testimony *shown, larder__served **out, bool *others) {
    larder__served *alike = NULL;
    *out = NULL;
    *others = false;
    for (size_t i = 0; i < LARDER__SETS && !*out; i++) {
        larder__served *set = s->sets[i];
        const larder__served_conf *a = set ? larder__served_about(set) : NULL;
        if (!a || a->identity != h->identity || a->about.forms_id != h->about.forms_id)
            continue;
        bool ours = admits(s, c, set);
        if (ours && a->about.keys != h->about.keys)
            return larder__fail(LARDER_E_CHANGED,
                                "the data set has %llu samples here and %llu "
                                "there",
                                (unsigned long long)a->about.keys,
                                (unsigned long long)h->about.keys);
        if (a->about.keys != h->about.keys)
            continue;
        if (ours)
            *out = set;
        else if (larder__witness_agrees(larder__served_witness(set), shown))
            alike = set;
        else
            *others = true;
    }
    if (!*out)
        *out = alike;
    return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Without a tray a job gets along too. */
static bool promise_tray(larder__server *s, larder__server_client *c) {
    if (sizeof(larder__tray) > left(s))
        return false;
    s->promised += sizeof(larder__tray);
    c->promise += sizeof(larder__tray);
    return true;
}

/* The descriptors go with the first bytes of the answer, so that one is sent at once. */
static int welcome(larder__server *s, larder__server_client *c, bool apart) {
    larder__served *set = c->about.set;
    const larder__agreement *about = &larder__served_about(set)->about;
    larder__welcome m = {.version = c->wire,
                         .job = c->about.job,
                         .arena_bytes = larder__served_arena_bytes(set),
                         .about = *about,
                         .wants_sizes = larder__machine_wants_sizes(larder__served_machine(set))};
    m.streaming = larder__machine_stream(larder__served_machine(set), &m.stream);
    int pins = larder__served_pins_fd(set, c->about.job);
    m.pins = pins >= 0 ? larder__served_about(set)->pins : 0;
    m.sealed = !larder__server_trusts(c->user);
    m.apart = apart;
    int fds[LARDER__FRAME_FDS] = {-1, -1, pins};
    int rc = larder__served_memory(set, m.sealed, fds), count = pins >= 0 ? 3 : 2;
    if (rc < 0)
        return rc;
    if (m.sealed && promise_tray(s, c) &&
        (fds[count] = larder__served_tray(set, c->about.job)) >= 0)
        m.tray = 1, count++;
    s->body.size = 0;
    larder__welcome_write(&m, &s->body);
    if (s->body.code < 0)
        return s->body.code;
    return larder__server_reply_with(s, c, LARDER__MSG_WELCOME, fds, (size_t)count);
}

/* One more job on this data set: it may come to this. */
static int promise_job(larder__server *s, larder__server_client *c, const larder__hello *h,
                       const larder__served *set) {
    uint64_t cost = job_cost(h, larder__machine_policy(larder__served_machine(set)));
    drop_idle(s, cost, set);
    if (cost > left(s))
        return lacking(s, "one more job", cost);
    s->promised += c->promise = cost;
    c->at_once = at_once(h);
    return 0;
}

static int refuse(larder__server *s, larder__server_client *c, const larder__hello *h, int code) {
    larder__server_say(s, "refused %s (pid %u): %s", h->name, h->pid, larder_errmsg());
    return larder__server_refuse(s, c, code);
}

static int take_seat(const larder__server *s, const larder__server_client *c,
                     const larder__served *set) {
    uint32_t all = 0, theirs = 0;
    for (const larder__server_client *o = s->clients; o; o = o->next) {
        all += o->about.set == set;
        theirs += o->about.set == set && o->user == c->user;
    }
    return larder__server_is_room(c->user, all, theirs, LARDER__SERVED_JOBS)
               ? 0
               : larder__fail(LARDER_E_FULL,
                              "of %d jobs that may share a data set none is left for this user",
                              LARDER__SERVED_JOBS);
}

/* The set that it shares, or a new one. */
static int join(larder__server *s, larder__server_client *c, const larder__hello *h,
                const larder__testimony *shown) {
    enum { BATCHES = 16 }; /* that another user's job may hold, or wait for */
    larder__served *set = NULL;
    bool others = false;
    int rc = find_set(s, c, h, shown, &set, &others);
    bool apart = !set && others;
    if (rc == 0 && !set && (rc = open_set(s, h, &set)) == 0)
        larder__served_witness(set)->shown = *shown;
    if (rc == 0)
        rc = take_seat(s, c, set);
    if (rc == 0)
        rc = larder__witness_admit(larder__served_witness(set), owner_of(c));
    if (rc == 0)
        rc = promise_job(s, c, h, set);
    if (rc == 0)
        rc = larder__served_join(set, s->conf.quota, (h->again & LARDER__HELLO_AGAIN) != 0,
                                 h->about.seed, &c->about.job);
    if (rc < 0)
        return refuse(s, c, h, rc);
    if (!larder__server_trusts(c->user))
        larder__served_bound(set, c->about.job, BATCHES * c->at_once);
    c->about.set = set;
    c->wire = h->version;
    c->about.pid = h->pid;
    c->about.since = larder__world_now();
    memcpy(c->about.name, h->name, sizeof c->about.name);
    larder__server_say(s, "job %u joined: %s (pid %u), %llu samples", c->about.job, h->name, h->pid,
                       (unsigned long long)h->about.keys);
    return welcome(s, c, apart);
}

/* Is this user still to be asked what it can read? Not where all share, nor where nobody else comes
 * in whom it could share with. */
static bool asks(const larder__server *s, const larder__server_client *c) {
    return !s->conf.share_data && (lets_others_in(s) || owner_of(c) != geteuid());
}

static int ask_for_proof(larder__server *s, larder__server_client *c, const larder__hello *h) {
    if (!(c->pending = larder__malloc(sizeof *c->pending)))
        return LARDER_E_NOMEM;
    c->pending->hello = *h;
    larder__witness_ask(&c->pending->asked, s->secret, h->identity, h->about.keys);
    s->body.size = 0;
    larder__prove_write(&c->pending->asked, &s->body);
    return larder__server_reply(s, c, LARDER__MSG_PROVE);
}

static int hello(larder__server *s, larder__server_client *c, larder_reader *r) {
    const larder__testimony nothing = {.count = 0};
    larder__hello h;
    larder__served *ours = NULL;
    bool others;
    if (c->about.set || c->berth.ranks || c->pending)
        return larder__fail(LARDER_E_STATE, "it says hello twice");
    int rc = larder__hello_read(&h, r);
    s->body.size = 0;
    if (rc == 0 && (rc = larder__server_reply_with(s, c, LARDER__MSG_COMING, NULL, 0)) < 0)
        return rc; /* it has given up */
    if (rc == 0)
        rc = find_set(s, c, &h, &nothing, &ours, &others);
    if (rc < 0)
        return refuse(s, c, &h, rc);
    return ours || !asks(s, c) ? join(s, c, &h, &nothing) : ask_for_proof(s, c, &h);
}

static int proof(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__hello h = c->pending->hello;
    larder__testimony shown;
    larder__witness_hear(&shown, &c->pending->asked, r);
    larder__free(c->pending);
    c->pending = NULL;
    return join(s, c, &h, &shown);
}

/* What was made and given back since the last batch. */
static int returns(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__returns m;
    int rc = larder__returns_read(&m, r, &s->room);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < m.makes; i++)
        larder__served_made(c->about.set, c->about.job, m.made[i].lease, m.made[i].code);
    for (uint32_t i = 0; i < m.releases; i++)
        larder__served_release(c->about.set, c->about.job, m.released[i]);
    return 0;
}

static void rates(larder__server *s, larder__server_client *c, const larder__op *o) {
    larder__plan_turn p;
    const larder_pace pace = {.read_seconds = o->value[0],
                              .step_seconds = o->value[1],
                              .decode_seconds = o->value[2],
                              .augment_seconds = o->value[3]};
    if (larder__served_rates(c->about.set, c->about.job, &pace, o->value[4], &p))
        larder__server_say(s,
                           "the cache is split %d/%d/%d: %.0f samples/s expected instead of %.0f, "
                           "which %s held up; now it is %s",
                           p.encoded, p.decoded, p.augmented, p.expected, p.before,
                           larder__resource_name(p.held_up_by),
                           larder__resource_name(p.bottleneck));
}

/* No more at once than its memory was reckoned for. */
static int bound(const larder__server_client *c, larder__op *o) {
    bool batch = o->type == LARDER__OP_CLAIM || o->type == LARDER__OP_EXCHANGE;
    if (batch && o->n > c->at_once)
        return larder__fail(LARDER_E_RANGE, "it makes %zu requests at once and had said %u", o->n,
                            c->at_once);
    bool asks = o->type == LARDER__OP_EXCHANGE || o->type == LARDER__OP_PICKS ||
                o->type == LARDER__OP_FETCH;
    if (asks && o->number[0] > c->at_once)
        o->number[0] = c->at_once;
    return 0;
}

/* For people. */
static void count(larder__server_client *c, const larder__op *o, const larder__reply *rows,
                  const larder__outcome *out) {
    if (o->type == LARDER__OP_EPOCH)
        c->about.epoch = o->number[0];
    if (o->type == LARDER__OP_TOUCH) {
        c->about.requests += o->n;
        c->about.hits += o->n;
    }
    larder__client_count(&c->about, rows, out->rows);
    for (size_t i = out->rows; i < out->rows + out->fetched; i++)
        c->about.background += rows[i].kind == LARDER_MISS;
}

/* Operations that are the daemon's own to make are not taken from anybody. */
static bool may_say(uint16_t type) {
    return type != LARDER__OP_JOIN && type != LARDER__OP_LEAVE && type != LARDER__OP_REST &&
           type != LARDER__OP_SHARES && type != LARDER__OP_MADE;
}

static int operation(larder__server *s, larder__server_client *c, uint16_t type, larder_reader *r) {
    larder__op o;
    larder__outcome out = {0};
    if (!may_say(type))
        return larder__fail(LARDER_E_FORMAT, "operation %u is not a client's to say", type);
    int rc = larder__op_read(&o, type, r, larder__served_about(c->about.set)->about.keys, &s->room);
    if (rc == 0)
        rc = bound(c, &o);
    if (rc == 0 && type == LARDER__OP_RATES) {
        rates(s, c, &o);
        return 0;
    }
    if (rc == 0)
        rc = larder__served_apply(c->about.set, c->about.job, &o, &s->body, &out);
    if (rc < 0)
        return rc;
    bool batch = o.type == LARDER__OP_CLAIM || o.type == LARDER__OP_EXCHANGE;
    count(c, &o, batch ? larder__served_replies(&s->body) : NULL,
          batch ? &out : &(larder__outcome){0});
    if (batch)
        return larder__server_reply(s, c, LARDER__MSG_TICKETS);
    bool keys = o.type == LARDER__OP_PICKS || o.type == LARDER__OP_FETCH;
    return keys ? larder__server_reply(s, c, LARDER__MSG_KEYS) : 0;
}

int larder__server_about(larder__server *s, larder__status_conf *out) {
    const larder__client_about **all = larder__calloc(s->count + 1, sizeof *all);
    *out = (larder__status_conf){.sets = s->sets,
                                 .rank_jobs = s->rank_jobs,
                                 .clients = all,
                                 .cache = s->conf.cache,
                                 .promised = s->promised,
                                 .used = s->purse.used,
                                 .uptime = larder__world_now() - s->started};
    if (!all)
        return LARDER_E_NOMEM;
    for (const larder__server_client *o = s->clients; o; o = o->next)
        if (o->about.set)
            all[out->count++] = &o->about;
    return 0;
}

static int status(larder__server *s, larder__server_client *c) {
    larder__status_conf conf;
    int rc = larder__server_about(s, &conf);
    s->body.size = 0;
    if (rc == 0)
        rc = larder__status_write(&conf, &s->body);
    larder__free((void *)(uintptr_t)conf.clients);
    return rc < 0 ? rc : larder__server_reply(s, c, LARDER__MSG_STATUS_IS);
}

int larder__server_hear(larder__server *s, larder__server_client *c, uint16_t type,
                        larder_reader *r) {
    if (type == LARDER__MSG_HELLO)
        return hello(s, c, r);
    if (type == LARDER__MSG_STATUS)
        return status(s, c);
    if (type == LARDER__MSG_JOIN)
        return larder__unix_ranks_join(s, c, r);
    if (c->berth.ranks)
        return larder__unix_ranks_hear(s, c, type, r);
    if (type == LARDER__MSG_PROOF && c->pending)
        return proof(s, c, r);
    if (!c->about.set)
        return larder__fail(LARDER_E_STATE, "it did not say hello");
    if (type == LARDER__MSG_RETURNS)
        return returns(s, c, r);
    if (type == LARDER__MSG_BYTES)
        return larder__served_bytes(c->about.set, c->about.job, r);
    if (type == LARDER__MSG_LAID)
        return larder__served_laid(c->about.set, c->about.job, r);
    return type > LARDER__MSG_OP ? operation(s, c, (uint16_t)(type - LARDER__MSG_OP), r)
                                 : larder__fail(LARDER_E_FORMAT, "message %u is unknown", type);
}
