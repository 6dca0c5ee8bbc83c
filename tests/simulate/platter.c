#include "platter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    FIRST = 1 << 21,
    FDS = 256,
    FILES = 32,
    FILE_MOST = 2 << 20,
    BLOCKS = FILE_MOST / PLATTER_BLOCK,
    LOCKS = 64,
    ENTRIES = 24,
    CHANGES = 32,
};

typedef struct plate { /* a file */
    unsigned char *now, *safe;
    size_t size, safe_size, top; /* top: beyond it both are zeros */
    uint8_t has[BLOCKS];         /* blocks that are its own */
    uint64_t number;
} plate;

typedef struct entry {
    char name[PLATTER_NAME];
    int file;
} entry;
typedef struct folder {
    entry of[ENTRIES];
    uint32_t count;
} folder;
typedef struct change { /* of names, at once: one goes, one comes or changes */
    char gone[PLATTER_NAME];
    entry comes;
} change;

typedef struct opening {
    int file, refs; /* file -1: the folder */
    bool direct, writes;
} opening;

static struct {
    plate files[FILES];
    uint64_t numbers;
    bool made;
    folder names, safe_names;
    change changes[CHANGES];
    uint32_t pending;
    opening openings[FDS];
    struct {
        opening *at;
        const actor_process *of;
    } fds[FDS];
    struct {
        int file;
        const actor_process *of;
    } maps[FDS];
    int top, mapped;
    struct {
        const opening *by;
        int file;
        off_t byte;
        short how;
    } locks[LOCKS];
    uint64_t faults;
} all;
platter_weather platter_now;

/* ---- what goes wrong ------------------------------------------------------------------------- */

uint64_t platter_faults(void) { return all.faults; }

static int fault(int code) {
    all.faults++;
    errno = code;
    return -1;
}

static void write_some_behind(void);

static void take_time(void) {
    write_some_behind();
    bool slow = platter_now.slow_in && actors_one_in(platter_now.slow_in);
    double until = actors_now() + actors_between(1e-5, slow ? platter_now.slow : 2e-4);
    all.faults += slow;
    actors_wait(&platter_now, until);
}

void platter_hasten(void) { actors_wake(&platter_now, 0); }

static bool fails(void) {
    take_time();
    if (platter_now.failing && actors_one_in(platter_now.failing))
        return fault(EIO) < 0;
    if (platter_now.shortened && actors_one_in(2 * platter_now.shortened))
        return fault(EINTR) < 0;
    return false;
}

static size_t part_of(size_t n) {
    if (n <= PLATTER_SECTOR || !platter_now.shortened || !actors_one_in(platter_now.shortened))
        return n;
    return (1 + actors_chance((n - 1) / PLATTER_SECTOR)) * PLATTER_SECTOR;
}

static bool may_write(void) { return !platter_now.read_only || fault(EROFS) == 0; }

/* ---- names ----------------------------------------------------------------------------------- */

static entry *find(folder *f, const char *name) {
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->of[i].name, name) == 0)
            return &f->of[i];
    return NULL;
}

static void apply(folder *f, const change *c) {
    entry *gone = c->gone[0] ? find(f, c->gone) : NULL;
    if (gone)
        *gone = f->of[--f->count];
    if (!c->comes.name[0])
        return;
    entry *e = find(f, c->comes.name);
    if (!e && f->count == ENTRIES)
        abort();
    *(e ? e : &f->of[f->count++]) = c->comes;
}

static void settle_names(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        apply(&all.safe_names, &all.changes[i]);
    all.pending -= n;
    memmove(all.changes, all.changes + n, all.pending * sizeof *all.changes);
}

static void alter(const char *gone, const char *comes, int file) {
    change c = {.comes = {.file = file}};
    snprintf(c.gone, sizeof c.gone, "%s", gone ? gone : "");
    snprintf(c.comes.name, sizeof c.comes.name, "%s", comes ? comes : "");
    apply(&all.names, &c);
    if (all.pending == CHANGES)
        settle_names(1);
    all.changes[all.pending++] = c;
    if (actors_one_in(4)) /* the journal is written now and then */
        settle_names((uint32_t)actors_chance(all.pending + 1));
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool in_use(int file) {
    for (uint32_t i = 0; i < all.names.count; i++)
        if (all.names.of[i].file == file)
            return true;
    for (uint32_t i = 0; i < all.safe_names.count; i++)
        if (all.safe_names.of[i].file == file)
            return true;
    for (uint32_t i = 0; i < all.pending; i++)
        if (all.changes[i].comes.name[0] && all.changes[i].comes.file == file)
            return true;
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].at && all.fds[i].at->file == file)
            return true;
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of && all.maps[i].file == file)
            return true;
    return false;
}

