/* The thread that writes, and that looks for Redis when it is away. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/values_inside.h"

#if LARDER_HAVE_HIREDIS
#include <stdio.h>
#include <string.h>

enum {
    OPS_AT_ONCE = 128,
    BYTES_AT_ONCE = 8 << 20,
    BYTES_QUEUED = 64 << 20, /* what waits to be written takes memory here */
    PARKED_MOST = 1 << 20,
    TRIES = 5
};
static const double LAST_WORDS = 2; /* seconds for what is left at the end */
static const double PARKED = 1;     /* before what was parked is tried again */

/* ---- the queue ------------------------------------------------------------------------------- */

static void ops_push(larder__writes *q, larder__write *op) {
    if (!q->first)
        q->last = &q->first;
    op->next = NULL;
    *q->last = op;
    q->last = &op->next;
    q->count++;
}

static larder__write *ops_pop(larder__writes *q) {
    larder__write *op = q->first;
    if (op) {
        q->first = op->next;
        q->count--;
    }
    return op;
}

/* It is done with, one way or the other. */
static void op_end(larder__write *op, bool stored) {
    if (op->done)
        op->done(op->arg, stored);
    larder_buf_unref(&op->bytes);
    larder__free(op);
}

void larder__redis_writer_wake(larder__redis_values *f) {
    pthread_mutex_lock(&f->lock);
    f->woken = true;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

static bool enqueue(larder__redis_values *f, larder__write *op) {
    size_t bytes = op->bytes ? larder_buf_size(op->bytes) : 0;
    pthread_mutex_lock(&f->lock);
    bool fits = !bytes || f->queued_bytes + bytes <= BYTES_QUEUED || !f->queue.first;
    if (fits) {
        ops_push(&f->queue, op);
        f->queued_bytes += bytes;
        pthread_cond_signal(&f->work);
    }
    pthread_mutex_unlock(&f->lock);
    return fits;
}

void larder__redis_values_put(larder__redis_values *f, const larder__value *v, larder_buf *b,
                              uint32_t ttl, larder__redis_values_done_fn done, void *arg) {
    larder__write *op = larder__malloc(sizeof *op);
    if (op)
        *op = (larder__write){
            .value = *v, .bytes = larder_buf_ref(b), .ttl = ttl, .done = done, .arg = arg};
    if (op && enqueue(f, op))
        return;
    larder__redis_values_count(f, f->stat.refused, 1);
    if (op)
        op_end(op, false);
    else if (done)
        done(arg, false);
}

void larder__redis_values_drop(larder__redis_values *f, const larder__value *v) {
    larder__write *op = larder__malloc(sizeof *op);
    if (!op)
        return; /* Redis forgets it after a while */
    *op = (larder__write){.value = *v};
    enqueue(f, op);
}

bool larder__redis_values_settle(larder__redis_values *f, double seconds) {
    double until = larder__world_now() + seconds;
    pthread_mutex_lock(&f->lock);
    while ((f->queue.first || f->under_way) && larder__world_now() < until) {
        struct timespec t = larder__timespec_of(until);
        pthread_cond_timedwait(&f->settled, &f->lock, &t);
    }
    bool settled = !f->queue.first && !f->under_way;
    pthread_mutex_unlock(&f->lock);
    return settled;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct message { /* one command */
    char before[LARDER__KEY + 96], after[48];
    unsigned char head[LARDER__VALUE_HEAD];
} message;

/* Four pieces at most. */
static int write_message(larder__redis_values *f, larder__write *op, message *m,
                         struct iovec *iov) {
    char key[LARDER__KEY];
    size_t n = larder__redis_values_key(f, &op->value, key);
    int len;
    if (!op->bytes) {
        len = snprintf(m->before, sizeof m->before, "*2\r\n$6\r\nUNLINK\r\n$%zu\r\n%s\r\n", n, key);
        iov[0] = (struct iovec){m->before, (size_t)len};
        return 1;
    }
    size_t size = larder_buf_size(op->bytes);
    len = snprintf(m->before, sizeof m->before, "*%d\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
                   op->ttl ? 5 : 3, n, key, size + LARDER__VALUE_HEAD);
    larder__value_write(m->head, &op->value, larder_buf_data(op->bytes));
    iov[0] = (struct iovec){m->before, (size_t)len};
    iov[1] = (struct iovec){m->head, LARDER__VALUE_HEAD};
    iov[2] = (struct iovec){larder_buf_data(op->bytes), size};
    len = 2;
    if (op->ttl) {
        char ttl[16];
        int digits = snprintf(ttl, sizeof ttl, "%u", op->ttl);
        len = snprintf(m->after, sizeof m->after, "\r\n$2\r\nEX\r\n$%d\r\n%s\r\n", digits, ttl);
    } else
        memcpy(m->after, "\r\n", 2);
    iov[3] = (struct iovec){m->after, (size_t)len};
    return 4;
}

typedef struct round { /* what is written together */
    larder__write *ops[OPS_AT_ONCE];
    larder__node *to[OPS_AT_ONCE];
    message messages[OPS_AT_ONCE];
    struct iovec iov[4 * OPS_AT_ONCE];
    size_t n;
    larder__writes again; /* to be tried once more */
} round_;

static void park(larder__redis_values *f, larder__write *op) {
    pthread_mutex_lock(&f->lock);
    bool room = f->parked.count < PARKED_MOST;
    if (!f->parked.first)
        f->unpark_at = larder__world_now() + PARKED;
    if (room)
        ops_push(&f->parked, op);
    pthread_mutex_unlock(&f->lock);
    if (!room)
        op_end(op, false);
}

/* Not written: deletions are kept for later, bytes are given up. */
static void op_lost(larder__redis_values *f, larder__write *op) {
    if (!op->bytes) {
        park(f, op);
        return;
    }
    larder__redis_values_count(f, f->stat.refused, 1);
    op_end(op, false);
}

/* Redis' answer to one command; negative: nothing more can be said here. */
static int settle_one(larder__redis_values *f, larder__node *n, round_ *r, larder__write *op) {
    larder__resp_reply reply;
    larder__moved m;
    larder__conn_expect(&n->writer, 0);
    int rc = larder__resp_next(&n->writer.in, &reply);
    if (rc == 0 && reply.type != '+' && reply.type != ':' && reply.type != '-')
        rc = larder__fail(LARDER_E_FORMAT, "%s answers with something else", n->writer.name);
    if (rc < 0)
        return rc;
    if (reply.type != '-') {
        if (op->bytes) {
            larder__redis_values_count(f, f->stat.written, 1);
            larder__redis_values_count(f, f->stat.written_bytes, larder_buf_size(op->bytes));
        }
        op_end(op, true);
        return 0;
    }
    if (larder__redis_moved(reply.text, &m)) {
        if (!m.ask) /* a slot that is moving just now takes a moment: later */
            larder__redis_nodes_learn(f, n, &m);
        if (op->tries++ < TRIES && !m.ask) {
            ops_push(&r->again, op);
            return 0;
        }
    } else
        larder__redis_values_say(f, reply.text);
    op_lost(f, op);
    return 0;
}

/* All commands for one node, then all its answers. */
static void write_to(larder__redis_values *f, larder__node *n, round_ *r) {
    int pieces = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->to[i] == n)
            pieces += write_message(f, r->ops[i], &r->messages[i], r->iov + pieces);
    int rc = larder__conn_send(&n->writer, r->iov, pieces);
    for (size_t i = 0; i < r->n; i++) {
        if (r->to[i] != n)
            continue;
        r->to[i] = NULL;
        if (rc == 0)
            rc = settle_one(f, n, r, r->ops[i]);
        if (rc < 0)
            op_lost(f, r->ops[i]);
    }
    if (rc < 0)
        larder__node_lose(f, n, larder_errmsg());
}

static void write_round(larder__redis_values *f, round_ *r) {
    char key[LARDER__KEY];
    for (size_t i = 0; i < r->n; i++) {
        size_t n = larder__redis_values_key(f, &r->ops[i]->value, key);
        larder__node *to = larder__redis_nodes_find(f, key, n, true);
        r->to[i] = to && atomic_load(&to->up) ? to : NULL;
        if (!r->to[i])
            op_lost(f, r->ops[i]);
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->to[i])
            write_to(f, r->to[i], r);
}

/* With the lock held, which is given up meanwhile. */
static void work_off(larder__redis_values *f, round_ *r) {
    uint64_t bytes = 0;
    r->n = 0;
    while (r->n < OPS_AT_ONCE && bytes < BYTES_AT_ONCE && f->queue.first) {
        larder__write *op = r->ops[r->n++] = ops_pop(&f->queue);
        bytes += op->bytes ? larder_buf_size(op->bytes) : 0;
    }
    f->queued_bytes -= bytes;
    f->under_way = r->n;
    pthread_mutex_unlock(&f->lock);
    while (r->n) {
        r->again = (larder__writes){0};
        write_round(f, r);
        for (r->n = 0; r->again.first;)
            r->ops[r->n++] = ops_pop(&r->again);
    }
    pthread_mutex_lock(&f->lock);
    f->under_way = 0;
    if (!f->queue.first)
        pthread_cond_broadcast(&f->settled);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Deletions that waited for a node to come back, or to take them: one that refuses them (it is
 * full, or has become a replica) would else be asked as fast as it answers. Returns when there is
 * something to do again. */
static double unpark(larder__redis_values *f, double next) {
    if (larder__redis_values_away(f))
        return next;
    pthread_mutex_lock(&f->lock);
    bool due = larder__world_now() >= f->unpark_at;
    for (larder__write *op; due && (op = ops_pop(&f->parked));)
        ops_push(&f->queue, op);
    if (f->parked.first && f->unpark_at < next)
        next = f->unpark_at;
    pthread_mutex_unlock(&f->lock);
    return next;
}

static double tend(larder__redis_values *f) {
    double next = larder__redis_nodes_tend(f, larder__world_now());
    next = unpark(f, next);
    larder__lease_renew(f, larder__world_now());
    if (f->lease && f->lease_at < next)
        next = f->lease_at;
    for (uint32_t i = 0; larder__redis_nodes_at(f, i); i++)
        if (larder__sweep_some(f, larder__redis_nodes_at(f, i)))
            next = larder__world_now();
    return next;
}

static void *keep(void *arg) {
    larder__redis_values *f = arg;
    double stop_at = 0;
    round_ *r = larder__malloc(sizeof *r);
    pthread_mutex_lock(&f->lock);
    while (r) {
        if (f->stop && stop_at == 0)
            stop_at = larder__world_now() + LAST_WORDS;
        if (f->stop && (!f->queue.first || larder__world_now() > stop_at))
            break;
        f->woken = false; /* from here on: what is said while it tends would be missed */
        pthread_mutex_unlock(&f->lock);
        double next = stop_at > 0 ? larder__world_now() : tend(f);
        pthread_mutex_lock(&f->lock);
        struct timespec until = larder__timespec_of(next);
        if (f->queue.first)
            work_off(f, r);
        else if (!f->stop && !f->woken && next > larder__world_now())
            pthread_cond_timedwait(&f->work, &f->lock, &until);
    }
    pthread_mutex_unlock(&f->lock);
    larder__lease_end(f);
    larder__free(r);
    return NULL;
}

int larder__redis_writer_start(larder__redis_values *f) {
    if (pthread_create(&f->writer, NULL, keep, f) != 0)
        return larder__fail(LARDER_E_NOMEM, "no thread to write to Redis with");
    f->keeping = true;
    return 0;
}

void larder__redis_writer_stop(larder__redis_values *f) {
    if (!f->keeping)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->writer, NULL);
    f->keeping = false;
    for (larder__write *op; (op = ops_pop(&f->queue)) || (op = ops_pop(&f->parked));)
        op_end(op, false);
}
#endif
