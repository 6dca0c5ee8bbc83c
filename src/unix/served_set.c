#include "unix/served_set.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "unix/lent_memory.h"
#include "unix/served_set_inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- jobs ------------------------------------------------------------------------------------ */

int larder__served_join(larder__served *s, uint64_t quota, bool again, uint64_t seed,
                        uint32_t *number) {
    larder__outcome out;
    uint32_t i = larder__machine_free_job(s->machine);
    if (i == LARDER__SERVED_JOBS)
        return larder__fail(LARDER_E_FULL,
                            "%d jobs share this data set already, and that is the most",
                            LARDER__SERVED_JOBS);
    larder__served_land(s); /* what others have made is there for it */
    larder__op join = {.type = LARDER__OP_JOIN, .number = {again, seed}};
    int rc = larder__machine_apply(s->machine, i, &join, &out);
    if (rc < 0)
        return rc;
    s->jobs[i] =
        (larder__served_job){.here = true, .quota = quota, .asked_at = larder__world_now()};
    if (s->open_hand) /* without memory for it, it asks */
        larder__pinned_join(&s->pinned, i, &(int){-1});
    *number = i;
    return 0;
}

void larder__served_bound(larder__served *s, uint32_t number, uint32_t leases) {
    s->jobs[number].leases_most = leases;
}

int larder__served_tray(larder__served *s, uint32_t number) {
    larder__served_job *j = &s->jobs[number];
    void *at;
    int fd = larder__lent_new("larder-tray", sizeof *j->tray, PROT_READ | PROT_WRITE, &at);
    if (fd < 0)
        return fd;
    j->tray = at;
    return j->tray_fd = fd;
}

void larder__served_break(larder__served *s, uint32_t number) {
    larder__leases *all = &s->jobs[number].leases;
    for (uint32_t i = 0; i < all->cap; i++)
        larder__served_made(s, number, i, LARDER_E_CANCELLED);
}

void larder__served_vacate(larder__served *s) {
    s->vacant = true;
    larder__arena_vacate(s->arena);
}

