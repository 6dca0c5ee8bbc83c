#include "cli/sim_access.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/spec.h"
#include "sim/intervals.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *const usual_policies[] = {"lru",  "lfu",          "lat", "efu",
                                       "hcst", "hcst:guard=1", "kkt", "belady"};
static char *const usual_entries[] = {"5%", "10%", "20%", "50%"};

typedef struct sequence { /* recorded rounds, or plain ids */
    larder__accesses rows;
    bool recorded;
    uint32_t *ids;
    uint64_t count, keys;
} sequence;

static int open_sequence(sequence *s, const char *path) {
    *s = (sequence){.recorded = larder__accesses_probe(path)};
    if (s->recorded) {
        int rc = larder__accesses_read(&s->rows, path);
        s->count = s->rows.count;
        s->keys = s->rows.rows;
        return rc;
    }
    int rc = larder__replay_read(path, &s->ids, &s->count);
    for (uint64_t i = 0; rc == 0 && i < s->count; i++)
        s->keys = s->ids[i] >= s->keys ? (uint64_t)s->ids[i] + 1 : s->keys;
    return rc;
}

static void close_sequence(sequence *s) {
    larder__accesses_free(&s->rows);
    larder__free(s->ids);
}

/* "5000", or "10%" of the rows. */
static int parse_entries(const char *text, uint64_t keys, uint64_t *out) {
    size_t len = strlen(text);
    larder__budget b;
    int rc;
    if (len == 0 || text[len - 1] != '%')
        rc = larder__parse_u64("--entries", text, UINT32_MAX, out);
    else if ((rc = larder__parse_budget(text, &b)) < 0)
        rc = larder__fail_in(rc, "--entries");
    else
        *out = (uint64_t)(b.fraction * (double)keys);
    return rc == 0 && *out == 0
               ? larder__fail(LARDER_E_ARGS,
                              "--entries %s of %llu rows: a cache of no row has no hit to tell of",
                              text, (unsigned long long)keys)
               : rc;
}

static int replay(const larder__sim_access *a, const sequence *s, const char *policy,
                  uint64_t entries, larder__replay_result *out) {
    larder__replay_conf conf = {.ids = s->ids,
                                .count = s->count,
                                .policy = policy,
                                .entries = entries,
                                .batch = a->batch,
                                .seed = a->seed,
                                .stop = a->stop,
                                .rows = s->recorded ? &s->rows : NULL};
    return larder__replay_run(&conf, out);
}

/* ---- hit ratios ------------------------------------------------------------------------------ */

static void json_replay(const char *policy, uint64_t entries, const larder__replay_result *r) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "policy", policy);
    larder__json_u64(&j, "entries", entries);
    larder__json_u64(&j, "accesses", r->accesses);
    larder__json_u64(&j, "hits", r->hits);
    larder__json_f64(&j, "hit_ratio", r->hit_ratio);
    larder__json_u64(&j, "evictions", r->evictions);
    larder__json_open(&j, "switches", '[');
    for (uint64_t i = 0; i < r->switches && i < LARDER__REPLAY_SWITCHES; i++) {
        larder__json_open(&j, NULL, '{');
        larder__json_u64(&j, "round", r->switched[i].round);
        larder__json_text(&j, "to", r->switched[i].to);
        larder__json_f64(&j, "was", r->switched[i].was);
        larder__json_f64(&j, "other", r->switched[i].other);
        larder__json_close(&j, '}');
    }
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
}

static void show_replay(const larder__sim_access *a, const char *policy, uint64_t entries,
                        const larder__replay_result *r) {
    if (a->json)
        json_replay(policy, entries, r);
    else
        printf("%-20s %12llu %12llu %12llu %8.2f%% %12llu %9llu\n", policy,
               (unsigned long long)entries, (unsigned long long)r->accesses,
               (unsigned long long)r->hits, 100 * r->hit_ratio, (unsigned long long)r->evictions,
               (unsigned long long)r->switches);
    fflush(stdout);
}

