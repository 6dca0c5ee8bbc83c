#include "unix/lent_memory.h"

#include "base/err.h"
#include "base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Of the kernel's interface; its headers are not everywhere where a C library is. */
enum { TMPFS_MAGIC = 0x01021994 };

/* NULL: fit to be mapped; else what is wrong with it. Memory of pages of the usual size alone: of
 * huge ones there may be none left when they are touched. Everything else cannot be sealed. */
static const char *fault_of(int fd, uint64_t bytes) {
    struct stat st;
    struct statfs fs;
    if (fd < 0)
        return "is missing";
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || !S_ISREG(st.st_mode) ||
        fs.f_type != TMPFS_MAGIC)
        return "is no shared memory";
    if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return "is not sealed against shrinking";
    return bytes == 0 || (uint64_t)st.st_size < bytes ? "is smaller than it says" : NULL;
}

void *larder__lent_map(int fd, uint64_t bytes, int how, const char *what) {
    const char *fault = fault_of(fd, bytes);
    if (fault) {
        larder__fail(LARDER_E_FORMAT, "the daemon's %s %s: it is not mapped", what, fault);
        return NULL;
    }
    void *at = mmap(NULL, bytes, how, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        larder__fail(larder__code_of_errno(errno), "mapping the daemon's %s: %s", what,
                     strerror(errno));
        return NULL;
    }
    return at;
}

int larder__lent_new(const char *name, size_t bytes, int how, void **at) {
    if (!larder__mem_take(bytes))
        return LARDER_E_NOMEM;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        *at = mmap(NULL, bytes, how, MAP_SHARED, fd, 0);
    if (*at != MAP_FAILED)
        return fd;
    int err = errno;
    if (fd >= 0)
        close(fd);
    larder__mem_give(bytes);
    return larder__fail(larder__code_of_errno(err), "memory to share (%s): %s", name,
                        strerror(err));
}

void larder__lent_empty(void *at, size_t bytes) {
    madvise(at, bytes, MADV_REMOVE); /* or else it goes with the last descriptor */
    munmap(at, bytes);
}

void larder__lent_free(int fd, void *at, size_t bytes) {
    munmap(at, bytes);
    close(fd);
    larder__mem_give(bytes);
}

int larder__lent_view(int fd) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int view = fchmod(fd, 0600) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (view < 0)
        larder__fail(LARDER_E_UNSUPPORTED,
                     "the daemon cannot lend its memory to another user for reading alone (%s: "
                     "%s), and does not lend it otherwise",
                     path, strerror(errno));
    return view;
}
