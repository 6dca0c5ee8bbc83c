#include "cage/cage.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cage/cage_worker.h"
#include "stage/scratch.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 2 };

struct larder__cage {
    char program[PATH_MAX];
    larder__cage_limits most;
    _Atomic bool interrupted;
    /* Processes die with the thread that started them, so one thread starts them all. */
    pthread_t keeper;
    bool kept;
    pthread_mutex_t lock;
    pthread_cond_t wanted, done;
    larder__cage_worker *start; /* to be started; NULL: none */
    bool started, stop;
    int failed; /* of the one that was started last, */
    char why[512];
    larder__cage_worker **idle; /* with processes that nobody uses */
    size_t idle_count, idle_cap;
};

typedef struct seat { /* what one scratch decodes by */
    larder__elsewhere elsewhere;
    larder__cage *cage;
    larder__cage_worker *worker; /* NULL: it had nothing to decode yet */
} seat;

/* ---- its text -------------------------------------------------------------------------------- */

static const double LEAST_MEMORY = 1 << 20;

static const larder_param params[] = {
    {"memory", "size", "1GiB", "that decoding a sample may take, beside its bytes and pixels", 0,
     0},
    {"seconds", "float", "30", "of a processor that decoding a sample may take", 0.001, 1e6},
    {"program", "text", "", "the program larder, where it does not lie beside the library", 0, 0},
    {0}};
const larder_plugin larder__cage_about = {
    .name = "cage", .summary = "decodes in processes that may do nothing else", .params = params};

static bool use(char out[PATH_MAX], const char *folder, const char *rest) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s", folder, rest);
    if (n < 0 || (size_t)n >= sizeof path || access(path, X_OK) != 0)
        return false;
    memcpy(out, path, (size_t)n + 1);
    return true;
}

