#include "gpu/gpu_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <string.h>

int larder__gpu_check(const larder__gpu *g, int answer, const char *what) {
    enum { OUT_OF_MEMORY = 2 };
    const char *why = NULL;
    if (answer == 0)
        return 0;
    g->call->error_text(answer, &why);
    return larder__fail(answer == OUT_OF_MEMORY ? LARDER_E_NOMEM : LARDER_E_IO,
                        "the GPU (%s) cannot %s: %s", g->about.name, what,
                        why ? why : "it does not say why");
}

/* ---- opening --------------------------------------------------------------------------------- */

static int ask(larder__gpu *g, int what, int *out) {
    return larder__gpu_check(g, g->call->attribute(out, what, g->device), "say what it is");
}

static int find_out(larder__gpu *g) {
    enum { PROCESSORS = 16, MAJOR = 75, MINOR = 76 };
    larder__gpu_about *a = &g->about;
    int rc = larder__gpu_check(g, g->call->name(a->name, (int)sizeof a->name - 1, g->device),
                               "say its name");
    rc = rc < 0 ? rc : larder__gpu_check(g, g->call->driver_version(&a->driver), "say its version");
    rc = rc < 0 ? rc : ask(g, PROCESSORS, &a->processors);
    rc = rc < 0 ? rc : ask(g, MAJOR, &a->major);
    rc = rc < 0 ? rc : ask(g, MINOR, &a->minor);
    return rc;
}

static int find_device(larder__gpu *g, int number) {
    int n = 0;
    int rc = larder__gpu_check(g, g->call->count(&n), "be counted");
    if (rc == 0 && (number < 0 || number >= n))
        rc = larder__fail(LARDER_E_ARGS, "GPU %d: there %s %d, counted from 0", number,
                          n == 1 ? "is" : "are", n);
    return rc < 0 ? rc : larder__gpu_check(g, g->call->device(&g->device, number), "be found");
}

static int open_it(larder__gpu *g, int number) {
    int rc = larder__gpu_driver(&g->call);
    rc = rc < 0 ? rc : find_device(g, number);
    rc = rc < 0 ? rc : find_out(g);
    return rc < 0 ? rc : larder__gpu_check(g, g->call->retain(&g->context, g->device), "be opened");
}

int larder__gpu_open(larder__gpu **out, int number) {
    double from = larder__now();
    larder__gpu *g = *out = larder__calloc(1, sizeof *g);
    if (!g)
        return larder__fail(LARDER_E_NOMEM, "no memory for a GPU");
    strcpy(g->about.name, "not known yet");
    pthread_mutex_init(&g->lock, NULL);
    int rc = open_it(g, number);
    g->about.seconds = larder__now() - from;
    if (rc < 0)
        larder__gpu_close(out);
    return rc;
}

static void unload_all(larder__gpu *g) {
    bool inside = g->loaded && larder__gpu_enter(g) == 0;
    while (g->loaded) {
        larder__gpu_loaded *first = g->loaded;
        g->loaded = first->next;
        if (inside)
            g->call->unload(first->module);
        larder__free(first);
    }
    if (inside)
        larder__gpu_leave(g);
}

void larder__gpu_close(larder__gpu **slot) {
    larder__gpu *g = *slot;
    *slot = NULL;
    if (!g)
        return;
    unload_all(g);
    if (g->context)
        g->call->release(g->device);
    pthread_mutex_destroy(&g->lock);
    larder__free(g);
}

const larder__gpu_about *larder__gpu_about_it(const larder__gpu *g) { return &g->about; }

int larder__gpu_enter(larder__gpu *g) {
    return larder__gpu_check(g, g->call->push(g->context), "be made this thread's");
}

void larder__gpu_leave(larder__gpu *g) {
    larder__gpu_context was;
    g->call->pop(&was);
}

/* rc of one call to the driver, in the context. A macro: the calls have all sorts of parameters. */
#define INSIDE(g, what, answer)                                                                    \
    int rc = larder__gpu_enter(g);                                                                 \
    if (rc == 0) {                                                                                 \
        rc = larder__gpu_check(g, answer, what);                                                   \
        larder__gpu_leave(g);                                                                      \
    }                                                                                              \
    return rc

/* ---- code ------------------------------------------------------------------------------------ */

int larder__gpu_function_get(larder__gpu *g, larder__gpu_function *out, larder__gpu_module module,
                             const char *name) {
    INSIDE(g, "find a function of larder's", g->call->function(out, module, name));
}

static unsigned at_least_1(unsigned n) { return n ? n : 1; }

