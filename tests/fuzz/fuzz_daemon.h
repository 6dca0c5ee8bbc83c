/* A daemon that says whatever the input says: for the ends of the wire that listen to one. There is
 * a socket to connect to, but what is heard there comes from memory, so one thread is enough. */
#ifndef LARDER_FUZZ_DAEMON_H
#define LARDER_FUZZ_DAEMON_H

#include "base/world.h"
#include "unix/frame.h"
#include "unix/message.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FAKE_ARENA = 1 << 16, FAKE_MEMORIES = 4, FAKE_PIECE = 1000 };

static struct {
    char folder[32], path[64];
    int listener, accepted;
    int memory[FAKE_MEMORIES], count;
    const unsigned char *says;
    size_t left;
    bool met; /* the descriptors have gone */
    _Atomic unsigned clock;
} fake = {.folder = "/tmp/larder-fuzz-XXXXXX", .listener = -1, .accepted = -1};

/* Seconds pass quickly here, or whoever waits in vain would. */
static double fake_now(void) { return 3.0 * atomic_fetch_add(&fake.clock, 1); }
static void fake_sleep(double until) { (void)until; }
static int fake_chance(void *out, size_t n) {
    memset(out, 7, n);
    return 0;
}

/* Nobody reads what is said; but from then on there is something to be heard. */
static ssize_t fake_send(int to, const struct msghdr *m, int flags) {
    ssize_t n = 0;
    (void)to, (void)flags;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        n += (ssize_t)m->msg_iov[i].iov_len;
    for (int fd; (fd = accept(fake.listener, NULL, NULL)) >= 0; fake.accepted = fd) {
        if (fake.accepted >= 0)
            close(fake.accepted); /* it has come again */
        if (write(fd, "x", 1) != 1)
            abort();
    }
    return n;
}

static void pass_memory(struct msghdr *m) {
    struct cmsghdr *c = m->msg_control;
    size_t bytes = (size_t)fake.count * sizeof(int);
    int copies[FAKE_MEMORIES];
    if (fake.met || !c || m->msg_controllen < CMSG_SPACE(bytes)) {
        m->msg_controllen = 0;
        return;
    }
    for (int i = 0; i < fake.count; i++)
        copies[i] = dup(fake.memory[i]);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), copies, bytes);
    m->msg_controllen = CMSG_SPACE(bytes);
    fake.met = true;
}

static ssize_t fake_receive(int fd, struct msghdr *m, int flags) {
    size_t n = fake.left < m->msg_iov->iov_len ? fake.left : m->msg_iov->iov_len;
    (void)fd, (void)flags;
    n = n < FAKE_PIECE ? n : FAKE_PIECE;
    memcpy(m->msg_iov->iov_base, fake.says, n);
    fake.says += n;
    fake.left -= n;
    pass_memory(m);
    return (ssize_t)n; /* 0: it is gone */
}

static void fake_leave(void) {
    unlink(fake.path);
    rmdir(fake.folder);
}

/* Sealed, as a real one's. Every head in the arena is one that somebody has made or failed to make,
 * so that nobody sleeps on it. */
static int fake_memory(uint64_t bytes) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        abort();
    for (uint64_t at = 0; at < bytes; at += 64) {
        const larder__block_head head = {.state =
                                             at % 192 ? LARDER__BLOCK_FULL : LARDER__BLOCK_FAILED,
                                         .size = (uint32_t)at % 5000,
                                         .held = (uint8_t)(at / 64 % 4)};
        size_t n = bytes - at < sizeof head ? (size_t)(bytes - at) : sizeof head;
        if (pwrite(fd, &head, n, (off_t)at) != (ssize_t)n)
            abort();
    }
    return fd;
}

static void fake_open(const uint64_t *bytes, int count) {
    static const larder__world world = {fake_now, fake_sleep, fake_chance, fake_send, fake_receive};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!mkdtemp(fake.folder))
        abort();
    snprintf(fake.path, sizeof fake.path, "%s/s", fake.folder);
    memcpy(a.sun_path, fake.path, strlen(fake.path));
    fake.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fake.listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(fake.listener, 4) < 0)
        abort();
    for (fake.count = 0; fake.count < count; fake.count++)
        fake.memory[fake.count] = fake_memory(bytes[fake.count]);
    larder__world_use(&world);
    atexit(fake_leave);
}

/* What the next client hears: a frame that is right, then the input. */
static unsigned char *fake_says(uint16_t type, const larder_writer *body, const uint8_t *data,
                                size_t size) {
    larder_writer w = {0};
    size_t frame = larder__frame_begin(&w, type);
    larder_write_bytes(&w, body->bytes, body->size);
    larder__frame_end(&w, frame);
    larder_write_bytes(&w, data, size);
    if (w.code < 0)
        abort();
    fake.says = w.bytes;
    fake.left = w.size;
    fake.met = false;
    return w.bytes;
}

static void fake_hang_up(void) {
    if (fake.accepted >= 0)
        close(fake.accepted);
    fake.accepted = -1;
    for (int fd; (fd = accept(fake.listener, NULL, NULL)) >= 0;) /* who tried again and gave up */
        close(fd);
}

#endif
