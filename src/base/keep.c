#include "base/keep.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

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
    return 0;
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

/* One that nobody else writes to; false: it is to be read. */
static bool map(int fd, larder__keep_file *out) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_uid != geteuid() ||
        (st.st_mode & S_IWOTH))
        return false;
    if (atomic_fetch_add(&mappings, 1) < most_mappings()) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            *out = (larder__keep_file){at, (size_t)st.st_size, true};
            return true;
        }
    }
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
    bool mapped = map(fd, out);
    close(fd);
    return mapped ? 0 : larder__file_read(path, MOST_BYTES, &out->bytes, &out->size);
}

void larder__keep_free(larder__keep_file *k) {
    if (k->mapped) {
        munmap(k->bytes, k->size);
        atomic_fetch_sub(&mappings, 1);
    } else
        larder__free(k->bytes);
    *k = (larder__keep_file){0};
}

/* ---- storing --------------------------------------------------------------------------------- */

int larder__keep_store(const char *name, const void *bytes, size_t size) {
    char folder[PATH_MAX], path[PATH_MAX];
    int rc = folder_path(folder, sizeof folder);
    if (rc == 0)
        rc = larder__keep_path(name, path, sizeof path);
    if (rc == 0)
        rc = larder__folder_make(folder, 0700); /* only the owner gets in */
    return rc < 0 ? rc : larder__file_write(path, bytes, size);
}
