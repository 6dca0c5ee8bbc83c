#include "open_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 1 << 21, FDS = 256, LOCKS = 64 };

static struct {
    open_file openings[FDS];
    struct {
        open_file *at;
        const actor_process *of;
    } fds[FDS];
    struct {
        int file;
        const actor_process *of;
    } maps[FDS];
    int top, mapped; /* places below these were used */
    struct {
        const open_file *by;
        int file;
        off_t byte;
        short how;
    } locks[LOCKS];
} all;

/* ---- descriptors ----------------------------------------------------------------------------- */

bool open_file_is(int fd) { return fd >= FIRST && fd < FIRST + FDS; }

static open_file *at(int fd) {
    open_file *o = open_file_is(fd) ? all.fds[fd - FIRST].at : NULL;
    if (!o) {
        actors_complain("descriptor %d is used and is not open", fd);
        errno = EBADF;
    }
    return o;
}

const open_file *open_file_at(int fd) { return at(fd); }

static int fd_new(open_file *o) {
    for (int i = 0; i < FDS; i++)
        if (!all.fds[i].at) {
            all.fds[i].at = o;
            all.fds[i].of = actors_current();
            all.top = i >= all.top ? i + 1 : all.top;
            o->refs++;
            return FIRST + i;
        }
    abort();
}

int open_file_new(int file, int flags) {
    for (int i = 0; i < FDS; i++)
        if (all.openings[i].refs == 0) {
            all.openings[i] = (open_file){.file = file,
                                          .direct = flags & O_DIRECT,
                                          .writes = (flags & O_ACCMODE) != O_RDONLY};
            return fd_new(&all.openings[i]);
        }
    abort();
}

int open_file_again(int fd) {
    open_file *o = at(fd);
    return o ? fd_new(o) : -1;
}

static void close_at(int i) {
    open_file *o = all.fds[i].at;
    all.fds[i].at = NULL;
    if (--o->refs > 0)
        return;
    for (int k = 0; k < LOCKS; k++)
        if (all.locks[k].by == o)
            all.locks[k].by = NULL;
}

int open_file_close(int fd) {
    if (!at(fd))
        return -1;
    close_at(fd - FIRST);
    return 0;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static bool in_the_way(const open_file *o, off_t byte, short how) {
    for (int i = 0; i < LOCKS; i++)
        if (all.locks[i].by && all.locks[i].by != o && all.locks[i].file == o->file &&
            all.locks[i].byte == byte && (how == F_WRLCK || all.locks[i].how == F_WRLCK))
            return true;
    return false;
}

static void set_lock(const open_file *o, off_t byte, short how) {
    int i = 0;
    while (i < LOCKS && (all.locks[i].by != o || all.locks[i].byte != byte))
        i++;
    if (how == F_UNLCK) {
        if (i < LOCKS)
            all.locks[i].by = NULL;
        return;
    }
    if (i == LOCKS)
        for (i = 0; i < LOCKS && all.locks[i].by;)
            i++;
    if (i == LOCKS)
        abort();
    all.locks[i].by = o;
    all.locks[i].file = o->file;
    all.locks[i].byte = byte;
    all.locks[i].how = how;
}

int open_file_lock(int fd, const struct flock *l) {
    const open_file *o = at(fd);
    if (!o)
        return -1;
    for (off_t b = l->l_start; b < l->l_start + l->l_len; b++)
        if (l->l_type != F_UNLCK && in_the_way(o, b, l->l_type)) {
            errno = EAGAIN;
            return -1;
        }
    for (off_t b = l->l_start; b < l->l_start + l->l_len; b++)
        set_lock(o, b, l->l_type);
    return 0;
}

bool open_files_locked(int file, off_t byte) {
    for (int i = 0; i < LOCKS; i++)
        if (all.locks[i].by && all.locks[i].file == file && all.locks[i].byte == byte)
            return true;
    return false;
}

/* ---- mappings -------------------------------------------------------------------------------- */

void open_file_map(int file) {
    int i = 0;
    while (i < all.mapped && all.maps[i].of)
        i++;
    if (i == FDS)
        abort();
    all.mapped += i == all.mapped;
    all.maps[i].of = actors_current();
    all.maps[i].file = file;
}

bool open_file_unmap(int file) {
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of == actors_current() && all.maps[i].file == file) {
            all.maps[i].of = NULL;
            return true;
        }
    return false;
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool open_files_have(int file) {
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].at && all.fds[i].at->file == file)
            return true;
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of && all.maps[i].file == file)
            return true;
    return false;
}

void open_files_crash(const actor_process *p) {
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].at && all.fds[i].of == p)
            close_at(i);
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of == p)
            all.maps[i].of = NULL;
}

uint32_t open_files_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < all.top; i++)
        n += all.fds[i].at && all.fds[i].of == p;
    for (int i = 0; i < all.mapped; i++)
        n += all.maps[i].of == p;
    return n;
}

void open_files_end(void) { memset(&all, 0, sizeof all); }
