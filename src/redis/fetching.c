/* Questions for values and their answers. */
#include "base/err.h"
#include "base/mem.h"
#include "redis/values_inside.h"

#if LARDER_HAVE_HIREDIS
#include <stdio.h>
#include <string.h>

/* Up to this size one MGET is faster than many GETs; from here on Redis 7 is slower at it, since it
 * builds the whole answer before it sends any (bench/bench_redis.c). */
static const uint64_t MGET_MOST = 8 << 10;
static const double BYTES_A_SECOND = 1
                                     << 20; /* an answer that comes more slowly than this is late */
enum { HOPS = 4 };
/* Bytes under way on one connection, and at least two answers: Redis works on one while the other
 * is read. More than that make it build up answers in memory, which takes longer than sending them:
 * 28 MB at once come at a quarter of the rate, and on one machine, where answers go from cache to
 * cache, 512 KiB at two thirds of it (bench/bench_redis.c). A network has a way to go besides. */
static uint64_t window(const larder__redis_values *f) {
    return f->conf.path[0] ? 256 << 10 : 512 << 10;
}
enum { AT_LEAST = 2 };
static const uint64_t MGET_BYTES = 256 << 10; /* of one answer */

/* ---- a fetch's life -------------------------------------------------------------------------- */

const larder__value *larder__redis_fetch_value(const larder__redis_fetch *e) { return &e->value; }
uint8_t larder__redis_fetch_held(const larder__redis_fetch *e) {
    return larder__value_held(e->head);
}
void larder__redis_fetch_hold(larder__redis_fetch *e, larder_buf *token) { e->token = token; }
larder_buf *larder__redis_fetch_token(const larder__redis_fetch *e) { return e->token; }

larder__redis_fetch *larder__redis_fetch_new(const larder__value *v) {
    larder__redis_fetch *e = larder__malloc(sizeof *e);
    if (!e)
        return NULL;
    e->value = *v;
    e->hops = 0;
    e->foreign = false;
    e->bytes = NULL;
    e->token = NULL;
    atomic_init(&e->refs, 1);
    atomic_init(&e->state, LARDER__ON_ITS_WAY);
    atomic_init(&e->lane, NULL);
    return e;
}

void larder__redis_fetch_unref(larder__redis_fetch **pe) {
    larder__redis_fetch *e = *pe;
    *pe = NULL;
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    larder_buf_unref(&e->bytes);
    larder_buf_unref(&e->token);
    larder__free(e);
}

static void end(larder__redis_fetch *e, uint32_t state) { atomic_store(&e->state, state); }

/* ---- lanes ----------------------------------------------------------------------------------- */

void larder__lane_open(larder__lane *l, larder__node *n) {
    pthread_mutex_init(&l->send, NULL);
    pthread_mutex_init(&l->recv, NULL);
    l->node = n;
}

void larder__lane_close(larder__lane *l) {
    larder__lane_drain(l);
    larder__conn_close(&l->conn);
    larder__free(l->due);
    larder__free(l->out);
    pthread_mutex_destroy(&l->send);
    pthread_mutex_destroy(&l->recv);
}

static void drain(larder__lane *l) {
    for (; l->count; l->count--, l->head = (l->head + 1) % l->cap) {
        larder__redis_fetch *e = l->due[l->head].fetch;
        if (e)
            end(e, LARDER__NO_ANSWER);
        larder__redis_fetch_unref(&e);
    }
    l->from = l->size = l->sent = 0;
    l->flying = 0;
}

void larder__lane_drain(larder__lane *l) {
    pthread_mutex_lock(&l->send);
    drain(l);
    pthread_mutex_unlock(&l->send);
}

static int room_for_due(larder__lane *l, size_t n) {
    if (l->count + n <= l->cap)
        return 0;
    size_t cap = l->cap ? l->cap : 512;
    while (cap < l->count + n)
        cap *= 2;
    larder__due *more = larder__malloc(cap * sizeof *more);
    if (!more)
        return LARDER_E_NOMEM;
    for (size_t i = 0; l->cap && i < l->count; i++)
        more[i] = l->due[(l->head + i) % l->cap];
    larder__free(l->due);
    l->due = more;
    l->cap = cap;
    l->head = 0;
    return 0;
}

static int room_for_out(larder__lane *l, size_t n) {
    if (l->from && l->size + n > l->room) {
        memmove(l->out, l->out + l->from, l->size - l->from);
        l->size -= l->from;
        l->from = 0;
    }
    if (l->size + n <= l->room)
        return 0;
    size_t room = l->room ? l->room : 32 << 10;
    while (room < l->size + n)
        room *= 2;
    char *more = larder__realloc(l->out, room);
    if (!more)
        return LARDER_E_NOMEM;
    l->out = more;
    l->room = room;
    return 0;
}

