/* What a policy costs: CPU nanoseconds an access, for every registered policy. "cache" is the way
 * every request goes, larder__cache_claim in batches of 256 over the null store; "bare" calls the
 * policy alone over two arrays, whose lines are asked for ahead as the cache does. After each batch
 * training's word on all its keys goes to policies that listen: "score", nanoseconds a key. A
 * million keys, a tenth of them resident, equal sizes. Shown as median/best, since other work on
 * the machine only ever adds. Usage: bench_policy [requests] [policy] */
#include "base/clock.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cache/local.h"
#include "measure.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>

enum { KEYS = 1000000, ENTRIES = KEYS / 10, BATCH = 256, ROUNDS = 5 };

typedef struct trace {
    const char *name;
    size_t n;
    uint32_t *keys;
    uint32_t *next; /* place of the next use, or UINT32_MAX */
} trace;

static void zipf(uint32_t *keys, size_t n, double skew, const uint32_t *id_of, larder_rng *rng) {
    double *up_to = malloc(KEYS * sizeof *up_to), sum = 0;
    for (size_t k = 0; k < KEYS; k++)
        up_to[k] = sum += pow((double)k + 1, -skew);
    for (size_t i = 0; i < n; i++) {
        double at = larder_rng_unit(rng) * sum;
        size_t low = 0, high = KEYS - 1;
        while (low < high) {
            size_t mid = (low + high) / 2;
            if (up_to[mid] <= at)
                low = mid + 1;
            else
                high = mid;
        }
        keys[i] = id_of[low];
    }
    free(up_to);
}

static void shuffle(uint32_t *a, uint32_t n, larder_rng *rng) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = larder_rng_below(rng, i), t = a[i - 1];
        a[i - 1] = a[j];
        a[j] = t;
    }
}

static trace draw(const char *name, size_t n, double skew) {
    trace t = {name, n, malloc(n * sizeof *t.keys), malloc(n * sizeof *t.next)};
    uint32_t *ids = malloc(KEYS * sizeof *ids), *last = malloc(KEYS * sizeof *last);
    larder_rng rng;
    larder_rng_seed(&rng, 1, (uint64_t)(skew * 100));
    for (uint32_t k = 0; k < KEYS; k++) {
        ids[k] = k;
        last[k] = UINT32_MAX;
    }
    shuffle(ids, KEYS, &rng); /* popular ids lie anywhere */
    if (skew > 0)
        zipf(t.keys, n, skew, ids, &rng);
    else
        for (size_t i = 0; i < n; i++) {
            if (i % KEYS == 0)
                shuffle(ids, KEYS, &rng);
            t.keys[i] = ids[i % KEYS];
        }
    for (size_t i = n; i-- > 0; last[t.keys[i]] = (uint32_t)i)
        t.next[i] = last[t.keys[i]];
    free(ids);
    free(last);
    return t;
}

static void request(larder_access *a, const trace *t, size_t i) {
    a->key = t->keys[i];
    a->now = i;
    a->next_use = t->next[i] == UINT32_MAX ? LARDER_UNKNOWN : t->next[i];
    a->tag = LARDER_TAG_HIGH; /* for those who look at tags and scores */
    a->score = (float)(t->keys[i] * 2654435761u >> 8);
}

/* Training's word on every key of the batch; half of what a key is worth is always the same. */
static void score(larder__cache *c, const larder_access *a) {
    uint64_t keys[BATCH];
    float scores[BATCH];
    for (size_t k = 0; k < BATCH; k++) {
        keys[k] = a[k].key;
        scores[k] = (float)(a[k].key * 2654435761u % 1000 + a[k].now * 40503u % 1000);
    }
    larder__cache_score(c, keys, scores, BATCH);
}

/* ---- through the cache ----------------------------------------------------------------------- */

static double through_cache(const larder_policy *p, const larder_args *args, const trace *t,
                            double *hit_ratio, double *scoring) {
    larder__cache_conf conf = {.policy = p,
                               .args = args,
                               .store = &larder__store_null,
                               .keys = KEYS,
                               .budget = ENTRIES,
                               .seed = 1};
    larder__cache *c;
    if (larder__cache_open(&c, &conf) < 0)
        return NAN;
    larder_access a[BATCH] = {0};
    larder__ticket tickets[BATCH];
    for (size_t k = 0; k < BATCH; k++)
        a[k].size = 1;
    size_t warm = t->n / 4 / BATCH * BATCH, end = t->n / BATCH * BATCH;
    double start = 0, scored = 0;
    larder__cache_figures before = {0}, after;
    for (size_t i = 0; i < end; i += BATCH) {
        if (i == warm) {
            larder__cache_read_figures(c, &before);
            start = larder__cpu_seconds();
            scored = 0;
        }
        for (size_t k = 0; k < BATCH; k++)
            request(&a[k], t, i + k);
        larder__cache_claim(c, a, BATCH, tickets);
        if (!LARDER_HAS(p, hears, score))
            continue;
        double now = larder__cpu_seconds();
        score(c, a);
        scored += larder__cpu_seconds() - now;
    }
    double spent = larder__cpu_seconds() - start - scored;
    *scoring = scored / (double)(end - warm) * 1e9;
    larder__cache_read_figures(c, &after);
    *hit_ratio = (double)(after.hits - before.hits) / (double)(end - warm);
    larder__cache_close(&c);
    return spent / (double)(end - warm) * 1e9;
}

/* ---- the policy alone ------------------------------------------------------------------------ */

