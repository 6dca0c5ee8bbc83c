#include "unix/status.h"

#include "base/err.h"
#include "base/json.h"
#include "unix/served_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void larder__client_count(larder__client_about *a, const larder__reply *t, size_t n) {
    a->requests += n;
    for (size_t i = 0; i < n; i++) {
        a->hits += t[i].kind == LARDER_HIT;
        a->substitutes += t[i].kind == LARDER_SUBSTITUTE;
        a->misses += t[i].kind == LARDER_MISS;
        a->shared += t[i].kind == LARDER_MISS && t[i].task == LARDER__WAIT;
    }
}

static void write_set(larder__json *j, larder__served *s) {
    larder__served_figures f;
    larder__cache_figures c;
    char identity[24];
    larder__served_read_figures(s, &f);
    larder__cache_read_figures(larder__served_cache(s), &c);
    snprintf(identity, sizeof identity, "%016" PRIx64, larder__served_about(s)->identity);
    larder__json_open(j, NULL, '{');
    larder__json_text(j, "data_set", identity);
    larder__json_text(j, "policy", larder__machine_policy(larder__served_machine(s))->plugin.name);
    larder__json_u64(j, "samples", larder__served_about(s)->about.keys);
    larder__json_u64(j, "jobs", f.jobs);
    larder__json_u64(j, "budget_bytes", c.budget);
    larder__json_u64(j, "resident", c.resident);
    larder__json_u64(j, "resident_bytes", c.resident_bytes);
    larder__json_u64(j, "requests", c.requests);
    larder__json_u64(j, "hits", c.hits);
    larder__json_u64(j, "misses", c.misses);
    larder__json_u64(j, "substitutes", c.substitutes);
    larder__json_u64(j, "evictions", c.evictions);
    larder__json_u64(j, "leases", f.leases);
    larder__json_u64(j, "leased_bytes", f.leased_bytes);
    larder__json_u64(j, "arena_bytes", f.arena_bytes);
    larder__json_u64(j, "arena_taken", f.arena_taken);
    larder_split split;
    size_t changes;
    if (larder__served_split(s, &split, &changes)) {
        char text[48];
        snprintf(text, sizeof text, "%d/%d/%d", split.encoded, split.decoded, split.augmented);
        larder__json_text(j, "plan_split", text);
        larder__json_u64(j, "plan_changes", changes);
    }
    larder__json_u64(j, "limbo_blocks", f.pinned);
    larder__json_u64(j, "no_block", f.no_block);
    larder__json_u64(j, "capped", f.capped);
    larder__json_u64(j, "overdue", f.overdue);
    larder__json_bool(j, "huge_pages", f.huge_pages);
    larder__json_close(j, '}');
}

static void write_client(larder__json *j, const larder__client_about *a) {
    larder__json_open(j, NULL, '{');
    larder__json_u64(j, "job", a->job);
    larder__json_text(j, "name", a->name);
    larder__json_u64(j, "pid", a->pid);
    larder__json_u64(j, "epoch", a->epoch);
    larder__json_u64(j, "requests", a->requests);
    larder__json_u64(j, "hits", a->hits);
    larder__json_u64(j, "substitutes", a->substitutes);
    larder__json_u64(j, "misses", a->misses);
    larder__json_u64(j, "shared_reads", a->shared);
    larder__json_u64(j, "background", a->background);
    larder__json_f64(j, "training_rate", larder__served_training(a->set, a->job));
    larder__json_close(j, '}');
}

int larder__status_write(const larder__status_conf *c, larder_writer *w) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return larder__fail(LARDER_E_NOMEM, "no memory for a status");
    larder__json j = {.to = to};
    larder__json_begin(&j);
    larder__json_text(&j, "version", LARDER_VERSION);
    larder__json_f64(&j, "uptime_seconds", c->uptime);
    larder__json_u64(&j, "cache_bytes", c->cache);
    larder__json_u64(&j, "promised_bytes", c->promised);
    larder__json_u64(&j, "memory_bytes", c->used);
    larder__json_open(&j, "data_sets", '[');
    for (size_t i = 0; i < LARDER__SETS; i++)
        if (c->sets[i])
            write_set(&j, c->sets[i]);
    larder__json_close(&j, ']');
    larder__json_open(&j, "jobs", '[');
    for (size_t i = 0; i < c->count; i++)
        write_client(&j, c->clients[i]);
    larder__json_close(&j, ']');
    larder__unix_rankss_write(c->rank_jobs, &j);
    larder__json_close(&j, '}');
    if (fclose(to) == 0)
        larder_write_bytes(w, text, size);
    else
        w->code = LARDER_E_NOMEM;
    free(text);
    return w->code;
}
