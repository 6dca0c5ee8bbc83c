/* The nodes: connecting, losing and finding them again, and which of them has which slot. */
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/values_inside.h"

#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

static const double RETRY_FIRST = 0.1, RETRY_MOST = 5; /* seconds between two looks for a node */
static const double MAP_EVERY = 0.3;                   /* between two looks at the map, */
static const double HOLES_EVERY = 1;                   /* of one that lacks slots */

/* ---- nodes ----------------------------------------------------------------------------------- */

larder__node *larder__redis_nodes_at(larder__redis_values *f, uint32_t i) {
    return i < atomic_load(&f->node_count) ? atomic_load(&f->nodes[i]) : NULL;
}

static larder__node *node_new(const char *host, uint16_t port) {
    larder__node *n = larder__calloc(1, sizeof *n);
    if (!n)
        return NULL;
    snprintf(n->host, sizeof n->host, "%s", host);
    n->port = port;
    n->retry_after = RETRY_FIRST;
    pthread_mutex_init(&n->gate, NULL);
    for (int i = 0; i < LARDER__LANES; i++)
        larder__lane_open(&n->lanes[i], n);
    return n;
}

static void node_free(larder__node *n) {
    for (int i = 0; i < LARDER__LANES; i++)
        larder__lane_close(&n->lanes[i]);
    larder__conn_close(&n->writer);
    pthread_mutex_destroy(&n->gate);
    larder__free(n);
}

/* The number of the node of this address, which may be a new one; NO_NODE: too many, no memory. */
static uint16_t node_number(larder__redis_values *f, const char *host, uint16_t port) {
    pthread_mutex_lock(&f->grow);
    uint32_t i = 0, count = atomic_load(&f->node_count);
    for (; i < count; i++) {
        const larder__node *n = atomic_load(&f->nodes[i]);
        if (n->port == port && strcmp(n->host, host) == 0)
            break;
    }
    larder__node *fresh = i == count && i < LARDER__NODES ? node_new(host, port) : NULL;
    if (fresh) {
        atomic_store(&f->nodes[i], fresh);
        atomic_store(&f->node_count, count + 1);
    }
    pthread_mutex_unlock(&f->grow);
    return fresh || i < count ? (uint16_t)i : LARDER__NO_NODE;
}

void larder__node_lose(larder__redis_values *f, larder__node *n, const char *why) {
    pthread_mutex_lock(&n->gate);
    bool first = atomic_exchange(&n->up, false);
    for (uint32_t i = 0; i < f->conf.lanes; i++) {
        atomic_store(&n->lanes[i].up, false);
        larder__conn_cut(&n->lanes[i].conn);
    }
    pthread_mutex_unlock(&n->gate);
    if (!first)
        return;
    if (f->conf.cluster)
        atomic_store(&f->lost_way, true);
    larder__redis_values_count(f, f->stat.lost, 1);
    larder__redis_values_say(f, why);
    larder__redis_writer_wake(f);
}

void larder__redis_nodes_doubt(larder__redis_values *f) {
    if (f->conf.cluster && !atomic_exchange(&f->lost_way, true))
        larder__redis_writer_wake(f);
}

static void lane_take(larder__lane *l, larder__conn *fresh) {
    pthread_mutex_lock(&l->recv);
    larder__lane_drain(l);
    pthread_mutex_lock(&l->send);
    pthread_mutex_lock(&l->node->gate);
    larder__conn old = l->conn;
    l->conn = *fresh;
    l->conn.in.arg = &l->conn;
    atomic_store(&l->up, true);
    pthread_mutex_unlock(&l->node->gate);
    pthread_mutex_unlock(&l->send);
    pthread_mutex_unlock(&l->recv);
    larder__conn_close(&old);
}

/* It can be used, unless one of its new connections is gone already. */
static bool node_up(larder__redis_values *f, larder__node *n) {
    bool whole = true;
    pthread_mutex_lock(&n->gate);
    for (uint32_t i = 0; i < f->conf.lanes; i++)
        whole &= atomic_load(&n->lanes[i].up);
    atomic_store(&n->up, whole);
    pthread_mutex_unlock(&n->gate);
    return whole;
}

/* All connections of a node, or none. */
static int node_connect(larder__redis_values *f, larder__node *n) {
    larder__conn fresh[LARDER__LANES + 1];
    uint32_t count = f->conf.lanes + 1, i;
    int rc = 0;
    for (i = 0; i < count && rc == 0; i++) {
        rc = larder__conn_open(&fresh[i], &f->conf, n->host, n->port,
                               f->conf.cluster && f->conf.replicas);
        if (rc == 0 && fresh[i].loading) {
            larder__conn_close(&fresh[i]);
            rc = larder__fail(LARDER_E_STATE, "%s is still loading its data", fresh[i].name);
        }
    }
    if (rc < 0) {
        while (--i > 0)
            larder__conn_close(&fresh[i - 1]);
        return rc;
    }
    for (i = 0; i < f->conf.lanes; i++)
        lane_take(&n->lanes[i], &fresh[i]);
    larder__conn_close(&n->writer);
    n->writer = fresh[i];
    n->writer.in.arg = &n->writer;
    n->retry_after = RETRY_FIRST;
    if (!node_up(f, n)) /* somebody who was late to notice that it was lost has cut these too */
        return larder__fail(LARDER_E_IO, "%s went away again", n->writer.name);
    if (n->was_up)
        larder__redis_values_count(f, f->stat.found, 1);
    n->was_up = true;
    return 0;
}

