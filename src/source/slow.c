/* slow: another source behind the wire of a remote store, so that an experiment on slow storage
 * repeats anywhere.
 *
 * All readers of one opened data set share the store. Bandwidth and requests a second are two
 * queues in virtual time: a request takes its place when it comes, and the queue's end moves on by
 * what the request costs. Latency is paid once a call and by all callers at the same time. A
 * queue that stood idle lets at most `burst` seconds of its rate pass at once, which also absorbs
 * late wake-ups, so the time for a given set of requests does not depend on the scheduler. */
#include "base/asked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/source.h"

#include <pthread.h>

typedef struct slow {
    larder__data *inner;
    double per_byte, per_request;  /* seconds; 0: no limit */
    double latency, jitter, burst; /* seconds */
    uint64_t seed;
    pthread_mutex_t lock;
    pthread_cond_t given_up;
    bool lock_ready;
    bool interrupted;               /* guarded by lock */
    double bytes_end, requests_end; /* where the two queues end; guarded by lock */
} slow;

typedef struct preset {
    const char *name;
    double bandwidth, iops, latency, jitter; /* bytes/s, 1/s, s, s */
} preset;

/* Round figures of their kind: NFS over shared gigabit Ethernet; one 7200 rpm disk; an object
 * store in the same region, one client. */
static const preset presets[] = {{"none", 0, 0, 0, 0},
                                 {"nfs", 110e6, 2000, 1e-3, 1e-3},
                                 {"hdd", 160e6, 120, 4e-3, 4e-3},
                                 {"s3", 90e6, 3500, 30e-3, 30e-3}};

static double given_or(const larder_args *args, const char *name, double otherwise) {
    double v = larder_args_number(args, name);
    return v > 0 ? v : otherwise;
}

static int slow_open(void *st, const char *where, const larder_args *args) {
    slow *s = st;
    const char *wanted = larder_args_text(args, "preset");
    preset p = presets[0];
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, wanted) == 0)
            p = presets[i];
    double bandwidth = given_or(args, "bandwidth", p.bandwidth);
    double iops = given_or(args, "iops", p.iops);
    s->per_byte = bandwidth > 0 ? 1 / bandwidth : 0;
    s->per_request = iops > 0 ? 1 / iops : 0;
    s->latency = given_or(args, "latency", p.latency);
    s->jitter = given_or(args, "jitter", p.jitter);
    s->burst = larder_args_number(args, "burst");
    s->seed = (uint64_t)larder_args_number(args, "seed");
    if (s->latency > 3600 || s->jitter > 3600 || s->burst > 3600 || s->per_request > 3600)
        return larder__fail(LARDER_E_RANGE,
                            "slow: a request that takes over an hour makes no sense");
    if (strncmp(where, "slow:", 5) == 0)
        return larder__fail(LARDER_E_ARGS,
                            "slow: around slow: makes no sense; give the figures once");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (pthread_mutex_init(&s->lock, NULL) != 0 || pthread_cond_init(&s->given_up, &monotonic) != 0)
        return larder__fail(LARDER_E_NOMEM, "slow: no memory for a lock");
    pthread_condattr_destroy(&monotonic);
    s->lock_ready = true;
    return larder__data_begin(&s->inner, where);
}

