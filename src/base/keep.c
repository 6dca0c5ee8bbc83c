#include "base/keep.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/own_user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)4 << 30)

/* Of this user or of root. Root's are nobody else's to change, and whoever runs by sudo in
 * another's home does not believe that one. */
static bool is_ours(const struct stat *st) { return larder__is_own_or_root(st->st_uid); }

/* What is kept says where samples lie and what a GPU runs, so nobody else may lay it down. A folder
 * that is not there yet will be this user's alone. */
static int check_owner(const char *folder) {
    struct stat st;
    if (stat(folder, &st) != 0 || (is_ours(&st) && !(st.st_mode & 022)))
        return 0;
    return larder__fail(
        LARDER_E_ARGS,
        "%s: others may write there (owner %u%s, mode %o), so nothing is kept in it "
        "or believed of it; chmod go-w it, or name another in LARDER_CACHE_DIR",
        folder, (unsigned)st.st_uid, larder__why_not_own(st.st_uid),
        (unsigned)(st.st_mode & 07777));
}

static int folder_path(char *out, size_t cap) {
    const char *own = getenv("LARDER_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = own && own[0]     ? snprintf(out, cap, "%s", own)
            : xdg && xdg[0]   ? snprintf(out, cap, "%s/larder", xdg)
            : home && home[0] ? snprintf(out, cap, "%s/.cache/larder", home)
                              : -1;
    if (n < 0 || (size_t)n >= cap)
        return larder__fail(LARDER_E_NOTFOUND,
                            "there is no cache folder: neither LARDER_CACHE_DIR nor "
                            "XDG_CACHE_HOME nor HOME is set, or it is too long");
    return check_owner(out);
}

int larder__keep_path(const char *name, char *out, size_t cap) {
    int rc = folder_path(out, cap);
    size_t n = rc == 0 ? strlen(out) : 0;
    if (rc == 0 && (size_t)snprintf(out + n, cap - n, "/%s", name) >= cap - n)
        rc = larder__fail(LARDER_E_ARGS, "the cache folder's path is too long");
    return rc;
}

/* ---- mapping --------------------------------------------------------------------------------- */

static _Atomic int64_t mappings; /* of this process's kept files */

/* Half of what a process may have: the rest is for its memory and its threads. */
static int64_t most_mappings(void) {
    enum { USUAL = 65530 };
    static _Atomic int64_t known;
    long long n = USUAL;
    if (atomic_load(&known))
        return atomic_load(&known);
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f && fscanf(f, "%18lld", &n) != 1)
        n = USUAL;
    if (f)
        fclose(f);
    atomic_store(&known, n / 2 + 1);
    return n / 2 + 1;
}

/* False: there are too many already, and it is to be read. */
static bool map(int fd, size_t size, larder__keep_file *out) {
    _Atomic bool *lost = NULL;
    void *at = NULL;
    if (atomic_fetch_add(&mappings, 1) < most_mappings() &&
        (lost = larder__calloc(1, sizeof *lost)) &&
        larder__mapped_open(&at, size, PROT_READ, MAP_PRIVATE, fd, lost) == 0) {
        *out = (larder__keep_file){at, size, true, lost};
        return true;
    }
    larder__free((void *)lost);
    atomic_fetch_sub(&mappings, 1);
    return false;
}

int larder__keep_map(const char *name, larder__keep_file *out) {
    char path[PATH_MAX];
    *out = (larder__keep_file){0};
    int rc = larder__keep_path(name, path, sizeof path);
    if (rc < 0)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return larder__fail_errno(path, "cannot be opened");
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || !is_ours(&st) ||
        (st.st_mode & 022))
        rc = larder__fail(LARDER_E_ARGS, "%s: is no plain file of this user's own", path);
    bool mapped = rc == 0 && map(fd, (size_t)st.st_size, out);
    close(fd);
    return rc < 0 || mapped ? rc : larder__file_read(path, MOST_BYTES, &out->bytes, &out->size);
}

void larder__keep_free(larder__keep_file *k) {
    if (k->mapped) {
        larder__mapped_close(k->bytes, k->size);
        larder__free((void *)k->lost);
        atomic_fetch_sub(&mappings, 1);
    } else
        larder__free(k->bytes);
    *k = (larder__keep_file){0};
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Under a umask of 002 its group could write to it, and it would not be believed. */
static int write_own(const char *path, const void *bytes, size_t size) {
    larder__fresh f;
    int rc = larder__fresh_open(&f, path);
    if (rc < 0)
        return rc;
    if (fchmod(fileno(f.to), 0600) < 0)
        rc = larder__fail_errno(path, "cannot be made this user's alone");
    else if (fwrite(bytes, 1, size, f.to) != size)
        rc = larder__fail_errno(path, "cannot be written");
    return larder__fresh_close(&f, rc);
}

int larder__keep_store(const char *name, const void *bytes, size_t size) {
    char folder[PATH_MAX], path[PATH_MAX];
    int rc = folder_path(folder, sizeof folder);
    if (rc == 0)
        rc = larder__folder_make(folder, 0700); /* only the owner gets in */
    if (rc == 0)
        rc = larder__keep_path(name, path, sizeof path); /* whoever made the folder */
    return rc < 0 ? rc : write_own(path, bytes, size);
}
