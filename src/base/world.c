#include "base/world.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

static double real_now(void) { return larder__now(); }
static void real_sleep(double when) { larder__sleep_until(when); }

static int real_chance(void *out, size_t bytes) {
    return getrandom(out, bytes, 0) == (ssize_t)bytes
               ? 0
               : larder__fail(LARDER_E_IO, "the system gives no random bytes: %s", strerror(errno));
}

static const larder__world real = {real_now, real_sleep, real_chance, sendmsg, recvmsg};
static const larder__world *world = &real;

const larder__world *larder__world_use(const larder__world *other) {
    const larder__world *before = world;
    world = other ? other : &real;
    return before;
}

double larder__world_now(void) { return world->now(); }
void larder__world_sleep_until(double when) { world->sleep_until(when); }
int larder__world_chance(void *out, size_t bytes) { return world->chance(out, bytes); }
ssize_t larder__world_send(int fd, const struct msghdr *m, int flags) {
    return world->send(fd, m, flags);
}
ssize_t larder__world_receive(int fd, struct msghdr *m, int flags) {
    return world->receive(fd, m, flags);
}
ssize_t larder__world_send_bytes(int fd, const void *bytes, size_t n, int flags) {
    struct iovec v = {(void *)(uintptr_t)bytes, n};
    return world->send(fd, &(struct msghdr){.msg_iov = &v, .msg_iovlen = 1}, flags);
}
