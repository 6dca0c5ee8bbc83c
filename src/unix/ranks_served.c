#include "unix/ranks_served.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "shared/relay_inside.h"
#include "unix/ranks_served_inside.h"

#include <math.h>
#include <poll.h>
#include <string.h>

enum { RANK_JOBS = 32, LEASES_MOST = 1 << 20, UNREAD_MOST = 1 << 30 };

/* ---- coming ---------------------------------------------------------------------------------- */

/* What has left stays for some batches, at most as much as the cache holds; what ranks tell each
 * other takes some of the memory too, but not more than an eighth is kept for it. */
static uint64_t for_records(const larder__server *s, const larder__join *j) {
    enum { A_SAMPLE = 16, A_RANK = 4 << 20 };
    uint64_t eighth = s->conf.cache / 8;
    double records = fmax((double)j->keys * A_SAMPLE, (double)j->world * A_RANK);
    return records < (double)eighth ? (uint64_t)records : eighth;
}

static larder__cost cost_of(const larder__server *s, const larder__join *j) {
    uint64_t mean = j->payload / j->keys + 1;
    double staying = (double)j->turns * j->batch * (double)mean * (j->pixels ? 4 : 1);
    return (larder__cost){.fixed = sizeof(larder__unix_ranks) +
                                   j->world * sizeof(larder__rank_seat) + for_records(s, j),
                          .entries = j->keys,
                          .mean = mean,
                          .slack = larder__cost_slack(j->batch, mean, s->conf.cache),
                          .staying = staying < 1e15 ? (uint64_t)staying : UINT64_MAX};
}

static bool is_seat(const larder__server *s, uint32_t user) {
    uint32_t all = 0, theirs = 0;
    for (const larder__unix_ranks *c = s->rank_jobs; c; c = c->next) {
        all++;
        theirs += c->user == user;
    }
    return larder__server_is_room(user, all, theirs, RANK_JOBS);
}

static int new_session(const larder__join *j, uint64_t *out) {
    *out = j->session;
    while (*out == 0)
        if (larder__world_chance(out, sizeof *out) < 0)
            return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    return 0;
}

static int ranks_open(larder__server *s, const larder__join *j, uint32_t user,
                      larder__unix_ranks **out) {
    uint64_t budget, session;
    if (!is_seat(s, user))
        return larder__fail(LARDER_E_FULL,
                            "of %d distributed jobs, which is the most, none is left for this user",
                            RANK_JOBS);
    const larder__budget asked = {.bytes = j->want};
    uint64_t most = larder__budget_bytes(&asked, j->payload, j->pixels);
    const larder__cost cost = cost_of(s, j);
    int rc = larder__server_budget(s, &cost, most, j->want != UINT64_MAX, &budget);
    if (rc < 0 || (rc = new_session(j, &session)) < 0)
        return rc;
    larder__unix_ranks *ranks = larder__calloc(1, sizeof *ranks + j->world * sizeof *ranks->seats);
    if (!ranks)
        return LARDER_E_NOMEM;
    if ((rc = larder__unix_ranks_values_open(&ranks->values, larder__cost_arena(&cost, budget),
                                             &s->pages, !larder__server_trusts(user))) < 0) {
        larder__free(ranks);
        return rc;
    }
    memcpy(ranks->job, j->job, sizeof ranks->job);
    memcpy(ranks->name, j->name, sizeof ranks->name);
    ranks->fingerprint = j->fingerprint;
    ranks->identity = j->identity;
    ranks->budget = budget;
    ranks->world = j->world;
    ranks->user = user;
    ranks->session = session;
    ranks->again = ranks->met = j->session != 0;
    for (uint32_t k = 0; k < j->world; k++)
        larder__seat_clear(&ranks->seats[k]);
    s->promised += ranks->promise = larder__cost_all(&cost, budget);
    ranks->next = s->rank_jobs;
    s->rank_jobs = *out = ranks;
    return 0;
}

