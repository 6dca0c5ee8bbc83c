/* The cache of a draw, composed: who orders what happens in it, and where its bytes lie. Nobody
 * else in the loader knows which cache it has.
 *
 *     order           decided by           bytes
 *     by itself       this process         its memory, and Redis or a disk behind it; nowhere where
 *                                          nothing is read
 *     by the daemon   the daemon           the daemon's memory, mapped
 *     by a journal    every job, alike     Redis
 *     in step         every rank, alike    the daemon's memory, or Redis
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/limit.h"
#include "disk/disk_store.h"
#include "loader/draw/draw_inside.h"
#include "redis/group.h"
#include "redis/job_depot.h"
#include "redis/redis_relay.h"
#include "redis/redis_store.h"
#include "shared/rank_store.h"
#include "unix/attach.h"
#include "unix/rank_link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A cache about to be opened, for its own part of the work: what larder__cache_open wants, and what
 * that points to. */
typedef struct opening {
    larder__draw *d;
    const larder__cache_text *text;
    larder__budget budget;
    larder__forms forms;
    larder__tiers tiers;
    uint64_t folder; /* bytes that the disk's folder may take, of all who use it */
    larder__cache_conf conf;
} opening;

static bool is_real(const larder__draw *d) { return d->conf.store->real; }
static larder__cache_place place_of(const larder__cache_text *t) {
    return larder__cache_back(t)->place;
}

/* ---- what does not go together --------------------------------------------------------------- */

static int check_parts(const larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    bool elsewhere = place_of(t) != LARDER__IN_MEMORY || t->wish;
    return is_real(d) && elsewhere && larder__parts_keep(d->conf.parts)
               ? larder__fail(LARDER_E_ARGS,
                              "a cache that is shared or on a disk keeps whole samples, not parts")
               : 0;
}

/* Each would measure something else and share its cache out otherwise. */
static int check_plan(const larder__draw *d) {
    larder__cache_order order = d->conf.cache->order;
    bool alike = order == LARDER__IN_STEP || (order == LARDER__BY_JOURNAL && is_real(d));
    return d->recipe.replan && alike
               ? larder__fail(LARDER_E_UNSUPPORTED,
                              "plan=auto needs a cache of its own; give %s a split",
                              order == LARDER__IN_STEP ? "the ranks of a job" : "those who share")
               : 0;
}

/* Samples of the program's own: what is pickled in them may be read by nobody else, and by nobody
 * who cannot know who wrote it. */
static int check_guessed(const larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    if (t->order != LARDER__BY_ITSELF || place_of(t) != LARDER__IN_MEMORY)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "a data set of your own is cached in this process's memory alone, not "
                            "in a daemon, in Redis or on a disk: give cache=\"8GiB\" or \"20%%\"");
    if (d->recipe.replan)
        return larder__fail(LARDER_E_ARGS, "plan=auto is for pictures in larder's own sources: a "
                                           "data set of your own is cached as it comes");
    if (d->recipe.policy->holds_all)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s needs to know what all samples come to, and "
                            "of a data set of your own nobody does",
                            d->recipe.policy->plugin.name);
    return 0;
}

/* Only whoever makes a shrunk entry knows what it came to, and here nobody else has to. */
static int check_shrink(const larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    if (!d->recipe.shrink.on)
        return 0;
    if (d->conf.guessed)
        return check_guessed(d);
    if (!is_real(d) || !d->conf.shrunk_size)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "shrink= does not go with a simulation or with the order alone: what "
                            "pictures come to is known only when they are read");
    if (t->order != LARDER__BY_ITSELF || place_of(t) == LARDER__IN_REDIS)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "shrink= does not go with a cache that is shared or in Redis, which "
                            "keeps samples as they are");
    if (d->recipe.replan)
        return larder__fail(LARDER_E_ARGS, "shrink= does not go with plan=auto, whose model knows "
                                           "no shrunk samples: give a split");
    if (larder__parts_keep(d->conf.parts))
        return larder__fail(LARDER_E_ARGS, "shrink= does not go with a cache that keeps parts");
    if (d->recipe.policy->holds_all || !(larder__cache_back(t)->budget.share[LARDER_SHRUNK] > 0))
        return larder__fail(LARDER_E_ARGS,
                            "shrink= is for samples that would be kept encoded, and here %s",
                            d->recipe.policy->holds_all ? "all are kept as they are" : "none are");
    return 0;
}

