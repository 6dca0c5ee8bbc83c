/* Single flight: entries being made, by key, and those who wait for them. Everything here is
 * called under the cache's lock. */
#ifndef LARDER_CACHE_FLIGHT_H
#define LARDER_CACHE_FLIGHT_H

#include "base/state.h"

#include <pthread.h>

/* Batches are decided well ahead of reading: thousands may be under way, and each is looked for. So
 * one fills a line of the processor's cache, no more. */
typedef struct larder__flight {
    struct larder__flight *next;  /* of the same bucket, or of the spare ones */
    struct larder__flight **from; /* what points here, where it is listed */
    uint64_t key;
    larder_slot slot; /* where the bytes will live; LARDER_NO_SLOT: nowhere */
    uint32_t size;    /* bytes it will have */
    uint32_t refs;    /* the maker's and one for each who waits */
    uint8_t form;     /* larder_form that is wanted */
    uint8_t held;     /* larder_form of `buf`, once landed */
    bool landed, listed;
    int code;
    bool left; /* it had a slot, and whoever was promised the entry still is */
    larder_buf *buf;
    char *why; /* after a failure; NULL: there was no memory for it */
} larder__flight;

typedef struct larder__flights {
    larder__flight **bucket;
    size_t buckets; /* a power of two, no less than `made`: chains stay short; 0: none yet */
    size_t made;    /* flights that exist, spare ones too */
    larder__flight *spare;
    size_t spares;
    uint32_t waiters;
    pthread_cond_t landed;
} larder__flights;

void larder__flights_init(larder__flights *);
void larder__flights_free(larder__flights *);
/* Makes sure that `n` flights can start without allocating. */
int larder__flights_reserve(larder__flights *, size_t n);

larder__flight *larder__flights_find(const larder__flights *, uint64_t key); /* or NULL */
/* `listed`: others find it by its key. */
larder__flight *larder__flights_start(larder__flights *, uint64_t key, uint32_t size, uint8_t form,
                                      bool listed);
larder__flight *larder__flight_join(larder__flight *);
/* It no longer has a slot; whoever waits still gets the bytes. */
void larder__flight_detach(larder__flight *);
/* As detach, and a new flight of the same key may start. */
void larder__flight_forget(larder__flight *);
/* The maker is done: with a buffer of this form, or a code and a sentence. */
void larder__flights_land(larder__flights *, larder__flight *, larder_buf *, uint8_t held, int code,
                          const char *why);
/* Waits for it, releases it: a reference to the bytes and their form, or its code and sentence. */
int larder__flights_wait(larder__flights *, larder__flight *, pthread_mutex_t *lock,
                         larder_buf **out, uint8_t *held);

#endif
