#include "cli/stop.h"

#include "base/err.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_t thread;
    sem_t woken;
    _Atomic int signal;   /* that came first, 0 before */
    _Atomic int leaving;  /* larder__stop_close is under way */
    pthread_mutex_t lock; /* over the two below */
    void (*ask)(void *);
    void *arg;
    struct sigaction old_int, old_term;
} stop;

/* Libraries start threads before main does, so blocking signals in ours would not be enough. */
static void on_signal(int number) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&stop.signal, &none, number))
        _exit(128 + number);
    sem_post(&stop.woken);
}

static void *watch(void *arg) {
    (void)arg;
    while (sem_wait(&stop.woken) != 0) {
    }
    pthread_mutex_lock(&stop.lock);
    if (stop.ask && !atomic_load(&stop.leaving))
        stop.ask(stop.arg);
    pthread_mutex_unlock(&stop.lock);
    return NULL;
}

int larder__stop_open(void) {
    memset(&stop, 0, sizeof stop);
    sem_init(&stop.woken, 0, 0);
    pthread_mutex_init(&stop.lock, NULL);
    int err = pthread_create(&stop.thread, NULL, watch, NULL);
    if (err) {
        sem_destroy(&stop.woken);
        pthread_mutex_destroy(&stop.lock);
        return larder__fail(larder__code_of_errno(err), "cannot start a thread: %s", strerror(err));
    }
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &act, &stop.old_int);
    sigaction(SIGTERM, &act, &stop.old_term);
    return 0;
}

void larder__stop_tell(void (*ask)(void *), void *arg) {
    pthread_mutex_lock(&stop.lock);
    stop.ask = ask;
    stop.arg = arg;
    if (ask && atomic_load(&stop.signal))
        ask(arg);
    pthread_mutex_unlock(&stop.lock);
}

int larder__stop_close(void) {
    sigaction(SIGINT, &stop.old_int, NULL);
    sigaction(SIGTERM, &stop.old_term, NULL);
    atomic_store(&stop.leaving, 1);
    sem_post(&stop.woken);
    pthread_join(stop.thread, NULL);
    sem_destroy(&stop.woken);
    pthread_mutex_destroy(&stop.lock);
    int number = atomic_load(&stop.signal);
    return number ? 128 + number : 0;
}
