#include "daemon/shelf.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "daemon/ods_jobs.h"
#include "daemon/shelf_inside.h"
#include "plugins.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what it is told about the data set ------------------------------------------------------ */

int larder__shelf_sizes(larder__shelf *s, uint32_t from, const uint32_t *sizes, size_t n) {
    if (from > s->conf.keys || n > s->conf.keys - from)
        return larder__fail(LARDER_E_RANGE, "sizes of %zu samples from %u on: there are %llu", n,
                            from, (unsigned long long)s->conf.keys);
    if (!s->sizes || from != s->sized)
        return 0; /* another job has told it */
    memcpy(s->sizes + from, sizes, n * sizeof *sizes);
    s->sized += n;
    return 0;
}

int larder__shelf_one_size(larder__shelf *s, uint32_t size) {
    for (; s->sizes && s->sized < s->conf.keys; s->sized++)
        s->sizes[s->sized] = size;
    return 0;
}

bool larder__shelf_wants_sizes(const larder__shelf *s) {
    return s->sizes && s->sized < s->conf.keys;
}

void larder__shelf_stream(larder__shelf *s, const larder_stream *at) {
    const larder_stream *here = &s->stream;
    bool begun = s->streaming && (here->sweep || here->at); /* else any order will do */
    bool ahead = at->sweep > here->sweep || (at->sweep == here->sweep && at->at > here->at);
    if (at->at > s->conf.keys || (begun && (at->seed != here->seed || !ahead)))
        return;
    s->stream = *at;
    s->streaming = true;
}

bool larder__shelf_streaming(const larder__shelf *s, larder_stream *out) {
    *out = s->stream;
    return s->streaming;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

int larder__shelf_join(larder__shelf *s, uint64_t quota, bool again, uint32_t *number) {
    larder__shelf_land(s); /* what others have made is there for it */
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++)
        if (!s->jobs[i].here) {
            larder__job j = {.here = true, .quota = quota, .asked_at = larder__now()};
            int rc = s->counts ? larder__ods_jobs_join(s->cache, again, &j.counted) : 0;
            if (rc < 0)
                return rc;
            s->jobs[i] = j;
            if (s->open_hand) /* without memory for it, it asks */
                larder__limbo_join(&s->limbo, i, &(int){-1});
            s->job_count++;
            *number = i;
            return 0;
        }
    return larder__fail(LARDER_E_FULL, "%d jobs share this data set already, and that is the most",
                        LARDER__SHELF_JOBS);
}

void larder__shelf_leave(larder__shelf *s, uint32_t number) {
    larder__job *j = &s->jobs[number];
    if (!j->here)
        return;
    for (uint32_t i = 0; i < j->leases.cap; i++)
        larder__shelf_release(s, number, i);
    larder__leases_free(&j->leases);
    larder__limbo_leave(&s->limbo, number);
    larder__merge_leave(s->merge, number);
    if (s->counts)
        larder__ods_jobs_leave(s->cache, j->counted);
    j->here = false;
    if (--s->job_count == 0)
        s->streaming = false;
}

void larder__shelf_epoch(larder__shelf *s, uint32_t number, uint64_t epoch, const uint64_t *seen) {
    if (s->counts)
        larder__ods_jobs_epoch(s->cache, s->jobs[number].counted, seen);
    else
        larder__cache_epoch(s->cache, epoch);
}

/* ---- scores ---------------------------------------------------------------------------------- */

int larder__shelf_score(larder__shelf *s, uint32_t number, const uint32_t *keys,
                        const float *scores, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (keys[i] >= s->conf.keys)
            return larder__fail(LARDER_E_RANGE, "a score for sample %u of %llu", keys[i],
                                (unsigned long long)s->conf.keys);
        if (!isfinite(scores[i]))
            continue;
        float merged = scores[i];
        int rc = larder__merge_add(s->merge, number, s->job_count, keys[i], scores[i], &merged);
        if (rc < 0)
            return rc;
        larder__cache_score(s->cache, &(uint64_t){keys[i]}, &merged, 1);
    }
    return 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_policy(larder__shelf *s) {
    char name[64];
    const char *rest;
    int rc = larder__spec_name(s->conf.policy, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    s->policy = larder__policy_find(name);
    if (!s->policy)
        return larder__fail(LARDER_E_ARGS, "there is no policy \"%s\"; larder list shows them",
                            name);
    if (s->policy->needs_future || s->policy->needs_order)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s has to know one job's order: it cannot be "
                            "shared",
                            name);
    return larder__args_parse(&s->args, "policy", &s->policy->plugin, rest, ',', NULL);
}