/* A line a policy and size. */
static int list_replays(const larder__sim_access *a, const sequence *s) {
    int rc = 0;
    if (!a->json)
        printf("%-20s %12s %12s %12s %9s %12s %9s\n", "policy", "entries", "accesses", "hits",
               "ratio", "evictions", "switches");
    for (size_t i = 0; rc == 0 && i < a->policy_count; i++)
        for (size_t k = 0; rc == 0 && k < a->entry_count; k++) {
            uint64_t entries;
            larder__replay_result r;
            if ((rc = parse_entries(a->entries[k], s->keys, &entries)) == 0)
                rc = replay(a, s, a->policies[i], entries, &r);
            if (rc == 0)
                show_replay(a, a->policies[i], entries, &r);
        }
    return rc;
}

static bool applies(const sequence *s, const char *policy) {
    return strcmp(policy, "kkt") != 0 ||
           (s->recorded && (s->rows.left.count || s->rows.scored.count));
}

/* A line a size, a column a policy: the usual ones. */
static int table_replays(const larder__sim_access *a, const sequence *s) {
    enum { COUNT = sizeof usual_policies / sizeof *usual_policies };
    int rc = 0;
    if (!a->json) {
        printf("hits, %% of %llu accesses to %llu rows\n%10s", (unsigned long long)s->count,
               (unsigned long long)s->keys, "entries");
        for (size_t i = 0; i < COUNT; i++)
            printf(" %12s", usual_policies[i]);
        printf("\n");
    }
    for (size_t k = 0; rc == 0 && k < a->entry_count; k++) {
        uint64_t entries;
        if ((rc = parse_entries(a->entries[k], s->keys, &entries)) < 0)
            break;
        if (!a->json)
            printf("%10llu", (unsigned long long)entries);
        for (size_t i = 0; rc == 0 && i < COUNT; i++) {
            larder__replay_result r;
            if (!applies(s, usual_policies[i])) {
                if (!a->json)
                    printf(" %12s", "-");
                continue;
            }
            rc = replay(a, s, usual_policies[i], entries, &r);
            if (rc == 0 && a->json)
                json_replay(usual_policies[i], entries, &r);
            else if (rc == 0)
                printf(" %12.2f", 100 * r.hit_ratio);
            fflush(stdout);
        }
        if (!a->json)
            printf("\n");
    }
    return rc;
}

static int sweep_lambda(const larder__sim_access *a, const sequence *s) {
    larder__sim_access one = *a;
    char specs[64][48], *list[64];
    for (size_t i = 0; i < a->lambda_count && i < 64; i++) {
        snprintf(specs[i], sizeof specs[i], "hcst:lambda=%.30s", a->lambdas[i]);
        list[i] = specs[i];
    }
    one.policies = list;
    one.policy_count = a->lambda_count < 64 ? a->lambda_count : 64;
    return list_replays(&one, s);
}

/* ---- reuse ----------------------------------------------------------------------------------- */

