#include "base/threads.h"

#include "base/mem.h"

#include <pthread.h>

typedef struct one {
    pthread_t thread;
    larder__thread_fn fn;
    void *arg;
    uint32_t number;
} one;

static void *run(void *arg) {
    one *o = arg;
    o->fn(o->arg, o->number);
    return NULL;
}

uint32_t larder__threads_run(larder__thread_fn fn, void *arg, uint32_t n) {
    one *others = n > 1 ? larder__calloc(n - 1, sizeof *others) : NULL;
    uint32_t started = 0;
    while (others && started + 1 < n) {
        others[started] = (one){.fn = fn, .arg = arg, .number = started + 1};
        if (pthread_create(&others[started].thread, NULL, run, &others[started]) != 0)
            break;
        started++;
    }
    fn(arg, 0);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(others[i].thread, NULL);
    larder__free(others);
    return started + 1;
}
