#include "unix/pages.h"

#include "base/err.h"
#include "base/mem.h"
#include "unix/lent_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct larder__pages {
    larder__pages *next;
    larder__all_pages *all;
    int fd;
    bool huge;
    bool kernels; /* it reserves them and takes them back; else they are counted and no more */
    int refused;  /* errno; the kernel has no more than what is ready */
    bool told;    /* of that */
    unsigned char *at;
    uint64_t bytes, ready;
    uint64_t gone; /* of what is closed, in order; `ready` bytes of the others are counted */
};

/* ---- a piece --------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int refusal(const larder__pages *p) {
    return larder__fail(LARDER_E_NOMEM,
                        "shared memory of %llu bytes: %s, behind the first %llu; give the daemon "
                        "a smaller --cache or its cgroup more memory",
                        (unsigned long long)p->bytes, strerror(p->refused),
                        (unsigned long long)p->ready);
}

static bool may_have(const larder__pages *p, uint64_t piece) {
    bool can = !p->all || !p->all->limited || piece <= p->all->left;
    return can && larder__mem_take(piece);
}

int larder__pages_reserve(larder__pages *p) {
    uint64_t piece = least(p->bytes - p->ready, LARDER__PAGES_PIECE);
    if (piece == 0)
        return 0;
    if (p->refused)
        return refusal(p);
    if (!may_have(p, piece))
        return larder__fail(LARDER_E_FULL,
                            "shared memory of %llu bytes is more than there may be now behind the "
                            "first %llu",
                            (unsigned long long)p->bytes, (unsigned long long)p->ready);
    if (p->all && p->all->limited)
        p->all->left -= piece;
    if (p->kernels && fallocate(p->fd, 0, (off_t)p->ready, (off_t)piece) < 0) {
        int err = errno;
        larder__mem_give(piece);
        if (err == EINTR && p->at) /* a signal came in between: another time */
            return 1;
        p->refused = err;
        return refusal(p);
    }
    p->ready += piece;
    return p->ready < p->bytes;
}

/* The next one. False: that was the last. */
static bool give_back(larder__pages *p) {
    uint64_t piece = least(p->bytes - p->gone, LARDER__PAGES_PIECE);
    uint64_t counted = least(p->ready, piece);
    larder__lent_empty(p->at + p->gone, piece);
    larder__mem_give(counted);
    p->ready -= counted;
    p->gone += piece;
    return p->gone < p->bytes;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void leave(larder__pages **list, const larder__pages *p) {
    while (*list && *list != p)
        list = &(*list)->next;
    if (*list)
        *list = p->next;
}

/* A piece of the first that is closed. False: there is none. */
static bool empty(larder__pages **first) {
    larder__pages *p = *first;
    if (!p)
        return false;
    if (!give_back(p)) {
        *first = p->next;
        larder__free(p);
    }
    return true;
}

bool larder__pages_yield(void *arg) {
    larder__all_pages *all = arg;
    larder__pages **at = &all->closed;
    while (*at && (*at)->ready == 0) /* that would not make room */
        at = &(*at)->next;
    return empty(at);
}

static bool wants_more(const larder__pages *p) { return p->ready < p->bytes && !p->refused; }

bool larder__pages_to_do(const larder__all_pages *all) {
    const larder__pages *p = all->open;
    while (p && !wants_more(p) && !(p->refused && !p->told))
        p = p->next;
    return all->closed || p;
}

int larder__pages_work(larder__all_pages *all) {
    if (empty(&all->closed))
        return larder__pages_to_do(all);
    for (larder__pages *p = all->open; p; p = p->next) {
        if (wants_more(p)) {
            int rc = larder__pages_reserve(p);
            if (rc >= 0)
                return larder__pages_to_do(all);
            if (!p->refused)
                return rc;
        }
        if (p->refused && !p->told) {
            p->told = true;
            return refusal(p);
        }
    }
    return 0;
}

void larder__pages_end(larder__all_pages *all) {
    while (empty(&all->closed)) {
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int map(larder__pages *p) {
    p->fd = memfd_create("larder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (p->fd < 0)
        return larder__fail(larder__code_of_errno(errno), "shared memory: %s", strerror(errno));
    if (ftruncate(p->fd, (off_t)p->bytes) < 0) {
        p->refused = errno;
        return refusal(p);
    }
    int rc = larder__pages_reserve(p);
    if (rc < 0)
        return rc;
    /* No client can pull the ground away under the others. */
    if (fcntl(p->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return larder__fail(LARDER_E_IO, "sealing shared memory: %s", strerror(errno));
    p->at = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (p->at == MAP_FAILED) {
        p->at = NULL;
        return larder__fail(LARDER_E_NOMEM, "mapping %llu bytes: %s", (unsigned long long)p->bytes,
                            strerror(errno));
    }
    p->huge = madvise(p->at, p->bytes, MADV_HUGEPAGE) == 0;
    return 0;
}

int larder__pages_open(larder__pages **out, uint64_t bytes, larder__all_pages *all,
                       bool strangers_write) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    larder__pages *p = *out = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->fd = -1;
    p->kernels = !strangers_write;
    p->bytes = (bytes + page - 1) / page * page;
    int rc = map(p);
    if (rc < 0) {
        larder__pages_close(out, false);
        return rc;
    }
    if ((p->all = all)) {
        p->next = all->open;
        all->open = p;
    }
    return 0;
}

/* What was not reserved, and somebody has touched all the same, goes as if it had been: bit by bit.
 * It is counted if there is room as it is; to make some could take seconds, in which nobody is
 * served, and it is memory that whoever touched it could have had without us. */
static void take_rest(larder__pages *p) {
    struct stat st;
    uint64_t rest = p->bytes - p->ready;
    if (rest == 0)
        return;
    if (fstat(p->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 <= p->ready + LARDER__PAGES_PIECE) {
        larder__lent_empty(p->at + p->ready, rest);
        p->bytes = p->ready;
    } else if (larder__mem_take_spare(rest))
        p->ready = p->bytes;
}

void larder__pages_close(larder__pages **pp, bool vacant) {
    larder__pages *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    if (p->all)
        leave(&p->all->open, p);
    bool waits = vacant && p->all && p->kernels;
    if (waits)
        take_rest(p);
    if (p->fd >= 0) /* none is held by what waits, of which there may be much */
        close(p->fd);
    if (waits && p->bytes > LARDER__PAGES_PIECE) {
        p->next = p->all->closed;
        p->all->closed = p;
        return;
    }
    if (p->at && vacant && p->kernels)
        larder__lent_empty(p->at, p->bytes);
    else if (p->at)
        munmap(p->at, p->bytes);
    larder__mem_give(p->ready);
    larder__free(p);
}

/* ---- looking in ------------------------------------------------------------------------------ */

unsigned char *larder__pages_base(const larder__pages *p) { return p->at; }
uint64_t larder__pages_bytes(const larder__pages *p) { return p->bytes; }
uint64_t larder__pages_ready(const larder__pages *p) { return p->ready; }
int larder__pages_fd(const larder__pages *p) { return p->fd; }
bool larder__pages_huge(const larder__pages *p) { return p->huge; }