/* ---- the map --------------------------------------------------------------------------------- */

larder__node *larder__redis_nodes_find(larder__redis_values *f, const char *key, size_t n,
                                       bool write) {
    if (!f->conf.cluster)
        return larder__redis_nodes_at(f, 0);
    uint16_t slot = larder__redis_slot(key, n);
    larder__node *reader = write ? NULL : larder__redis_nodes_at(f, atomic_load(&f->reader[slot]));
    return reader && atomic_load(&reader->up)
               ? reader
               : larder__redis_nodes_at(f, atomic_load(&f->master[slot]));
}

int larder__redis_nodes_connect(larder__redis_values *f, const char *key, larder__conn *out) {
    larder__conn_close(out);
    const larder__node *n = larder__redis_nodes_find(f, key, strlen(key), true);
    if (!n)
        return larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__conn_open(out, &f->conf, n->host, n->port, false);
    if (rc == 0 && out->loading)
        rc = larder__fail(LARDER_E_STATE, "%s is still loading its data", out->name);
    if (rc < 0) {
        larder__conn_close(out);
        larder__redis_nodes_doubt(f);
    }
    return rc;
}

larder__node *larder__redis_nodes_learn(larder__redis_values *f, const larder__node *from,
                                        const larder__moved *m) {
    if (!f->conf.cluster) {
        larder__redis_values_say(
            f, "this server is one of a cluster: write redis-cluster:// for redis://");
        return NULL;
    }
    uint16_t i = node_number(f, m->host[0] ? m->host : from->host, m->port);
    if (i == LARDER__NO_NODE)
        return NULL;
    larder__node *n = larder__redis_nodes_at(f, i);
    atomic_store(&n->wanted, true);
    if (!m->ask) {
        atomic_store(&f->master[m->slot], i);
        atomic_store(&f->reader[m->slot], i);
        larder__redis_nodes_doubt(f);
    }
    if (!atomic_load(&n->up))
        larder__redis_writer_wake(f);
    return atomic_load(&n->up) ? n : NULL;
}

/* "host port" of CLUSTER SLOTS; a host that is not said is the one that was asked. */
static uint16_t read_node(larder__redis_values *f, const redisReply *r, const char *asked) {
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 ||
        r->element[1]->type != REDIS_REPLY_INTEGER || r->element[1]->integer < 1 ||
        r->element[1]->integer > 65535)
        return LARDER__NO_NODE;
    const redisReply *host = r->element[0];
    bool said = host->type == REDIS_REPLY_STRING && host->len > 0 && host->len < 256 &&
                strcmp(host->str, "?") != 0;
    return node_number(f, said ? host->str : asked, (uint16_t)r->element[1]->integer);
}

/* One range of slots, and how many they are; false: nonsense. */
static bool read_range(larder__redis_values *f, const redisReply *r, const char *asked,
                       long long *count) {
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 3)
        return false;
    const redisReply *a = r->element[0], *b = r->element[1];
    if (a->type != REDIS_REPLY_INTEGER || b->type != REDIS_REPLY_INTEGER || a->integer < 0 ||
        b->integer < a->integer || b->integer >= LARDER__REDIS_SLOTS)
        return false;
    uint16_t master = read_node(f, r->element[2], asked), reader = master;
    if (master == LARDER__NO_NODE)
        return false;
    if (f->conf.replicas && r->elements > 3) {
        uint16_t replica = read_node(f, r->element[3], asked);
        reader = replica == LARDER__NO_NODE ? master : replica;
    }
    atomic_store(&larder__redis_nodes_at(f, master)->wanted, true);
    atomic_store(&larder__redis_nodes_at(f, reader)->wanted, true);
    for (long long s = a->integer; s <= b->integer; s++) {
        atomic_store(&f->master[s], master);
        atomic_store(&f->reader[s], reader);
    }
    *count += b->integer - a->integer + 1;
    return true;
}

static int learn_map(larder__redis_values *f, larder__conn *c, const char *asked) {
    redisReply *r;
    atomic_store(&f->lost_way, false); /* who loses it from here on may know of more than this */
    int rc = larder__conn_ask(c, &r, 2, (const char *const[]){"CLUSTER", "SLOTS"}, NULL);
    if (rc < 0) {
        atomic_store(&f->lost_way, true);
        return rc;
    }
    bool sound = r->type == REDIS_REPLY_ARRAY && r->elements > 0;
    long long slots = 0;
    for (uint32_t i = 0; sound && larder__redis_nodes_at(f, i); i++)
        atomic_store(&larder__redis_nodes_at(f, i)->wanted, false);
    for (size_t i = 0; sound && i < r->elements; i++)
        sound = read_range(f, r->element[i], asked, &slots);
    freeReplyObject(r);
    /* Nobody is asked for what lies in slots that are nobody's: so nobody would say whose they are
     * when they are somebody's. */
    f->holes = sound && slots < LARDER__REDIS_SLOTS;
    if (!sound || f->holes)
        atomic_store(&f->lost_way, true);
    return sound ? 0
                 : larder__fail(LARDER_E_FORMAT,
                                "%s has no slots: is it a cluster, and is it ready?", c->name);
}