static void push(larder__lane *l, larder__redis_fetch *e, uint32_t many, size_t text) {
    uint32_t bytes = e ? e->value.size + LARDER__VALUE_HEAD : 8;
    l->due[(l->head + l->count++) % l->cap] =
        (larder__due){.fetch = e, .many = many, .text = (uint32_t)text, .bytes = bytes};
    if (!e)
        return;
    atomic_fetch_add(&e->refs, 1);
    atomic_store(&e->lane, l);
}

static void append(larder__lane *l, const char *text, size_t n) {
    memcpy(l->out + l->size, text, n);
    l->size += n;
}

static void append_key(larder__lane *l, const char *key, size_t n) {
    char length[24];
    append(l, "$", 1);
    append(l, length, (size_t)(larder__redis_digits(length, n, 10) - length));
    append(l, "\r\n", 2);
    append(l, key, n);
    append(l, "\r\n", 2);
}

/* With send held: notes the question of one fetch. */
static int question(larder__lane *l, larder__redis_fetch *e, const char *key, size_t n,
                    bool asking) {
    static const char GET[] = "*2\r\n$3\r\nGET\r\n", ASKING[] = "*1\r\n$6\r\nASKING\r\n";
    if (room_for_due(l, 2) < 0 || room_for_out(l, n + 96) < 0)
        return LARDER_E_NOMEM;
    if (asking) {
        append(l, ASKING, sizeof ASKING - 1);
        push(l, NULL, 0, sizeof ASKING - 1);
    }
    size_t begun = l->size;
    append(l, GET, sizeof GET - 1);
    append_key(l, key, n);
    push(l, e, 0, l->size - begun);
    return 0;
}

/* With send held: of what was noted as much goes out as may be under way. */
static void flush(larder__redis_values *f, larder__lane *l) {
    size_t text = 0;
    while (l->sent < l->count) {
        const larder__due *d = &l->due[(l->head + l->sent) % l->cap];
        if (d->text && l->sent >= AT_LEAST && l->flying + d->bytes > window(f))
            break;
        text += d->text;
        l->flying += d->bytes;
        l->sent++;
    }
    if (text == 0)
        return;
    int rc = atomic_load(&l->up)
                 ? larder__conn_send(&l->conn, &(struct iovec){l->out + l->from, text}, 1)
                 : LARDER_E_IO;
    l->from += text;
    if (l->from == l->size)
        l->from = l->size = 0;
    /* What is due is lost, and stays in its place: somebody may be reading the answer to the first
     * of it. Whoever waits next, or connects again, drains the lane with recv held. */
    if (rc < 0 && atomic_load(&l->up))
        larder__node_lose(f, l->node, larder_errmsg());
}

/* ---- sending --------------------------------------------------------------------------------- */

/* As many of them in one MGET as its answer may have bytes; how many, or negative. */
static int question_many(larder__redis_values *f, larder__lane *l, larder__redis_fetch *const *e,
                         size_t n) {
    char key[LARDER__KEY], head[48] = "";
    size_t m = 0;
    for (uint64_t bytes = 0; m < n && (m == 0 || bytes + e[m]->value.size <= MGET_BYTES); m++)
        bytes += e[m]->value.size;
    if (room_for_due(l, m + 1) < 0 || room_for_out(l, m * (LARDER__KEY + 24) + 48) < 0)
        return LARDER_E_NOMEM;
    int length = snprintf(head, sizeof head, "*%zu\r\n$4\r\nMGET\r\n", m + 1);
    size_t begun = l->size, first = (l->head + l->count) % l->cap;
    append(l, head, (size_t)length);
    push(l, NULL, (uint32_t)m, 1);
    for (size_t i = 0; i < m; i++) {
        append_key(l, key, larder__redis_values_key(f, &e[i]->value, key));
        push(l, e[i], 0, 0);
    }
    l->due[first].text = (uint32_t)(l->size - begun);
    return (int)m;
}

static int question_all(larder__redis_values *f, larder__lane *l, larder__redis_fetch *const *e,
                        size_t n) {
    int m = 0;
    for (size_t i = 0; i < n && m >= 0; i += (size_t)(m > 0 ? m : 0))
        if ((m = question_many(f, l, e + i, n - i)) < 0)
            for (; i < n; i++)
                end(e[i], LARDER__NO_ANSWER);
    return 0;
}

static bool worth_mget(const larder__redis_values *f, larder__redis_fetch *const *e, size_t n) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += e[i]->value.size;
    return !f->conf.cluster && n > 1 && bytes / n <= MGET_MOST;
}