static void ranks_close(larder__server *s, larder__unix_ranks *ranks) {
    larder__unix_ranks **at = &s->rank_jobs;
    while (*at != ranks)
        at = &(*at)->next;
    *at = ranks->next;
    s->promised -= ranks->promise;
    for (uint32_t k = 0; k < ranks->world; k++)
        larder__seat_clear(&ranks->seats[k]);
    if (!s->ending) /* all have hung up */
        larder__arena_vacate(ranks->values.arena);
    larder__unix_ranks_values_close(&ranks->values);
    larder__free(ranks);
}

/* Ranks that have met before look for each other by what they met under; others for one in which
 * their seat is free, and which has never been complete. The latest comes first: an older one may
 * be what is left of a run that hangs. Nobody comes to those that have other bytes, or what one
 * rank lays down would be another's samples, nor to another user's: they write where all read. */
static int find_ranks(larder__server *s, const larder__join *j, uint32_t user,
                      larder__unix_ranks **out) {
    larder__unix_ranks *others = NULL;
    for (larder__unix_ranks *c = s->rank_jobs; c; c = c->next) {
        if (strcmp(c->job, j->job) != 0 || c->fingerprint != j->fingerprint || c->user != user)
            continue;
        if (j->session ? c->session != j->session : c->met || c->apart)
            continue;
        if (c->world != j->world)
            return larder__fail(LARDER_E_STATE,
                                "rank %u counts %u ranks, and those of job %s that are here count "
                                "%u",
                                j->rank, j->world, j->job, c->world);
        bool empty = c->seats[j->rank].state == LARDER__SEAT_EMPTY;
        if (c->identity != j->identity) {
            others = empty && !others ? c : others;
            continue;
        }
        if (empty) {
            *out = c;
            return 0;
        }
        if (j->session)
            return larder__fail(LARDER_E_STATE, "rank %u of job %s has left already", j->rank,
                                j->job);
    }
    if (!others)
        return ranks_open(s, j, user, out);
    others->apart = true; /* those that wait for it hear of it too */
    larder__unix_ranks_tell_gone(s, others, j->rank);
    return larder__fail(LARDER_E_STATE, LARDER__RELAY_COPIES, "");
}

/* The descriptor goes with the first bytes of the answer, so that one is sent at once. */
static int greet(larder__server *s, larder__server_client *c) {
    const larder__unix_ranks *ranks = c->berth.ranks;
    int fd = larder__arena_fd(ranks->values.arena);
    larder__joined m = {.version = c->wire,
                        .arena_bytes = larder__arena_bytes(ranks->values.arena),
                        .budget = ranks->budget};
    s->body.size = 0;
    larder__joined_write(&m, &s->body);
    if (s->body.code < 0)
        return s->body.code;
    return larder__server_reply_with(s, c, LARDER__MSG_JOINED, &fd, 1);
}

/* Memory takes a while, so whoever came meanwhile may have given up. */
static bool has_left(const larder__server_client *c) {
    struct pollfd on = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&on, 1, 0) == 1 && on.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Bytes beside its arena that a job takes, for what its ranks say, hold, have not read and have
 * stored. */
static uint64_t heap_of(const larder__server *s, const larder__unix_ranks *ranks) {
    enum { A_LEASE = 128, A_VALUE = 256 };
    uint64_t sum = ranks->values.count * A_VALUE;
    for (uint32_t k = 0; k < ranks->world; k++)
        sum += ranks->seats[k].record_bytes +
               ranks->seats[k].record_count * sizeof(larder__rank_record);
    for (const larder__server_client *c = s->clients; c; c = c->next)
        if (c->berth.ranks == ranks)
            sum += c->out.cap + c->berth.leases.cap * sizeof(larder__lease) +
                   (uint64_t)c->berth.leases.count * A_LEASE;
    return sum;
}

