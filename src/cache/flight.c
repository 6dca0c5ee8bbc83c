#include "cache/flight.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#include <assert.h>

void larder__flights_init(larder__flights *f) {
    *f = (larder__flights){0};
    pthread_cond_init(&f->landed, NULL);
}

static void free_chain(larder__flight *at) {
    while (at) {
        larder__flight *next = at->next;
        larder_buf_unref(&at->buf);
        larder__free(at->why);
        larder__free(at);
        at = next;
    }
}

void larder__flights_free(larder__flights *f) {
    for (size_t i = 0; i < f->buckets; i++)
        free_chain(f->bucket[i]);
    free_chain(f->spare);
    larder__free(f->bucket);
    pthread_cond_destroy(&f->landed);
}

static larder__flight **bucket_of(const larder__flights *f, uint64_t key) {
    return &f->bucket[larder__mix64(key) & (f->buckets - 1)];
}

static void list(larder__flight **bucket, larder__flight *at) {
    at->from = bucket;
    at->next = *bucket;
    if (at->next)
        at->next->from = &at->next;
    *bucket = at;
}

/* Room for `flights` of them without long chains. */
static int widen(larder__flights *f, size_t flights) {
    enum { LEAST = 1024 };
    larder__flights wide = {.buckets = f->buckets ? f->buckets : LEAST};
    while (wide.buckets < flights)
        wide.buckets *= 2;
    if (wide.buckets == f->buckets)
        return 0;
    wide.bucket = larder__calloc(wide.buckets, sizeof *wide.bucket);
    if (!wide.bucket)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < f->buckets; i++)
        for (larder__flight *at = f->bucket[i], *next; at; at = next) {
            next = at->next;
            list(bucket_of(&wide, at->key), at);
        }
    larder__free(f->bucket);
    f->bucket = wide.bucket;
    f->buckets = wide.buckets;
    return 0;
}

int larder__flights_reserve(larder__flights *f, size_t n) {
    int rc = widen(f, f->made + (n > f->spares ? n - f->spares : 0));
    if (rc < 0)
        return rc;
    while (f->spares < n) {
        larder__flight *fresh = larder__malloc(sizeof *fresh);
        if (!fresh)
            return LARDER_E_NOMEM;
        fresh->buf = NULL;
        fresh->why = NULL;
        fresh->next = f->spare;
        f->spare = fresh;
        f->spares++;
        f->made++;
    }
    return 0;
}

larder__flight *larder__flights_find(const larder__flights *f, uint64_t key) {
    larder__flight *at = f->buckets ? *bucket_of(f, key) : NULL;
    while (at && at->key != key)
        at = at->next;
    return at;
}

larder__flight *larder__flights_start(larder__flights *f, uint64_t key, uint32_t size, uint8_t form,
                                      bool listed) {
    larder__flight *at = f->spare;
    assert(at && f->spares > 0); /* larder__flights_reserve came before */
    assert(!listed || !larder__flights_find(f, key));
    f->spare = at->next;
    f->spares--;
    at->next = NULL;
    at->key = key;
    at->slot = LARDER_NO_SLOT;
    at->size = size;
    at->refs = 1;
    at->form = at->held = form;
    at->landed = false;
    at->listed = listed;
    at->code = 0;
    at->left = false;
    at->buf = NULL;
    if (listed)
        list(bucket_of(f, key), at);
    return at;
}

larder__flight *larder__flight_join(larder__flight *at) {
    assert(at->refs > 0 && !at->landed);
    at->refs++;
    return at;
}

void larder__flight_detach(larder__flight *at) { at->slot = LARDER_NO_SLOT; }

void larder__flight_forget(larder__flight *at) {
    larder__flight_detach(at);
    if (!at->listed)
        return;
    *at->from = at->next;
    if (at->next)
        at->next->from = at->from;
    at->listed = false;
}

static void release(larder__flights *f, larder__flight *at) {
    assert(at->refs > 0);
    if (--at->refs)
        return;
    assert(at->landed && !at->listed);
    larder_buf_unref(&at->buf);
    larder__free(at->why);
    at->why = NULL;
    at->next = f->spare;
    f->spare = at;
    f->spares++;
}

void larder__flights_land(larder__flights *f, larder__flight *at, larder_buf *buf, uint8_t held,
                          int code, const char *why) {
    assert(!at->landed && (buf || code < 0));
    larder__flight_forget(at);
    at->landed = true;
    at->code = code;
    at->held = held;
    at->buf = buf ? larder_buf_ref(buf) : NULL;
    if (code < 0)
        at->why = larder__strdup(why);
    if (f->waiters)
        pthread_cond_broadcast(&f->landed);
    release(f, at);
}

int larder__flights_wait(larder__flights *f, larder__flight *at, pthread_mutex_t *lock,
                         larder_buf **out, uint8_t *held) {
    f->waiters++;
    while (!at->landed)
        pthread_cond_wait(&f->landed, lock);
    f->waiters--;
    int code = at->code;
    if (code < 0)
        larder__errmsg_set(at->why ? at->why : "out of memory");
    else
        *out = larder_buf_ref(at->buf);
    *held = at->held;
    release(f, at);
    return code;
}