static larder__lane *lane_for(larder__redis_values *f, larder__redis_fetch *e, uint32_t turn,
                              char *key, size_t *n) {
    *n = larder__redis_values_key(f, &e->value, key);
    larder__node *node = larder__redis_nodes_find(f, key, *n, false);
    return node && atomic_load(&node->up) ? &node->lanes[turn % f->conf.lanes] : NULL;
}

static void send_one_by_one(larder__redis_values *f, larder__redis_fetch *const *e, size_t n,
                            uint32_t turn) {
    char key[LARDER__KEY];
    for (size_t i = 0; i < n; i++) {
        size_t len;
        larder__lane *l = lane_for(f, e[i], turn, key, &len);
        if (l) {
            pthread_mutex_lock(&l->send);
            if (question(l, e[i], key, len, false) < 0)
                end(e[i], LARDER__NO_ANSWER);
            pthread_mutex_unlock(&l->send);
        } else
            end(e[i], LARDER__NO_ANSWER);
    }
    for (uint32_t i = 0; larder__redis_nodes_at(f, i); i++) {
        larder__lane *l = &larder__redis_nodes_at(f, i)->lanes[turn % f->conf.lanes];
        pthread_mutex_lock(&l->send);
        flush(f, l);
        pthread_mutex_unlock(&l->send);
    }
}