/* Of what was reckoned for it. Root's and our own may have what there is. */
static uint64_t heap_left(const larder__server *s, const larder__server_client *c) {
    const larder__unix_ranks *ranks = c->berth.ranks;
    if (larder__server_trusts(c->user))
        return UINT64_MAX;
    uint64_t used = larder__arena_bytes(ranks->values.arena) + heap_of(s, ranks);
    return used < ranks->promise ? ranks->promise - used : 0;
}

/* Room for it may be twice as much. */
size_t larder__unix_ranks_unread(const larder__server *s, const larder__server_client *c) {
    uint64_t left = heap_left(s, c) / 2;
    return left < UNREAD_MOST ? c->out.size - c->sent + (size_t)left : UNREAD_MOST;
}

int larder__unix_ranks_join(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__join j;
    larder__unix_ranks *ranks = NULL;
    if (c->about.set || c->berth.ranks)
        return larder__fail(LARDER_E_STATE, "it says hello twice");
    int rc = larder__join_read(&j, r);
    if (rc == 0 && has_left(c))
        return larder__fail(LARDER_E_IO, "it did not wait for an answer");
    if (rc == 0)
        rc = find_ranks(s, &j, c->user, &ranks);
    if (rc < 0 || !ranks) {
        larder__server_say(s, "refused rank %u of job %s (pid %u): %s", j.rank, j.job, j.pid,
                           larder_errmsg());
        return larder__server_refuse(s, c, rc);
    }
    c->berth.ranks = ranks;
    c->berth.rank = j.rank;
    c->wire = j.version;
    c->about.pid = j.pid;
    c->about.since = larder__world_now();
    memcpy(c->about.name, j.name, sizeof c->about.name);
    if ((rc = greet(s, c)) < 0) { /* it was never here */
        c->berth = (larder__berth){0};
        if (ranks->holders == 0)
            ranks_close(s, ranks);
        return rc;
    }
    ranks->seats[j.rank].state = LARDER__SEAT_TAKEN;
    ranks->seats[j.rank].client = c;
    ranks->holders++;
    ranks->met |= ++ranks->there == ranks->world;
    larder__server_say(s, "rank %u of %u of job %s joined: %s (pid %u)", j.rank, j.world, j.job,
                       j.name, j.pid);
    larder__unix_ranks_tell_all(s, ranks);
    return 0;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void drop_lease(larder__leases *l, uint32_t number) {
    larder__free(larder__leases_find(l, number)->making);
    larder__leases_drop(l, number);
}

void larder__unix_ranks_lose(larder__server *s, larder__server_client *c) {
    const larder__berth *b = &c->berth;
    larder__unix_ranks *ranks = b->ranks;
    larder__rank_seat *seat = ranks ? &ranks->seats[b->rank] : NULL;
    if (!seat || seat->client != c)
        return;
    larder__server_say(s, "rank %u of %u of job %s %s (pid %u)", b->rank, ranks->world, ranks->job,
                       b->ended ? "ended" : "is gone", c->about.pid);
    seat->client = NULL;
    ranks->there--;
    seat->state = !ranks->met ? LARDER__SEAT_EMPTY
                  : b->ended  ? LARDER__SEAT_ENDED
                              : LARDER__SEAT_LOST;
    if (!ranks->met)
        larder__seat_clear(seat); /* who comes instead speaks for itself */
    else
        larder__unix_ranks_tell_gone(s, ranks, b->rank);
}

void larder__unix_ranks_leave(larder__server *s, larder__server_client *c) {
    larder__berth *b = &c->berth;
    larder__unix_ranks *ranks = b->ranks;
    if (!ranks)
        return;
    larder__unix_ranks_lose(s, c);
    for (uint32_t i = 0; i < b->leases.cap; i++)
        if (larder__leases_find(&b->leases, i))
            drop_lease(&b->leases, i);
    larder__leases_free(&b->leases);
    larder__free(b->wish);
    *b = (larder__berth){0};
    if (--ranks->holders == 0)
        ranks_close(s, ranks);
}

/* ---- values ---------------------------------------------------------------------------------- */

static int lookup(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__unix_ranks *ranks = c->berth.ranks;
    uint32_t serial = larder_read_u32(r);
    size_t n = larder__read_left(r) / sizeof(larder__wire_value);
    int rc = n > LARDER__LOOKUP_MOST
                 ? larder__fail(LARDER_E_RANGE, "it looks for %zu values at once", n)
                 : larder__leases_reserve(&c->berth.leases, n);
    s->body.size = 0;
    larder_write_u32(&s->body, serial);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        larder__value asked = larder__wire_value_read(r), about;
        if ((rc = larder_read_status(r)) < 0)
            break;
        larder_buf *b = larder__unix_ranks_values_find(&ranks->values, &asked, &about);
        larder__wire_found found = {.lease = LARDER__NO_LEASE};
        bool fits = b && about.size <= asked.size && c->berth.leases.count < LEASES_MOST &&
                    (asked.held == about.held || asked.held == LARDER__ANY_FORM);
        if (fits)
            found = (larder__wire_found){
                .offset = larder__unix_ranks_values_offset(&ranks->values, b),
                .size = about.size,
                .lease = larder__leases_add(&c->berth.leases, larder_buf_ref(b), NULL),
                .held = about.held};
        larder_write_bytes(&s->body, &found, sizeof found);
        c->about.requests++;
        c->about.hits += fits;
    }
    return rc < 0 ? rc : larder__server_reply(s, c, LARDER__MSG_FOUND);
}

