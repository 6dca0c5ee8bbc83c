#include "redis/job_depot.h"

#include "base/err.h"
#include "base/mem.h"
#include "redis/promise.h"

#include <stdio.h>

typedef struct job_depot {
    larder__far *far;
    uint32_t ttl;
} job_depot;

static void depot_send(void *st, larder_buf **tokens, size_t n, larder__value_of_fn value_of) {
    larder__promise_all(((job_depot *)st)->far, tokens, n, value_of);
}

/* Once more: it may have come since the batch was decided. */
static larder_buf *ask_again(larder__far *far, const larder__value *v, uint8_t *held) {
    larder__errand *again = larder__errand_new(v);
    if (!again)
        return NULL;
    larder__far_send(far, (larder__errand *const[]){again}, 1);
    larder_buf *out = larder__far_receive(far, again);
    if (out)
        *held = larder__errand_held(again);
    larder__errand_unref(&again);
    return out;
}

static bool depot_receive(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    larder__far *far = ((job_depot *)st)->far;
    larder__errand *e = larder__promise_errand(b);
    if (!e)
        return false;
    *out = larder__far_look(far, e);
    if (*out)
        *held = larder__errand_held(e);
    else
        *out = ask_again(far, larder__errand_value(e), held);
    return true;
}

static void depot_put(void *st, const larder__value *v, larder_buf *b, larder__depot_done_fn done,
                      void *arg) {
    larder__far_put(((job_depot *)st)->far, v, b, ((job_depot *)st)->ttl, done, arg);
}

static void depot_drop(void *st, const larder__value *v) {
    larder__far_drop(((job_depot *)st)->far, v);
}

static void depot_note(void *st, char *out, size_t cap) {
    larder__far_note(((job_depot *)st)->far, out, cap);
}

static void depot_close(void **st) {
    job_depot *d = *st;
    *st = NULL;
    if (!d)
        return;
    larder__far *far = d->far; /* those who end meanwhile still ask for it */
    larder__far_close(&far);
    larder__free(d);
}

static const larder__depot_ops ops = {.send = depot_send,
                                      .receive = depot_receive,
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
    larder__far_conf far = {.redis = conf->redis,
                            .identity = conf->identity,
                            .owner = owner,
                            .lease = true,
                            .many = true,
                            .stats = conf->stats};
    int rc = larder__far_open(&d->far, &far);
    if (rc < 0)
        depot_close(&out->state);
    return rc;
}
