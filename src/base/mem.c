#include "base/mem.h"

#include "base/err.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t countdown; /* 0: off */
static _Atomic int fail_all, failed;

void larder__mem_fail_at(uint64_t n, int all) {
    atomic_store(&failed, 0);
    atomic_store(&fail_all, all);
    atomic_store(&countdown, (int64_t)n);
}

int larder__mem_failed(void) { return atomic_load(&failed); }

static bool deny(size_t bytes) {
    if (atomic_load_explicit(&countdown, memory_order_relaxed) == 0)
        return false;
    int64_t left = atomic_fetch_sub(&countdown, 1);
    if (left == 1 && !atomic_load(&fail_all))
        atomic_store(&countdown, 0);
    else if (left <= 1)
        atomic_store(&countdown, 1);
    if (left > 1)
        return false;
    atomic_store(&failed, 1);
    larder__fail(LARDER_E_NOMEM, "out of memory asking for %zu bytes", bytes);
    return true;
}

/* ---- counting -------------------------------------------------------------------------------- */

static _Thread_local larder__purse *in_hand;
static _Atomic bool anybody_counts; /* spares all others the look at their purse */

static larder__purse *purse(void) {
    return atomic_load_explicit(&anybody_counts, memory_order_relaxed) ? in_hand : NULL;
}

larder__purse *larder__mem_charge(larder__purse *p) {
    larder__purse *before = in_hand;
    if (p)
        atomic_store(&anybody_counts, true);
    in_hand = p;
    return before;
}

static bool holds(const larder__purse *p, uint64_t bytes) {
    return bytes <= p->most - (p->used < p->most ? p->used : p->most);
}

static bool affordable(larder__purse *p, uint64_t bytes) {
    bool can = true;
    for (larder__purse *q = p; q && can; q = q->of)
        while (can && !holds(q, bytes)) {
            in_hand = q;
            can = q->more && q->more(q->arg);
            in_hand = p;
        }
    return can;
}

static void spend(larder__purse *p, uint64_t bytes) {
    for (; p; p = p->of)
        p->used += bytes;
}

bool larder__mem_take(uint64_t bytes) {
    larder__purse *p = purse();
    bool can = affordable(p, bytes);
    if (can)
        spend(p, bytes);
    return can;
}

bool larder__mem_take_spare(uint64_t bytes) {
    for (const larder__purse *p = purse(); p; p = p->of)
        if (!holds(p, bytes))
            return false;
    spend(purse(), bytes);
    return true;
}

void larder__mem_give(uint64_t bytes) {
    for (larder__purse *p = purse(); p; p = p->of)
        p->used -= bytes < p->used ? bytes : p->used;
}

static void *refuse(size_t bytes) {
    larder__fail(LARDER_E_NOMEM, "out of memory asking for %zu bytes", bytes);
    return NULL;
}

/* What was given, counted as it lies in the heap: a little more than was asked for. */
static void *checked(void *p, size_t bytes) {
    if (!p)
        return bytes ? refuse(bytes) : NULL;
    if (purse())
        spend(purse(), malloc_usable_size(p));
    return p;
}

/* ---- allocating ------------------------------------------------------------------------------ */

/* May so many bytes be asked for? */
static bool may_have(size_t bytes) {
    if (deny(bytes))
        return false;
    bool can = affordable(purse(), bytes);
    if (!can)
        refuse(bytes);
    return can;
}

void *larder__malloc(size_t bytes) {
    return may_have(bytes) ? checked(malloc(bytes ? bytes : 1), bytes) : NULL;
}

void *larder__calloc(size_t count, size_t bytes) {
    return may_have(count * bytes)
               ? checked(calloc(count ? count : 1, bytes ? bytes : 1), count * bytes)
               : NULL;
}

void *larder__realloc(void *old, size_t bytes) {
    size_t had = purse() && old ? malloc_usable_size(old) : 0;
    if (!may_have(bytes > had ? bytes - had : 0))
        return NULL;
    void *p = checked(realloc(old, bytes ? bytes : 1), bytes);
    if (p)
        larder__mem_give(had);
    return p;
}

void *larder__memalign(size_t align, size_t bytes) {
    if (!may_have(bytes) || bytes > SIZE_MAX - align)
        return NULL;
    return checked(aligned_alloc(align, (bytes + align - 1) / align * align), bytes);
}

char *larder__strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = larder__malloc(n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

void larder__free(void *p) {
    if (p && purse())
        larder__mem_give(malloc_usable_size(p));
    free(p);
}

void larder_free(void *p) { larder__free(p); }
