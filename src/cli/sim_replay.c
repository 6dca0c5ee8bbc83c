#include "cli/sim_replay.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/spec.h"
#include "cli/sim_show.h"
#include "cli/tape_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct session {
    const larder__sim_replay *a;
    larder__tape tape;
    larder__feed_rates rates;
    uint64_t epochs;
} session;

/* ---- output ---------------------------------------------------------------------------------- */

static void print_head(void) {
    printf("\n%-30s %8s %8s %8s %8s %8s %9s %8s %8s\n", "", "cache", "hits", "subst.", "repeats",
           "misses", "MB read", "time s", "waiting");
}

static void print_row(const char *name, const char *cache, const larder_figures *t, double seconds,
                      double waited) {
    double n = t->served ? (double)t->served : 1;
    char time[16] = "-", wait[16] = "-";
    if (seconds > 0) {
        snprintf(time, sizeof time, "%.1f", seconds);
        snprintf(wait, sizeof wait, "%.0f%%", 100 * waited / seconds);
    }
    char shown_name[256], shown_cache[512]; /* as a record says them, which is anybody's */
    larder__shown(shown_name, sizeof shown_name, name);
    larder__shown(shown_cache, sizeof shown_cache, cache);
    printf("%-30s %8s %7.2f%% %7.2f%% %7.2f%% %7.2f%% %9.1f %8s %8s\n", shown_name, shown_cache,
           100 * (double)t->hits / n, 100 * (double)t->substitutes / n,
           100 * (double)t->repeats / n, 100 * (double)t->misses / n,
           (double)t->storage_bytes / 1e6, time, wait);
    fflush(stdout);
}

static void json_row(const session *s, const char *kind, const char *name, const char *cache,
                     const larder__sim_result *r) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, kind, name);
    larder__json_text(&j, "cache", cache);
    larder__json_u64(&j, "n", r->n);
    larder__json_u64(&j, "seed", s->tape.job.seed);
    larder__json_open(&j, "epochs", '[');
    for (uint64_t e = 0; e < r->count; e++) {
        larder__json_open(&j, NULL, '{');
        larder__json_u64(&j, "epoch", r->epochs[e].epoch);
        larder__sim_json_figures(&j, &r->epochs[e], r->forms, r->tiers);
        larder__json_close(&j, '}');
    }
    larder__json_close(&j, ']');
    larder__json_open(&j, "total", '{');
    larder__sim_json_figures(&j, &r->total, r->forms, r->tiers);
    larder__json_f64(&j, "hit_ratio", r->hit_ratio);
    larder__json_f64(&j, "seconds", r->seconds > 0 ? r->seconds : (double)NAN);
    larder__json_f64(&j, "waited", r->seconds > 0 ? r->waited : (double)NAN);
    larder__json_close(&j, '}');
    larder__json_close(&j, '}');
    fflush(stdout);
}

/* ---- running --------------------------------------------------------------------------------- */

/* As JSON, or as a row of the table that `row` names: a policy says there that requests stay. */
static int show(const session *s, const char *kind, const char *name, const char *row,
                const char *cache, larder__sim_result *r) {
    if (r->says[0])
        fprintf(stderr, "larder sim: %s\n", r->says);
    if (s->a->json)
        json_row(s, kind, name, cache, r);
    else
        print_row(row, cache, &r->total, r->seconds, r->waited);
    larder__sim_free(r);
    return 0;
}

static int run_recipe(const session *s, const char *recipe, const char *cache) {
    larder__sim_result r;
    larder__sim_conf conf = {.recipe = recipe,
                             .cache = cache,
                             .tape = &s->tape,
                             .epochs = s->epochs,
                             .batch = s->tape.job.batch,
                             .seed = s->tape.job.seed,
                             .size = 1,
                             .stop = s->a->stop};
    int rc = larder__sim_run(&conf, &r);
    return rc < 0 ? rc : show(s, "recipe", recipe, recipe, cache, &r);
}

static int run_policy(const session *s, const char *policy, const char *cache) {
    larder__sim_result r;
    char name[128];
    int rc = larder__sim_requests(&s->tape, policy, cache, s->a->stop, &r);
    snprintf(name, sizeof name, "%.80s, same requests", policy);
    return rc < 0 ? rc : show(s, "policy", policy, name, cache, &r);
}

/* The usual two, unless they were asked for anyway. */
static int run_bounds(const session *s, const char *cache) {
    static const char *const bounds[] = {"minio", "belady"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        bool asked = false;
        for (size_t k = 0; k < s->a->policy_count; k++)
            asked |= strcmp(s->a->policies[k], bounds[i]) == 0;
        if (!asked)
            rc = run_policy(s, bounds[i], cache);
    }
    return rc;
}

static int run_cache(const session *s, const char *cache) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->a->recipe_count; i++)
        rc = run_recipe(s, s->a->recipes[i], cache);
    if (!s->a->recipe_count && !s->a->policy_count)
        rc = run_recipe(s, s->tape.job.recipe, cache);
    for (size_t i = 0; rc == 0 && i < s->a->policy_count; i++)
        rc = run_policy(s, s->a->policies[i], cache);
    return rc == 0 && !strchr(cache, ':') ? run_bounds(s, cache) : rc;
}

/* What was measured, as a row among the others. */
static void print_recorded(const session *s) {
    larder_figures sum = {0};
    for (uint64_t e = 0; e < s->tape.epoch_count; e++) {
        const larder_figures *f = &s->tape.epochs[e].figures;
        sum.served += f->served, sum.hits += f->hits, sum.substitutes += f->substitutes;
        sum.repeats += f->repeats, sum.misses += f->misses;
        sum.storage_bytes += f->storage_bytes;
    }
    char name[64];
    snprintf(name, sizeof name, "%.40s, measured", s->tape.job.recipe);
    print_row(name, s->tape.job.cache, &sum, s->rates.seconds, s->rates.waited);
}

int larder__sim_replay_run(const larder__sim_replay *a) {
    session s = {.a = a};
    int rc = larder__tape_read(&s.tape, a->path);
    if (rc < 0)
        return rc;
    s.rates = larder__feed_measure(&s.tape);
    s.epochs = a->epochs ? a->epochs : s.tape.epoch_count ? s.tape.epoch_count : 1;
    if (s.tape.torn[0])
        fprintf(stderr, "larder sim: %s\n", s.tape.torn);
    if (s.tape.count == 0)
        rc = larder__fail(LARDER_E_FORMAT, "%s: holds no batch", a->path);
    if (rc == 0 && !a->json) {
        larder__tape_print(&s.tape, &s.rates);
        print_head();
        print_recorded(&s);
    }
    const char *own[1] = {
        strchr(s.tape.job.cache, ':') && s.tape.job.cache[0] == 'u' ? "20%" : s.tape.job.cache};
    for (size_t i = 0; rc == 0 && i < (a->cache_count ? a->cache_count : 1); i++)
        rc = run_cache(&s, a->cache_count ? a->caches[i] : own[0]);
    larder__tape_free(&s.tape);
    return rc;
}
