#include "platter.h"

#include "open_files.h"
#include "remains.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = REMAINS_FILE_MOST / PLATTER_BLOCK };

typedef struct plate { /* a file */
    seen_file seen;
    uint8_t has[BLOCKS]; /* blocks that are its own */
    uint64_t number;     /* 0: there is none */
} plate;

static struct {
    plate files[REMAINS_FILES];
    uint64_t numbers;
    bool made;
    folder names;
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

/* ---- files ----------------------------------------------------------------------------------- */

static bool in_use(int file) {
    for (uint32_t i = 0; i < all.names.count; i++)
        if (all.names.of[i].file == file)
            return true;
    return remains_named(file) || open_files_have(file);
}

static unsigned char *room(void) {
    void *at = mmap(NULL, REMAINS_FILE_MOST, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void wipe(int file) {
    plate *p = &all.files[file];
    unsigned char *now = p->seen.now;
    if (p->seen.top)
        memset(now, 0, p->seen.top);
    remains_wipe(file, p->seen.top);
    *p = (plate){.seen.now = now};
}

static int plate_new(void) {
    int i = 0;
    while (i < REMAINS_FILES && in_use(i))
        i++;
    if (i == REMAINS_FILES)
        abort(); /* REMAINS_FILES is too small */
    plate *p = &all.files[i];
    wipe(i);
    p->seen.now = p->seen.now ? p->seen.now : room();
    p->number = ++all.numbers;
    return i;
}

static size_t blocks_up(size_t bytes) { return (bytes + PLATTER_BLOCK - 1) / PLATTER_BLOCK; }

static void set_size(plate *p, size_t bytes) {
    if (bytes > REMAINS_FILE_MOST)
        abort();
    for (size_t b = blocks_up(bytes); b < blocks_up(p->seen.size); b++)
        p->has[b] = 0;
    if (bytes < p->seen.size)
        memset(p->seen.now + bytes, 0, p->seen.size - bytes);
    p->seen.size = bytes;
    p->seen.top = bytes > p->seen.top ? bytes : p->seen.top;
}

static uint64_t blocks_of(const plate *p) {
    uint64_t n = 0;
    for (size_t b = 0; b < blocks_up(p->seen.size); b++)
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

static int number_of(const plate *p) { return (int)(p - all.files); }
static void write_some(const plate *p) { remains_write_some(number_of(p), &p->seen); }
static void write_all(const plate *p) { remains_write_all(number_of(p), &p->seen); }

/* Also of mapped files, which nobody writes by a call. */
static void write_some_behind(void) {
    if (all.names.count && !platter_now.read_only && actors_one_in(12))
        write_some(&all.files[all.names.of[actors_chance(all.names.count)].file]);
}

/* ---- calls about names ----------------------------------------------------------------------- */

bool platter_is_below(const char *path) {
    return strncmp(path, PLATTER_FOLDER, sizeof PLATTER_FOLDER - 1) == 0;
}

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
    remains_alter(&all.names, NULL, name, file);
    return file;
}

int platter_open(const char *name, int flags) {
    maybe_wait();
    if (!name)
        return all.made ? open_file_new(-1, flags) : (errno = ENOENT, -1);
    const folder_entry *e = folder_find(&all.names, name);
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
    return file < 0 ? -1 : open_file_new(file, flags);
}

int platter_link(const char *from, const char *to, bool move) {
    maybe_wait();
    const folder_entry *e = folder_find(&all.names, from), *there = folder_find(&all.names, to);
    if (!e || (there && !move)) {
        errno = e ? EEXIST : ENOENT;
        return -1;
    }
    if (!may_write())
        return -1;
    if (platter_now.full && !there && !move)
        return fault(platter_now.full);
    remains_alter(&all.names, move ? from : NULL, to, e->file);
    return 0;
}

int platter_unlink(const char *name) {
    maybe_wait();
    if (!folder_find(&all.names, name)) {
        errno = ENOENT;
        return -1;
    }
    if (!may_write())
        return -1;
    remains_alter(&all.names, name, NULL, 0);
    return 0;
}

static int tell(int file, struct stat *out) {
    *out = (struct stat){.st_mode = S_IFDIR | 0700, .st_uid = ACTOR_USER, .st_dev = 1, .st_ino = 1};
    if (file < 0)
        return 0;
    out->st_mode = S_IFREG | 0600;
    out->st_ino = 1 + all.files[file].number;
    out->st_size = (off_t)all.files[file].seen.size;
    out->st_blocks = (blkcnt_t)blocks_of(&all.files[file]) * 8;
    return 0;
}

int platter_stat(int fd, struct stat *out) {
    const open_file *o = open_file_at(fd);
    return o ? tell(o->file, out) : -1;
}

int platter_stat_name(const char *name, struct stat *out) {
    const folder_entry *e = folder_find(&all.names, name);
    if (e)
        return tell(e->file, out);
    errno = ENOENT;
    return -1;
}

int platter_lock(int fd, const struct flock *l) {
    maybe_wait();
    return open_file_lock(fd, l);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static plate *file_of(const open_file *o) { return o && o->file >= 0 ? &all.files[o->file] : NULL; }

static bool is_direct(const open_file *o, size_t n, off_t at) {
    if (!o->direct)
        return true;
    bool whole = n % PLATTER_SECTOR == 0 && at % PLATTER_SECTOR == 0;
    if (whole && platter_now.direct != DIRECT_NOT_READ)
        return true;
    if (!whole && (size_t)at < all.files[o->file].seen.size)
        actors_complain("%zu bytes at %lld are no whole sectors", n, (long long)at);
    errno = EINVAL;
    return false;
}

/* Block by block, with others in between. */
ssize_t platter_read(int fd, void *to, size_t n, off_t from) {
    const open_file *o = open_file_at(fd);
    const plate *p = file_of(o);
    if (!p || !is_direct(o, n, from) || fails())
        return -1;
    size_t at = (size_t)from, done = 0;
    n = part_of(n);
    while (done < n && at + done < p->seen.size) {
        size_t end = n < p->seen.size - at ? n : p->seen.size - at;
        size_t m = end - done < PLATTER_BLOCK ? end - done : PLATTER_BLOCK;
        memcpy((char *)to + done, p->seen.now + at + done, m);
        done += m;
        if (done < n && actors_one_in(4))
            actors_yield();
    }
    return (ssize_t)done;
}

static ssize_t disk_write(int fd, const void *bytes, size_t n, off_t to) {
    const open_file *o = open_file_at(fd);
    plate *p = file_of(o);
    if (!p || !o->writes || !is_direct(o, n, to) || fails() || !may_write())
        return -1;
    size_t at = (size_t)to, done = 0;
    n = part_of(n);
    while (done < n) {
        size_t m = n - done < PLATTER_BLOCK ? n - done : PLATTER_BLOCK;
        if (!get_blocks(p, at + done, m))
            return done ? (ssize_t)done : -1;
        if (at + done + m > p->seen.size)
            set_size(p, at + done + m);
        memcpy(p->seen.now + at + done, (const char *)bytes + done, m);
        done += m;
        if (done < n && actors_one_in(3))
            actors_yield();
    }
    if (o->direct ? actors_one_in(2) : actors_one_in(8))
        write_some(p);
    return (ssize_t)done;
}

static int disk_reserve(int fd, off_t bytes) {
    plate *p = file_of(open_file_at(fd));
    take_time();
    if (!p || !may_write())
        return errno;
    if (!get_blocks(p, 0, (size_t)bytes))
        return errno;
    if ((size_t)bytes > p->seen.size)
        set_size(p, (size_t)bytes);
    return 0;
}

static int disk_resize(int fd, off_t bytes) {
    plate *p = file_of(open_file_at(fd));
    take_time();
    if (!p || !may_write())
        return -1;
    set_size(p, (size_t)bytes);
    return 0;
}

static int disk_punch(int fd, off_t at, off_t bytes) {
    plate *p = file_of(open_file_at(fd));
    take_time();
    if (!p || !may_write())
        return -1;
    for (off_t b = at / PLATTER_BLOCK; b < (at + bytes) / PLATTER_BLOCK; b++) {
        p->has[b] = 0;
        memset(p->seen.now + b * PLATTER_BLOCK, 0, PLATTER_BLOCK);
    }
    return 0;
}

static int disk_sync(int fd) {
    const plate *p = file_of(open_file_at(fd));
    if (!p || fails() || !may_write())
        return -1;
    write_all(p);
    if (!platter_now.apart)
        remains_settle_names();
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
    const open_file *o = open_file_at(fd);
    const plate *p = file_of(o);
    if (!p || bytes > p->seen.size) {
        actors_complain("%zu bytes of a shorter file are mapped", bytes);
        return NULL;
    }
    for (size_t b = 0; b < blocks_up(bytes); b++)
        if (!p->has[b])
            actors_complain("a file is mapped that has no block %zu: a full disk would end it", b);
    open_file_map(o->file);
    return p->seen.now;
}

bool platter_unmap(const void *at) {
    for (int i = 0; i < REMAINS_FILES; i++)
        if (all.files[i].seen.now == at)
            return open_file_unmap(i);
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
    const folder_entry *e = folder_find(&all.names, name);
    *size = e ? all.files[e->file].seen.size : 0;
    return e ? all.files[e->file].seen.now : NULL;
}

bool platter_locked(const char *name, off_t byte) {
    const folder_entry *e = folder_find(&all.names, name);
    return e && open_files_locked(e->file, byte);
}

uint32_t platter_names(char out[][PLATTER_NAME], uint32_t most) {
    uint32_t n = all.names.count < most ? all.names.count : most;
    for (uint32_t i = 0; i < n; i++)
        memcpy(out[i], all.names.of[i].name, PLATTER_NAME);
    return n;
}

void platter_remove(const char *name) {
    all.faults++;
    if (folder_find(&all.names, name))
        remains_alter(&all.names, name, NULL, 0);
}

void platter_resize(const char *name, size_t bytes) {
    const folder_entry *e = folder_find(&all.names, name);
    all.faults++;
    if (e)
        set_size(&all.files[e->file], bytes);
}

void platter_spoil(const char *name, size_t at, uint64_t with) {
    const folder_entry *e = folder_find(&all.names, name);
    all.faults++;
    if (e && at + sizeof with <= all.files[e->file].seen.size)
        memcpy(all.files[e->file].seen.now + at, &with, sizeof with);
}

void platter_sync(void) {
    remains_settle_names();
    for (int i = 0; i < REMAINS_FILES; i++)
        if (all.files[i].number)
            write_all(&all.files[i]);
}

void platter_cut(void) {
    remains_cut_names(&all.names);
    for (int i = 0; i < REMAINS_FILES; i++) {
        plate *p = &all.files[i];
        size_t before = p->seen.size;
        if (!p->number)
            continue;
        remains_cut(i, &p->seen);
        for (size_t b = blocks_up(before); b < blocks_up(p->seen.size); b++)
            p->has[b] = 1; /* it was made shorter since */
        for (size_t b = blocks_up(p->seen.size); b < BLOCKS; b++)
            p->has[b] = 0;
    }
    boots++;
    all.faults++;
}

void platter_begin(void) {
    platter_now = (platter_weather){.direct = DIRECT_YES};
    for (int i = 0; i < REMAINS_FILES; i++)
        wipe(i);
    remains_begin();
    all.made = false;
    all.names.count = 0;
    all.faults = all.numbers = 0;
    boots = 1;
}
