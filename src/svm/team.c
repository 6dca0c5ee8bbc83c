#include "svm/team.h"

#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct helper {
    larder__team *team;
    pthread_t thread;
    unsigned number;
} helper;

struct larder__team {
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    size_t started; /* helpers with a thread */
    unsigned threads;
    unsigned busy;          /* helpers inside the current run; under the lock */
    unsigned long run;      /* counts runs; under the lock */
    bool leave;             /* under the lock */
    larder__piece_fn *work; /* these three: set before a run begins, read during it */
    void *arg;
    size_t pieces;
    _Atomic size_t next;
    helper helpers[];
};

static void work_on(larder__team *t, unsigned thread) {
    size_t piece;
    while ((piece = atomic_fetch_add(&t->next, 1)) < t->pieces)
        t->work(t->arg, piece, thread);
}

static void *help(void *arg) {
    helper *h = arg;
    larder__team *t = h->team;
    unsigned long seen = 0;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->run == seen && !t->leave)
            pthread_cond_wait(&t->begin, &t->lock);
        if (t->leave)
            break;
        seen = t->run;
        pthread_mutex_unlock(&t->lock);
        work_on(t, h->number);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0)
            pthread_cond_signal(&t->end);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static unsigned cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (unsigned)n : 1;
}

int larder__team_open(larder__team **out, unsigned threads) {
    threads = threads ? threads : cores();
    larder__team *t = larder__calloc(1, sizeof *t + threads * sizeof *t->helpers);
    *out = t;
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory for %u threads", threads);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begin, NULL);
    pthread_cond_init(&t->end, NULL);
    t->threads = threads;
    for (unsigned i = 1; i < threads; i++) {
        helper *h = &t->helpers[t->started];
        *h = (helper){.team = t, .number = i};
        int err = pthread_create(&h->thread, NULL, help, h);
        if (err) {
            larder__team_close(out);
            return larder__fail(LARDER_E_IO, "cannot start thread %u: %s", i, strerror(err));
        }
        t->started++;
    }
    return 0;
}

void larder__team_close(larder__team **team) {
    larder__team *t = *team;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->leave = true;
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < t->started; i++)
        pthread_join(t->helpers[i].thread, NULL);
    pthread_cond_destroy(&t->begin);
    pthread_cond_destroy(&t->end);
    pthread_mutex_destroy(&t->lock);
    larder__free(t);
    *team = NULL;
}

unsigned larder__team_threads(const larder__team *t) { return t->threads; }

void larder__team_run(larder__team *t, larder__piece_fn *work, void *arg, size_t pieces) {
    bool alone = t->started == 0 || pieces < 2;
    t->work = work, t->arg = arg, t->pieces = pieces;
    atomic_store(&t->next, 0);
    if (!alone) {
        pthread_mutex_lock(&t->lock);
        t->busy = (unsigned)t->started;
        t->run++;
        pthread_cond_broadcast(&t->begin);
        pthread_mutex_unlock(&t->lock);
    }
    work_on(t, 0);
    if (alone)
        return;
    pthread_mutex_lock(&t->lock);
    while (t->busy)
        pthread_cond_wait(&t->end, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
