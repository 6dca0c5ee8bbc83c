#include "descriptors.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST = 1 << 20, FDS = 1024 };

static struct {
    struct {
        opened *what;
        const actor_process *of;
        bool only_read;
    } fds[FDS];
    int top; /* descriptors below it were used */
    opened *first, *last;
} all;

/* ---- what they stand for --------------------------------------------------------------------- */

void *opened_new(const opened_kind *kind, size_t bytes) {
    opened *o = outside_zeroed(bytes);
    if (!o)
        abort();
    o->kind = kind;
    *(all.last ? &all.last->next : &all.first) = o;
    all.last = o;
    return o;
}

opened *opened_first(void) { return all.first; }

void opened_wake(opened *o, double at) {
    actors_wake(o, at);
    if (o->watcher)
        actors_wake(o->watcher, at);
}

/* ---- numbers --------------------------------------------------------------------------------- */

int descriptor_new(opened *o, bool only_read) {
    for (int i = 0; i < FDS; i++)
        if (!all.fds[i].what) {
            all.fds[i].what = o;
            all.fds[i].of = actors_current();
            all.fds[i].only_read = only_read;
            o->refs++;
            if (i >= all.top)
                all.top = i + 1;
            return FIRST + i;
        }
    abort(); /* FDS is too small, or descriptors are not closed */
}

bool descriptor_is(int fd) { return fd >= FIRST && fd < FIRST + FDS; }

opened *descriptor_at(int fd) { return descriptor_is(fd) ? all.fds[fd - FIRST].what : NULL; }

opened *descriptor_of(int fd, const opened_kind *kind) {
    opened *o = descriptor_at(fd);
    if (o && o->kind == kind)
        return o;
    errno = EBADF;
    return NULL;
}

bool descriptor_only_reads(int fd) { return all.fds[fd - FIRST].only_read; }
const actor_process *descriptor_owner(int fd) { return all.fds[fd - FIRST].of; }

int descriptor_next(int fd) {
    for (int i = fd < 0 ? 0 : fd + 1 - FIRST; i < all.top; i++)
        if (all.fds[i].what)
            return FIRST + i;
    return -1;
}

int descriptor_again(int fd, bool only_read) {
    opened *o = descriptor_at(fd);
    if (o)
        return descriptor_new(o, only_read);
    errno = ENOENT;
    return -1;
}

static void close_at(int i, bool lost) {
    opened *o = all.fds[i].what;
    all.fds[i].what = NULL;
    o->refs--;
    if (o->kind->closed)
        o->kind->closed(o, FIRST + i, all.fds[i].of, lost);
}

int descriptor_close(int fd) {
    if (!descriptor_at(fd)) {
        actors_complain("a descriptor is closed twice");
        errno = EBADF;
        return -1;
    }
    close_at(fd - FIRST, false);
    return 0;
}

/* ---- processes and schedules ----------------------------------------------------------------- */

void descriptors_crash(const actor_process *p) {
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].what && all.fds[i].of == p)
            close_at(i, actors_one_in(2));
}

uint32_t descriptors_open_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < all.top; i++)
        n += all.fds[i].what && all.fds[i].of == p;
    return n;
}

void descriptors_end(void) {
    for (int i = 0; i < all.top; i++)
        all.fds[i].what = NULL;
    for (opened *o = all.first, *next; o; o = next) {
        next = o->next;
        if (o->kind->end)
            o->kind->end(o);
        outside_free(o);
    }
    all.first = all.last = NULL;
    all.top = 0;
}
