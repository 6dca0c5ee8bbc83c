#include "svm/team.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
    bool called; /* helpers */
    double opened;
    bool patient;           /* there is a core for each thread: a short wait may be awake */
    _Atomic uint64_t run;   /* its number, whether it is over, and how many helpers are in it */
    _Atomic bool leave;     /* set under the lock */
    larder__piece_fn *work; /* these three: changed while no helper is in a run */
    void *arg;
    size_t pieces;
    _Atomic size_t next;
    helper helpers[];
};

/* A helper that wakes when all pieces are taken does not enter any more, and nobody waits for it.
 */
enum { INSIDE = 0x7fff, OVER = 0x8000, NUMBER_SHIFT = 16 };
static uint64_t number_of(uint64_t run) { return run >> NUMBER_SHIFT; }

/* Between two short pieces of work a thread that sleeps wakes too late to be of use, so waiting
 * begins awake. Not for long: most gaps of a training are shorter than this, and whoever else wants
 * the core gets it in the others. (To yield instead gives a whole slice away.) */
static const double awake_seconds = 150e-6;

static bool stay_awake(const larder__team *t, double *since) {
    if (!t->patient)
        return false;
    for (int i = 0; i < 16; i++)
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
    double now = larder__now();
    if (*since == 0)
        *since = now;
    return now - *since < awake_seconds;
}

static void work_on(larder__team *t, unsigned thread) {
    size_t piece;
    while ((piece = atomic_fetch_add(&t->next, 1)) < t->pieces)
        t->work(t->arg, piece, thread);
}

static void wait_for_run(larder__team *t, uint64_t seen) {
    double since = 0;
    do
        if (number_of(atomic_load(&t->run)) != seen || atomic_load(&t->leave))
            return;
    while (stay_awake(t, &since));
    pthread_mutex_lock(&t->lock);
    while (number_of(atomic_load(&t->run)) == seen && !atomic_load(&t->leave))
        pthread_cond_wait(&t->begin, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* The number of the run, which is over or was entered. */
static bool enter(larder__team *t, uint64_t *seen) {
    uint64_t run = atomic_load(&t->run);
    while (!(run & OVER))
        if (atomic_compare_exchange_weak(&t->run, &run, run + 1)) {
            *seen = number_of(run);
            return true;
        }
    *seen = number_of(run);
    return false;
}

static void *help(void *arg) {
    helper *h = arg;
    larder__team *t = h->team;
    for (uint64_t seen = 0;;) {
        wait_for_run(t, seen);
        if (atomic_load(&t->leave))
            return NULL;
        if (!enter(t, &seen))
            continue;
        work_on(t, h->number);
        uint64_t run = atomic_fetch_sub(&t->run, 1);
        if ((run & OVER) && (run & INSIDE) == 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->end);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

static unsigned cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (unsigned)n : 1;
}

int larder__team_open(larder__team **out, unsigned threads) {
    unsigned there = cores();
    threads = threads ? threads : there;
    larder__team *t = larder__calloc(1, sizeof *t + threads * sizeof *t->helpers);
    *out = t;
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory for %u threads", threads);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begin, NULL);
    pthread_cond_init(&t->end, NULL);
    t->threads = threads;
    t->patient = threads <= there;
    t->opened = larder__now();
    atomic_store(&t->run, OVER);
    return 0;
}

/* Starting a helper takes longer than many a small set, so they come after some time of work. Where
 * the system has none to give, there are fewer. */
static const double alone_seconds = 500e-6;

static void call_helpers(larder__team *t) {
    for (unsigned i = 1; i < t->threads; i++) {
        helper *h = &t->helpers[t->started];
        *h = (helper){.team = t, .number = i};
        if (pthread_create(&h->thread, NULL, help, h) != 0)
            break;
        t->started++;
    }
    t->called = true;
}

void larder__team_close(larder__team **team) {
    larder__team *t = *team;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->leave, true);
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

/* Pieces until helpers are worth calling, or all. */
static void begin_alone(larder__team *t) {
    while (larder__now() - t->opened < alone_seconds) {
        size_t piece = atomic_fetch_add(&t->next, 1);
        if (piece >= t->pieces)
            return;
        t->work(t->arg, piece, 0);
    }
    call_helpers(t);
}

void larder__team_run(larder__team *t, larder__piece_fn *work, void *arg, size_t pieces) {
    t->work = work, t->arg = arg, t->pieces = pieces;
    atomic_store(&t->next, 0);
    if (t->threads > 1 && pieces > 1 && !t->called)
        begin_alone(t);
    bool alone = t->started == 0 || pieces < 2;
    if (!alone) {
        uint64_t number = number_of(atomic_load(&t->run)) + 1;
        pthread_mutex_lock(&t->lock);
        atomic_store(&t->run, number << NUMBER_SHIFT);
        pthread_cond_broadcast(&t->begin);
        pthread_mutex_unlock(&t->lock);
    }
    work_on(t, 0);
    if (alone)
        return;
    atomic_fetch_or(&t->run, OVER);
    double since = 0;
    do
        if ((atomic_load(&t->run) & INSIDE) == 0)
            return;
    while (stay_awake(t, &since));
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->run) & INSIDE)
        pthread_cond_wait(&t->end, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
