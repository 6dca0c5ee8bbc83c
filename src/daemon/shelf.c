#include "daemon/shelf.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "daemon/shelf_inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- jobs ------------------------------------------------------------------------------------ */

int larder__shelf_join(larder__shelf *s, uint64_t quota, bool again, uint64_t seed,
                       uint32_t *number) {
    larder__outcome out;
    uint32_t i = larder__machine_free_job(s->machine);
    if (i == LARDER__SHELF_JOBS)
        return larder__fail(LARDER_E_FULL,
                            "%d jobs share this data set already, and that is the most",
                            LARDER__SHELF_JOBS);
    larder__shelf_land(s); /* what others have made is there for it */
    larder__op join = {.type = LARDER__OP_JOIN, .number = {again, seed}};
    int rc = larder__machine_apply(s->machine, i, &join, &out);
    if (rc < 0)
        return rc;
    s->jobs[i] = (larder__job){.here = true, .quota = quota, .asked_at = larder__now()};
    if (s->open_hand) /* without memory for it, it asks */
        larder__limbo_join(&s->limbo, i, &(int){-1});
    *number = i;
    return 0;
}

void larder__shelf_leave(larder__shelf *s, uint32_t number) {
    larder__job *j = &s->jobs[number];
    if (!j->here)
        return;
    for (uint32_t i = 0; i < j->leases.cap; i++)
        larder__shelf_release(s, number, i);
    larder__leases_free(&j->leases);
    larder__limbo_leave(&s->limbo, number);
    j->here = false;
    larder__shelf_feed(s, number, &(larder__op){.type = LARDER__OP_LEAVE});
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_table(larder__shelf *s) {
    uint64_t bytes = larder__table_bytes(s->conf.about.keys);
    if (!larder__mem_take(bytes))
        return larder__fail(LARDER_E_FULL, "a table of %llu samples is more than there may be",
                            (unsigned long long)s->conf.about.keys);
    s->table_bytes = bytes;
    s->table_fd = memfd_create("larder-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->table_fd < 0 || ftruncate(s->table_fd, (off_t)s->table_bytes) < 0)
        return larder__fail(larder__code_of_errno(errno), "a table of %llu samples: %s",
                            (unsigned long long)s->conf.about.keys, strerror(errno));
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

/* Nobody has to be asked for what all may have as it is. */
static bool open_handed(const larder__shelf *s) {
    const larder_policy *p = larder__machine_policy(s->machine);
    return s->conf.pins && !s->conf.movable && !LARDER_HAS(p, shares, serves) &&
           !LARDER_HAS(p, shares, exchange) && !LARDER_HAS(p, shares, spent) &&
           !(s->conf.about.share[LARDER_AUGMENTED] > 0);
}

/* All but what its budget decides about: the tables. `slot_of`: NULL, it has its own. */
static int open_tables(larder__shelf *s, larder_slot *slot_of) {
    larder__machine_conf conf = {.about = &s->conf.about,
                                 .bytes_here = true,
                                 .movable = s->conf.movable,
                                 .size = s->conf.size,
                                 .slot_of = slot_of,
                                 .may = larder__shelf_may,
                                 .may_arg = s};
    int rc = larder__machine_open(&s->machine, &conf);
    if (rc < 0)
        return rc;
    s->cache = larder__machine_cache(s->machine);
    s->open_hand = open_handed(s);
    if (s->conf.movable)
        larder__shelf_plan_open(s);
    return 0;
}

static int begin(larder__shelf **out, const larder__shelf_conf *conf) {
    larder__shelf *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    if (conf->about.forms_id == 0) {
        memset(s->conf.about.share, 0, sizeof s->conf.about.share);
        s->conf.about.share[LARDER_ENCODED] = 1;
        s->conf.movable = false;
    }
    s->table_fd = -1;
    return 0;
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
        *policy = larder__machine_policy(s->machine);
        *bytes = purse.used + larder__table_bytes(conf->about.keys) -
                 conf->about.keys * sizeof(larder_slot);
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
        rc = larder__arena_open(&s->arena, conf->about.budget + conf->spare);
    if (rc == 0)
        rc = larder__limbo_open(&s->limbo, s->arena,
                                larder__table_places(s->table, conf->about.keys),
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
    larder__machine_close(&s->machine); /* gives its blocks back: before the arena */
    larder__replan_close(&s->replan);
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
    larder__free(s);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__machine *larder__shelf_machine(const larder__shelf *s) { return s->machine; }
larder__cache *larder__shelf_cache(const larder__shelf *s) { return s->cache; }
int larder__shelf_arena_fd(const larder__shelf *s) { return larder__arena_fd(s->arena); }
int larder__shelf_table_fd(const larder__shelf *s) { return s->table_fd; }
int larder__shelf_pins_fd(const larder__shelf *s, uint32_t job) { return s->limbo.jobs[job].fd; }
uint64_t larder__shelf_arena_bytes(const larder__shelf *s) { return larder__arena_bytes(s->arena); }
const larder__shelf_conf *larder__shelf_about(const larder__shelf *s) { return &s->conf; }

void larder__shelf_read_figures(const larder__shelf *s, larder__shelf_figures *f) {
    *f = (larder__shelf_figures){.jobs = larder__machine_jobs(s->machine),
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