void larder__served_leave(larder__served *s, uint32_t number) {
    larder__served_job *j = &s->jobs[number];
    if (!j->here)
        return;
    for (uint32_t i = 0; i < j->leases.cap; i++)
        larder__served_release(s, number, i);
    larder__leases_free(&j->leases);
    larder__pinned_leave(&s->pinned, number);
    if (j->tray)
        larder__lent_free(j->tray_fd, j->tray, sizeof *j->tray);
    j->tray = NULL;
    j->here = false;
    larder__served_feed(s, number, &(larder__op){.type = LARDER__OP_LEAVE});
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_table(larder__served *s) {
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
    /* Not against writing: its pages could not be given back (larder__lent_empty). Clients of other
     * users cannot write here (larder__lent_view). */
    if (fcntl(s->table_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return larder__fail(LARDER_E_IO, "sealing shared memory: %s", strerror(errno));
    return 0;
}

/* Nobody has to be asked for what all may have as it is. */
static bool open_handed(const larder__served *s) {
    const larder_policy *p = larder__machine_policy(s->machine);
    return s->conf.pins && !s->conf.movable && !LARDER_HAS(p, shares, serves) &&
           !LARDER_HAS(p, shares, exchange) && !LARDER_HAS(p, shares, spent) &&
           !(s->conf.about.share[LARDER_AUGMENTED] > 0);
}

/* All but what its budget decides about: the tables. `slot_of`: NULL, it has its own. */
static int open_tables(larder__served *s, larder_slot *slot_of) {
    larder__machine_conf conf = {.about = &s->conf.about,
                                 .bytes_here = true,
                                 .movable = s->conf.movable,
                                 .size = s->conf.size,
                                 .slot_of = slot_of,
                                 .may = larder__served_may,
                                 .may_arg = s};
    int rc = larder__machine_open(&s->machine, &conf);
    if (rc < 0)
        return rc;
    s->cache = larder__machine_cache(s->machine);
    s->open_hand = open_handed(s);
    if (s->conf.movable)
        larder__served_plan_open(s);
    return 0;
}

static int begin(larder__served **out, const larder__served_conf *conf) {
    larder__served *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    if (conf->about.forms_id == 0) {
        memset(s->conf.about.share, 0, sizeof s->conf.about.share);
        s->conf.about.share[LARDER_ENCODED] = 1;
        s->conf.movable = false;
    }
    s->table_fd = s->views[0] = s->views[1] = -1;
    return 0;
}

int larder__served_measure(const larder__served_conf *conf, uint64_t most, uint64_t *bytes,
                           const larder_policy **policy) {
    larder__purse purse = {.most = most}, *before = larder__mem_charge(&purse);
    purse.of = before;
    larder__served *s;
    int rc = begin(&s, conf);
    if (rc == 0)
        rc = open_tables(s, NULL);
    if (rc == 0) { /* slots lie in the table that is shared */
        *policy = larder__machine_policy(s->machine);
        *bytes = purse.used + larder__table_bytes(conf->about.keys) -
                 conf->about.keys * sizeof(larder_slot);
    }
    larder__served_close(&s);
    larder__mem_charge(before);
    return rc;
}

int larder__served_open(larder__served **out, const larder__served_conf *conf) {
    larder__served *s;
    int rc = begin(&s, conf);
    if (rc == 0)
        rc = open_table(s);
    if (rc == 0)
        rc =
            larder__arena_open(&s->arena, conf->about.budget + conf->spare, conf->all_pages, false);
    if (rc == 0)
        rc = larder__pinned_open(&s->pinned, s->arena,
                                 larder__table_places(s->table, conf->about.keys),
                                 LARDER__SERVED_JOBS);
    if (rc == 0)
        rc = open_tables(s, (larder_slot *)(s->table + 1));
    if (rc < 0)
        larder__served_close(&s);
    else
        larder__served_note_table(s);
    *out = s;
    return rc;
}

void larder__served_close(larder__served **ps) {
    larder__served *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    for (uint32_t i = 0; i < LARDER__SERVED_JOBS; i++)
        larder__served_leave(s, i);
    larder__machine_close(&s->machine); /* gives its blocks back: before the arena */
    larder__replan_close(&s->replan);
    larder__pinned_close(&s->pinned);
    larder__arena_close(&s->arena);
    if (s->vacant && s->table)
        larder__lent_empty(s->table, s->table_bytes);
    else if (s->table)
        munmap(s->table, s->table_bytes);
    larder__mem_give(s->table_bytes);
    if (s->table_fd >= 0)
        close(s->table_fd);
    for (int i = 0; i < 2; i++)
        if (s->views[i] >= 0)
            close(s->views[i]);
    larder__witness_close(&s->witness);
    for (larder__waiter *w; (w = s->spare_waiters);) {
        s->spare_waiters = w->next;
        larder__free(w);
    }
    larder__free(s);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__machine *larder__served_machine(const larder__served *s) { return s->machine; }
larder__cache *larder__served_cache(const larder__served *s) { return s->cache; }
larder__witness *larder__served_witness(larder__served *s) { return &s->witness; }

int larder__served_memory(larder__served *s, bool sealed, int out[2]) {
    const int all[2] = {larder__arena_fd(s->arena), s->table_fd};
    for (int i = 0; i < 2; i++) {
        if (sealed && s->views[i] < 0 && (s->views[i] = larder__lent_view(all[i])) < 0)
            return LARDER_E_UNSUPPORTED;
        out[i] = sealed ? s->views[i] : all[i];
    }
    return 0;
}
int larder__served_pins_fd(const larder__served *s, uint32_t job) { return s->pinned.jobs[job].fd; }
uint64_t larder__served_arena_bytes(const larder__served *s) {
    return larder__arena_bytes(s->arena);
}
const larder__served_conf *larder__served_about(const larder__served *s) { return &s->conf; }

void larder__served_read_figures(const larder__served *s, larder__served_figures *f) {
    *f = (larder__served_figures){.jobs = larder__machine_jobs(s->machine),
                                  .arena_bytes = larder__arena_bytes(s->arena),
                                  .arena_taken = larder__arena_taken(s->arena),
                                  .pinned = s->pinned.count,
                                  .no_block = s->no_block,
                                  .capped = s->capped,
                                  .overdue = s->overdue,
                                  .huge_pages = larder__arena_huge(s->arena)};
    for (uint32_t i = 0; i < LARDER__SERVED_JOBS; i++) {
        f->leases += s->jobs[i].leases.count;
        f->leased_bytes += s->jobs[i].leases.bytes;
    }
}
