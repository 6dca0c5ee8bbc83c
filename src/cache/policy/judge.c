#include "cache/policy/judge.h"

#include "base/mem.h"
#include "cache/policy/counted.h"
#include "cache/policy/shadow.h"

#include <math.h>

extern const larder_policy larder__policy_lru, larder__policy_lfu, larder__policy_efu;

static larder_slot patient_victim(void *st, const larder_access *incoming) {
    return larder__by_count_lesser(st, incoming->key, 1);
}

static const larder_policy patient = {
    .plugin = {.name = "patient", .state_size = sizeof(larder__by_count)},
    .victim = patient_victim,
    LARDER__COUNTED_OPS,
};

struct larder__judge {
    larder__shadow shadow[LARDER__SIMPLE_RULES];
    double hits[LARDER__RULES]; /* remembered; of kkt: what the cache itself had */
    uint64_t own;               /* hits of the cache itself in this round */
    double lambda;
    uint64_t sample;
    uint32_t thin; /* one in 2^thin keys is followed; NOT_YET: to be found out */
    bool pair;     /* kkt or lru: nobody else is followed, and nothing forgotten */
};

enum { NOT_YET = UINT8_MAX };

static size_t shadows(const larder__judge *j) { return j->pair ? 1 : LARDER__SIMPLE_RULES; }

int larder__judge_open(larder__judge **out, uint64_t keys, double lambda, uint64_t sample) {
    const larder_policy *const rules[LARDER__SIMPLE_RULES] = {
        &larder__policy_lru, &larder__policy_lfu, &larder__policy_efu, &patient};
    larder__judge *j = *out = larder__calloc(1, sizeof *j);
    if (!j)
        return LARDER_E_NOMEM;
    j->lambda = lambda;
    j->sample = sample;
    j->thin = NOT_YET;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < LARDER__SIMPLE_RULES; i++)
        rc = larder__shadow_open(&j->shadow[i], rules[i], keys);
    return rc;
}

void larder__judge_close(larder__judge **pj) {
    larder__judge *j = *pj;
    *pj = NULL;
    for (size_t i = 0; j && i < LARDER__SIMPLE_RULES; i++)
        larder__shadow_close(&j->shadow[i]);
    larder__free(j);
}

void larder__judge_pair(larder__judge *j) { j->pair = true; }

static bool is_followed(const larder__judge *j, uint64_t key) {
    uint64_t h = (key + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return j->thin == 0 || (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> (64 - j->thin) == 0;
}

void larder__judge_access(larder__judge *j, const larder_access *a, uint64_t entries, bool hit) {
    if (j->thin == NOT_YET)
        for (j->thin = 0; entries >> j->thin > j->sample;)
            j->thin++;
    if (!is_followed(j, a->key))
        return;
    j->own += hit;
    for (size_t i = 0; i < shadows(j); i++)
        larder__shadow_access(&j->shadow[i], a, entries >> j->thin);
}

uint32_t larder__judge_round(larder__judge *j, uint32_t rule, uint64_t asked, uint64_t entries,
                             double *was, double *other) {
    double keep = j->pair ? 1 : exp(-10 * (double)asked / (j->lambda * (double)entries));
    for (uint32_t i = 0; i < LARDER__RULES; i++) {
        uint64_t *now = i < LARDER__SIMPLE_RULES ? &j->shadow[i].hits : &j->own;
        j->hits[i] = j->hits[i] * keep + (double)*now;
        *now = 0;
    }
    uint32_t best = rule;
    for (uint32_t i = 0; i < shadows(j); i++)
        best = j->hits[i] > j->hits[best] ? i : best;
    *was = j->hits[rule];
    *other = j->hits[best];
    return *other - *was > sqrt(*other + *was) ? best : rule;
}

void larder__judge_save(const larder__judge *j, larder_writer *w) {
    larder_write_u32(w, j->thin);
    larder_write_u32(w, j->pair);
    larder_write_u64(w, j->own);
    for (size_t i = 0; i < LARDER__RULES; i++)
        larder_write_f64(w, j->hits[i]);
    for (size_t i = 0; i < LARDER__SIMPLE_RULES; i++) {
        larder_write_u64(w, j->shadow[i].hits);
        larder__shadow_save(&j->shadow[i], w);
    }
}

int larder__judge_load(larder__judge *j, larder_reader *r) {
    j->thin = larder_read_u32(r);
    if (j->thin != NOT_YET && j->thin > 63)
        return larder_read_reject(r, "a judge that follows no key");
    j->pair = larder_read_index(r, 2, false) != 0;
    j->own = larder_read_u64(r);
    for (size_t i = 0; i < LARDER__RULES; i++)
        j->hits[i] = larder_read_f64(r);
    int rc = larder_read_status(r);
    for (size_t i = 0; rc == 0 && i < LARDER__SIMPLE_RULES; i++) {
        j->shadow[i].hits = larder_read_u64(r);
        rc = larder__shadow_load(&j->shadow[i], r);
    }
    return rc;
}
