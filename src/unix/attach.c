#include "unix/attach.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "unix/pins.h"
#include "unix/tickets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the carrier ----------------------------------------------------------------------------- */

static bool there(void *st) { return larder__connection_there(st); }

static void tell(void *st, const larder__op *o) {
    larder__connection *a = st;
    larder__op said = *o;
    if (a->fd < 0)
        return;
    if (o->type == LARDER__OP_EPOCH && o->n * sizeof *o->words > LARDER__EPOCH_MOST)
        said.n = 0; /* it hears it with every batch, as it is refused */
    larder__connection_add(a, &said);
    larder__connection_flush(a);
}

static int read_tickets(larder__connection *a, larder_reader *body, const larder__op *o,
                        larder__replies *out) {
    uint32_t rows = larder_read_u32(body), fetched = larder_read_u32(body);
    uint64_t all = (uint64_t)rows + fetched;
    if (larder_read_status(body) < 0 || rows != o->n || fetched > o->number[0] ||
        larder__read_left(body) != all * sizeof *a->answers)
        return larder__fail(LARDER_E_FORMAT, "the daemon answers a batch with something else");
    int rc = larder__room(&a->answers, &a->answer_room, (size_t)all, sizeof *a->answers);
    if (rc < 0)
        return rc;
    larder_read_bytes(body, a->answers, (size_t)all * sizeof *a->answers);
    *out = (larder__replies){.at = a->answers, .rows = rows, .fetched = fetched};
    return 0;
}

static int read_keys(larder__connection *a, larder_reader *body, const larder__op *o,
                     larder__replies *out) {
    size_t n = larder__read_left(body) / sizeof(uint32_t);
    if (n > o->number[0])
        return larder__fail(LARDER_E_FORMAT, "the daemon names more samples than were asked for");
    int rc = larder__room(&a->keys, &a->key_room, n, sizeof *a->keys);
    for (size_t i = 0; rc == 0 && i < n; i++)
        a->keys[i] = larder_read_u32(body);
    *out = (larder__replies){.keys = a->keys, .rows = n};
    return rc;
}

static bool ask(void *st, const larder__op *o, larder__replies *out) {
    larder__connection *a = st;
    larder_reader body;
    bool batch = o->type == LARDER__OP_CLAIM || o->type == LARDER__OP_EXCHANGE;
    larder__connection_add_returns(a);
    larder__connection_add(a, o);
    int rc = larder__connection_ask(a, batch ? LARDER__MSG_TICKETS : LARDER__MSG_KEYS, &body);
    if (rc < 0)
        return false;
    rc = batch ? read_tickets(a, &body, o, out) : read_keys(a, &body, o, out);
    if (rc < 0)
        larder__connection_lose(a); /* its leases would stay with us */
    return rc == 0;
}

static void look(void *st, larder_slots *out) {
    larder__table_head *table = ((larder__connection *)st)->window.table;
    out->slot_of = (const larder_slot *)(table + 1);
    out->resident = (uint32_t)atomic_load(&table->resident);
    out->bytes = atomic_load(&table->bytes);
    out->budget = atomic_load(&table->budget);
}

static void note(void *st, char *out, size_t cap) {
    snprintf(out, cap, "%s", ((larder__connection *)st)->note);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void detach(void **st) {
    larder__connection *a = *st;
    *st = NULL;
    if (!a)
        return;
    larder__connection_flush(a);
    larder__connection_part(a);
    larder__resident_table_close(&a->window);
    larder__writer_free(&a->out);
    larder__free(a->answers);
    larder__free(a->keys);
    larder__free(a->released);
    larder__free(a->made);
    pthread_mutex_destroy(&a->lists);
    larder__free(a);
}

static const larder__carrier carrier = {.name = "daemon",
                                        .there = there,
                                        .tell = tell,
                                        .ask = ask,
                                        .board = larder__tickets_tickets,
                                        .refuse = larder__tickets_refuse,
                                        .take = larder__pins_take,
                                        .fill = larder__tickets_fill,
                                        .failed = larder__tickets_fail,
                                        .wait = larder__tickets_wait,
                                        .look = look,
                                        .note = note,
                                        .close = detach};

static double probe_attached(const void *arg) {
    return ((const larder__connection *)arg)->fd >= 0 ? 1 : 0;
}

static int show(larder__connection *a) {
    if (!a->stats)
        return 0;
    int rc = larder__stat_counter(a->stats, &a->lost, "daemon_lost", "times",
                                  "the daemon went away and samples came straight from storage");
    if (rc == 0)
        rc = larder__stat_counter(a->stats, &a->found, "daemon_found", "times",
                                  "the daemon came back");
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

static int attempt(void *attachment) { return larder__connection_attach(attachment); }

static int open_attachment(larder__connection *a, const larder__attach_conf *conf) {
    a->stats = conf->stats;
    a->size_of = conf->size_of;
    a->prove = conf->prove;
    a->size_arg = conf->size_arg;
    a->door = conf->door;
    int rc = larder__resident_table_open(&a->window, a->hello.about.keys);
    a->opening = &conf->await;
    if (rc == 0)
        rc = larder__await_there(&conf->await, attempt, a);
    a->opening = NULL;
    if (rc == LARDER__ABSENT) {
        larder__connection_absent(a);
        rc = 0;
    }
    return rc == 0 ? show(a) : rc; /* not before: whoever is refused goes on, and figures stay */
}

/* Requests at once: a batch, within what a daemon takes. */
static uint32_t at_once(uint32_t batch) {
    if (batch > LARDER__AT_ONCE_MOST)
        return LARDER__AT_ONCE_MOST;
    return batch < LARDER__AT_ONCE_LEAST ? LARDER__AT_ONCE_LEAST : batch;
}

static larder__connection *new_attachment(const larder__hello *hello) {
    larder__connection *a = larder__calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->fd = a->window.nothing = -1;
    larder__inbox_init(&a->in);
    pthread_mutex_init(&a->lists, NULL);
    a->hello = *hello;
    a->hello.magic = LARDER__WIRE_MAGIC;
    a->hello.version = larder__speaks.wire;
    a->hello.oldest = larder__speaks.wire_oldest;
    a->hello.pid = (uint32_t)getpid();
    a->hello.at_once = at_once(hello->batch);
    return a;
}

int larder__attach_open(larder__cache **out, const larder__attach_conf *conf) {
    const larder__client_conf about = {.keys = conf->hello.about.keys,
                                       .most = at_once(conf->hello.batch),
                                       .size = conf->hello.size,
                                       .size_of = conf->size_of,
                                       .size_arg = conf->size_arg,
                                       .exchanges = conf->exchanges,
                                       .stats = conf->stats,
                                       .alone = "daemon_unshared"};
    *out = NULL;
    larder__connection *a = new_attachment(&conf->hello);
    int rc = a ? larder__client_new(&a->client, &about) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = open_attachment(a, conf);
    if (rc == 0)
        return larder__client_open(out, a->client, &carrier, a);
    larder__client *client = a ? a->client : NULL;
    detach(&(void *){a});
    larder__client_free(&client);
    return rc;
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
    if (larder__daemon_may_say(rc))
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