/* An augmented row serves a job once: not worth wearing a disk out for. */
static int check_disk(const larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    if (place_of(t) != LARDER__ON_DISK ||
        (!d->recipe.replan && !(larder__cache_back(t)->budget.share[LARDER_AUGMENTED] > 0)))
        return 0;
    return larder__fail(LARDER_E_ARGS,
                        "a disk keeps encoded, decoded or shrunk samples, but no augmented ones, "
                        "which serve once: %s",
                        d->recipe.replan ? "plan=auto is for a cache in memory"
                                         : "give a split that ends in /0");
}

/* What is brought in has to be where it is drawn from, as large as it lies in storage. */
static int check_brings(const larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    const char *name = d->recipe.sampler->plugin.name;
    if (!d->recipe.sampler->brings)
        return 0;
    if (t->order != LARDER__BY_ITSELF && t->order != LARDER__IN_STEP)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "sampler %s fills a cache of its own: give cache=\"8GiB\", or job= "
                            "for ranks that share one",
                            name);
    if (larder__cache_back(t)->budget.share[LARDER_ENCODED] < 1 || d->recipe.replan ||
        d->recipe.shrink.on || larder__parts_keep(d->conf.parts))
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "sampler %s keeps samples whole and encoded: leave out the split, "
                            "plan=, shrink= or parts=keep (a data set of your own has no files)",
                            name);
    return 0;
}

/* Of a policy's own ways, where this process decides. */
static int check_policy(const opening *o) {
    const larder__recipe *r = &o->d->recipe;
    uint64_t limit;
    if ((o->budget.share[LARDER_ENCODED] < 1 || r->replan) && larder__draw_scratch(o->d, &limit))
        return larder__fail(LARDER_E_ARGS,
                            "packages in a scratch folder hold encoded samples: leave out the "
                            "split, plan=, shrink= or scratch= (and LARDER_SCRATCH)");
    if (r->replan && r->policy->holds_all)
        return larder__fail(LARDER_E_ARGS, "policy %s keeps everything: there is nothing to plan",
                            r->policy->plugin.name);
    return 0;
}

/* ---- what those who share have to agree on --------------------------------------------------- */

/* "app:factor=2". */
static int policy_text(char *out, size_t cap, const larder__recipe *r) {
    size_t used = (size_t)snprintf(out, cap, "%s", r->policy->plugin.name);
    for (size_t i = 0; i < r->policy_args.count && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%c%s=%s", i ? ',' : ':',
                                 r->policy_args.params[i].name, r->policy_args.texts[i]);
    return used < cap ? 0
                      : larder__fail(LARDER_E_ARGS, "policy %s: its parameters are too long",
                                     r->policy->plugin.name);
}

static uint64_t with_pixels(const larder__draw *d, uint64_t h, bool pixels) {
    return larder__mix64(h) ^ (pixels ? larder__mix64(~d->conf.pipeline) : 0);
}

/* What bytes are kept under: which they are, and how pixels are made of them where those are. */
static uint64_t identity(const opening *o) {
    bool pixels = o->forms.share[LARDER_ENCODED] < 1 || o->forms.movable;
    const larder__shrink *to = &o->d->conf.shrink;
    uint64_t shrunk =
        o->d->recipe.shrink.on ? larder__mix64((uint64_t)to->side << 32 | to->quality) : 0;
    return with_pixels(o->d, o->d->conf.identity, pixels) ^ shrunk;
}

/* ---- the daemon orders ----------------------------------------------------------------------- */

