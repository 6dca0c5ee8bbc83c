/* Inside src/gpu: the driver's functions and what is open. */
#ifndef LARDER_GPU_GPU_INSIDE_H
#define LARDER_GPU_GPU_INSIDE_H

#include "gpu/gpu.h"

#include <pthread.h>

typedef struct larder__gpu_calls {
#define CALL(name, symbol, parameters) int(*name) parameters;
#include "gpu/gpu_calls.def"
#undef CALL
} larder__gpu_calls;

typedef struct larder__gpu_loaded { /* a module */
    larder__gpu_module module;
    char key[65]; /* of its text, defines and compiler */
    struct larder__gpu_loaded *next;
} larder__gpu_loaded;

struct larder__gpu {
    const larder__gpu_calls *call;
    int device;
    larder__gpu_context context; /* NULL: not retained */
    larder__gpu_about about;
    pthread_mutex_t lock; /* of what follows, and of about.compiling */
    larder__gpu_loaded *loaded;
};

/* The driver's functions, opened once a process. */
int larder__gpu_driver(const larder__gpu_calls **);
/* 0, or a sentence: "the GPU cannot WHAT: the driver's own words". */
int larder__gpu_check(const larder__gpu *, int answer, const char *what);

#endif