static int open_table(larder__shelf *s) {
    uint64_t bytes = larder__table_bytes(s->conf.keys);
    if (!larder__mem_take(bytes))
        return larder__fail(LARDER_E_FULL, "a table of %llu samples is more than there may be",
                            (unsigned long long)s->conf.keys);
    s->table_bytes = bytes;
    s->table_fd = memfd_create("larder-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->table_fd < 0 || ftruncate(s->table_fd, (off_t)s->table_bytes) < 0)
        return larder__fail(larder__code_of_errno(errno), "a table of %llu samples: %s",
                            (unsigned long long)s->conf.keys, strerror(errno));
    void *at = mmap(NULL, s->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->table_fd, 0);
    if (at == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "mapping a table: %s", strerror(errno));
    s->table = at;
    /* Clients only read it. Kernels before 5.1 do not know that seal: then they are trusted. */
    enum { FIRM = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    if (fcntl(s->table_fd, F_ADD_SEALS, FIRM | F_SEAL_FUTURE_WRITE) < 0 &&
        fcntl(s->table_fd, F_ADD_SEALS, FIRM) < 0)
        return larder__fail(LARDER_E_IO, "sealing shared memory: %s", strerror(errno));
    return 0;
}

static int open_counting(larder__shelf *s) {
    if (s->conf.forms.movable)
        larder__shelf_plan_open(s);
    s->open_hand = s->conf.pins && !s->conf.forms.movable && !s->policy->serves &&
                   !s->policy->exchange && !s->policy->spent &&
                   s->conf.forms.share[LARDER_AUGMENTED] <= 0;
    s->counts = strcmp(s->policy->plugin.name, "ods") == 0;
    if (s->policy->exchange && !(s->sizes = larder__calloc(s->conf.keys, sizeof *s->sizes)))
        return LARDER_E_NOMEM;
    return s->counts ? larder__ods_jobs_begin(s->cache) : 0;
}

/* All but what its budget decides about: the tables. `slot_of`: NULL, it has its own. */
static int open_tables(larder__shelf *s, larder_slot *slot_of) {
    int rc = larder__merge_open(&s->merge, s->conf.keys, LARDER__SHELF_JOBS);
    larder__cache_conf cache = {.policy = s->policy,
                                .args = &s->args,
                                .store = &larder__store_heap,
                                .keys = s->conf.keys,
                                .budget = s->conf.budget,
                                .forms = &s->conf.forms,
                                .seed = s->conf.seed,
                                .slot_of = slot_of};
    if (rc == 0)
        rc = larder__cache_open(&s->cache, &cache);
    return rc == 0 ? open_counting(s) : rc;
}

static int begin(larder__shelf **out, const larder__shelf_conf *conf) {
    *out = NULL;
    if (conf->keys == 0 || conf->keys >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "a data set of %llu samples cannot be shared",
                            (unsigned long long)conf->keys);
    larder__shelf *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    snprintf(s->policy_text, sizeof s->policy_text, "%s", conf->policy);
    s->conf.policy = s->policy_text;
    if (conf->forms_id == 0)
        s->conf.forms = (larder__forms){.share = {1}};
    s->table_fd = -1;
    return open_policy(s);
}

int larder__shelf_measure(const larder__shelf_conf *conf, uint64_t most, uint64_t *bytes,
                          const larder_policy **policy) {
    larder__purse purse = {.most = most};
    larder__purse *before = larder__mem_charge(&purse);
    larder__shelf *s;
    int rc = begin(&s, conf);
    if (rc == 0)
        rc = open_tables(s, NULL);
    if (rc == 0) { /* slots lie in the table that is shared */
        *policy = s->policy;
        *bytes = purse.used + larder__table_bytes(conf->keys) - conf->keys * sizeof(larder_slot);
    }
    larder__shelf_close(&s);
    larder__mem_charge(before);
    return rc;
}

int larder__shelf_open(larder__shelf **out, const larder__shelf_conf *conf) {
    larder__shelf *s;
    int rc = begin(&s, conf);
    if (rc == 0)
        rc = open_table(s);
    if (rc == 0)
        rc = larder__arena_open(&s->arena, conf->budget + conf->spare);
    if (rc == 0)
        rc = larder__limbo_open(&s->limbo, s->arena, larder__table_places(s->table, conf->keys),
                                LARDER__SHELF_JOBS);
    if (rc == 0)
        rc = open_tables(s, (larder_slot *)(s->table + 1));
    if (rc < 0)
        larder__shelf_close(&s);
    else
        larder__shelf_note_table(s);
    *out = s;
    return rc;
}

void larder__shelf_close(larder__shelf **ps) {
    larder__shelf *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++)
        larder__shelf_leave(s, i);
    larder__cache_close(&s->cache); /* gives its blocks back: before the arena */
    larder__merge_close(&s->merge);
    larder__replan_close(&s->replan);
    larder__args_free(&s->args);
    larder__limbo_close(&s->limbo);
    larder__arena_close(&s->arena);
    if (s->table)
        munmap(s->table, s->table_bytes);
    larder__mem_give(s->table_bytes);
    if (s->table_fd >= 0)
        close(s->table_fd);
    for (larder__waiter *w; (w = s->spare_waiters);) {
        s->spare_waiters = w->next;
        larder__free(w);
    }
    larder__free(s->tickets);
    larder__free(s->accesses);
    larder__free(s->sizes);
    larder__free(s->ids);
    larder__free(s->served);
    larder__free(s);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__cache *larder__shelf_cache(larder__shelf *s) { return s->cache; }
int larder__shelf_arena_fd(const larder__shelf *s) { return larder__arena_fd(s->arena); }
int larder__shelf_table_fd(const larder__shelf *s) { return s->table_fd; }
int larder__shelf_pins_fd(const larder__shelf *s, uint32_t job) { return s->limbo.jobs[job].fd; }
uint64_t larder__shelf_arena_bytes(const larder__shelf *s) { return larder__arena_bytes(s->arena); }
const char *larder__shelf_policy(const larder__shelf *s) { return s->policy->plugin.name; }
const larder__shelf_conf *larder__shelf_about(const larder__shelf *s) { return &s->conf; }

void larder__shelf_read_figures(const larder__shelf *s, larder__shelf_figures *f) {
    *f = (larder__shelf_figures){.jobs = s->job_count,
                                 .arena_bytes = larder__arena_bytes(s->arena),
                                 .arena_taken = larder__arena_taken(s->arena),
                                 .limbo = s->limbo.count,
                                 .no_block = s->no_block,
                                 .capped = s->capped,
                                 .huge_pages = larder__arena_huge(s->arena)};
    for (uint32_t i = 0; i < LARDER__SHELF_JOBS; i++) {
        f->leases += s->jobs[i].leases.count;
        f->leased_bytes += s->jobs[i].leases.bytes;
    }
}