static int attach(larder__draw *d) {
    const larder__draw_conf *conf = &d->conf;
    const larder__cache_tier *asked = larder__cache_back(conf->cache);
    larder__attach_conf a = {.hello = {.batch = (uint32_t)conf->batch,
                                       .identity = conf->identity,
                                       .about.keys = conf->n,
                                       .payload = conf->payload,
                                       .about.seed = conf->seed,
                                       .about.decoded_ratio = conf->decoded_ratio,
                                       .about.decoded_bytes = conf->decoded_bytes,
                                       .about.row_bytes = conf->row_bytes,
                                       .size = conf->size},
                             .door = conf->cache->door,
                             .await = conf->cache->await,
                             .stats = conf->stats,
                             .exchanges = LARDER_HAS(d->recipe.policy, shares, exchange),
                             .size_of = conf->size_of,
                             .prove = conf->prove,
                             .size_arg = conf->size_arg};
    memcpy(a.hello.about.share, asked->budget.share, sizeof a.hello.about.share);
    bool pixels = a.hello.about.share[LARDER_ENCODED] < 1 || d->recipe.replan;
    a.hello.about.forms_id = pixels ? conf->pipeline | 1 : 0;
    a.hello.again = d->recipe.replan ? LARDER__HELLO_PLANS : 0;
    snprintf(a.hello.budget, sizeof a.hello.budget, "%s", asked->text);
    snprintf(a.hello.name, sizeof a.hello.name, "%s", conf->recipe);
    int rc = conf->cache->wish ? larder__door_usual(&a.door, false) : 0;
    if (rc == 0)
        rc = policy_text(a.hello.about.policy, sizeof a.hello.about.policy, &d->recipe);
    return rc < 0 ? rc : larder__attach_open(&d->cache, &a);
}

/* 1: the environment wishes for a daemon that has no room, and a wish stops nobody. */
static int attach_or_not(larder__draw *d) {
    int rc = attach(d);
    if (rc != LARDER_E_FULL || !d->conf.cache->wish)
        return rc;
    larder__note(d->conf.stats,
                 "the daemon at %s (LARDER_SOCKET) has no room for this cache, so this job has "
                 "one of its own: %s",
                 getenv("LARDER_SOCKET"), larder_errmsg());
    return 1;
}

/* ---- a journal orders ------------------------------------------------------------------------ */

static int join_group(const opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    bool pixels = o->forms.share[LARDER_ENCODED] < 1;
    larder__group_conf g = {.redis = &o->text->redis,
                            .agreement = {.keys = d->n,
                                          .budget = o->conf.budget,
                                          .seed = d->seed,
                                          .forms_id = pixels ? d->pipeline | 1 : 0,
                                          .decoded_ratio = d->decoded_ratio,
                                          .decoded_bytes = d->decoded_bytes,
                                          .row_bytes = d->row_bytes},
                            .identity = larder__mix64(d->identity),
                            .size = d->size,
                            .size_of = d->size_of,
                            .size_arg = d->size_arg,
                            .stats = d->stats};
    memcpy(g.agreement.share, o->forms.share, sizeof g.agreement.share);
    int rc = policy_text(g.agreement.policy, sizeof g.agreement.policy, &o->d->recipe);
    return rc < 0 ? rc : larder__group_open(&o->d->cache, &g);
}

/* ---- ranks in step --------------------------------------------------------------------------- */

/* To the daemon that the ranks share: it is told how large the cache is, or tells. */
static int join_ranks(opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    const larder__cache_text *t = o->text;
    bool any = !larder__cache_back(t)->text[0] && !o->d->recipe.policy->holds_all;
    bool pixels = o->budget.share[LARDER_ENCODED] < 1;
    uint64_t want = o->conf.budget ? o->conf.budget : 1;
    larder__unix_ranks_conf conf = {
        .door = t->door,
        .join = {.rank = o->d->ranks.rank,
                 .world = o->d->ranks.world,
                 .batch = (uint32_t)d->batch,
                 .turns = d->lag + 1,
                 .pixels = pixels,
                 .fingerprint = with_pixels(o->d, d->fingerprint, pixels),
                 .identity = d->identity,
                 .keys = d->n,
                 .payload = d->payload,
                 .want = any ? UINT64_MAX : want},
        .patience = t->patience,
        .await = t->await,
        .stats = d->stats};
    memcpy(conf.join.job, t->name, sizeof conf.join.job);
    snprintf(conf.join.name, sizeof conf.join.name, "%s", d->recipe);
    int rc = larder__unix_ranks_open(&o->d->link, &conf);
    if (rc == 0)
        o->conf.budget = larder__unix_ranks_budget(o->d->link);
    return rc;
}

