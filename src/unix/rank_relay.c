/* The relay of a job's ranks through the daemon, which keeps what each has said and gives it to
 * whoever waits. */
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "shared/relay_inside.h"
#include "unix/rank_link_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct part { /* of a record that comes in pieces */
    unsigned char *bytes;
    size_t size;
    uint32_t pieces; /* so far */
} part;

typedef struct larder__unix_ranks_relay {
    larder__relay core;
    larder__unix_ranks_link *link;
    part *parts;      /* by rank; the thread's, as what follows */
    uint64_t wished;  /* serial of the wish that the daemon was told; 0: none */
    double wished_at; /* when, until the daemon has noticed; else INFINITY */
    uint32_t missing; /* a rank that has not come, or UINT32_MAX */
    double missing_since;
} ranks_relay;

static void clear_parts(ranks_relay *r) {
    for (uint32_t k = 0; r->parts && k < r->core.world; k++) {
        larder__free(r->parts[k].bytes);
        r->parts[k] = (part){0};
    }
}

/* ---- saying ---------------------------------------------------------------------------------- */

static void write_record(larder_writer *to, const larder__posted *p) {
    size_t pieces = p->size ? (p->size + LARDER__PIECE - 1) / LARDER__PIECE : 1;
    for (size_t i = 0; i < pieces; i++) {
        size_t from = i * LARDER__PIECE, left = p->size - from;
        size_t frame = larder__frame_begin(to, LARDER__MSG_SAY);
        larder_write_u32(to, (uint32_t)p->kind);
        larder_write_u32(to, (uint32_t)i);
        larder_write_u32(to, (uint32_t)pieces);
        larder_write_u64(to, p->number);
        larder_write_bytes(to, p->bytes + from, left < LARDER__PIECE ? left : LARDER__PIECE);
        larder__frame_end(to, frame);
    }
}

static void write_wish(ranks_relay *r, larder_writer *to) {
    larder__relay *c = &r->core;
    pthread_mutex_lock(&c->lock);
    if (c->wish && c->missing && r->wished != c->serial) {
        clear_parts(r);
        r->wished = c->serial;
        r->wished_at = larder__world_now();
        size_t frame = larder__frame_begin(to, LARDER__MSG_WISH);
        larder_write_u32(to, (uint32_t)c->serial);
        larder_write_u32(to, (uint32_t)c->wish_kind);
        larder_write_u64(to, c->wish_number);
        for (uint32_t k = 0; k < c->world; k++)
            if (larder__relay_waits(c, k))
                larder_write_u32(to, k);
        larder__frame_end(to, frame);
    }
    pthread_mutex_unlock(&c->lock);
}

static void write_all(ranks_relay *r, larder_writer *to) {
    bool over;
    for (larder__posted *p; (p = larder__relay_next(&r->core, &over));) {
        if (!over) {
            write_record(to, p);
            larder__relay_sent(&r->core, p);
            continue;
        }
        size_t frame = larder__frame_begin(to, LARDER__MSG_FORGET);
        larder_write_u32(to, (uint32_t)p->kind);
        larder_write_u64(to, p->number);
        larder__frame_end(to, frame);
        larder__relay_take_out(&r->core, p);
    }
    write_wish(r, to);
}

void larder__unix_ranks_relay_write(larder__unix_ranks_link *l, larder_writer *to) {
    pthread_mutex_lock(&l->relaying);
    if (l->relay)
        write_all(l->relay, to);
    pthread_mutex_unlock(&l->relaying);
}

void larder__unix_ranks_relay_attached(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->relaying);
    if (l->relay) {
        larder__relay_unsend(&l->relay->core);
        l->relay->wished = 0;
        l->relay->wished_at = (double)INFINITY;
    }
    pthread_mutex_unlock(&l->relaying);
}

/* ---- hearing --------------------------------------------------------------------------------- */

static int add_piece(part *p, uint32_t piece, uint32_t pieces, larder_reader *from) {
    size_t size = larder__read_left(from);
    if (piece != p->pieces || pieces == 0 || piece >= pieces || size > LARDER__PIECE ||
        p->size + size > LARDER__RECORDS_MOST)
        return larder__fail(LARDER_E_FORMAT, "the daemon gives a record in pieces that do not fit");
    unsigned char *more = larder__realloc(p->bytes, p->size + size + 1);
    if (!more)
        return LARDER_E_NOMEM;
    larder_read_bytes(from, more + p->size, size);
    p->bytes = more;
    p->size += size;
    p->pieces++;
    return 0;
}

static int heard(ranks_relay *r, larder_reader *body) {
    uint32_t serial = larder_read_u32(body), rank = larder_read_u32(body);
    uint32_t piece = larder_read_u32(body), pieces = larder_read_u32(body);
    if (larder_read_status(body) < 0 || rank >= r->core.world)
        return larder__fail(LARDER_E_FORMAT, "the daemon gives a record of nobody");
    if (serial != (uint32_t)r->wished)
        return 0; /* of a wish that was given up */
    part *p = &r->parts[rank];
    int rc = add_piece(p, piece, pieces, body);
    if (rc < 0 || p->pieces < pieces)
        return rc;
    pthread_mutex_lock(&r->core.lock);
    if (r->core.serial == r->wished && larder__relay_waits(&r->core, rank))
        larder__relay_deliver(&r->core, rank, p->bytes, p->size);
    pthread_mutex_unlock(&r->core.lock);
    larder__free(p->bytes);
    *p = (part){0};
    return 0;
}

