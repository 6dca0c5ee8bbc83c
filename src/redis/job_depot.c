#include "redis/job_depot.h"

#include "base/err.h"
#include "base/mem.h"
#include "redis/fetch_token.h"

#include <stdio.h>

typedef struct job_depot {
    larder__redis_values *far;
    uint32_t ttl;
} job_depot;

static void depot_send(void *st, larder_buf **tokens, size_t n, larder__value_of_fn value_of) {
    larder__fetch_token_all(((job_depot *)st)->far, tokens, n, value_of);
}

/* Once more: it may have come since the batch was decided. */
static larder_buf *ask_again(larder__redis_values *far, const larder__value *v, uint8_t *held) {
    larder__redis_fetch *again = larder__redis_fetch_new(v);
    if (!again)
        return NULL;
    larder__redis_values_send(far, (larder__redis_fetch *const[]){again}, 1);
    larder_buf *out = larder__redis_values_receive(far, again);
    if (out)
        *held = larder__redis_fetch_held(again);
    larder__redis_fetch_unref(&again);
    return out;
}

static bool depot_receive(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    larder__redis_values *far = ((job_depot *)st)->far;
    larder__redis_fetch *e = larder__fetch_token_of(b);
    if (!e)
        return false;
    *out = larder__redis_values_look(far, e);
    if (*out)
        *held = larder__redis_fetch_held(e);
    else
        *out = ask_again(far, larder__redis_fetch_value(e), held);
    return true;
}

static const larder__value *depot_wanted(larder_buf *b) {
    return larder__redis_fetch_value(larder__fetch_token_of(b));
}

static void depot_again(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    *out = ask_again(((job_depot *)st)->far, depot_wanted(b), held);
}

static void depot_put(void *st, const larder__value *v, larder_buf *b, larder__depot_done_fn done,
                      void *arg) {
    larder__redis_values_put(((job_depot *)st)->far, v, b, ((job_depot *)st)->ttl, done, arg);
}

static void depot_drop(void *st, const larder__value *v) {
    larder__redis_values_drop(((job_depot *)st)->far, v);
}

static void depot_note(void *st, char *out, size_t cap) {
    larder__redis_values_note(((job_depot *)st)->far, out, cap);
}

static void depot_close(void **st) {
    job_depot *d = *st;
    *st = NULL;
    if (!d)
        return;
    larder__redis_values *far = d->far; /* those who end meanwhile still ask for it */
    larder__redis_values_close(&far);
    larder__free(d);
}

static const larder__depot_ops ops = {.send = depot_send,
                                      .receive = depot_receive,
                                      .wanted = depot_wanted,
                                      .again = depot_again,
                                      .put = depot_put,
                                      .drop = depot_drop,
                                      .note = depot_note,
                                      .close = depot_close};

int larder__job_depot_open(larder__depot *out, const larder__job_depot_conf *conf) {
    char owner[64];
    job_depot *d = larder__calloc(1, sizeof *d);
    *out = (larder__depot){.ops = &ops, .state = d};
    if (!d)
        return LARDER_E_NOMEM;
    d->ttl = conf->redis->ttl;
    snprintf(owner, sizeof owner, "j-%s", conf->redis->job);
    larder__redis_values_conf far = {.redis = conf->redis,
                                     .identity = conf->identity,
                                     .owner = owner,
                                     .lease = true,
                                     .many = true,
                                     .stats = conf->stats};
    int rc = larder__redis_values_open(&d->far, &far);
    if (rc < 0)
        depot_close(&out->state);
    return rc;
}
