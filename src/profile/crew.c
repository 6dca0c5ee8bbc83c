#include "profile/crew.h"

#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

typedef struct member {
    pthread_t thread;
    larder__crew_fn fn;
    void *arg;
    uint32_t number;
} member;

static void *run(void *arg) {
    member *m = arg;
    m->fn(m->arg, m->number);
    return NULL;
}

int larder__crew_run(larder__crew_fn fn, void *arg, uint32_t n) {
    member *all = larder__calloc(n, sizeof *all);
    if (!all)
        return LARDER_E_NOMEM;
    uint32_t started = 0;
    int err = 0;
    for (; started < n; started++) {
        all[started] = (member){.fn = fn, .arg = arg, .number = started};
        if ((err = pthread_create(&all[started].thread, NULL, run, &all[started])) != 0)
            break;
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(all[i].thread, NULL);
    larder__free(all);
    return started ? (int)started
                   : larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err));
}
