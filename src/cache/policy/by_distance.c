#include "cache/policy/by_distance.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

typedef larder__by_distance by_distance;

/* The list is an eighth of all, but for small caches; beyond a quarter more of it is made anew. */
enum { LIST_SHARE = 8, LIST_LEAST = 256, MORE_SHARE = 4, MORE_LEAST = 16 };

int larder__by_distance_init(by_distance *p, const larder_slots *slots, void *block,
                             const uint32_t *counts) {
    p->slots = slots;
    p->counts = counts;
    if (!block && !(block = p->own = larder__calloc(slots->keys, LARDER__BY_DISTANCE_SLOT_SIZE)))
        return LARDER_E_NOMEM;
    p->dist = block;
    p->used = (uint32_t *)(void *)(p->dist + slots->keys);
    p->stale = true;
    p->list =
        larder__malloc((slots->keys + slots->keys / MORE_SHARE + LIST_LEAST) * sizeof *p->list);
    return p->list ? 0 : LARDER_E_NOMEM;
}

void larder__by_distance_fini(by_distance *p) {
    larder__free(p->list);
    larder__free(p->own);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static float wanted(const by_distance *p, uint64_t key, float dist) {
    uint32_t count = p->counts[key];
    return dist > 0 ? dist / (float)(count ? count : 1) : 0;
}

/* A float that is not negative orders as its bits do. */
static uint64_t rank(const by_distance *p, larder_slot s) {
    float w = wanted(p, p->slots->key_of[s], p->dist[s]);
    uint32_t bits;
    memcpy(&bits, &w, sizeof bits);
    return (uint64_t)~bits << 32 | p->used[s];
}

static bool is_valid(const by_distance *p, const larder__leaver *e) {
    return p->slots->key_of[e->slot] != UINT32_MAX && rank(p, e->slot) == e->rank;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const larder__leaver *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The k smallest of n to the front (Hoare), k < n. */
static void part(larder__leaver *e, size_t n, size_t k) {
    size_t lo = 0, hi = n - 1;
    while (lo < hi && lo < k) {
        uint64_t pivot = e[lo + (hi - lo) / 2].rank;
        size_t i = lo, j = hi;
        for (;;) {
            while (e[i].rank < pivot)
                i++;
            while (e[j].rank > pivot)
                j--;
            if (i >= j)
                break;
            larder__leaver t = e[i];
            e[i++] = e[j];
            e[j--] = t;
        }
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
}

static void make_list(by_distance *p) {
    size_t n = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            p->list[n++] = (larder__leaver){rank(p, s), s};
    size_t want = n / LIST_SHARE > LIST_LEAST ? n / LIST_SHARE : LIST_LEAST;
    p->count = want < n ? want : n;
    if (p->count < n)
        part(p->list, n, p->count);
    qsort(p->list, p->count, sizeof *p->list, compare);
    p->bound = p->count < n ? p->list[p->count - 1].rank : UINT64_MAX;
    p->first = p->added = 0;
    p->stale = false;
}

/* A resident has another rank than it had. */
static void note(by_distance *p, larder_slot s) {
    if (p->stale)
        return;
    larder__leaver e = {rank(p, s), s};
    if (e.rank > p->bound)
        return;
    if (p->added++ >= p->count / MORE_SHARE + MORE_LEAST) {
        p->stale = true;
        return;
    }
    size_t lo = p->first, hi = p->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->list[mid].rank < e.rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(p->list + lo + 1, p->list + lo, (p->count - lo) * sizeof *p->list);
    p->list[lo] = e;
    p->count++;
}

static larder_slot farthest(by_distance *p) {
    for (;;) {
        for (; !p->stale && p->first < p->count; p->first++)
            if (is_valid(p, &p->list[p->first]))
                return p->list[p->first].slot;
        make_list(p);
    }
}

/* ---- what happens to residents --------------------------------------------------------------- */

void larder__by_distance_insert(by_distance *p, larder_slot s, float dist) {
    p->dist[s] = isnan(dist) ? 0 : dist;
    p->used[s] = p->clock++;
    note(p, s);
}

void larder__by_distance_hit(by_distance *p, larder_slot s) { larder__by_distance_insert(p, s, 0); }

void larder__by_distance_score(by_distance *p, larder_slot s, float dist) {
    if (isnan(dist) || dist == p->dist[s])
        return;
    p->dist[s] = dist;
    note(p, s);
}

/* What the list says of it is no longer true. */
void larder__by_distance_remove(by_distance *p, larder_slot s) { p->used[s] = p->clock++; }

larder_slot larder__by_distance_farther(by_distance *p, const larder_access *a, double margin) {
    larder_slot s = farthest(p);
    if (p->slots->slot_of[a->key] != LARDER_NO_SLOT)
        return s;
    double theirs = (double)wanted(p, p->slots->key_of[s], p->dist[s]);
    double own = (double)wanted(p, a->key, isnan(a->score) ? 0 : a->score);
    return own * margin > theirs ? LARDER_NO_SLOT : s;
}

/* ---- saving ---------------------------------------------------------------------------------- */

void larder__by_distance_save(const by_distance *p, larder_writer *w) {
    larder_write_u32(w, p->clock);
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX) {
            larder_write_f64(w, p->dist[s]);
            larder_write_u32(w, p->used[s]);
        }
}

int larder__by_distance_load(by_distance *p, larder_reader *r) {
    p->clock = larder_read_u32(r);
    p->stale = true;
    for (larder_slot s = 0; s < p->slots->used; s++) {
        if (p->slots->key_of[s] == UINT32_MAX)
            continue;
        p->dist[s] = (float)larder_read_f64(r);
        p->used[s] = larder_read_u32(r);
        if (isnan(p->dist[s]))
            return larder_read_reject(r, "a distance that is no number");
    }
    return larder_read_status(r);
}