/* Room for a value, under a lease that knows its name. */
static int make_room(larder__server_client *c, const larder__value *name, larder__wire_found *out) {
    larder__unix_ranks *ranks = c->berth.ranks;
    int rc = larder__leases_reserve(&c->berth.leases, 1);
    larder__value *making = rc == 0 ? larder__malloc(sizeof *making) : NULL;
    if (!making)
        return rc < 0 ? rc : LARDER_E_NOMEM;
    *making = *name;
    larder_buf *room = larder__unix_ranks_values_room(&ranks->values, name->size);
    if (!room) {
        larder__free(making);
        return 0;
    }
    *out = (larder__wire_found){.offset = larder__unix_ranks_values_offset(&ranks->values, room),
                                .size = name->size,
                                .lease = larder__leases_add(&c->berth.leases, room, making)};
    return 0;
}

static int place(larder__server *s, larder__server_client *c, larder_reader *r) {
    uint32_t serial = larder_read_u32(r);
    larder__value name = larder__wire_value_read(r), about;
    larder__wire_found out = {.lease = LARDER__NO_LEASE};
    int rc = larder_read_status(r);
    if (rc == 0 && name.held == LARDER__ANY_FORM)
        rc = larder__fail(LARDER_E_FORMAT, "a value in any form is none");
    if (rc < 0)
        return rc;
    if (larder__unix_ranks_values_find(&c->berth.ranks->values, &name, &about))
        out.size = 1;
    else
        rc = make_room(c, &name, &out);
    s->body.size = 0;
    larder_write_u32(&s->body, serial);
    larder_write_bytes(&s->body, &out, sizeof out);
    return rc < 0 ? rc : larder__server_reply(s, c, LARDER__MSG_PLACED);
}

static int stored(larder__server_client *c, larder_reader *r) {
    uint32_t number = larder_read_u32(r);
    larder__lease *l = larder__leases_find(&c->berth.leases, number);
    if (larder_read_status(r) < 0 || !l || !l->making)
        return larder__fail(LARDER_E_RANGE, "it stored where it was given no room");
    larder__unix_ranks_values_keep(&c->berth.ranks->values, l->making,
                                   l->buf); /* or it is not kept */
    drop_lease(&c->berth.leases, number);
    return 0;
}

