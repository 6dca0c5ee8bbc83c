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
    larder__shadow shadow[LARDER__RULES];
    double hits[LARDER__RULES]; /* remembered */
    double lambda;
};

int larder__judge_open(larder__judge **out, uint64_t keys, double lambda) {
    const larder_policy *const rules[LARDER__RULES] = {&larder__policy_lru, &larder__policy_lfu,
                                                       &larder__policy_efu, &patient};
    larder__judge *j = *out = larder__calloc(1, sizeof *j);
    if (!j)
        return LARDER_E_NOMEM;
    j->lambda = lambda;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < LARDER__RULES; i++)
        rc = larder__shadow_open(&j->shadow[i], rules[i], keys);
    return rc;
}

void larder__judge_close(larder__judge **pj) {
    larder__judge *j = *pj;
    *pj = NULL;
    for (size_t i = 0; j && i < LARDER__RULES; i++)
        larder__shadow_close(&j->shadow[i]);
    larder__free(j);
}

void larder__judge_access(larder__judge *j, const larder_access *a, uint64_t entries) {
    for (size_t i = 0; i < LARDER__RULES; i++)
        larder__shadow_access(&j->shadow[i], a, entries);
}

uint32_t larder__judge_round(larder__judge *j, uint32_t rule, uint64_t asked, uint64_t entries,
                             double *was, double *other) {
    double keep = exp(-10 * (double)asked / (j->lambda * (double)entries));
    for (uint32_t i = 0; i < LARDER__RULES; i++) {
        j->hits[i] = j->hits[i] * keep + (double)j->shadow[i].hits;
        j->shadow[i].hits = 0;
    }
    uint32_t best = rule;
    for (uint32_t i = 0; i < LARDER__RULES; i++)
        best = j->hits[i] > j->hits[best] ? i : best;
    *was = j->hits[rule];
    *other = j->hits[best];
    return *other - *was > sqrt(*other + *was) ? best : rule;
}

void larder__judge_save(const larder__judge *j, larder_writer *w) {
    for (size_t i = 0; i < LARDER__RULES; i++) {
        larder_write_f64(w, j->hits[i]);
        larder_write_u64(w, j->shadow[i].hits);
        larder__shadow_save(&j->shadow[i], w);
    }
}

int larder__judge_load(larder__judge *j, larder_reader *r) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < LARDER__RULES; i++) {
        j->hits[i] = larder_read_f64(r);
        j->shadow[i].hits = larder_read_u64(r);
        rc = larder__shadow_load(&j->shadow[i], r);
    }
    return rc;
}