static unsigned char *room(void) {
    void *at = mmap(NULL, FILE_MOST, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void wipe(plate *p) {
    unsigned char *now = p->now, *safe = p->safe;
    if (p->top) {
        memset(now, 0, p->top);
        memset(safe, 0, p->top);
    }
    *p = (plate){.now = now, .safe = safe};
}

static int plate_new(void) {
    int i = 0;
    while (i < FILES && in_use(i))
        i++;
    if (i == FILES)
        abort(); /* FILES is too small */
    plate *p = &all.files[i];
    wipe(p);
    p->now = p->now ? p->now : room();
    p->safe = p->safe ? p->safe : room();
    p->number = ++all.numbers;
    return i;
}

static size_t blocks_up(size_t bytes) { return (bytes + PLATTER_BLOCK - 1) / PLATTER_BLOCK; }

static void set_size(plate *p, size_t bytes) {
    if (bytes > FILE_MOST)
        abort();
    for (size_t b = blocks_up(bytes); b < blocks_up(p->size); b++)
        p->has[b] = 0;
    if (bytes < p->size)
        memset(p->now + bytes, 0, p->size - bytes);
    p->size = bytes;
    p->top = bytes > p->top ? bytes : p->top;
}

static uint64_t blocks_of(const plate *p) {
    uint64_t n = 0;
    for (size_t b = 0; b < blocks_up(p->size); b++)
        n += p->has[b];
    return n;
}

/* Is there room for what a file of so many bytes from there on lacks? */
static bool get_blocks(plate *p, size_t at, size_t n) {
    for (size_t b = at / PLATTER_BLOCK; b < blocks_up(at + n); b++) {
        if (p->has[b])
            continue;
        if (platter_now.full) {
            fault(platter_now.full);
            return false;
        }
        p->has[b] = 1;
    }
    return true;
}

/* Some of it reaches the disk now, in any order. */
static void write_behind(plate *p) {
    for (size_t s = 0; s < p->top; s += PLATTER_SECTOR)
        if (actors_one_in(3))
            memcpy(p->safe + s, p->now + s, PLATTER_SECTOR);
    if (actors_one_in(2))
        p->safe_size = p->size;
}

/* Also of mapped files, which nobody writes by a call. */
static void write_some_behind(void) {
    if (all.names.count && !platter_now.read_only && actors_one_in(12))
        write_behind(&all.files[all.names.of[actors_chance(all.names.count)].file]);
}

static void make_safe(plate *p) {
    memcpy(p->safe, p->now, p->top);
    p->safe_size = p->size;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

bool platter_is(int fd) { return fd >= FIRST && fd < FIRST + FDS; }
bool platter_is_below(const char *path) {
    return strncmp(path, PLATTER_FOLDER, sizeof PLATTER_FOLDER - 1) == 0;
}

static opening *of_fd(int fd) {
    opening *o = platter_is(fd) ? all.fds[fd - FIRST].at : NULL;
    if (!o) {
        actors_complain("descriptor %d is used and is not open", fd);
        errno = EBADF;
    }
    return o;
}

static plate *file_of(int fd) {
    const opening *o = of_fd(fd);
    return o && o->file >= 0 ? &all.files[o->file] : NULL;
}

static int fd_new(opening *o) {
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

static opening *opening_new(int file, int flags) {
    for (int i = 0; i < FDS; i++)
        if (all.openings[i].refs == 0) {
            all.openings[i] = (opening){.file = file,
                                        .direct = flags & O_DIRECT,
                                        .writes = (flags & O_ACCMODE) != O_RDONLY};
            return &all.openings[i];
        }
    abort();
}

static void close_at(int i) {
    opening *o = all.fds[i].at;
    all.fds[i].at = NULL;
    if (--o->refs > 0)
        return;
    for (int k = 0; k < LOCKS; k++)
        if (all.locks[k].by == o)
            all.locks[k].by = NULL;
}

int platter_close(int fd) {
    if (!of_fd(fd))
        return -1;
    close_at(fd - FIRST);
    return 0;
}

int platter_again(int fd) {
    opening *o = of_fd(fd);
    return o ? fd_new(o) : -1;
}

void platter_crash(const actor_process *p) {
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].at && all.fds[i].of == p)
            close_at(i);
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of == p)
            all.maps[i].of = NULL;
}

uint32_t platter_open_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < all.top; i++)
        n += all.fds[i].at && all.fds[i].of == p;
    for (int i = 0; i < all.mapped; i++)
        n += all.maps[i].of == p;
    return n;
}

