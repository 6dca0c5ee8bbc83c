#include "source/ring.h"

#include "base/err.h"
#include "base/mem.h"

#if LARDER_HAVE_URING

#include "base/uring_late.h"

#include <errno.h>
#include <fcntl.h>

enum { STEPS = 3, ENTRIES = 256 }; /* open, read, close; a power of two that holds 64 of each */

struct larder__ring {
    struct io_uring uring;
    bool ready;
    struct iovec pieces[LARDER__RING_FILES][2];
    char beyond[LARDER__RING_FILES];
};

int larder__ring_open(larder__ring **out) {
    *out = NULL;
    int rc = larder__uring_open();
    if (rc < 0)
        return rc;
    larder__ring *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    int none[LARDER__RING_FILES];
    for (size_t i = 0; i < LARDER__RING_FILES; i++)
        none[i] = -1;
    rc = io_uring_queue_init(ENTRIES, &r->uring, 0);
    r->ready = rc == 0;
    if (rc == 0)
        rc = io_uring_register_files(&r->uring, none, LARDER__RING_FILES);
    if (rc < 0) {
        larder__ring_close(&r);
        return larder__fail(LARDER_E_UNSUPPORTED, "io_uring is not to be had here: %s",
                            strerror(-rc));
    }
    *out = r;
    return 0;
}

void larder__ring_close(larder__ring **pr) {
    larder__ring *r = *pr;
    *pr = NULL;
    if (r && r->ready)
        io_uring_queue_exit(&r->uring);
    larder__free(r);
}

/* One chain: the file goes into slot i of the ring's own table, never into the process's. The read
 * is hard-linked, since a short one (the file shrank) would otherwise leave the slot open. */
static void prepare(larder__ring *r, int folder, const larder__file_want *want, void *into,
                    size_t i) {
    r->pieces[i][0] = (struct iovec){into, want->bytes};
    r->pieces[i][1] = (struct iovec){&r->beyond[i], 1};
    struct io_uring_sqe *s = io_uring_get_sqe(&r->uring);
    io_uring_prep_openat_direct(s, folder, want->path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0,
                                (unsigned)i);
    s->flags |= IOSQE_IO_LINK;
    s->user_data = i * STEPS;
    s = io_uring_get_sqe(&r->uring);
    io_uring_prep_readv(s, (int)i, r->pieces[i], 2, 0);
    s->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
    s->user_data = i * STEPS + 1;
    s = io_uring_get_sqe(&r->uring);
    io_uring_prep_close_direct(s, (unsigned)i);
    s->user_data = i * STEPS + 2;
}

static void take_completion(struct io_uring_cqe *cqe, int64_t *results) {
    size_t i = cqe->user_data / STEPS, step = cqe->user_data % STEPS;
    if (step == 0 && cqe->res < 0)
        results[i] = cqe->res;
    else if (step == 1 && results[i] == INT64_MIN)
        results[i] = cqe->res;
}

bool larder__ring_read(larder__ring *r, int folder, const larder__file_want *wants,
                       void *const *into, size_t n, int64_t *results) {
    for (size_t i = 0; i < n; i++) {
        results[i] = INT64_MIN;
        prepare(r, folder, &wants[i], into[i], i);
    }
    size_t sent = 0, all = n * STEPS;
    bool fine = true;
    while (fine && sent < all) {
        int rc = io_uring_submit_and_wait(&r->uring, (unsigned)(all - sent));
        if (rc > 0)
            sent += (size_t)rc;
        fine = rc > 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY;
    }
    /* Everything that went in must come out: the kernel writes into our buffers until then. */
    for (size_t back = 0; back < sent;) {
        struct io_uring_cqe *cqe;
        int rc = io_uring_wait_cqe(&r->uring, &cqe);
        if (rc == -EINTR || rc == -EAGAIN)
            continue;
        if (rc < 0)
            return false;
        take_completion(cqe, results);
        io_uring_cqe_seen(&r->uring, cqe);
        back++;
    }
    return fine;
}

#else

int larder__ring_open(larder__ring **out) {
    *out = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build has no liburing (apt install liburing-dev)");
}
void larder__ring_close(larder__ring **pr) { *pr = NULL; }
bool larder__ring_read(larder__ring *r, int folder, const larder__file_want *wants,
                       void *const *into, size_t n, int64_t *results) {
    (void)r, (void)folder, (void)wants, (void)into, (void)n, (void)results;
    return false;
}

#endif
