#include "source/fd_pool.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_OPEN = 256, NONE = -1 };

typedef struct place {
    int fd; /* NONE: free */
    uint32_t file, users;
    uint64_t used; /* when it was taken last, in turns */
} place;

struct larder__fd_pool {
    pthread_mutex_t lock; /* guards all below */
    int ready;
    uint32_t places_used;
    uint64_t turn;
    int16_t *place_of; /* file -> place or NONE */
    place places[MOST_OPEN];
};

int larder__fd_pool_open(larder__fd_pool **out, uint32_t files) {
    struct rlimit limit = {.rlim_cur = 4 * MOST_OPEN};
    *out = NULL;
    larder__fd_pool *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t quarter = limit.rlim_cur / 4 < 1 ? 1 : limit.rlim_cur / 4;
    p->places_used = quarter < MOST_OPEN ? (uint32_t)quarter : MOST_OPEN;
    for (uint32_t i = 0; i < MOST_OPEN; i++)
        p->places[i].fd = NONE;
    p->place_of = larder__malloc(files * sizeof *p->place_of);
    p->ready = pthread_mutex_init(&p->lock, NULL) == 0;
    if (!p->place_of || !p->ready) {
        larder__fd_pool_close(&p);
        return LARDER_E_NOMEM;
    }
    for (uint32_t i = 0; i < files; i++)
        p->place_of[i] = NONE;
    *out = p;
    return 0;
}

void larder__fd_pool_close(larder__fd_pool **pp) {
    larder__fd_pool *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    for (uint32_t i = 0; i < MOST_OPEN; i++)
        if (p->places[i].fd != NONE)
            close(p->places[i].fd);
    if (p->ready)
        pthread_mutex_destroy(&p->lock);
    larder__free(p->place_of);
    larder__free(p);
}

/* A free place, or the one unused for longest; NULL when all are in use. */
static place *find_room(larder__fd_pool *p) {
    place *best = NULL;
    for (uint32_t i = 0; i < p->places_used; i++) {
        place *q = &p->places[i];
        if (q->fd == NONE)
            return q;
        if (q->users == 0 && (!best || q->used < best->used))
            best = q;
    }
    return best;
}

static int enter(larder__fd_pool *p, uint32_t which, int fd) {
    place *q = p->place_of[which] == NONE ? find_room(p) : NULL;
    if (!q)
        return NONE; /* another thread was faster, or no room: this one serves once */
    int old = q->fd;
    if (old != NONE)
        p->place_of[q->file] = NONE;
    *q = (place){.fd = fd, .file = which, .users = 1, .used = ++p->turn};
    p->place_of[which] = (int16_t)(q - p->places);
    return old;
}

int larder__fd_pool_take(larder__fd_pool *p, uint32_t which, const char *path) {
    pthread_mutex_lock(&p->lock);
    int fd = NONE;
    if (p->place_of[which] != NONE) {
        place *q = &p->places[p->place_of[which]];
        q->users++;
        q->used = ++p->turn;
        fd = q->fd;
    }
    pthread_mutex_unlock(&p->lock);
    if (fd != NONE)
        return fd;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    pthread_mutex_lock(&p->lock);
    int old = enter(p, which, fd);
    pthread_mutex_unlock(&p->lock);
    if (old != NONE)
        close(old);
    return fd;
}

void larder__fd_pool_give(larder__fd_pool *p, uint32_t which, int fd) {
    pthread_mutex_lock(&p->lock);
    int16_t at = p->place_of[which];
    int ours = at != NONE && p->places[at].fd == fd;
    if (ours)
        p->places[at].users--;
    pthread_mutex_unlock(&p->lock);
    if (!ours)
        close(fd);
}
