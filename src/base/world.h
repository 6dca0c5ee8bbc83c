/* What those who share a cache depend on and cannot decide: time, chance, and what comes over a
 * socket. One struct of functions, the real ones unless a test puts others in their place; then
 * jobs, daemon and carriers (src/shared, src/unix, src/redis) live in that world. Disk is not in
 * it: none of them writes any. tools/check-layers.sh sees to it that they ask nobody else. */
#ifndef LARDER_BASE_WORLD_H
#define LARDER_BASE_WORLD_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef struct larder__world {
    double (*now)(void); /* seconds, as larder__now */
    void (*sleep_until)(double when);
    int (*chance)(void *out, size_t bytes); /* 0, or E_IO with a sentence */
    ssize_t (*send)(int fd, const struct msghdr *, int flags);
    ssize_t (*receive)(int fd, struct msghdr *, int flags);
} larder__world;

/* From now on, and until it is called with what it gave; NULL: the real one. Not while others use
 * it. */
const larder__world *larder__world_use(const larder__world *);

double larder__world_now(void);
void larder__world_sleep_until(double when);
int larder__world_chance(void *out, size_t bytes);
ssize_t larder__world_send(int fd, const struct msghdr *, int flags);
ssize_t larder__world_receive(int fd, struct msghdr *, int flags);
ssize_t larder__world_send_bytes(int fd, const void *, size_t, int flags); /* as send */

#endif