/* From those whom the address names. */
static int ask_hosts(larder__redis_values *f) {
    int rc = LARDER_E_IO;
    for (uint32_t i = 0; i < f->conf.host_count && rc < 0; i++) {
        larder__conn c;
        rc = larder__conn_open(&c, &f->conf, f->conf.hosts[i].name, f->conf.hosts[i].port, false);
        if (rc < 0)
            continue;
        rc = learn_map(f, &c, f->conf.hosts[i].name);
        larder__conn_close(&c);
    }
    return rc;
}

/* From whoever answers. Nodes may all have got other addresses while nobody asked for anything:
 * where none is left that we know, it is as at the beginning. */
static void learn_again(larder__redis_values *f) {
    for (uint32_t i = 0; larder__redis_nodes_at(f, i); i++) {
        larder__node *n = larder__redis_nodes_at(f, i);
        if (!atomic_load(&n->up))
            continue;
        if (learn_map(f, &n->writer, n->host) == 0)
            return;
        larder__node_lose(f, n, larder_errmsg());
    }
    if (larder__world_now() < f->hosts_at)
        return;
    ask_hosts(f);
    f->hosts_at = larder__world_now() + RETRY_MOST; /* each may take its time to say nothing */
}

/* ---- opening and tending --------------------------------------------------------------------- */

static int open_cluster(larder__redis_values *f) {
    int rc = ask_hosts(f), first = rc;
    bool any = false;
    for (uint32_t i = 0; rc == 0 && larder__redis_nodes_at(f, i); i++) {
        int there = node_connect(f, larder__redis_nodes_at(f, i));
        any |= there == 0;
        first = first < 0 ? first : there;
    }
    return any ? 0 : first;
}

int larder__redis_nodes_open(larder__redis_values *f) {
    for (int s = 0; s < LARDER__REDIS_SLOTS; s++) {
        atomic_init(&f->master[s], LARDER__NO_NODE);
        atomic_init(&f->reader[s], LARDER__NO_NODE);
    }
    if (f->conf.cluster)
        return open_cluster(f);
    if (node_number(f, f->conf.hosts[0].name, f->conf.hosts[0].port) == LARDER__NO_NODE)
        return LARDER_E_NOMEM;
    larder__node *n = larder__redis_nodes_at(f, 0);
    atomic_store(&n->wanted, true);
    int rc = node_connect(f, n);
    return rc == LARDER_E_STATE && strstr(larder_errmsg(), "loading") ? 0 : rc;
}

void larder__redis_nodes_absent(larder__redis_values *f) {
    for (uint32_t i = 0; i < f->conf.host_count; i++) {
        uint16_t k = node_number(f, f->conf.hosts[i].name, f->conf.hosts[i].port);
        larder__node *n = k == LARDER__NO_NODE ? NULL : larder__redis_nodes_at(f, k);
        if (n)
            atomic_store(&n->wanted, true);
    }
    atomic_store(&f->lost_way, f->conf.cluster);
}

void larder__redis_nodes_close(larder__redis_values *f) {
    for (uint32_t i = 0; larder__redis_nodes_at(f, i); i++)
        node_free(larder__redis_nodes_at(f, i));
    atomic_store(&f->node_count, 0);
}

double larder__redis_nodes_tend(larder__redis_values *f, double now) {
    double next = now + 3600;
    if (f->conf.cluster && atomic_load(&f->lost_way)) {
        if (now >= f->map_at) {
            learn_again(f);
            f->map_at = larder__world_now() + (f->holes ? HOLES_EVERY : MAP_EVERY);
        }
        next = f->map_at;
    }
    for (uint32_t i = 0; larder__redis_nodes_at(f, i); i++) {
        larder__node *n = larder__redis_nodes_at(f, i);
        if (atomic_load(&n->up) || !atomic_load(&n->wanted))
            continue;
        if (now >= n->retry_at) {
            int rc = node_connect(f, n);
            if (rc == 0)
                continue;
            if (rc == LARDER_E_ARGS) /* it is there, and refuses us: another reason than at first */
                larder__redis_values_say(f, larder_errmsg());
            n->retry_at = larder__world_now() + n->retry_after;
            n->retry_after = n->retry_after * 2 < RETRY_MOST ? n->retry_after * 2 : RETRY_MOST;
            if (f->conf.cluster) /* another may have taken its slots over */
                atomic_store(&f->lost_way, true);
        }
        next = n->retry_at < next ? n->retry_at : next;
    }
    return next;
}
#endif