static int gone(ranks_relay *r, larder_reader *body) {
    uint32_t serial = larder_read_u32(body), rank = larder_read_u32(body);
    uint32_t how = larder_read_u32(body);
    char why[sizeof r->core.why];
    if (larder_read_status(body) < 0)
        return larder_read_status(body);
    if (how == LARDER__RANK_ENDED)
        snprintf(why, sizeof why, LARDER__RELAY_ENDED, rank, r->core.world, r->core.rank);
    else if (how == LARDER__RANK_APART)
        snprintf(why, sizeof why, LARDER__RELAY_COPIES, "");
    else
        snprintf(why, sizeof why,
                 "rank %u of %u is gone: its connection to the daemon has ended without a word, so "
                 "it was killed or has crashed",
                 rank, r->core.world);
    pthread_mutex_lock(&r->core.lock);
    if (serial == (uint32_t)r->core.serial && larder__relay_waits(&r->core, rank))
        larder__relay_give_up(&r->core, LARDER_E_STATE, why);
    pthread_mutex_unlock(&r->core.lock);
    return 0;
}

/* Who has yet to come. */
static int ranks(larder__unix_ranks_link *l, larder_reader *body) {
    uint32_t missing = larder_read_u32(body);
    uint64_t session = larder_read_u64(body);
    if (larder_read_status(body) < 0)
        return larder_read_status(body);
    if (session)
        l->join.session = session;
    ranks_relay *r = l->relay;
    if (!r)
        return 0;
    r->wished_at = (double)INFINITY;
    if (missing != r->missing)
        r->missing_since = larder__world_now();
    r->missing = missing;
    pthread_mutex_lock(&r->core.lock);
    r->core.met |= session != 0;
    if (missing != UINT32_MAX)
        snprintf(r->core.trouble, sizeof r->core.trouble, "rank %u has not come", missing);
    pthread_mutex_unlock(&r->core.lock);
    return 0;
}

int larder__unix_ranks_relay_hear(larder__unix_ranks_link *l, uint16_t type, larder_reader *body) {
    pthread_mutex_lock(&l->relaying);
    int rc = 0;
    if (type == LARDER__MSG_RANKS)
        rc = ranks(l, body);
    else if (type == LARDER__MSG_HEARD && l->relay)
        rc = heard(l->relay, body);
    else if (type == LARDER__MSG_GONE && l->relay)
        rc = gone(l->relay, body);
    pthread_mutex_unlock(&l->relaying);
    return rc;
}

/* ---- patience -------------------------------------------------------------------------------- */

double larder__unix_ranks_relay_since(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->relaying);
    double since = l->relay ? l->relay->wished_at : (double)INFINITY;
    pthread_mutex_unlock(&l->relaying);
    return since;
}

/* Of those that had met one has not found the daemon again. What it said before may have come: the
 * daemon names one of them, and others may be missing too. */
static void judge_missing(ranks_relay *r, double now) {
    larder__relay *c = &r->core;
    char why[sizeof c->why];
    if (!c->met || c->failed || r->missing >= c->world || !c->wish || c->missing == 0 ||
        now - fmax(r->missing_since, c->wished_at) < c->patience)
        return;
    snprintf(why, sizeof why,
             "rank %u of %u has not come back to the daemon for %.0f s: it was killed, or cannot "
             "reach it",
             r->missing, c->world, c->patience);
    larder__relay_give_up(c, LARDER_E_STATE, why);
}

void larder__unix_ranks_relay_judge(larder__unix_ranks_link *l, bool there, const char *trouble) {
    double now = larder__world_now();
    pthread_mutex_lock(&l->relaying);
    larder__relay *c = l->relay ? &l->relay->core : NULL;
    if (c) {
        pthread_mutex_lock(&c->lock);
        if (there)
            c->heard_at = now;
        else
            snprintf(c->trouble, sizeof c->trouble, "%s", trouble);
        larder__relay_judge(c, now, "the daemon");
        if (there)
            judge_missing(l->relay, now);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&l->relaying);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void relay_wake(larder__relay *core) {
    larder__unix_ranks_ring(((ranks_relay *)core)->link->wake);
}

/* What was said last goes still. */
static void relay_stop(larder__relay *core) {
    ranks_relay *r = (ranks_relay *)core;
    larder__unix_ranks_link *l = r->link;
    pthread_mutex_lock(&l->relaying);
    if (l->relay) {
        pthread_mutex_lock(&l->lock);
        if (l->there)
            write_all(r, &l->out);
        larder__unix_ranks_wake(l);
        pthread_mutex_unlock(&l->lock);
    }
    l->relay = NULL;
    pthread_mutex_unlock(&l->relaying);
}

static void relay_free(larder__relay *core) {
    ranks_relay *r = (ranks_relay *)core;
    clear_parts(r);
    larder__free(r->parts);
    larder__free(r);
}

int larder__unix_ranks_relay(larder__relay **out, larder__unix_ranks_link *l) {
    static const larder__relay_ops ops = {relay_wake, relay_stop, relay_free};
    *out = NULL;
    ranks_relay *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    *out = &r->core;
    r->link = l;
    r->missing = UINT32_MAX;
    r->wished_at = (double)INFINITY;
    int rc = larder__relay_init(&r->core, &ops, l->join.rank, l->join.world, l->patience);
    if (rc == 0 && !(r->parts = larder__calloc(l->join.world, sizeof *r->parts)))
        rc = LARDER_E_NOMEM;
    if (rc < 0) {
        larder__relay_close(out);
        return rc;
    }
    pthread_mutex_lock(&l->relaying);
    r->core.met = l->join.session != 0; /* they may have met before there was anything to say */
    l->relay = r;
    pthread_mutex_unlock(&l->relaying);
    return 0;
}
