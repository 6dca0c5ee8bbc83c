#include "svm/svm_device.h"

#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static larder__svm_device *found[MOST_DEVICES];

/* ---- names ----------------------------------------------------------------------------------- */

/* -1: the CPU, -2: a GPU if there is one, -3: no name of any. */
static int number_of(const char *spec) {
    if (!spec || strcmp(spec, "cpu") == 0)
        return -1;
    if (strcmp(spec, "auto") == 0)
        return -2;
    if (strcmp(spec, "cuda") == 0)
        return 0;
    if (strncmp(spec, "cuda:", 5) != 0 || spec[5] < '0' || spec[5] > '9')
        return -3;
    char *end;
    long n = strtol(spec + 5, &end, 10);
    return *end || n >= MOST_DEVICES ? -3 : (int)n;
}

int larder__svm_device_check(const char *spec) {
    return number_of(spec) > -3
               ? 0
               : larder__fail(LARDER_E_ARGS,
                              "the device is cpu, cuda, cuda:1 (the second GPU) or auto, not %s",
                              spec);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int find_functions(larder__svm_device *d) {
    larder__gpu_module m;
    const struct {
        larder__gpu_function *to;
        const char *name;
    } want[] = {{&d->spread, "larder_svm_spread"},
                {&d->products, "larder_svm_products"},
                {&d->differences, "larder_svm_differences"},
                {&d->keys, "larder_svm_keys"},
                {&d->choose, "larder_svm_choose"},
                {&d->seat, "larder_svm_seat"},
                {&d->gather, "larder_svm_gather"},
                {&d->small, "larder_svm_small"},
                {&d->add, "larder_svm_add"},
                {&d->fold, "larder_svm_fold"},
                {&d->distance, "larder_svm_distance"},
                {&d->weigh, "larder_svm_weigh"}};
    int rc = larder__gpu_module_get(d->gpu, &m, "svm.cu", NULL);
    for (size_t i = 0; rc == 0 && i < sizeof want / sizeof *want; i++)
        rc = larder__gpu_function_get(d->gpu, want[i].to, m, want[i].name);
    return rc;
}

static int open_device(larder__svm_device **out, int number) {
    larder__svm_device *d = larder__calloc(1, sizeof *d);
    if (!d)
        return larder__fail(LARDER_E_NOMEM, "no memory for a GPU");
    int rc = larder__gpu_open(&d->gpu, number);
    if (rc == 0)
        rc = find_functions(d);
    if (rc == 0) {
        const larder__gpu_about *a = larder__gpu_about_it(d->gpu);
        d->start_seconds = a->seconds + a->compiling;
        *out = d;
        return 0;
    }
    larder__gpu_close(&d->gpu);
    larder__free(d);
    return rc;
}

int larder__svm_device_find(larder__svm_device **out, const char *spec, char *note, size_t cap) {
    int rc = larder__svm_device_check(spec), number = number_of(spec);
    *out = NULL;
    note[0] = 0;
    if (rc < 0 || number == -1)
        return rc;
    int at = number < 0 ? 0 : number;
    pthread_mutex_lock(&lock);
    rc = found[at] ? 0 : open_device(&found[at], at);
    *out = found[at];
    pthread_mutex_unlock(&lock);
    if (rc < 0 && number == -2) {
        size_t n = strlen(larder_errmsg());
        n = n < cap ? n : cap - 1;
        memcpy(note, larder_errmsg(), n);
        note[n] = 0;
        rc = 0;
    }
    return rc;
}

int larder__svm_device_for(larder__svm_device **out, const char *spec, bool use) {
    char note[8];
    *out = NULL;
    return use ? larder__svm_device_find(out, spec, note, sizeof note)
               : larder__svm_device_check(spec);
}
