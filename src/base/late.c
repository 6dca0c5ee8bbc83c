#include "base/late.h"

#include "base/err.h"

#include <dlfcn.h>
#include <pthread.h>

static int find_calls(const larder__late *l) {
    void *library = dlopen(l->file, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "%s cannot be opened: is its package installed? (%.200s)", l->file,
                            dlerror());
    for (const larder__late_call *c = l->calls; c->name; c++)
        if (!(*c->at = dlsym(library, c->name)))
            return larder__fail(LARDER_E_UNSUPPORTED, "%s has no function %s; is it too old?",
                                l->file, c->name);
    return 0;
}

int larder__late_open(larder__late *l) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!l->file || atomic_load_explicit(&l->open, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&lock);
    int rc = atomic_load(&l->open) ? 0 : find_calls(l);
    atomic_store_explicit(&l->open, rc == 0, memory_order_release);
    pthread_mutex_unlock(&lock);
    return rc;
}