static int lay_with_ranks(opening *o) {
    larder__job_store_conf store = {.keys = o->d->conf.n,
                                    .slots = o->d->conf.n,
                                    .turns = o->d->conf.lag + 1,
                                    .stats = o->d->conf.stats};
    larder__job_depot_conf redis = {
        .redis = &o->text->redis, .identity = identity(o), .stats = o->d->conf.stats};
    int rc = 0;
    if (o->d->link)
        store.depot = larder__unix_ranks_depot(o->d->link);
    else
        rc = larder__job_depot_open(&store.depot, &redis);
    o->conf.store = &larder__store_job;
    return rc < 0 ? rc : larder__job_store_open(&o->conf.store_state, &store);
}

int larder__draw_open_relay(larder__draw *d) {
    if (d->link)
        return larder__unix_ranks_relay(&d->relay, d->link);
    larder__redis_relay_conf conf = {.redis = &d->conf.cache->redis,
                                     .fingerprint = larder__mix64(d->conf.fingerprint),
                                     .identity = d->conf.identity,
                                     .rank = d->ranks.rank,
                                     .world = d->ranks.world};
    return larder__redis_relay_open(&d->relay, &conf);
}

/* ---- nobody else ----------------------------------------------------------------------------- */

static int fits_memory(const char *what, uint64_t bytes) {
    char want[32], have[32];
    return bytes <= larder__memory_limit()
               ? 0
               : larder__fail(LARDER_E_RANGE, "%s is %s, but this process may use %s", what,
                              larder__print_bytes((double)bytes, want),
                              larder__print_bytes((double)larder__memory_limit(), have));
}

static int lay_in_memory(opening *o) {
    char what[120];
    snprintf(what, sizeof what, "cache \"%.100s\"", o->text->shown);
    return fits_memory(what, o->conf.budget);
}

static int lay_in_redis(opening *o) {
    larder__redis_store_conf store = {.redis = &o->text->redis,
                                      .identity = identity(o),
                                      .slots = o->d->conf.n,
                                      .stats = o->d->conf.stats};
    int rc = fits_memory("what stands in front of Redis", o->tiers.front);
    o->conf.store = &larder__store_redis;
    return rc < 0 ? rc : larder__redis_store_open(&o->conf.store_state, &store);
}

/* What tables take of the memory in front, so that the size given for it holds for all of it. */
static int leave_room_for_tables(opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    const larder_policy *p = o->d->recipe.policy;
    double mean = fmax((double)d->payload / (double)d->n, 1);
    double slots = fmin((double)o->conf.budget / mean, (double)d->n);
    double tables = (double)d->n * (double)(sizeof(larder_slot) + sizeof(uint64_t) + p->key_size) +
                    slots * (double)(larder__store_disk.slot_size + p->slot_size + 12);
    char has[32], wants[32];
    if (o->tiers.front == 0 || o->text->tiers[0].budget.relative)
        return 0;
    if ((double)o->tiers.front <= tables)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%s\": %s in front of the disk are less than the %s that its "
                            "tables take; give it more, or nothing: disk:FOLDER",
                            o->text->shown, larder__print_bytes((double)o->tiers.front, has),
                            larder__print_bytes(tables, wants));
    o->tiers.front -= (uint64_t)tables;
    return 0;
}