int larder__gpu_launch(larder__gpu *g, larder__gpu_function f, larder__gpu_shape s,
                       larder__gpu_stream stream, void **args) {
    for (int i = 0; i < 3; i++) {
        s.grid[i] = at_least_1(s.grid[i]);
        s.block[i] = at_least_1(s.block[i]);
    }
    unsigned bytes = (unsigned)s.shared;
    INSIDE(g, "run larder's code",
           g->call->launch(f, s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2],
                           bytes, stream, args, NULL));
}

/* ---- memory ---------------------------------------------------------------------------------- */

int larder__gpu_free_bytes(larder__gpu *g, size_t *out_free, size_t *out_all) {
    INSIDE(g, "say how much memory it has", g->call->info(out_free, out_all));
}

int larder__gpu_alloc(larder__gpu *g, larder__gpu_ptr *out, size_t bytes, const char *what) {
    size_t there = 0, all = 0;
    *out = 0;
    int rc = larder__gpu_enter(g);
    if (rc < 0)
        return rc;
    rc = larder__gpu_check(g, g->call->alloc(out, bytes ? bytes : 1), "give memory");
    if (rc < 0 && g->call->info(&there, &all) == 0)
        rc = larder__fail(rc,
                          "the GPU (%s) has %zu MiB free of %zu MiB, and %zu MiB are wanted for %s",
                          g->about.name, there >> 20, all >> 20, (bytes >> 20) + 1, what);
    larder__gpu_leave(g);
    return rc;
}

void larder__gpu_free(larder__gpu *g, larder__gpu_ptr at) {
    if (!at || larder__gpu_enter(g) < 0)
        return;
    g->call->give(at);
    larder__gpu_leave(g);
}

int larder__gpu_pinned(larder__gpu *g, void **out, size_t bytes) {
    INSIDE(g, "pin memory of this process", g->call->pin(out, bytes ? bytes : 1));
}

void larder__gpu_unpin(larder__gpu *g, void *at) {
    if (!at || larder__gpu_enter(g) < 0)
        return;
    g->call->unpin(at);
    larder__gpu_leave(g);
}

int larder__gpu_put(larder__gpu *g, larder__gpu_ptr to, const void *from, size_t bytes,
                    larder__gpu_stream stream) {
    INSIDE(g, "take bytes", g->call->put(to, from, bytes, stream));
}

int larder__gpu_get(larder__gpu *g, void *to, larder__gpu_ptr from, size_t bytes,
                    larder__gpu_stream stream) {
    INSIDE(g, "give bytes back", g->call->get(to, from, bytes, stream));
}

int larder__gpu_zero(larder__gpu *g, larder__gpu_ptr to, size_t bytes, larder__gpu_stream stream) {
    INSIDE(g, "zero bytes", g->call->fill(to, 0, bytes, stream));
}

/* ---- streams, events ------------------------------------------------------------------------- */

int larder__gpu_stream_open(larder__gpu *g, larder__gpu_stream *out, bool urgent) {
    enum { BESIDE_DEFAULT = 1 }; /* it does not wait for the default stream */
    int least = 0, most = 0;
    *out = NULL;
    int rc = larder__gpu_enter(g);
    if (rc < 0)
        return rc;
    rc = larder__gpu_check(g, g->call->priorities(&least, &most), "say what goes first");
    if (rc == 0)
        rc = larder__gpu_check(g, g->call->stream(out, BESIDE_DEFAULT, urgent ? most : least),
                               "open a stream");
    larder__gpu_leave(g);
    return rc;
}

void larder__gpu_stream_close(larder__gpu *g, larder__gpu_stream *stream) {
    if (*stream && larder__gpu_enter(g) == 0) {
        g->call->stream_end(*stream);
        larder__gpu_leave(g);
    }
    *stream = NULL;
}

int larder__gpu_wait(larder__gpu *g, larder__gpu_stream stream) {
    INSIDE(g, "finish its work", g->call->wait(stream));
}

int larder__gpu_event_open(larder__gpu *g, larder__gpu_event *out) {
    enum { SLEEP = 1 }; /* who waits for it does not spin */
    *out = NULL;
    INSIDE(g, "open an event", g->call->event(out, SLEEP));
}

void larder__gpu_event_close(larder__gpu *g, larder__gpu_event *event) {
    if (*event && larder__gpu_enter(g) == 0) {
        g->call->event_end(*event);
        larder__gpu_leave(g);
    }
    *event = NULL;
}

int larder__gpu_event_record(larder__gpu *g, larder__gpu_event event, larder__gpu_stream stream) {
    INSIDE(g, "note an event", g->call->record(event, stream));
}

int larder__gpu_event_wait(larder__gpu *g, larder__gpu_event event) {
    INSIDE(g, "finish its work", g->call->await(event));
}