static void slow_close(void *st) {
    slow *s = st;
    larder__data_close(&s->inner);
    if (!s->lock_ready)
        return;
    pthread_cond_destroy(&s->given_up);
    pthread_mutex_destroy(&s->lock);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Takes a place in one queue and returns when it is served. */
static double queue_take(double *end, double now, double burst, double cost) {
    if (*end < now - burst)
        *end = now - burst;
    *end += cost;
    return *end;
}

static double served_at(slow *s, double now, uint64_t bytes, uint64_t requests, uint64_t first_id) {
    pthread_mutex_lock(&s->lock);
    double a = queue_take(&s->bytes_end, now, s->burst, (double)bytes * s->per_byte);
    double b = queue_take(&s->requests_end, now, s->burst, (double)requests * s->per_request);
    pthread_mutex_unlock(&s->lock);
    double done = a > b ? a : b;
    /* By id, not by turn: the same requests wait the same, whichever thread comes first. */
    uint64_t r = larder__mix64(larder__mix64(s->seed + 1) ^ first_id) >> 11;
    return (done > now ? done : now) + s->latency + s->jitter * (double)r / 9007199254740992.0;
}

/* Until larder__now() reaches `when`; false: interrupted. */
static bool wait_until(slow *s, double when) {
    struct timespec t = larder__timespec_of(when);
    pthread_mutex_lock(&s->lock);
    while (!s->interrupted && larder__now() < when)
        pthread_cond_timedwait(&s->given_up, &s->lock, &t);
    bool over = !s->interrupted;
    pthread_mutex_unlock(&s->lock);
    return over;
}

static void interrupt(void *st) {
    slow *s = st;
    pthread_mutex_lock(&s->lock);
    s->interrupted = true;
    pthread_cond_broadcast(&s->given_up);
    pthread_mutex_unlock(&s->lock);
    larder__data_interrupt(s->inner);
}

/* What comes back costs its bytes; what fails costs a request and no more. */
static int read_slowly(slow *s, const uint64_t *ids, const larder_rect *rects, size_t n,
                       larder_read *out) {
    if (n == 0)
        return 0;
    double now = larder__now();
    uint64_t before = larder__requests();
    int rc = rects ? larder__data_read_parts(s->inner, ids, rects, n, out)
                   : larder__data_read(s->inner, ids, n, out);
    uint64_t bytes = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        bytes += out[i].buf ? larder_buf_size(out[i].buf) : 0;
    if (wait_until(s, served_at(s, now, bytes, larder__requests() - before, ids[0])) || rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&out[i].buf);
    return larder__fail(LARDER_E_CANCELLED, "slow: interrupted");
}

static int slow_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return read_slowly(st, ids, NULL, n, out);
}

static int slow_read_parts(void *st, const uint64_t *ids, const larder_rect *rects, size_t n,
                           larder_read *out) {
    return read_slowly(st, ids, rects, n, out);
}

/* ---- the rest is the inner source's ---------------------------------------------------------- */

static int describe(void *st, larder_dataset *out) {
    *out = *larder__data_about(((slow *)st)->inner);
    return 0;
}
static int stat_one(void *st, uint64_t id, larder_sample *out) {
    return larder__data_stat(((slow *)st)->inner, id, out);
}
static int name(void *st, uint64_t id, char *out, size_t cap) {
    return larder__data_name(((slow *)st)->inner, id, out, cap);
}
static int file(void *st, uint64_t id, uint64_t *out) {
    return larder__data_file(((slow *)st)->inner, id, out);
}
static const char *class_name(void *st, uint32_t label) {
    return larder__data_class(((slow *)st)->inner, label);
}
static int extent(void *st, uint64_t id, uint32_t *w, uint32_t *h) {
    return larder__data_extent(((slow *)st)->inner, id, w, h);
}
static int part_bytes(void *st, uint64_t id, const larder_rect *r, uint32_t *out) {
    return larder__data_part_bytes(((slow *)st)->inner, id, r, out);
}

static int choose(void *st, const char *const *names, size_t n) {
    return larder__data_choose(((slow *)st)->inner, names, n);
}
static const char *field(void *st, size_t i) { return larder__data_field(((slow *)st)->inner, i); }

static const char *note(void *st, size_t i) {
    return larder__data_source_note(((slow *)st)->inner, i);
}
static const larder_figure *figures(void *st) { return larder__data_figures(((slow *)st)->inner); }
static double figure(void *st, size_t i) { return larder__data_figure(((slow *)st)->inner, i); }

static const larder_param params[] = {
    {"preset", "none|nfs|hdd|s3", "none",
     "figures to start from: nfs 110MB 2000/s 1ms, hdd 160MB 120/s 4ms, s3 90MB 3500/s 30ms", 0, 0},
    {"bandwidth", "size", "0", "bytes a second, all readers together; 0: as the preset", 0, 0},
    {"iops", "float", "0", "requests a second, all readers together; 0: as the preset", 0, 1e9},
    {"latency", "time", "0", "of each call, however many samples; 0: as the preset", 0, 0},
    {"jitter", "time", "0", "up to this much more latency, by id; 0: as the preset", 0, 0},
    {"burst", "time", "10ms", "this much of the rates may pass at once after a pause", 0, 0},
    {"seed", "int", "1", "of the jitter", 0, 9007199254740992.0},
    {0}};

const larder_source larder__source_slow = {
    .plugin = {.name = "slow",
               .summary =
                   "around any other: bandwidth, requests a second and latency of a remote store",
               .params = params,
               .state_size = sizeof(slow)},
    .wraps = true,
    .open = slow_open,
    .close = slow_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = slow_read,
    .extent = extent,
    .part_bytes = part_bytes,
    .read_parts = slow_read_parts,
    .interrupt = interrupt,
    .figures = figures,
    .figure = figure,
    .note = note,
    .choose = choose,
    .field = field,
    .file = file,
};
