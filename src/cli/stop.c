#include "cli/stop.h"

#include "base/err.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void both(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

static void *watch(void *arg) {
    larder__stop *s = arg;
    sigset_t set;
    both(&set);
    for (;;) {
        int signal = 0;
        if (sigwait(&set, &signal) != 0)
            continue;
        if (atomic_load(&s->leaving))
            return NULL;
        if (atomic_exchange(&s->signal, signal))
            _exit(128 + signal);
        pthread_mutex_lock(&s->lock);
        if (s->ask)
            s->ask(s->arg);
        pthread_mutex_unlock(&s->lock);
    }
}

int larder__stop_open(larder__stop *s) {
    sigset_t set;
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    both(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int err = pthread_create(&s->thread, NULL, watch, s);
    if (err) {
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        pthread_mutex_destroy(&s->lock);
        return larder__fail(larder__code_of_errno(err), "cannot start a thread: %s", strerror(err));
    }
    return 0;
}

void larder__stop_tell(larder__stop *s, void (*ask)(void *), void *arg) {
    pthread_mutex_lock(&s->lock);
    s->ask = ask;
    s->arg = arg;
    if (ask && atomic_load(&s->signal))
        ask(arg);
    pthread_mutex_unlock(&s->lock);
}

void larder__stop_close(larder__stop *s) {
    sigset_t set;
    atomic_store(&s->leaving, 1);
    pthread_kill(s->thread, SIGTERM);
    pthread_join(s->thread, NULL);
    both(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_mutex_destroy(&s->lock);
}

int larder__stop_code(larder__stop *s) {
    int signal = atomic_load(&s->signal);
    return signal ? 128 + signal : 0;
}