typedef struct table { /* as little as a policy can run on: equal sizes, no bytes */
    larder_slots slots;
    uint32_t *key_of, *size_of;
    larder_slot *slot_of;
} table;

static bool table_open(table *b, const larder_policy *p) {
    b->key_of = larder__calloc(KEYS, sizeof *b->key_of);
    b->size_of = larder__calloc(KEYS, sizeof *b->size_of);
    b->slot_of = larder__malloc(KEYS * sizeof *b->slot_of);
    b->slots = (larder_slots){.keys = KEYS,
                              .budget = ENTRIES,
                              .key_of = b->key_of,
                              .size_of = b->size_of,
                              .slot_of = b->slot_of,
                              .slot_data = larder__calloc(KEYS, p->slot_size),
                              .key_data = larder__calloc(KEYS, p->key_size)};
    if (!b->key_of || !b->size_of || !b->slot_of || !b->slots.slot_data || !b->slots.key_data)
        return false;
    memset(b->slot_of, 0xff, KEYS * sizeof *b->slot_of);
    return true;
}

static void table_close(table *b) {
    larder__free(b->key_of);
    larder__free(b->size_of);
    larder__free(b->slot_of);
    larder__free(b->slots.slot_data);
    larder__free(b->slots.key_data);
}

static inline void bare_access(table *b, const larder_policy *p, void *st, const larder_access *a) {
    larder_slot s = b->slot_of[a->key];
    if (s != LARDER_NO_SLOT) {
        p->hit(st, s, a);
        return;
    }
    if (p->admit && !p->admit(st, a))
        return;
    if (b->slots.resident < ENTRIES) {
        s = b->slots.used++;
        b->slots.resident++;
    } else {
        s = p->victim(st, a);
        if (s == LARDER_NO_SLOT)
            return;
        p->remove(st, s, true);
        b->slot_of[b->key_of[s]] = LARDER_NO_SLOT;
    }
    b->key_of[s] = (uint32_t)a->key;
    b->slot_of[a->key] = s;
    p->insert(st, s, a);
}

static inline void look_ahead(const table *b, const larder_policy *p, const trace *t, size_t i) {
    enum { FAR = 48, MIDDLE = 24 };
    if (i + FAR >= t->n)
        return;
    __builtin_prefetch(&b->slot_of[t->keys[i + FAR]]);
    if (p->key_size)
        __builtin_prefetch((char *)b->slots.key_data + t->keys[i + FAR] * p->key_size, 1);
    larder_slot s = b->slot_of[t->keys[i + MIDDLE]];
    if (s != LARDER_NO_SLOT)
        __builtin_prefetch((char *)b->slots.slot_data + s * p->slot_size, 1);
}

static double bare(const larder_policy *p, const larder_args *args, const trace *t) {
    table b;
    void *st = larder__calloc(1, p->plugin.state_size);
    double ns = NAN;
    if (table_open(&b, p) && st && p->init(st, &b.slots, args) == 0) {
        larder_rng rng;
        larder_rng_seed(&rng, 1, 1);
        larder_access a = {.size = 1, .rng = &rng};
        double start = 0;
        for (size_t i = 0; i < t->n; i++) {
            if (i == t->n / 4)
                start = larder__cpu_seconds();
            look_ahead(&b, p, t, i);
            request(&a, t, i);
            bare_access(&b, p, st, &a);
        }
        ns = (larder__cpu_seconds() - start) / (double)(t->n - t->n / 4) * 1e9;
        if (p->fini)
            p->fini(st);
    }
    larder__free(st);
    table_close(&b);
    return ns;
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000000;
    trace traces[] = {draw("zipf 1.0", n, 1.0), draw("zipf 0.8", n, 0.8), draw("epochs", n, 0)};
    printf("CPU ns an access (median/best of %d), %d keys, %d resident, %zu requests\n", ROUNDS,
           KEYS, ENTRIES, n);
    printf("%-8s %5s %5s |", "policy", "B/res", "B/key");
    for (int k = 0; k < 3; k++)
        printf("  %-9s cache        bare score  hit %% |", traces[k].name);
    puts("");
    for (size_t p = 0; larder__policies[p]; p++) {
        const larder_policy *policy = larder__policies[p];
        if (argc > 2 && strcmp(argv[2], policy->plugin.name) != 0)
            continue;
        larder_args args;
        if (larder__args_parse(&args, "policy", &policy->plugin, "", ',', NULL) < 0)
            return 1;
        printf("%-8s %5zu %5zu |", policy->plugin.name, policy->slot_size, policy->key_size);
        for (int k = 0; k < 3; k++) {
            double cache[ROUNDS], alone[ROUNDS], scoring[ROUNDS], hits = 0;
            for (int r = 0; r < ROUNDS; r++) {
                cache[r] = through_cache(policy, &args, &traces[k], &hits, &scoring[r]);
                alone[r] = bare(policy, &args, &traces[k]);
            }
            double middle = measure_median(cache, ROUNDS), low = measure_median(alone, ROUNDS);
            printf("  %5.1f /%5.1f %5.1f /%5.1f %5.1f %6.2f |", middle, cache[0], low, alone[0],
                   measure_median(scoring, ROUNDS), 100 * hits);
            fflush(stdout);
        }
        puts("");
        larder__args_free(&args);
    }
    for (int k = 0; k < 3; k++) {
        free(traces[k].keys);
        free(traces[k].next);
    }
    return 0;
}