static int lay_on_disk(opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    const larder__disk_place *at = &o->text->disk;
    larder__disk_conf conf = {.folder = at->folder,
                              .budget = o->folder,
                              .identity = identity(o),
                              .keys = d->n,
                              .name = d->name ? d->name : "",
                              .wear = at->wear,
                              .patience = at->patience,
                              .stats = d->stats};
    larder__disk_store_conf store = {.slots = d->n,
                                     .tiered = o->tiers.front > 0,
                                     .forms =
                                         o->forms.share[LARDER_ENCODED] < 1 || o->forms.movable};
    int rc = fits_memory("what stands in front of the disk", o->tiers.front);
    if (rc == 0)
        rc = leave_room_for_tables(o);
    if (rc == 0)
        rc = larder__disk_open(&store.disk, &conf);
    o->conf.store = &larder__store_disk;
    o->d->warm = o->d->recipe.sampler->fixed_order;
    return rc < 0 ? rc : larder__disk_store_open(&o->conf.store_state, &store);
}

/* This process decides; with others in step, all of them decide the same. */
static int decide_here(opening *o) {
    bool real = is_real(o->d);
    int rc = !real                                   ? 0 /* bytes lie nowhere */
             : o->text->order == LARDER__IN_STEP     ? lay_with_ranks(o)
             : place_of(o->text) == LARDER__IN_REDIS ? lay_in_redis(o)
             : place_of(o->text) == LARDER__ON_DISK  ? lay_on_disk(o)
                                                     : lay_in_memory(o);
    return rc < 0 ? rc : larder__cache_open(&o->d->cache, &o->conf);
}

/* ---- how large ------------------------------------------------------------------------------- */

/* A folder's size is that of all that lies below it; a share of the data set is what it holds. What
 * this job may keep there does not depend on what others do. Where no size is given the folder has
 * one already. */
static int measure_disk(opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    const larder__cache_tier *back = larder__cache_back(o->text);
    const larder__budget *quota = &o->text->disk.quota;
    bool all = o->d->recipe.policy->holds_all;
    larder__disk_measure m =
        larder__disk_measured(d->n, d->payload, d->size, d->size_of, d->size_arg);
    uint64_t asked = larder__cache_tier_bytes(back, d->payload);
    int rc = 0;
    if (!back->text[0] && !all) {
        larder__disk_figures found = {0};
        if (larder__disk_list(o->text->disk.folder, &found, NULL, NULL) < 0)
            rc = larder__fail_in(LARDER_E_ARGS, "nothing says how large the cache may become, so "
                                                "give it a size, as ?budget=100GiB");
        o->folder = found.budget;
    } else
        o->folder =
            back->budget.relative || all ? larder__disk_takes(&m, all ? d->payload : asked) : asked;
    uint64_t holds =
        back->budget.relative && back->text[0] ? asked : larder__disk_holds(&m, o->folder);
    if (quota->relative)
        holds = (uint64_t)((double)holds * quota->fraction);
    else if (quota->bytes < holds)
        holds = quota->bytes;
    o->conf.budget = o->tiers.back = all ? d->payload : holds;
    o->conf.budget_covers_all = false;
    return rc;
}

/* "20%" is a share of the payload with metadata on top; "8GiB" is all the memory there may be. */
static int measure(opening *o) {
    const larder__draw_conf *d = &o->d->conf;
    const larder__recipe *r = &o->d->recipe;
    larder__cache_tier back = *larder__cache_back(o->text);
    if (r->policy->holds_all)
        back.budget = (larder__budget){.relative = true, .fraction = 1, .share = {1}};
    bool tiered = o->text->tier_count > 1, redis = place_of(o->text) == LARDER__IN_REDIS;
    uint64_t bytes = larder__cache_tier_bytes(&back, d->payload);
    o->budget = back.budget;
    o->tiers = (larder__tiers){
        .front = tiered ? larder__cache_tier_bytes(&o->text->tiers[0], d->payload) : 0,
        .back = redis ? bytes : 0,
        .inclusive = o->text->inclusive};
    o->forms = (larder__forms){.decoded_ratio = d->decoded_ratio,
                               .decoded_bytes = d->decoded_bytes,
                               .row_bytes = d->row_bytes,
                               .movable = r->replan,
                               .guessed = d->guessed};
    memcpy(o->forms.share, o->budget.share, sizeof o->forms.share);
    bool ranks = place_of(o->text) == LARDER__IN_DAEMON && o->text->order == LARDER__IN_STEP;
    o->conf = (larder__cache_conf){.policy = r->policy,
                                   .args = &r->policy_args,
                                   .store = d->store,
                                   .keys = d->n,
                                   .budget = bytes + (o->tiers.inclusive ? 0 : o->tiers.front),
                                   .budget_covers_all = !o->budget.relative && !ranks,
                                   .forms = &o->forms,
                                   .tiers = &o->tiers,
                                   .seed = d->seed,
                                   .epochs = d->epochs,
                                   .stats = d->stats,
                                   .alone = d->parts != NULL};
    return place_of(o->text) == LARDER__ON_DISK ? measure_disk(o) : 0;
}

