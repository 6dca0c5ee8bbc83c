#include "redis/group.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/group_inside.h"

#include <math.h>
#include <stdio.h>

#if LARDER_HAVE_HIREDIS

static const double LEASE = 10; /* seconds without a batch, then the others go on */
static const double LAST_WORDS = 2;

static void look(void *st, larder_slots *out) {
    larder__group *g = st;
    pthread_mutex_lock(&g->state);
    const larder_slots *s =
        g->machine ? larder__cache_slots(larder__machine_cache(g->machine)) : NULL;
    out->slot_of = g->table;
    out->resident = s ? s->resident : 0;
    out->bytes = s ? s->bytes : 0;
    out->budget = s ? s->budget : g->mine.budget;
    pthread_mutex_unlock(&g->state);
}

static void note(void *st, char *out, size_t cap) {
    larder__redis_values_note(((larder__group *)st)->far, out, cap);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void close_group(void **st) {
    larder__group *g = *st;
    *st = NULL;
    if (!g)
        return;
    if (g->machine &&
        larder__redis_values_settle(g->far, LAST_WORDS)) { /* nothing is written later than it */
        larder__group_queue_made(g);
        larder__group_step(g);
    }
    if (g->machine) {
        larder__group_delete(g, true);
        larder__journal_leave(g->journal);
    }
    larder__machine_close(&g->machine);
    larder__journal_close(&g->journal);
    larder__redis_values_close(&g->far); /* its thread calls `stored` */
    larder__writer_free(&g->queue);
    larder__writer_free(&g->room);
    larder__free(g->answers);
    larder__free(g->keys);
    larder__free(g->left);
    larder__free(g->made);
    larder__free(g->told);
    larder__free(g->table);
    pthread_mutex_destroy(&g->state);
    pthread_mutex_destroy(&g->lists);
    larder__free(g);
}

static const larder__carrier carrier = {.name = "redis",
                                        .there = larder__group_there,
                                        .tell = larder__group_tell,
                                        .ask = larder__group_ask,
                                        .board = larder__group_board,
                                        .refuse = larder__group_refuse,
                                        .fill = larder__group_fill,
                                        .failed = larder__group_fail,
                                        .wait = larder__group_wait,
                                        .receive = larder__group_receive,
                                        .look = look,
                                        .note = note,
                                        .close = close_group};

static double probe_jobs(const void *arg) {
    larder__group *g = (larder__group *)(uintptr_t)arg;
    pthread_mutex_lock(&g->state);
    double jobs = g->machine ? larder__machine_jobs(g->machine) : 0;
    pthread_mutex_unlock(&g->state);
    return jobs;
}

static int show(larder__group *g, larder__stats *stats) {
    if (!stats)
        return 0;
    int rc = larder__stat_counter(stats, &g->waited, "group_waited", "samples",
                                  "another job was reading them");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->stuck, "group_stuck", "samples",
                                  "another job promised to read them and did not in time");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->joined, "group_joined", "times",
                                  "this job joined its group");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->renewed, "group_renewed", "times",
                                  "its keys were gone or damaged, and this job began it anew");
    if (rc == 0)
        rc = larder__stat_probe(stats, "group_jobs", "jobs", "that share the cache now", probe_jobs,
                                g);
    g->stats = stats;
    return rc;
}

static int open_parts(larder__group *g, const larder__group_conf *conf) {
    char owner[64];
    snprintf(owner, sizeof owner, "g-%.40s", conf->redis->group);
    larder__redis_values_conf far = {
        .redis = conf->redis, .identity = conf->identity, .owner = owner, .stats = conf->stats};
    g->table = larder__malloc(g->mine.keys * sizeof *g->table);
    if (!g->table)
        return LARDER_E_NOMEM;
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    g->machine_conf.slot_of = g->table;
    int rc = larder__redis_values_open(&g->far, &far);
    if (rc == 0)
        rc = larder__journal_open(&g->journal, g->far, conf->redis->group, conf->identity, LEASE,
                                  conf->redis->ttl ? 7 * conf->redis->ttl : 0);
    return rc;
}

/* A server that is there and takes nothing (full, read-only, loading) may take it later. */
static int attempt(void *group) {
    int rc = larder__group_join(group);
    return rc == LARDER_E_STATE ? LARDER_E_IO : rc;
}

static int join_first(larder__group *g, const larder__await *await) {
    if (larder__redis_values_away(g->far)) /* that was waited for already */
        return await->go_on ? 0 : larder__fail(LARDER_E_IO, "Redis is away");
    int rc = larder__await_there(await, attempt, g);
    if (rc != LARDER__ABSENT)
        return rc;
    larder__redis_values_say(g->far, larder_errmsg());
    return 0;
}

static bool exchanges(const char *policy) {
    return strncmp(policy, "ods", 3) == 0 && (policy[3] == '\0' || policy[3] == ':');
}

static int open_group(larder__group *g, const larder__group_conf *conf) {
    uint32_t number;
    pthread_mutex_init(&g->state, NULL);
    pthread_mutex_init(&g->lists, NULL);
    g->mine = conf->agreement;
    g->ttl = conf->redis->ttl;
    g->machine_conf = (larder__machine_conf){
        .size = conf->size, .size_of = conf->size_of, .size_arg = conf->size_arg};
    /* No two jobs that have the same place one after the other count alike. */
    if (larder__world_chance(&number, sizeof number) == 0)
        g->number = number;
    int rc = open_parts(g, conf);
    if (rc == 0)
        rc = show(g, conf->stats);
    return rc == 0 ? join_first(g, &conf->redis->await) : rc;
}

int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    larder__client *client;
    const larder__client_conf about = {.keys = conf->agreement.keys,
                                       .most = LARDER__OP_ROWS,
                                       .size = conf->size,
                                       .size_of = conf->size_of,
                                       .size_arg = conf->size_arg,
                                       .exchanges = exchanges(conf->agreement.policy),
                                       .stats = conf->stats,
                                       .alone = "group_unshared"};
    *out = NULL;
    larder__group *g = larder__calloc(1, sizeof *g);
    int rc = g ? larder__client_new(&client, &about) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__free(g);
        return rc;
    }
    g->client = client;
    if ((rc = open_group(g, conf)) < 0) {
        close_group(&(void *){g});
        larder__client_free(&client);
        return rc;
    }
    return larder__client_open(out, client, &carrier, g);
}

#else
int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    larder__redis_values *none;
    (void)conf;
    *out = NULL;
    return larder__redis_values_open(&none, NULL);
}
#endif
