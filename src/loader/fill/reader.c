/* Readers: threads that only read. Storage behind a wire answers late but many at once; a thread
 * that waits for it prepares nothing meanwhile. So while reads are seen to be mostly waiting, they
 * are left to readers, as many as `inflight` allows, and the loader's own threads prepare what has
 * come. Where storage answers at once no reader is ever started. Who reads changes no result. */
#include "loader/inside.h"

static const double waiting = 100e-6;  /* seconds of a joint read from which on it may be waiting */
static const double idle_share = 0.75; /* and the share of it without a processor */

bool larder__readers_wanted(const larder_loader *l) {
    return l->readers.blocking && l->readers.most > 0;
}

static void *run(void *arg) {
    larder_loader *l = arg;
    larder__readers *r = &l->readers;
    pthread_mutex_lock(&l->lock);
    larder__seat *seat = &l->seats[l->conf.threads + LARDER__FREIGHT_THREADS + r->seated++];
    seat->reader = true;
    larder__seat_take(seat);
    while (!l->stop && !l->failed) {
        larder__place *p = larder__readers_wanted(l) ? larder__unread_find(l) : NULL;
        size_t from, n;
        r->called = false;
        if (!p) {
            r->idle++;
            pthread_cond_wait(&l->unread, &l->lock);
            r->idle--;
            continue;
        }
        larder__unread_take(l, p, &from, &n);
        if (n)
            larder__unread_keep(l, p, from, n);
    }
    larder__thread_ends(l);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* There may be many of them: a small stack each. */
static bool start(larder_loader *l) {
    enum { STACK = 512 << 10 };
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    int err = pthread_attr_setstacksize(&attr, STACK);
    if (err == 0)
        err = pthread_create(&l->readers.threads[l->readers.started], &attr, run, l);
    pthread_attr_destroy(&attr);
    return err == 0;
}

/* One at a time: whoever comes calls the next if there is more. */
void larder__readers_call(larder_loader *l) {
    larder__readers *r = &l->readers;
    if (r->called || l->stop || l->failed)
        return;
    if (r->idle) {
        r->called = true;
        pthread_cond_signal(&l->unread);
    } else if (r->started < r->most) {
        if (start(l)) {
            __atomic_fetch_add(&r->started, 1,
                               __ATOMIC_RELAXED); /* figures look without the lock */
            r->called = true;
        } else
            r->most = r->started; /* what there is has to do */
    }
}

void larder__readers_note(larder_loader *l, larder__place *p, double wall, double cpu) {
    larder__readers *r = &l->readers;
    pthread_mutex_lock(&l->lock);
    larder__stall_note(l);
    if (p)
        atomic_fetch_sub(&p->reading, 1);
    double part = r->wall > 0 ? 0.25 : 1;
    r->wall += (wall - r->wall) * part;
    r->cpu += (cpu - r->cpu) * part;
    bool was = r->blocking;
    r->blocking = r->wall > waiting && r->cpu < (1 - idle_share) * r->wall;
    if (was && !r->blocking)
        pthread_cond_broadcast(&l->work); /* they read themselves again */
    pthread_mutex_unlock(&l->lock);
}