static bool use_beside(char out[PATH_MAX], const char *file) {
    static const char *const places[] = {"/larder", "/bin/larder", "/../bin/larder",
                                         "/../../bin/larder"};
    char folder[PATH_MAX];
    if (!realpath(file, folder) || !strrchr(folder, '/'))
        return false;
    *strrchr(folder, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (use(out, folder, places[i]))
            return true;
    return false;
}

/* Where a wheel, an installed library and a build have it; LARDER as Python takes it. */
static int find_program(char out[PATH_MAX], const char *given) {
    Dl_info here = {0};
    if (!*given)
        given = getenv("LARDER");
    if (given && *given)
        return use(out, given, "")
                   ? 0
                   : larder__fail(LARDER_E_NOTFOUND, "no cage: %.200s is no program", given);
    if ((dladdr(&larder__cage_about, &here) && here.dli_fname && use_beside(out, here.dli_fname)) ||
        use_beside(out, "/proc/self/exe"))
        return 0;
    return larder__fail(LARDER_E_NOTFOUND, "no cage: the program larder, which decodes in it, lies "
                                           "not beside the library; LARDER or program= names it");
}

static int read_text(larder__cage *c, const char *text) {
    larder_args args;
    int rc = larder__args_parse(&args, "option", &larder__cage_about,
                                strcmp(text, "on") == 0 ? "" : text, ',', NULL);
    if (rc < 0)
        return rc;
    double memory = larder_args_number(&args, "memory");
    c->most = (larder__cage_limits){.memory = (uint64_t)memory,
                                    .seconds = larder_args_number(&args, "seconds")};
    rc = memory < LEAST_MEMORY
             ? larder__fail(LARDER_E_RANGE,
                            "cage: memory=%.0f: no picture can be decoded in less "
                            "than 1MiB, so all would be bad samples",
                            memory)
             : find_program(c->program, larder_args_text(&args, "program"));
    larder__args_free(&args);
    return rc;
}

/* ---- who starts processes -------------------------------------------------------------------- */

static void *keep(void *arg) {
    larder__cage *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (!c->start || c->started) {
            pthread_cond_wait(&c->wanted, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        int rc = larder__cage_worker_start(c->start, c->program, &c->most, &c->interrupted);
        pthread_mutex_lock(&c->lock);
        c->failed = rc;
        snprintf(c->why, sizeof c->why, "%s", rc < 0 ? larder_errmsg() : "");
        c->started = true;
        pthread_cond_broadcast(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* What cannot be started is trouble of the job's, not of a sample's. */
static int start(larder__cage *c, larder__cage_worker *w) {
    pthread_mutex_lock(&c->lock);
    while (c->start)
        pthread_cond_wait(&c->done, &c->lock);
    c->start = w;
    c->started = false;
    pthread_cond_signal(&c->wanted);
    while (!c->started)
        pthread_cond_wait(&c->done, &c->lock);
    int rc = c->failed < 0 ? larder__fail(c->failed, "%s", c->why) : 0;
    c->start = NULL;
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- workers --------------------------------------------------------------------------------- */

static void drop_worker(larder__cage_worker *w) {
    if (w)
        larder__cage_worker_close(w);
    larder__free(w);
}

static larder__cage_worker *idle_worker(larder__cage *c) {
    pthread_mutex_lock(&c->lock);
    larder__cage_worker *w = c->idle_count ? c->idle[--c->idle_count] : NULL;
    pthread_mutex_unlock(&c->lock);
    return w;
}

static void give_back(larder__cage *c, larder__cage_worker *w) {
    pthread_mutex_lock(&c->lock);
    bool kept = larder__grow(&c->idle, &c->idle_cap, c->idle_count + 1, sizeof *c->idle) == 0;
    if (kept)
        c->idle[c->idle_count++] = w;
    pthread_mutex_unlock(&c->lock);
    if (!kept)
        drop_worker(w);
}

static int take_worker(larder__cage *c, larder__cage_worker **out) {
    if ((*out = idle_worker(c)) != NULL)
        return 0;
    larder__cage_worker *w = larder__calloc(1, sizeof *w);
    int rc = w ? larder__cage_worker_open(w) : LARDER_E_NOMEM;
    if (rc < 0)
        drop_worker(w);
    else
        *out = w;
    return rc;
}

/* ---- a scratch's side ------------------------------------------------------------------------ */

/* The bytes, and for pixels their head, in a process that has neither. */
static int begin(const seat *s, const larder__cage_ask *q, const void *bytes, bool fresh,
                 larder__cage_answer *a) {
    if (fresh || q->what != LARDER__CAGE_PIXELS)
        larder__cage_worker_lay(s->worker, bytes, (size_t)q->size);
    if (!fresh || q->what != LARDER__CAGE_PIXELS)
        return 0;
    larder__cage_ask head = {.what = LARDER__CAGE_HEAD, .size = q->size, .indices = q->indices};
    return larder__cage_worker_ask(s->worker, &s->cage->most, &s->cage->interrupted, &head, a);
}

/* Is it what it has to be? */
static int check(const seat *s, const larder__cage_ask *q, const larder__cage_answer *a,
                 larder__picture *pic) {
    if (q->what == LARDER__CAGE_HEAD)
        return larder__codec_limit("answered", a->w, a->h);
    if (q->what == LARDER__CAGE_PIXELS)
        return larder__cage_picture(a, q->want, s->worker->out, pic);
    return 0;
}

/* Twice, before a sample is bad for what became of its decoder: that may have been the fault of the
 * sample before it, or of somebody outside. */
static int ask(seat *s, larder__cage_ask *q, const void *bytes, larder__cage_answer *a,
               larder__picture *pic) {
    larder__cage *c = s->cage;
    int rc = s->worker ? 0 : take_worker(c, &s->worker);
    if (rc == 0 && q->size >= LARDER__CAGE_IN)
        rc = larder__fail(LARDER_E_RANGE, "a sample of %llu bytes; a cage takes less than 4 GiB",
                          (unsigned long long)q->size);
    if (rc == 0)
        rc = larder__cage_worker_fit(s->worker, (size_t)q->size);
    for (int tries = 0; rc == 0 && tries < TRIES; tries++) {
        bool fresh = s->worker->process == 0;
        if (c->interrupted)
            return larder__fail(LARDER_E_CANCELLED, "cancelled");
        if (fresh && start(c, s->worker) < 0)
            return LARDER_E_STATE; /* ours: the run ends */
        rc = begin(s, q, bytes, fresh, a);
        if (rc == 0)
            rc = larder__cage_worker_ask(s->worker, &c->most, &c->interrupted, q, a);
        if (rc == 0 && check(s, q, a, pic) < 0)
            rc = larder__cage_worker_distrust(s->worker);
        if (rc <= 0)
            return rc;
        tries += rc == LARDER__CAGE_LATE && fresh; /* it was at nothing else: that is dear enough */
        rc = 0;
    }
    return rc < 0 ? rc : larder__fail(LARDER_E_FORMAT, "its decoder %s", s->worker->ended);
}

static int head(larder__elsewhere *e, bool indices, const uint8_t *bytes, size_t size, uint32_t *w,
                uint32_t *h) {
    seat *s = (seat *)e;
    larder__cage_answer a;
    larder__cage_ask q = {.what = LARDER__CAGE_HEAD, .size = size, .indices = indices};
    int rc = ask(s, &q, bytes, &a, NULL);
    *w = rc < 0 ? 0 : a.w;
    *h = rc < 0 ? 0 : a.h;
    return rc;
}

static int pixels(larder__elsewhere *e, bool indices, const uint8_t *bytes, size_t size,
                  uint32_t denominator, larder__rect want, larder__picture *out) {
    seat *s = (seat *)e;
    larder__cage_answer a;
    larder__cage_ask q = {.what = LARDER__CAGE_PIXELS,
                          .size = size,
                          .indices = indices,
                          .denominator = denominator,
                          .want = want};
    int rc = ask(s, &q, bytes, &a, out);
    if (rc < 0)
        return rc;
    size_t used = (size_t)(a.row * (a.is.y1 - a.is.y0));
    s->worker->used = used > s->worker->used ? used : s->worker->used;
    return 0;
}

static int sound(larder__elsewhere *e, const larder__sound *want, const void *bytes, size_t size,
                 double where, float *out) {
    seat *s = (seat *)e;
    larder__cage_answer a;
    larder__cage_ask q = {.what = LARDER__CAGE_SOUND, .size = size, .sound = *want, .where = where};
    uint64_t used = (uint64_t)want->channels * want->frames * sizeof *out;
    if (used > LARDER__CAGE_OUT)
        return larder__fail(LARDER_E_RANGE, "a window of %llu bytes; a cage has room for %zu",
                            (unsigned long long)used, LARDER__CAGE_OUT);
    int rc = ask(s, &q, bytes, &a, NULL);
    if (rc < 0)
        return rc;
    memcpy(out, s->worker->out, (size_t)used);
    s->worker->used = used > s->worker->used ? (size_t)used : s->worker->used;
    return 0;
}

static double seconds(const larder__elsewhere *e) {
    const seat *s = (const seat *)e;
    return s->worker ? larder__cage_worker_seconds(s->worker) : 0;
}

static void leave(larder__elsewhere *e) {
    seat *s = (seat *)e;
    if (s->worker)
        give_back(s->cage, s->worker);
    larder__free(s);
}

int larder__cage_take(larder__cage *c, larder__scratch *scratch) {
    seat *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    *s = (seat){.elsewhere = {head, pixels, sound, seconds, leave}, .cage = c};
    larder__scratch_send(scratch, &s->elsewhere);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void larder__cage_interrupt(larder__cage *c) {
    if (c)
        c->interrupted = true;
}

void larder__cage_close(larder__cage **pc) {
    larder__cage *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    for (size_t i = 0; i < c->idle_count; i++)
        drop_worker(c->idle[i]);
    if (c->kept) {
        pthread_mutex_lock(&c->lock);
        c->stop = true;
        pthread_cond_signal(&c->wanted);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->keeper, NULL);
    }
    pthread_cond_destroy(&c->wanted);
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->lock);
    larder__free(c->idle);
    larder__free(c);
}

static int first_worker(larder__cage *c) {
    larder__cage_worker *w = NULL;
    int rc = take_worker(c, &w);
    if (rc == 0)
        rc = start(c, w);
    if (w)
        give_back(c, w);
    return rc;
}

int larder__cage_open(larder__cage **out, const char *text) {
    *out = NULL;
    if (!text || !*text || strcmp(text, "off") == 0)
        return 0;
    larder__cage *c = larder__calloc(1, sizeof *c);
    if (!c)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wanted, NULL);
    pthread_cond_init(&c->done, NULL);
    int rc = read_text(c, text);
    if (rc == 0) {
        int err = pthread_create(&c->keeper, NULL, keep, c);
        rc = err ? larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err)) : 0;
        c->kept = err == 0;
    }
    if (rc == 0)
        rc = first_worker(c);
    if (rc < 0)
        larder__cage_close(&c);
    *out = c;
    return rc;
}
