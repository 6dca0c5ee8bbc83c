#include "unix/server_shown.h"

#include "base/mem.h"
#include "base/world.h"

#include <pthread.h>
#include <string.h>

struct larder__server_shown {
    pthread_mutex_t lock; /* over the copy */
    larder__job job;
    larder__exposed exposed;
    double started;
};

static void look(void *arg, larder__job *out) {
    larder__server_shown *s = arg;
    uint64_t pid = out->pid, number = out->number;
    pthread_mutex_lock(&s->lock);
    *out = s->job;
    pthread_mutex_unlock(&s->lock);
    out->pid = pid;
    out->number = number;
    out->uptime = larder__world_now() - s->started;
}

larder__server_shown *larder__server_shown_open(const char *socket) {
    larder__server_shown *s = larder__calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->started = larder__world_now();
    larder__job_say(s->job.kind, "daemon");
    larder__job_say(s->job.name, "larder serve");
    larder__job_say(s->job.state, "waiting");
    larder__job_say(s->job.source, socket);
    larder__expose(&s->exposed, look, s);
    return s;
}

void larder__server_shown_close(larder__server_shown **ps) {
    larder__server_shown *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    larder__expose_end(&s->exposed);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

typedef struct sums { /* over all data sets */
    larder__cache_figures cache;
    uint64_t data_sets, leases, leased_bytes, background;
    char policies[64];
} sums;

static sums sum_up(const larder__status_conf *c) {
    sums all = {.data_sets = 0};
    for (size_t i = 0; i < LARDER__SETS; i++) {
        larder__cache_figures f;
        larder__served_figures s;
        if (!c->sets[i])
            continue;
        larder__cache_read_figures(larder__served_cache(c->sets[i]), &f);
        larder__served_read_figures(c->sets[i], &s);
        all.cache.requests += f.requests, all.cache.hits += f.hits;
        all.cache.misses += f.misses, all.cache.substitutes += f.substitutes;
        all.cache.evictions += f.evictions, all.cache.resident += f.resident;
        all.cache.resident_bytes += f.resident_bytes;
        all.leases += s.leases, all.leased_bytes += s.leased_bytes;
        const char *policy =
            larder__machine_policy(larder__served_machine(c->sets[i]))->plugin.name;
        size_t n = strlen(all.policies);
        if (!strstr(all.policies, policy))
            snprintf(all.policies + n, sizeof all.policies - n, "%s%s", n ? " " : "", policy);
        all.data_sets++;
    }
    for (size_t i = 0; i < c->count; i++)
        all.background += c->clients[i]->background;
    return all;
}

void larder__server_shown_update(larder__server_shown *s, const larder__status_conf *c) {
    sums all = sum_up(c);
    const larder_stat_value stats[] = {
        {0, "samples", "samples", "asked for by jobs", 'c', (double)all.cache.requests, 0, 0, 0, 0,
         0, 0},
        {0, "hits", "samples", "from memory, the id that was asked for", 'c',
         (double)all.cache.hits, 0, 0, 0, 0, 0, 0},
        {0, "substitutes", "samples", "another id instead of the one asked for", 'c',
         (double)all.cache.substitutes, 0, 0, 0, 0, 0, 0},
        {0, "misses", "samples", "left to a job to read", 'c', (double)all.cache.misses, 0, 0, 0, 0,
         0, 0},
        {0, "background_reads", "samples", "read by jobs before anybody asked", 'c',
         (double)all.background, 0, 0, 0, 0, 0, 0},
        {0, "cache_evictions", "samples", "entries that had to leave", 'c',
         (double)all.cache.evictions, 0, 0, 0, 0, 0, 0},
        {0, "attached_jobs", "jobs", "attached now", 'g', (double)c->count, 0, 0, 0, 0, 0, 0},
        {0, "data_sets", "", "that jobs train on, or did", 'g', (double)all.data_sets, 0, 0, 0, 0,
         0, 0},
        {0, "cache_resident", "samples", "entries the cache holds now", 'g',
         (double)all.cache.resident, 0, 0, 0, 0, 0, 0},
        {0, "cache_resident_bytes", "bytes", "their payload", 'g', (double)all.cache.resident_bytes,
         0, 0, 0, 0, 0, 0},
        {0, "cache_budget_bytes", "bytes", "what the cache may hold", 'g', (double)c->cache, 0, 0,
         0, 0, 0, 0},
        {0, "leases", "samples", "entries jobs read in place", 'g', (double)all.leases, 0, 0, 0, 0,
         0, 0},
        {0, "leased_bytes", "bytes", "their payload", 'g', (double)all.leased_bytes, 0, 0, 0, 0, 0,
         0}};
    pthread_mutex_lock(&s->lock);
    larder__job *j = &s->job;
    j->stat_count = 0;
    for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
        larder__job_show(j, &stats[i]);
    larder__job_say(j->state, c->count ? "running" : "waiting");
    larder__job_say(j->recipe, all.policies);
    snprintf(j->cache, sizeof j->cache, "%llu MiB", (unsigned long long)(c->cache >> 20));
    pthread_mutex_unlock(&s->lock);
}
