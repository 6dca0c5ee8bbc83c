#include "disk/disk_folder.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/own_user.h"
#include "base/world.h"
#include "disk/disk_space.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* ---- locks ----------------------------------------------------------------------------------- */

static bool set_lock(const larder__disk_folder *f, larder__disk_lock which, short how) {
    struct flock l = {.l_type = how, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
    int rc;
    do
        rc = fcntl(f->head_file, F_OFD_SETLK, &l);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

/* Asked again and again: a wait in the kernel could not be bounded, and whoever holds the lock may
 * be stopped. */
int larder__disk_lock_take(larder__disk_folder *f, larder__disk_lock which, bool shared,
                           double patience) {
    double until = larder__world_now() + patience, pause = 50e-6;
    while (!set_lock(f, which, shared ? F_RDLCK : F_WRLCK)) {
        if (larder__world_now() >= until)
            return larder__fail(LARDER_E_STATE,
                                "%s: another process has held this folder for %.0f s and does not "
                                "go on; is one that uses it stopped?",
                                f->path, patience);
        larder__world_sleep_until(larder__world_now() + pause);
        pause = pause < 2e-3 ? pause * 2 : pause;
    }
    return 0;
}

void larder__disk_lock_drop(larder__disk_folder *f, larder__disk_lock which) {
    set_lock(f, which, F_UNLCK);
}

int larder__disk_giving(larder__disk_folder *f, double patience) {
    pthread_mutex_lock(&f->lock);
    int rc = larder__disk_whole(f);
    if (rc == 0)
        rc = larder__disk_lock_take(f, DISK_GIVING, false, patience);
    if (rc == 0 && f->sets_seen != atomic_load(&f->head->sets)) {
        rc = larder__disk_indices_look(f, false, 0);
        if (rc < 0)
            larder__disk_lock_drop(f, DISK_GIVING);
    }
    if (rc < 0) {
        pthread_mutex_unlock(&f->lock);
        return rc;
    }
    larder__disk_head *h = f->head;
    if (atomic_exchange(&h->dirty, 1)) { /* somebody died: bits are right, figures may not be */
        atomic_store(&h->used, larder__space_count(f->space, atomic_load(&h->limit)));
        h->too_long = UINT64_MAX;
        h->barren = UINT64_MAX;
    }
    return 0;
}

void larder__disk_given(larder__disk_folder *f) {
    atomic_store(&f->head->dirty, 0);
    larder__disk_lock_drop(f, DISK_GIVING);
    pthread_mutex_unlock(&f->lock);
}

/* ---- mapped files ---------------------------------------------------------------------------- */

int larder__disk_map(larder__disk_folder *f, const char *name, int file, size_t bytes, void **out) {
    int err = larder__disk_read_through(file, bytes);
    if (err)
        return larder__fail(LARDER_E_IO, "%s/%s: cannot be read: %s", f->path, name, strerror(err));
    err = larder__mapped_open(out, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, &f->gone);
    return err ? larder__fail(LARDER_E_NOMEM, "%s/%s: cannot be mapped: %s", f->path, name,
                              strerror(err))
               : 0;
}

int larder__disk_whole(const larder__disk_folder *f) {
    return larder__disk_gone(f)
               ? larder__fail(LARDER_E_IO,
                              "%s: a table there cannot be read any more (its disk fails, or "
                              "somebody made it shorter)",
                              f->path)
               : 0;
}

/* ---- whose folder it is ---------------------------------------------------------------------- */

static int check_owner(const larder__disk_folder *f) {
    struct stat st;
    if (fstat(f->dir, &st) != 0)
        return larder__fail_errno(f->path, "cannot be looked at");
    if (!larder__is_own_user(st.st_uid))
        return larder__fail(LARDER_E_ARGS,
                            "%s: belongs to another user (%u%s), who could put other bytes there; "
                            "name a folder of your own",
                            f->path, (unsigned)st.st_uid, larder__why_not_own(st.st_uid));
    if (st.st_mode & 022)
        return larder__fail(LARDER_E_ARGS,
                            "%s: others may write there (mode %o); chmod go-w it, or name another",
                            f->path, (unsigned)(st.st_mode & 07777));
    return 0;
}

static const struct {
    unsigned long magic;
    const char *name;
} elsewhere[] = {
    /* as linux/magic.h has them, which not every system has */
    {0x6969, "NFS"},
    {0x517b, "SMB"},
    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},
    {0x65735546, "FUSE"},
    {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x00c36400, "Ceph"},
    {0x01021997, "9p"},
    {0x5346414f, "AFS"},
    {0x013111a8, "OCFS2 or GFS2"},
};

/* Locks and mapped files of another machine's disk are not ours alone. */
static int check_local(const larder__disk_folder *f) {
    struct statfs fs;
    if (fstatfs(f->dir, &fs) != 0)
        return larder__fail_errno(f->path, "cannot be looked at");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if ((unsigned long)fs.f_type == elsewhere[i].magic)
            return larder__fail(LARDER_E_ARGS,
                                "%s: lies on %s, which other machines may share; name a folder on "
                                "a disk of this machine",
                                f->path, elsewhere[i].name);
    return 0;
}

/* ---- head ------------------------------------------------------------------------------------ */

/* No name of ours may be somebody else's file: without a head they are not ours. */
static int check_free(const larder__disk_folder *f) {
    static const char *const names[] = {"data", "space"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (faccessat(f->dir, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return larder__fail(LARDER_E_STATE,
                                "%s: has a file %s but no head, so it is no folder of larder's (or "
                                "its head was removed: then remove data, space and *.index too); "
                                "name another",
                                f->path, names[i]);
    return 0;
}

static int write_head(const larder__disk_folder *f, uint64_t budget) {
    larder__disk_head h = {.budget = budget, .clean = 1};
    larder__disk_io_now()->boot(h.boot);
    larder__disk_io_now()->machine(h.machine);
    larder__disk_head_seal(&h);
    char beside[LARDER__TEMP_BYTES];
    int file = larder__temp_open(f->dir, beside), err = file < 0 ? errno : 0;
    if (err == 0) {
        err = larder__disk_io_now()->reserve(file, LARDER__DISK_BLOCK);
        if (err == 0 && fchmod(file, 0600) != 0)
            err = errno;
        if (err == 0)
            err = larder__disk_write_at(file, &h, sizeof h, 0);
        if (err == 0 && larder__disk_io_now()->sync(file) != 0)
            err = errno;
        /* Not renamed: who comes second takes what is there. And who came first may have removed
         * this as what a killed process has left. */
        if (err == 0 && linkat(f->dir, beside, f->dir, "head", 0) != 0 && errno != EEXIST &&
            errno != ENOENT)
            err = errno;
        unlinkat(f->dir, beside, 0);
        close(file);
    }
    return err ? larder__fail(larder__code_of_errno(err), "%s: cannot be written to: %s", f->path,
                              strerror(err))
               : 0;
}

static int open_head(larder__disk_folder *f, const larder__disk_ask *ask) {
    for (int attempt = 0; attempt < 3; attempt++) {
        f->head_file = openat(f->dir, "head", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (f->head_file >= 0)
            return 0;
        if (errno != ENOENT)
            return larder__fail(LARDER_E_IO, "%s/head: cannot be opened: %s", f->path,
                                strerror(errno));
        if (!ask->make)
            return larder__fail(LARDER_E_NOTFOUND, "%s: is no folder of larder's (it has no head)",
                                f->path);
        if (ask->budget == 0)
            return larder__fail(LARDER_E_ARGS, "%s: is new and needs a budget (budget=100GiB)",
                                f->path);
        int rc = check_free(f);
        if (rc == 0)
            rc = write_head(f, ask->budget);
        if (rc < 0)
            return rc;
    }
    return larder__fail(LARDER_E_STATE, "%s: others keep removing it", f->path);
}

/* Was it removed, and perhaps made anew, while we waited at the door? */
static bool head_is_there(const larder__disk_folder *f) {
    struct stat ours, now;
    return fstat(f->head_file, &ours) == 0 &&
           fstatat(f->dir, "head", &now, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == now.st_ino &&
           ours.st_dev == now.st_dev;
}

static int map_head(larder__disk_folder *f) {
    struct stat st;
    if (fstat(f->head_file, &st) != 0 || !S_ISREG(st.st_mode))
        return larder__fail(LARDER_E_STATE, "%s/head: is no file", f->path);
    char begin[16] = {0};
    if (st.st_size < LARDER__DISK_BLOCK) {
        (void)!pread(f->head_file, begin, sizeof begin, 0);
        if (larder__disk_head_judge(begin, sizeof begin) == LARDER__DISK_FOREIGN && st.st_size)
            return larder__fail(LARDER_E_STATE,
                                "%s/head: was not written by larder; name another "
                                "folder",
                                f->path);
        int err = larder__disk_io_now()->reserve(f->head_file, LARDER__DISK_BLOCK);
        if (err)
            return larder__fail(larder__code_of_errno(err), "%s/head: cannot be written: %s",
                                f->path, strerror(err));
    }
    void *at = NULL;
    int rc = larder__disk_map(f, "head", f->head_file, LARDER__DISK_BLOCK, &at);
    f->head = at;
    return rc;
}

static int judge_head(larder__disk_folder *f, const larder__disk_ask *ask) {
    larder__disk_head *h = f->head;
    switch (larder__disk_head_judge(h, LARDER__DISK_BLOCK)) {
    case LARDER__DISK_FINE:
        return 0;
    case LARDER__DISK_OTHER:
        return larder__fail(LARDER_E_STATE,
                            "%s: was written by another version of larder (%u, this one has %d); "
                            "`larder disk rm` removes it, its values are then read again",
                            f->path, h->version, LARDER__DISK_VERSION);
    case LARDER__DISK_TORN:
        if (f->alone && ask->make && ask->budget) { /* a power cut: as good as new */
            memset(h, 0, LARDER__DISK_BLOCK);
            h->budget = ask->budget;
            larder__disk_io_now()->boot(h->boot);
            larder__disk_io_now()->machine(h->machine);
            larder__disk_head_seal(h);
            return 0;
        }
        return larder__fail(LARDER_E_STATE,
                            "%s/head: is damaged; `larder disk rm` removes the "
                            "folder's files",
                            f->path);
    default:
        return larder__fail(LARDER_E_STATE,
                            "%s/head: was not written by larder; name another "
                            "folder",
                            f->path);
    }
}

/* Another machine is known by its name and its boot; one that left its folder cleanly may have
 * handed its disk on. */
static int check_machine(const larder__disk_folder *f) {
    char boot[LARDER__DISK_WHO], machine[LARDER__DISK_WHO];
    larder__disk_io_now()->boot(boot);
    larder__disk_io_now()->machine(machine);
    const larder__disk_head *h = f->head;
    if (strcmp(boot, h->boot) == 0 || strcmp(machine, h->machine) == 0 || h->clean)
        return 0;
    return larder__fail(
        LARDER_E_STATE,
        "%s: another machine (%.12s) uses it, or did and was switched off; a folder "
        "belongs to one machine. If that one is gone: `larder disk rm`",
        f->path, h->machine);
}

/* ---- the other files ------------------------------------------------------------------------- */

static int open_file(const larder__disk_folder *f, const char *name, int flags, int *out) {
    *out = openat(f->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | flags, 0600);
    return *out >= 0 ? 0
                     : larder__fail(larder__code_of_errno(errno), "%s/%s: cannot be opened: %s",
                                    f->path, name, strerror(errno));
}

/* Past the page cache, which has better use than bytes that memory above this has anyway; unless
 * the file system says no, to the opening or to the first read. */
static int open_data(larder__disk_folder *f) {
    _Alignas(LARDER__DISK_BLOCK) unsigned char block[LARDER__DISK_BLOCK];
    int rc = open_file(f, "data", O_DIRECT, &f->data_file);
    bool refused = rc < 0 && errno == EINVAL;
    if (rc == 0 && pread(f->data_file, block, sizeof block, 0) < 0 && errno == EINVAL) {
        close(f->data_file);
        refused = true;
    }
    return refused ? open_file(f, "data", 0, &f->data_file) : rc;
}

/* *fresh: it had another size. */
static int map_space(larder__disk_folder *f, bool *fresh) {
    struct stat st;
    f->space_bytes = larder__disk_space_bytes(f->head->budget);
    int rc = open_file(f, "space", 0, &f->space_file);
    if (rc < 0)
        return rc;
    if (fstat(f->space_file, &st) != 0)
        return larder__fail_errno(f->path, "space cannot be looked at");
    if (st.st_size != (off_t)f->space_bytes) {
        if (!f->alone)
            return larder__fail(LARDER_E_STATE,
                                "%s/space: has another size; `larder disk rm` "
                                "removes the folder's files",
                                f->path);
        /* It gets longer only with its blocks: a file of that size is taken to have them all. */
        const larder__disk_io *io = larder__disk_io_now();
        bool shorter = st.st_size > (off_t)f->space_bytes;
        int err = shorter && io->resize(f->space_file, (off_t)f->space_bytes) ? errno : 0;
        if (err == 0)
            err = io->reserve(f->space_file, (off_t)f->space_bytes);
        if (err)
            return larder__fail(larder__code_of_errno(err),
                                "%s/space: cannot be made %zu bytes long: %s", f->path,
                                f->space_bytes, strerror(err));
        *fresh = true;
    }
    void *at = NULL;
    rc = larder__disk_map(f, "space", f->space_file, f->space_bytes, &at);
    f->space = at;
    return rc;
}

/* What a killed process had not yet given its name. */
static void remove_temps(const larder__disk_folder *f) {
    int again = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (!d && again >= 0)
        close(again);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (larder__temp_is(e->d_name))
            unlinkat(f->dir, e->d_name, 0);
    if (d)
        closedir(d);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Alone: everything that others will rely on is looked at and put right. */
static int set_up(larder__disk_folder *f, const larder__disk_ask *ask) {
    larder__disk_head *h = f->head;
    struct stat st;
    char boot[LARDER__DISK_WHO];
    larder__disk_io_now()->boot(boot);
    uint64_t budget = ask->budget ? ask->budget : h->budget, index_bytes = 0;
    bool anew = !h->clean || strcmp(boot, h->boot) != 0 || budget != h->budget;
    int rc = larder__disk_indices_look(f, true, larder__disk_id(ask->identity, ask->keys));
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < f->index_count; i++)
        index_bytes += f->indices[i]->file_bytes;
    uint64_t limit = larder__disk_limit(budget, index_bytes);
    if (limit == 0)
        return larder__fail(LARDER_E_ARGS,
                            "%s: a budget of %llu bytes is too small beside indices of %llu bytes; "
                            "give it more, or `larder disk rm`",
                            f->path, (unsigned long long)budget, (unsigned long long)index_bytes);
    h->clean = 0;
    h->budget = budget;
    memcpy(h->boot, boot, sizeof boot);
    larder__disk_io_now()->machine(h->machine);
    larder__disk_head_seal(h);
    if (larder__disk_io_now()->sync(f->head_file) != 0)
        return larder__fail_errno(f->path, "head cannot be written");
    rc = map_space(f, &anew);
    if (rc == 0)
        rc = open_data(f);
    if (rc < 0)
        return rc;
    if (fstat(f->data_file, &st) != 0)
        return larder__fail_errno(f->path, "data cannot be looked at");
    anew = anew || limit != atomic_load(&h->limit);
    atomic_store(&h->limit, limit);
    atomic_store(&h->dirty, 0);
    atomic_store(&h->attached, 0);
    uint64_t era = atomic_load(&h->era);
    atomic_store(&h->era, era >= 1 && era <= LARDER__DISK_ERAS ? era : 1);
    h->too_long = h->barren = UINT64_MAX;
    if (anew)
        rc = larder__disk_count_anew(f);
    if (rc == 0 && (uint64_t)st.st_size != limit * LARDER__DISK_BLOCK)
        rc = larder__disk_shorten(f, limit);
    return rc;
}

static int join(larder__disk_folder *f) {
    bool fresh = false;
    int rc = larder__disk_indices_look(f, false, 0);
    if (rc == 0)
        rc = map_space(f, &fresh);
    if (rc == 0)
        rc = open_data(f);
    uint64_t era = atomic_load(&f->head->era);
    if (rc == 0 && (atomic_load(&f->head->limit) > (uint64_t)f->space_bytes * 8 || era < 1 ||
                    era > LARDER__DISK_ERAS))
        rc = larder__fail(LARDER_E_STATE,
                          "%s/head: is damaged; end the jobs that use it, then "
                          "`larder disk rm`",
                          f->path);
    return rc;
}

static int find_or_add(larder__disk_folder *f, const larder__disk_ask *ask) {
    uint64_t id = larder__disk_id(ask->identity, ask->keys);
    int rc = 0;
    if (!larder__disk_folder_find(f, id)) {
        rc = larder__disk_lock_take(f, DISK_WRITING, false, 10);
        if (rc == 0) {
            rc = larder__disk_giving(f, 10);
            if (rc == 0) {
                rc = larder__disk_index_add(f, ask);
                larder__disk_given(f);
            }
            larder__disk_lock_drop(f, DISK_WRITING);
        }
    }
    if (rc == 0)
        atomic_store(&larder__disk_folder_find(f, id)->head->used_at, (int64_t)time(NULL));
    return rc;
}

static int enter(larder__disk_folder *f, const larder__disk_ask *ask) {
    f->alone = set_lock(f, DISK_ATTACHED, F_WRLCK);
    int rc = f->alone ? 0 : larder__disk_lock_take(f, DISK_ATTACHED, true, 0);
    if (rc == 0)
        rc = map_head(f);
    if (rc == 0)
        rc = judge_head(f, ask);
    if (rc == 0)
        rc = check_machine(f);
    if (rc < 0)
        return rc;
    remove_temps(f);
    rc = f->alone ? set_up(f, ask) : join(f);
    if (rc == 0) {
        atomic_fetch_add(&f->head->attached, 1);
        f->joined = true;
    }
    if (rc == 0 && ask->keys)
        rc = find_or_add(f, ask);
    if (rc == 0 && f->alone && ask->begin_era) {
        rc = larder__disk_giving(f, 10);
        if (rc == 0) {
            larder__disk_begin_era(f);
            larder__disk_given(f);
        }
    }
    return rc;
}

/* Only the last part: where a disk is not mounted, its files must not land on another. */
static int open_dir(larder__disk_folder *f, const larder__disk_ask *ask) {
    int rc = 0;
    if (ask->make && mkdir(f->path, 0700) < 0 && errno != EEXIST)
        return errno == ENOENT
                   ? larder__fail(LARDER_E_IO,
                                  "%s: the folder that it would lie in is not there; is the disk "
                                  "mounted?",
                                  f->path)
                   : larder__fail_errno(f->path, "the folder cannot be made");
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return larder__fail_errno(f->path, "the folder cannot be opened");
    rc = check_owner(f);
    return rc < 0 ? rc : check_local(f);
}

static larder__disk_folder *folder_new(const char *path) {
    larder__disk_folder *f = larder__calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->dir = f->head_file = f->space_file = f->data_file = -1;
    pthread_mutex_init(&f->lock, NULL);
    f->path = larder__strdup(path);
    if (!f->path)
        larder__disk_folder_close(&f);
    return f;
}

int larder__disk_folder_open(larder__disk_folder **out, const char *path,
                             const larder__disk_ask *ask) {
    *out = NULL;
    larder__disk_folder *f = folder_new(path);
    int rc = f ? open_dir(f, ask) : LARDER_E_NOMEM;
    bool in = false;
    for (int attempt = 0; rc == 0 && !in && attempt < 10; attempt++) {
        rc = open_head(f, ask);
        if (rc == 0)
            rc = larder__disk_lock_take(f, DISK_DOOR, false, 10);
        in = rc == 0 && head_is_there(f);
        if (rc == 0 && !in) {
            close(f->head_file);
            f->head_file = -1;
        }
    }
    if (rc == 0 && !in)
        rc = larder__fail(LARDER_E_STATE, "%s: others keep removing it", path);
    if (rc == 0)
        rc = enter(f, ask);
    if (rc == 0)
        rc = larder__disk_whole(f);
    if (rc == 0 && f->alone && !set_lock(f, DISK_ATTACHED, F_RDLCK))
        rc = larder__fail_errno(path, "cannot be locked");
    if (in)
        larder__disk_lock_drop(f, DISK_DOOR);
    if (rc < 0) {
        larder__disk_folder_close(&f);
        return rc;
    }
    *out = f;
    return 0;
}

/* The last one, if nobody was killed, leaves it so that the next need not count. */
static void leave(larder__disk_folder *f) {
    bool door = larder__disk_lock_take(f, DISK_DOOR, false, 1) == 0;
    /* Who has lost blocks or a table stays counted, as one that was killed does. */
    bool lost = atomic_load(&f->lost) || larder__disk_gone(f);
    uint64_t others = lost ? 1 : atomic_fetch_sub(&f->head->attached, 1) - 1;
    if (door && others == 0 && !larder__disk_gone(f) && set_lock(f, DISK_ATTACHED, F_WRLCK)) {
        f->head->clean = 1;
        larder__disk_head_seal(f->head);
    }
    larder__disk_lock_drop(f, DISK_ATTACHED); /* before the next one comes in */
    if (door)
        larder__disk_lock_drop(f, DISK_DOOR);
}

void larder__disk_folder_close(larder__disk_folder **pf) {
    larder__disk_folder *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    if (f->joined)
        leave(f);
    larder__disk_indices_close(f);
    larder__mapped_close(f->space, f->space_bytes);
    larder__mapped_close(f->head, LARDER__DISK_BLOCK);
    int files[] = {f->data_file, f->space_file, f->head_file, f->dir};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] >= 0)
            close(files[i]);
    pthread_mutex_destroy(&f->lock);
    larder__free(f->path);
    larder__free(f);
}