/* ---- calls about names ----------------------------------------------------------------------- */

static void maybe_wait(void) {
    if (actors_current() && actors_one_in(3))
        actors_yield();
}

int platter_mkdir(void) {
    maybe_wait();
    if (all.made) {
        errno = EEXIST;
        return -1;
    }
    if (!may_write())
        return -1;
    all.made = true;
    return 0;
}

static int create(const char *name) {
    if (platter_now.full)
        return fault(platter_now.full);
    int file = plate_new();
    alter(NULL, name, file);
    return file;
}

int platter_open(const char *name, int flags) {
    maybe_wait();
    if (!name)
        return all.made ? fd_new(opening_new(-1, flags)) : (errno = ENOENT, -1);
    const entry *e = find(&all.names, name);
    if ((flags & O_ACCMODE) != O_RDONLY && !may_write())
        return -1;
    if (e && flags & O_EXCL) {
        errno = EEXIST;
        return -1;
    }
    if (!e && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (flags & O_DIRECT && platter_now.direct == DIRECT_NO) {
        errno = EINVAL;
        return -1;
    }
    int file = e ? e->file : create(name);
    return file < 0 ? -1 : fd_new(opening_new(file, flags));
}

int platter_link(const char *from, const char *to, bool move) {
    maybe_wait();
    const entry *e = find(&all.names, from), *there = find(&all.names, to);
    if (!e || (there && !move)) {
        errno = e ? EEXIST : ENOENT;
        return -1;
    }
    if (!may_write())
        return -1;
    if (platter_now.full && !there && !move)
        return fault(platter_now.full);
    alter(move ? from : NULL, to, e->file);
    return 0;
}

int platter_unlink(const char *name) {
    maybe_wait();
    if (!find(&all.names, name)) {
        errno = ENOENT;
        return -1;
    }
    if (!may_write())
        return -1;
    alter(name, NULL, 0);
    return 0;
}

static int tell(int file, struct stat *out) {
    *out = (struct stat){.st_mode = S_IFDIR | 0700, .st_uid = geteuid(), .st_dev = 1, .st_ino = 1};
    if (file < 0)
        return 0;
    out->st_mode = S_IFREG | 0600;
    out->st_ino = 1 + all.files[file].number;
    out->st_size = (off_t)all.files[file].size;
    out->st_blocks = (blkcnt_t)blocks_of(&all.files[file]) * 8;
    return 0;
}

int platter_stat(int fd, struct stat *out) {
    const opening *o = of_fd(fd);
    return o ? tell(o->file, out) : -1;
}

int platter_stat_name(const char *name, struct stat *out) {
    const entry *e = find(&all.names, name);
    if (e)
        return tell(e->file, out);
    errno = ENOENT;
    return -1;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static bool in_the_way(const opening *o, off_t byte, short how) {
    for (int i = 0; i < LOCKS; i++)
        if (all.locks[i].by && all.locks[i].by != o && all.locks[i].file == o->file &&
            all.locks[i].byte == byte && (how == F_WRLCK || all.locks[i].how == F_WRLCK))
            return true;
    return false;
}

static void set_lock(const opening *o, off_t byte, short how) {
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

int platter_lock(int fd, const struct flock *l) {
    maybe_wait();
    const opening *o = of_fd(fd);
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

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool is_direct(const opening *o, size_t n, off_t at) {
    if (!o->direct)
        return true;
    bool whole = n % PLATTER_SECTOR == 0 && at % PLATTER_SECTOR == 0;
    if (whole && platter_now.direct != DIRECT_NOT_READ)
        return true;
    if (!whole && (size_t)at < all.files[o->file].size)
        actors_complain("%zu bytes at %lld are no whole sectors", n, (long long)at);
    errno = EINVAL;
    return false;
}

/* Block by block, with others in between. */
ssize_t platter_read(int fd, void *to, size_t n, off_t from) {
    const opening *o = of_fd(fd);
    const plate *p = file_of(fd);
    if (!p || !is_direct(o, n, from) || fails())
        return -1;
    size_t at = (size_t)from, done = 0;
    n = part_of(n);
    while (done < n && at + done < p->size) {
        size_t end = n < p->size - at ? n : p->size - at;
        size_t m = end - done < PLATTER_BLOCK ? end - done : PLATTER_BLOCK;
        memcpy((char *)to + done, p->now + at + done, m);
        done += m;
        if (done < n && actors_one_in(4))
            actors_yield();
    }
    return (ssize_t)done;
}

static ssize_t disk_write(int fd, const void *bytes, size_t n, off_t to) {
    const opening *o = of_fd(fd);
    plate *p = file_of(fd);
    if (!p || !o->writes || !is_direct(o, n, to) || fails() || !may_write())
        return -1;
    size_t at = (size_t)to, done = 0;
    n = part_of(n);
    while (done < n) {
        size_t m = n - done < PLATTER_BLOCK ? n - done : PLATTER_BLOCK;
        if (!get_blocks(p, at + done, m))
            return done ? (ssize_t)done : -1;
        if (at + done + m > p->size)
            set_size(p, at + done + m);
        memcpy(p->now + at + done, (const char *)bytes + done, m);
        done += m;
        if (done < n && actors_one_in(3))
            actors_yield();
    }
    if (o->direct ? actors_one_in(2) : actors_one_in(8))
        write_behind(p);
    return (ssize_t)done;
}

static int disk_reserve(int fd, off_t bytes) {
    plate *p = file_of(fd);
    take_time();
    if (!p || !may_write())
        return errno;
    if (!get_blocks(p, 0, (size_t)bytes))
        return errno;
    if ((size_t)bytes > p->size)
        set_size(p, (size_t)bytes);
    return 0;
}

static int disk_resize(int fd, off_t bytes) {
    plate *p = file_of(fd);
    take_time();
    if (!p || !may_write())
        return -1;
    set_size(p, (size_t)bytes);
    return 0;
}

static int disk_punch(int fd, off_t at, off_t bytes) {
    plate *p = file_of(fd);
    take_time();
    if (!p || !may_write())
        return -1;
    for (off_t b = at / PLATTER_BLOCK; b < (at + bytes) / PLATTER_BLOCK; b++) {
        p->has[b] = 0;
        memset(p->now + b * PLATTER_BLOCK, 0, PLATTER_BLOCK);
    }
    return 0;
}

static int disk_sync(int fd) {
    plate *p = file_of(fd);
    if (!p || fails() || !may_write())
        return -1;
    make_safe(p);
    if (!platter_now.apart)
        settle_names(all.pending);
    return 0;
}

static uint64_t boots;
static void name_boot(char out[LARDER__DISK_WHO]) {
    memset(out, 0, LARDER__DISK_WHO);
    snprintf(out, LARDER__DISK_WHO, "boot %llu", (unsigned long long)boots);
}
static void name_machine(char out[LARDER__DISK_WHO]) {
    memset(out, 0, LARDER__DISK_WHO);
    memcpy(out, "made", 4);
}

const larder__disk_io platter_io = {.read = platter_read,
                                    .write = disk_write,
                                    .reserve = disk_reserve,
                                    .resize = disk_resize,
                                    .punch = disk_punch,
                                    .sync = disk_sync,
                                    .boot = name_boot,
                                    .machine = name_machine};

/* ---- mapped files ---------------------------------------------------------------------------- */

void *platter_map(int fd, size_t bytes) {
    const opening *o = of_fd(fd);
    const plate *p = file_of(fd);
    if (!p || bytes > p->size) {
        actors_complain("%zu bytes of a shorter file are mapped", bytes);
        return NULL;
    }
    for (size_t b = 0; b < blocks_up(bytes); b++)
        if (!p->has[b])
            actors_complain("a file is mapped that has no block %zu: a full disk would end it", b);
    int i = 0;
    while (i < all.mapped && all.maps[i].of)
        i++;
    if (i == FDS)
        abort();
    all.mapped += i == all.mapped;
    all.maps[i].of = actors_current();
    all.maps[i].file = o->file;
    return p->now;
}

bool platter_unmap(const void *at) {
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of == actors_current() && all.files[all.maps[i].file].now == at) {
            all.maps[i].of = NULL;
            return true;
        }
    return false;
}

/* ---- from outside ---------------------------------------------------------------------------- */

uint64_t platter_bytes(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < all.names.count; i++)
        n += blocks_of(&all.files[all.names.of[i].file]) * PLATTER_BLOCK;
    return n;
}

unsigned char *platter_file(const char *name, size_t *size) {
    const entry *e = find(&all.names, name);
    *size = e ? all.files[e->file].size : 0;
    return e ? all.files[e->file].now : NULL;
}

bool platter_locked(const char *name, off_t byte) {
    const entry *e = find(&all.names, name);
    for (int i = 0; e && i < LOCKS; i++)
        if (all.locks[i].by && all.locks[i].file == e->file && all.locks[i].byte == byte)
            return true;
    return false;
}

uint32_t platter_names(char out[][PLATTER_NAME], uint32_t most) {
    uint32_t n = all.names.count < most ? all.names.count : most;
    for (uint32_t i = 0; i < n; i++)
        memcpy(out[i], all.names.of[i].name, PLATTER_NAME);
    return n;
}

void platter_remove(const char *name) {
    all.faults++;
    if (find(&all.names, name))
        alter(name, NULL, 0);
}

void platter_resize(const char *name, size_t bytes) {
    const entry *e = find(&all.names, name);
    all.faults++;
    if (e)
        set_size(&all.files[e->file], bytes);
}

void platter_spoil(const char *name, size_t at, uint64_t with) {
    const entry *e = find(&all.names, name);
    all.faults++;
    if (e && at + sizeof with <= all.files[e->file].size)
        memcpy(all.files[e->file].now + at, &with, sizeof with);
}

void platter_sync(void) {
    settle_names(all.pending);
    for (int i = 0; i < FILES; i++)
        if (all.files[i].number)
            make_safe(&all.files[i]);
}

/* Of what was not safe nothing, all or some is there, of each file; and as many of the names'
 * changes as had come. */
void platter_cut(void) {
    settle_names((uint32_t)actors_chance(all.pending + 1));
    for (int i = 0; i < FILES; i++) {
        plate *p = &all.files[i];
        if (!p->number)
            continue;
        uint64_t how = actors_chance(3);
        for (size_t s = 0; s < p->top; s += PLATTER_SECTOR)
            if (how == 2 || (how == 1 && actors_one_in(2)))
                memcpy(p->safe + s, p->now + s, PLATTER_SECTOR);
        if (how == 2 || (how == 1 && actors_one_in(2)))
            p->safe_size = p->size;
        for (size_t b = blocks_up(p->size); b < blocks_up(p->safe_size); b++)
            p->has[b] = 1; /* it was made shorter since */
        p->size = p->safe_size;
        memset(p->safe + p->size, 0, p->top - p->size);
        memcpy(p->now, p->safe, p->top);
        for (size_t b = blocks_up(p->size); b < BLOCKS; b++)
            p->has[b] = 0;
    }
    all.names = all.safe_names;
    all.pending = 0;
    boots++;
    all.faults++;
}

void platter_begin(void) {
    platter_now = (platter_weather){.direct = DIRECT_YES};
    for (int i = 0; i < FILES; i++)
        wipe(&all.files[i]);
    all.made = false;
    all.names.count = all.safe_names.count = all.pending = 0;
    all.faults = all.numbers = 0;
    all.top = all.mapped = 0;
    boots = 1;
}

void platter_end(void) {
    memset(all.fds, 0, sizeof all.fds);
    memset(all.maps, 0, sizeof all.maps);
    memset(all.locks, 0, sizeof all.locks);
    for (int i = 0; i < FDS; i++)
        all.openings[i].refs = 0;
}