static int percent(double share) { return (int)(share * 100 + 0.5); }

/* What is known before anything is measured. */
static void open_replan(larder__draw *d, const double share[LARDER_FORMS]) {
    larder_rates r;
    double each = (double)d->conf.payload / (double)d->conf.n;
    double pixels = fmax(d->conf.decoded_ratio * each, d->conf.decoded_bytes);
    uint64_t mine = d->conf.n / d->conf.world;
    larder__rates_defaults(&r);
    r.n_total = (double)(mine ? mine : 1);
    r.s_data = fmax(each, 1);
    r.s_cache = (double)larder__cache_slots(d->cache)->budget;
    r.m = fmax(d->conf.row_bytes / r.s_data, 1e-9);
    r.m_decoded = fmax(pixels / r.s_data, 1);
    r.batch = (double)d->conf.batch;
    r.jobs = 1; /* this one: an augmented sample has to be made again for its next use */
    larder_split start = {.encoded = percent(share[LARDER_ENCODED]),
                          .decoded = percent(share[LARDER_DECODED]),
                          .augmented = percent(share[LARDER_AUGMENTED])};
    larder__replan_open(&d->replan, &r, start, d->conf.cores ? d->conf.cores : 1,
                        mine / d->conf.batch + 1);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_own(larder__draw *d) {
    opening o = {.d = d, .text = d->conf.cache};
    int rc = measure(&o);
    if (rc < 0)
        return rc;
    bool step = o.text->order == LARDER__IN_STEP && place_of(o.text) == LARDER__IN_DAEMON;
    if (step && d->conf.beside)
        rc = join_ranks(&o);
    if (rc == 0)
        rc = check_policy(&o);
    if (rc < 0)
        return rc;
    return is_real(d) && o.text->order == LARDER__BY_JOURNAL ? join_group(&o) : decide_here(&o);
}

int larder__draw_open_cache(larder__draw *d) {
    const larder__cache_text *t = d->conf.cache;
    bool attached = is_real(d) && (t->order == LARDER__BY_DAEMON || t->wish);
    int rc = check_parts(d);
    if (rc == 0)
        rc = check_shrink(d);
    if (rc == 0)
        rc = check_disk(d);
    if (rc == 0)
        rc = check_brings(d);
    if (rc == 0 && (d->recipe.shrink.on || d->recipe.sampler->brings) && t->wish) {
        larder__note(d->conf.stats,
                     "%s this job's samples in a cache of its own, not in the daemon that "
                     "LARDER_SOCKET names",
                     d->conf.guessed       ? "a data set of your own keeps"
                     : d->recipe.shrink.on ? "shrink= keeps"
                                           : "a sampler that fills its cache by itself keeps");
        attached = false;
    }
    if (rc == 0)
        rc = check_plan(d);
    if (rc == 0)
        rc = attached ? attach_or_not(d) : 1;
    if (rc == 1)
        rc = open_own(d);
    if (rc == 0 && d->recipe.replan) /* of a daemon's: planned there, here is how it began */
        open_replan(d, larder__cache_back(t)->budget.share);
    return rc;
}
