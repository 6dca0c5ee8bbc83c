#include "cli/stop.h"

#include "base/err.h"

#include <string.h>
#include <unistd.h>

static _Atomic(larder__stop *) current; /* whom the handler tells */

/* A handler, not a thread in sigwait: libraries (OpenBLAS) start threads before main does, with
 * signals unblocked, and a signal may land in any of them. */
static void on_signal(int number) {
    int none = 0;
    larder__stop *s = atomic_load(&current);
    const char *early = s ? atomic_load(&s->early) : NULL;
    ssize_t heard = early ? write(STDERR_FILENO, early, strlen(early)) : 0;
    (void)heard;
    if (!s || early || !atomic_compare_exchange_strong(&s->signal, &none, number))
        _exit(128 + number);
    sem_post(&s->woken);
}

static void *watch(void *arg) {
    larder__stop *s = arg;
    while (sem_wait(&s->woken) != 0) {
    }
    pthread_mutex_lock(&s->lock);
    if (s->ask && !atomic_load(&s->leaving))
        s->ask(s->arg);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void prepare(larder__stop *s) {
    memset(s, 0, sizeof *s);
    sem_init(&s->woken, 0, 0);
    pthread_mutex_init(&s->lock, NULL);
}

static void listen(larder__stop *s) {
    atomic_store(&current, s);
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &act, &s->old_int);
    sigaction(SIGTERM, &act, &s->old_term);
}

void larder__stop_note(larder__stop *s) {
    prepare(s);
    listen(s);
}

int larder__stop_open(larder__stop *s) {
    prepare(s);
    int err = pthread_create(&s->thread, NULL, watch, s);
    if (err) {
        sem_destroy(&s->woken);
        pthread_mutex_destroy(&s->lock);
        return larder__fail(larder__code_of_errno(err), "cannot start a thread: %s", strerror(err));
    }
    s->tells = true;
    listen(s);
    return 0;
}

void larder__stop_early(larder__stop *s, const char *words) { atomic_store(&s->early, words); }

void larder__stop_tell(larder__stop *s, void (*ask)(void *), void *arg) {
    pthread_mutex_lock(&s->lock);
    s->ask = ask;
    s->arg = arg;
    if (ask && atomic_load(&s->signal))
        ask(arg);
    pthread_mutex_unlock(&s->lock);
}

void larder__stop_close(larder__stop *s) {
    sigaction(SIGINT, &s->old_int, NULL);
    sigaction(SIGTERM, &s->old_term, NULL);
    atomic_store(&s->leaving, 1);
    if (s->tells) {
        sem_post(&s->woken);
        pthread_join(s->thread, NULL);
    }
    sem_destroy(&s->woken);
    pthread_mutex_destroy(&s->lock);
    atomic_store(&current, NULL);
}

int larder__stop_code(larder__stop *s) {
    int number = atomic_load(&s->signal);
    return number ? 128 + number : 0;
}
