#include "passed_memory.h"

#include "descriptors.h"
#include "player.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAPS = 1024 };

typedef struct passed_memory { /* its refs are parcels and mappings too */
    opened as;
    void *bytes;
    size_t size;
    uint32_t readers, writers; /* users whose processes were given it: a bit each */
} passed_memory;

static struct {
    passed_memory *memory;
    const actor_process *of;
} maps[MAPS];
static int mapped; /* places below it were used */
bool passed_memory_out;

/* ---- how long it stays ----------------------------------------------------------------------- */

static void end(opened *o) {
    passed_memory *m = (passed_memory *)o;
    outside_free(m->bytes);
    m->bytes = NULL;
}

static void closed(opened *o, int fd, const actor_process *of, bool lost) {
    (void)fd, (void)of, (void)lost;
    if (o->refs == 0)
        end(o);
}

static void let_go(passed_memory *m) {
    if (--m->as.refs == 0)
        end(&m->as);
}

static const opened_kind kind = {.closed = closed, .end = end};

static passed_memory *at(int fd) { return (passed_memory *)descriptor_of(fd, &kind); }

/* ---- as the system's ------------------------------------------------------------------------- */

int passed_create(void) { return descriptor_new(opened_new(&kind, sizeof(passed_memory)), false); }

int passed_resize(int fd, size_t bytes) {
    passed_memory *m = at(fd);
    if (!m || passed_memory_out) {
        errno = m ? ENOSPC : EBADF;
        return -1;
    }
    if (m->bytes)
        return 0;
    m->bytes = outside_zeroed(bytes);
    m->size = bytes;
    return m->bytes ? 0 : -1;
}

size_t passed_bytes(int fd) {
    const passed_memory *m = at(fd);
    return m ? m->size : 0;
}

void *passed_map(int fd, size_t bytes, bool to_write) {
    passed_memory *m = at(fd);
    if (!m || !m->bytes || bytes > m->size)
        return NULL;
    if (to_write && descriptor_only_reads(fd)) {
        errno = EACCES;
        return NULL;
    }
    int i = 0;
    while (i < mapped && maps[i].memory)
        i++;
    if (i == MAPS)
        abort();
    mapped += i == mapped;
    maps[i].memory = m;
    maps[i].of = actors_current();
    m->as.refs++;
    return m->bytes;
}

static void unmap(int i) {
    let_go(maps[i].memory);
    maps[i].memory = NULL;
}

int passed_unmap(const void *from) {
    for (int i = 0; i < mapped; i++)
        if (maps[i].memory && maps[i].memory->bytes == from && maps[i].of == actors_current()) {
            unmap(i);
            return 0;
        }
    errno = EINVAL;
    return -1;
}

/* ---- passing it along ------------------------------------------------------------------------ */

/* Where a job of another user than the daemon's can write nobody else's job reads. */
static void give(passed_memory *m, uint32_t user, bool only_read) {
    m->readers |= 1u << user;
    m->writers |= only_read ? 0 : 1u << user;
    if (m->writers >> (PLAY_OWN_USER + 1) && m->readers & (m->readers - 1))
        actors_complain("another user's job can write in memory that is not its own");
}

passed_parcel passed_send(int fd, uint32_t user) {
    passed_memory *m = at(fd);
    if (!m)
        abort(); /* nothing else is passed */
    m->as.refs++;
    give(m, user, descriptor_only_reads(fd));
    return (passed_parcel){m, descriptor_only_reads(fd)};
}

int passed_receive(passed_parcel p) {
    int fd = descriptor_new(&p.memory->as, p.only_read);
    let_go(p.memory);
    return fd;
}

void passed_lose(passed_parcel p) { let_go(p.memory); }

/* ---- processes and schedules ----------------------------------------------------------------- */

void passed_begin(void) {
    mapped = 0;
    passed_memory_out = false;
}

void passed_crash(const actor_process *p) {
    for (int i = 0; i < mapped; i++)
        if (maps[i].memory && maps[i].of == p)
            unmap(i);
}

uint32_t passed_mapped_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < mapped; i++)
        n += maps[i].memory && maps[i].of == p;
    return n;
}