static int release(larder__server_client *c, larder_reader *r) {
    while (larder__read_left(r) && larder_read_status(r) == 0) {
        uint32_t number = larder_read_u32(r);
        if (larder__leases_find(&c->berth.leases, number))
            drop_lease(&c->berth.leases, number);
    }
    return larder_read_status(r);
}

static int drop_values(larder__server_client *c, larder_reader *r) {
    while (larder__read_left(r) && larder_read_status(r) == 0) {
        larder__value name = larder__wire_value_read(r);
        if (larder_read_status(r) == 0)
            larder__unix_ranks_values_drop(&c->berth.ranks->values, &name);
    }
    return larder_read_status(r);
}

/* Does it take memory? */
static bool takes(uint16_t type) {
    return type == LARDER__MSG_LOOKUP || type == LARDER__MSG_PLACE || type == LARDER__MSG_SAY;
}

int larder__unix_ranks_hear(larder__server *s, larder__server_client *c, uint16_t type,
                            larder_reader *r) {
    if (takes(type) && larder__read_left(r) > heap_left(s, c))
        return larder__fail(LARDER_E_FULL,
                            "the ranks of job %s say and hold more than the daemon has memory "
                            "for; start it with a larger --cache",
                            c->berth.ranks->job);
    switch (type) {
    case LARDER__MSG_LOOKUP:
        return lookup(s, c, r);
    case LARDER__MSG_PLACE:
        return place(s, c, r);
    case LARDER__MSG_STORED:
        return stored(c, r);
    case LARDER__MSG_DROP:
        return drop_values(c, r);
    case LARDER__MSG_RELEASE:
        return release(c, r);
    case LARDER__MSG_SAY:
        return larder__unix_ranks_say(s, c, r);
    case LARDER__MSG_FORGET:
        return larder__unix_ranks_forget(c, r);
    case LARDER__MSG_WISH:
        return larder__unix_ranks_wish(s, c, r);
    case LARDER__MSG_BYE:
        c->berth.ended = true;
        return 0;
    default:
        return larder__fail(LARDER_E_FORMAT, "message %u is none of a rank's", type);
    }
}

/* ---- looking in ------------------------------------------------------------------------------ */

static void write_rank(larder__json *j, uint32_t rank, const larder__server_client *c) {
    larder__json_open(j, NULL, '{');
    larder__json_u64(j, "rank", rank);
    larder__json_u64(j, "pid", c->about.pid);
    larder__json_u64(j, "lookups", c->about.requests);
    larder__json_u64(j, "found", c->about.hits);
    larder__json_u64(j, "leases", c->berth.leases.count);
    larder__json_close(j, '}');
}

void larder__unix_rankss_write(const larder__unix_ranks *first, larder__json *j) {
    larder__json_open(j, "rank_jobs", '[');
    for (const larder__unix_ranks *c = first; c; c = c->next) {
        uint64_t records = 0;
        for (uint32_t k = 0; k < c->world; k++)
            records += c->seats[k].record_bytes;
        larder__json_open(j, NULL, '{');
        larder__json_text(j, "job", c->job);
        larder__json_text(j, "name", c->name);
        larder__json_u64(j, "world", c->world);
        larder__json_bool(j, "met", c->met);
        larder__json_u64(j, "budget_bytes", c->budget);
        larder__json_u64(j, "values", c->values.count);
        larder__json_u64(j, "value_bytes", c->values.bytes);
        larder__json_u64(j, "record_bytes", records);
        larder__json_u64(j, "arena_bytes", larder__arena_bytes(c->values.arena));
        larder__json_u64(j, "arena_taken", larder__arena_taken(c->values.arena));
        larder__json_open(j, "ranks", '[');
        for (uint32_t k = 0; k < c->world; k++)
            if (c->seats[k].client)
                write_rank(j, k, c->seats[k].client);
        larder__json_close(j, ']');
        larder__json_close(j, '}');
    }
    larder__json_close(j, ']');
}
