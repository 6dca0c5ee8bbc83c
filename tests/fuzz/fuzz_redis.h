/* A Redis that says whatever the input says, to one thread: there is a socket to connect to, but
 * what is heard there comes from memory. It answers PING by itself, so that connections stand. */
#ifndef LARDER_FUZZ_REDIS_H
#define LARDER_FUZZ_REDIS_H

#include "base/world.h"
#include "redis/values_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    char folder[32], path[64];
    int listener;
    const unsigned char *says;
    size_t left;
    bool pinged;
    double clock;
} fake = {.folder = "/tmp/larder-fuzz-XXXXXX", .listener = -1};

static double fake_now(void) { return fake.clock += 0.01; }
static void fake_sleep(double until) { (void)until; }
static int fake_chance(void *out, size_t n) {
    memset(out, 7, n);
    return 0;
}

static ssize_t fake_send(int to, const struct msghdr *m, int flags) {
    static const char ping[] = "PING\r\n";
    const size_t most = sizeof ping - 1;
    ssize_t n = 0;
    (void)to, (void)flags;
    for (size_t i = 0; i < m->msg_iovlen; i++) {
        const struct iovec *v = &m->msg_iov[i];
        n += (ssize_t)v->iov_len;
        fake.pinged = v->iov_len >= most &&
                      memcmp((const char *)v->iov_base + v->iov_len - most, ping, most) == 0;
    }
    for (int fd; (fd = accept(fake.listener, NULL, NULL)) >= 0;)
        close(fd);
    return n;
}

static ssize_t fake_receive(int fd, struct msghdr *m, int flags) {
    static const char pong[] = "+PONG\r\n";
    const struct iovec *to = m->msg_iov;
    (void)fd, (void)flags;
    if (fake.pinged && to->iov_len >= sizeof pong - 1) {
        fake.pinged = false;
        memcpy(to->iov_base, pong, sizeof pong - 1);
        return sizeof pong - 1;
    }
    size_t n = fake.left < to->iov_len ? fake.left : to->iov_len;
    if (n)
        memcpy(to->iov_base, fake.says, n);
    fake.says += n;
    fake.left -= n;
    return (ssize_t)n; /* 0: it is gone */
}

static void fake_leave(void) {
    unlink(fake.path);
    rmdir(fake.folder);
}

static void fake_says(const uint8_t *data, size_t size) {
    static const larder__world world = {fake_now, fake_sleep, fake_chance, fake_send, fake_receive};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    fake.says = data;
    fake.left = size;
    fake.pinged = false;
    fake.clock = 100;
    if (fake.listener >= 0)
        return;
    if (!mkdtemp(fake.folder))
        abort();
    snprintf(fake.path, sizeof fake.path, "%s/s", fake.folder);
    memcpy(a.sun_path, fake.path, strlen(fake.path));
    fake.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fake.listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(fake.listener, 64) < 0)
        abort();
    larder__world_use(&world);
    atexit(fake_leave);
}

/* As larder__redis_values_open, without the thread that writes. */
static larder__redis_values *fake_values(bool cluster, bool replicas) {
    larder__redis_values *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    pthread_mutex_init(&f->grow, NULL);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->settled, NULL);
    f->conf = (larder__redis_conf){.hosts = {{"h", 1}},
                                   .host_count = 1,
                                   .cluster = cluster,
                                   .replicas = replicas,
                                   .lanes = 2,
                                   .timeout = 5,
                                   .patience = 10,
                                   .job = "fuzz"};
    snprintf(f->conf.path, sizeof f->conf.path, "%s", fake.path);
    snprintf(f->space, sizeof f->space, "larder:1:0000000000000001:mine");
    return f;
}

static void fake_values_close(larder__redis_values **pf) {
    larder__redis_values *f = *pf;
    larder__redis_nodes_close(f);
    pthread_mutex_destroy(&f->grow);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->settled);
    free(f);
    *pf = NULL;
}

#endif