/* By rounds where there are some, else by accesses. */
static void find_quarters(const sequence *s, uint64_t ends[LARDER__QUARTERS]) {
    for (uint64_t q = 1; q <= LARDER__QUARTERS; q++) {
        uint64_t round = s->rows.rounds * q / LARDER__QUARTERS;
        ends[q - 1] = !s->recorded ? s->count * q / LARDER__QUARTERS
                      : round      ? s->rows.round[round - 1].end
                                   : 0;
    }
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void print_reuse(const char *name, const larder__reuse_intervals *r) {
    printf("%-10s %10llu %7.1f%%", name, (unsigned long long)r->accesses,
           percent(r->first, r->accesses));
    for (int i = 0; i < LARDER__LEVELS; i++)
        printf(" %8.1f%%", percent(r->level[i], r->accesses));
    printf("\n");
}

static void print_analysis(const larder__intervals *v) {
    unsigned long long step = v->step;
    printf("reuse intervals, in accesses; %% of the accesses\n%-10s %10s %8s %5s%4llu %5s%4llu "
           "%5s%4llu %9s\n",
           "", "accesses", "first", "<", step, "<", 2 * step, "<", 3 * step, "more");
    print_reuse("run", &v->run);
    for (int q = 0; q < LARDER__QUARTERS; q++)
        print_reuse((const char *[]){"quarter 1", "quarter 2", "quarter 3", "quarter 4"}[q],
                    &v->quarter[q]);
    printf("\nhow much the accesses of a row change; %% of the rows\n%-10s %8s %8s %8s %8s %8s\n",
           "quarters", "0", "1", "2", "3", "more");
    for (int q = 0; q + 1 < LARDER__QUARTERS; q++) {
        printf("%d to %-5d", q + 1, q + 2);
        for (int i = 0; i < LARDER__CHANGES; i++)
            printf(" %7.1f%%", percent(v->change[q][i], v->keys));
        printf("\n");
    }
}

static void json_reuse(larder__json *j, const char *name, const larder__reuse_intervals *r) {
    larder__json_open(j, name, '{');
    larder__json_u64(j, "accesses", r->accesses);
    larder__json_u64(j, "first", r->first);
    larder__json_open(j, "levels", '[');
    for (int i = 0; i < LARDER__LEVELS; i++)
        larder__json_u64(j, NULL, r->level[i]);
    larder__json_close(j, ']');
    larder__json_close(j, '}');
}

static void json_analysis(const larder__intervals *v) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_u64(&j, "step", v->step);
    larder__json_u64(&j, "rows", v->keys);
    json_reuse(&j, "run", &v->run);
    larder__json_open(&j, "quarters", '[');
    for (int q = 0; q < LARDER__QUARTERS; q++)
        json_reuse(&j, NULL, &v->quarter[q]);
    larder__json_close(&j, ']');
    larder__json_open(&j, "changes", '[');
    for (int q = 0; q + 1 < LARDER__QUARTERS; q++) {
        larder__json_open(&j, NULL, '[');
        for (int i = 0; i < LARDER__CHANGES; i++)
            larder__json_u64(&j, NULL, v->change[q][i]);
        larder__json_close(&j, ']');
    }
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
}

static int analyze(const larder__sim_access *a, const sequence *s) {
    uint64_t ends[LARDER__QUARTERS], step = 5000;
    larder__intervals v;
    int rc = a->entry_count ? parse_entries(a->entries[0], s->keys, &step) : 0;
    find_quarters(s, ends);
    if (rc == 0 && s->keys > 64 * s->count + (1 << 20))
        rc = larder__fail(LARDER_E_ARGS, "%s: ids up to %llu in %llu accesses are too sparse",
                          a->path, (unsigned long long)s->keys, (unsigned long long)s->count);
    if (rc == 0)
        rc = larder__intervals_find(&v, s->recorded ? s->rows.ids : s->ids, s->keys, ends, step);
    if (rc == 0 && a->json)
        json_analysis(&v);
    else if (rc == 0)
        print_analysis(&v);
    return rc;
}

int larder__sim_access_run(const larder__sim_access *given) {
    larder__sim_access a = *given;
    sequence s;
    int rc = open_sequence(&s, a.path);
    if (rc == 0 && s.count == 0)
        rc = larder__fail(LARDER_E_ARGS, "%s: the access sequence is empty", a.path);
    if (rc == 0 && a.analyze)
        rc = analyze(&a, &s);
    else if (rc == 0) {
        if (a.entry_count == 0) {
            a.entries = usual_entries;
            a.entry_count = sizeof usual_entries / sizeof *usual_entries;
        }
        rc = a.lambda_count   ? sweep_lambda(&a, &s)
             : a.policy_count ? list_replays(&a, &s)
                              : table_replays(&a, &s);
    }
    close_sequence(&s);
    return rc;
}