void larder__redis_values_send(larder__redis_values *f, larder__redis_fetch *const *e, size_t n) {
    if (n == 0)
        return;
    uint32_t turn = atomic_fetch_add(&f->turn, 1);
    larder__redis_values_count(f, f->stat.asked, n);
    if (!worth_mget(f, e, n)) {
        send_one_by_one(f, e, n, turn);
        return;
    }
    larder__node *node = larder__redis_nodes_at(f, 0);
    larder__lane *l = &node->lanes[turn % f->conf.lanes];
    pthread_mutex_lock(&l->send);
    bool sent = atomic_load(&node->up) && question_all(f, l, e, n) == 0;
    if (sent)
        flush(f, l);
    pthread_mutex_unlock(&l->send);
    for (size_t i = 0; !sent && i < n; i++)
        end(e[i], LARDER__NO_ANSWER);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* The next answer that is to come; sees to it that it was asked for. */
static bool peek(larder__redis_values *f, larder__lane *l, larder__due *out) {
    pthread_mutex_lock(&l->send);
    if (l->sent < l->count && (l->sent < AT_LEAST || l->flying <= window(f) / 2))
        flush(f, l);
    bool any = l->count > 0;
    if (any)
        *out = l->due[l->head];
    pthread_mutex_unlock(&l->send);
    return any;
}

static void pop(larder__lane *l) {
    pthread_mutex_lock(&l->send);
    if (l->count) {
        l->flying -= l->due[l->head].bytes;
        l->head = (l->head + 1) % l->cap;
        l->count--;
        l->sent--;
    }
    pthread_mutex_unlock(&l->send);
}

/* It lies elsewhere: asks there. Holds nothing but the other lane's send while it does. */
static void redirect(larder__redis_values *f, const larder__lane *from, larder__redis_fetch *e,
                     const larder__moved *m) {
    char key[LARDER__KEY];
    larder__node *to = larder__redis_nodes_learn(f, from->node, m);
    if (!to || ++e->hops > HOPS) {
        end(e, LARDER__NO_ANSWER);
        return;
    }
    larder__lane *l = &to->lanes[from - from->node->lanes];
    size_t n = larder__redis_values_key(f, &e->value, key);
    pthread_mutex_lock(&l->send);
    if (question(l, e, key, n, m->ask) < 0)
        end(e, LARDER__NO_ANSWER);
    else
        flush(f, l);
    pthread_mutex_unlock(&l->send);
}

/* Redis has no value but a sentence. Negative: it is of no use at all now. */
static int take_error(larder__redis_values *f, const larder__lane *l, larder__redis_fetch *e,
                      const char *text) {
    larder__moved m;
    if (larder__redis_moved(text, &m)) {
        redirect(f, l, e, &m);
        return 0;
    }
    end(e, LARDER__NO_ANSWER);
    bool useless = strncmp(text, "LOADING", 7) == 0 || strncmp(text, "NOAUTH", 6) == 0 ||
                   strncmp(text, "MASTERDOWN", 10) == 0;
    if (useless)
        return larder__fail(LARDER_E_STATE, "%s: %.120s", l->conn.name, text);
    if (strncmp(text, "CLUSTERDOWN", 11) == 0)
        larder__redis_nodes_doubt(f);
    larder__redis_values_say(f, text);
    return 0;
}

static int take_bytes(larder__conn *c, larder__redis_fetch *e, uint64_t size) {
    int rc = 0;
    uint64_t left = size;
    if (size >= LARDER__VALUE_HEAD) {
        left -= LARDER__VALUE_HEAD;
        larder__conn_expect(c, (double)size / BYTES_A_SECOND);
        rc = larder__resp_bytes(&c->in, e->head, LARDER__VALUE_HEAD);
        if (rc == 0 && larder__value_fits(e->head, &e->value, left) &&
            (e->bytes = larder_buf_new(left))) {
            rc = larder__resp_bytes(&c->in, larder_buf_data(e->bytes), left);
            left = 0;
        } else
            e->foreign = true;
    } else
        e->foreign = true;
    if (rc == 0)
        rc = larder__resp_skip(&c->in, left);
    if (rc == 0)
        rc = larder__resp_tail(&c->in);
    return rc;
}

/* The answer to one fetch. */
static int take_answer(larder__redis_values *f, larder__lane *l, larder__redis_fetch *e) {
    larder__resp_reply r;
    int rc = larder__resp_next(&l->conn.in, &r);
    if (rc < 0)
        return rc;
    if (r.type == '-')
        return take_error(f, l, e, r.text);
    if (r.type != '$')
        return larder__fail(LARDER_E_FORMAT, "%s answers with something else", l->conn.name);
    if (r.number >= 0 && (rc = take_bytes(&l->conn, e, (uint64_t)r.number)) < 0)
        return rc;
    end(e, e->bytes ? LARDER__ARRIVED : LARDER__GONE);
    return 0;
}

/* The head of an MGET's answer, or the word after ASKING. */
static int take_head(larder__redis_values *f, larder__lane *l, uint32_t many) {
    larder__resp_reply r;
    larder__due d;
    int rc = larder__resp_next(&l->conn.in, &r);
    if (rc < 0)
        return rc;
    if (r.type == '-') /* then it is the answer to all of them */
        for (; rc == 0 && many && peek(f, l, &d) && d.fetch; many--) {
            rc = take_error(f, l, d.fetch, r.text);
            pop(l);
            larder__redis_fetch_unref(&d.fetch);
        }
    else if (many ? r.type != '*' || r.number != many : r.type != '+')
        rc = larder__fail(LARDER_E_FORMAT, "%s answers with something else", l->conn.name);
    return rc;
}

/* With recv held: the next answer of this lane. */
static void pump(larder__redis_values *f, larder__lane *l) {
    larder__due d;
    if (!atomic_load(&l->up)) {
        larder__lane_drain(l);
        return;
    }
    if (!peek(f, l, &d))
        return;
    larder__conn_expect(&l->conn, 0);
    int rc;
    if (d.fetch) {
        rc = take_answer(f, l, d.fetch);
        if (rc == 0) {
            pop(l);
            larder__redis_fetch_unref(&d.fetch);
        }
    } else {
        pop(l);
        rc = take_head(f, l, d.many);
    }
    if (rc == 0)
        return;
    larder__node_lose(f, l->node, larder_errmsg());
    larder__lane_drain(l);
}

bool larder__redis_fetch_over(const larder__redis_fetch *e) {
    return atomic_load(&e->state) != LARDER__ON_ITS_WAY;
}

bool larder__redis_fetch_came(const larder__redis_fetch *e) {
    return atomic_load(&e->state) == LARDER__ARRIVED;
}

larder_buf *larder__redis_values_look(larder__redis_values *f, larder__redis_fetch *e) {
    uint32_t state;
    while ((state = atomic_load(&e->state)) == LARDER__ON_ITS_WAY) {
        larder__lane *l = atomic_load(&e->lane);
        pthread_mutex_lock(&l->recv);
        if (atomic_load(&e->state) == LARDER__ON_ITS_WAY && atomic_load(&e->lane) == l)
            pump(f, l);
        pthread_mutex_unlock(&l->recv);
    }
    larder_buf *out = NULL;
    if (state == LARDER__ARRIVED) {
        size_t size = larder_buf_size(e->bytes);
        if (larder__value_sound(e->head, larder_buf_data(e->bytes), size)) {
            out = larder_buf_ref(e->bytes);
            larder__redis_values_count(f, f->stat.bytes, size);
        } else
            e->foreign = true;
    }
    return out;
}

larder_buf *larder__redis_values_receive(larder__redis_values *f, larder__redis_fetch *e) {
    larder_buf *out = larder__redis_values_look(f, e);
    uint32_t state = atomic_load(&e->state);
    if (!out)
        larder__redis_values_count(f,
                                   e->foreign                   ? f->stat.damaged
                                   : state == LARDER__NO_ANSWER ? f->stat.unanswered
                                                                : f->stat.gone,
                                   1);
    return out;
}
#endif
