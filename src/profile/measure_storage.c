/* Storage at several depths: so many threads, each with one read under way. */
#include "base/clock.h"
#include "base/err.h"
#include "base/threads.h"
#include "profile/profile_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sweep {
    larder__profiler *p;
    uint64_t n, step;           /* the i-th id is i * step mod n, step prime to n; n < 2^32 */
    _Atomic uint64_t next, end; /* of those i */
    double until;
    _Atomic uint64_t reads, bytes;
    pthread_mutex_t lock;
    double first, last; /* when the first read was asked for, and the last one came */
    double waited;      /* sum over reads */
    bool whole;
} sweep;

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Far jumps that visit every id once: no memory for an order, and no read ahead that helps. */
static uint64_t far_step(uint64_t n) {
    uint64_t step = (uint64_t)((double)n * 0.6180339887498949) | 1;
    while (n > 1 && common_divisor(step, n) != 1)
        step++;
    return step;
}

static void keep(larder__profiler *p, uint64_t id, larder_buf **buf) {
    size_t size = larder_buf_size(*buf);
    pthread_mutex_lock(&p->lock);
    bool fits = p->pooled < LARDER__POOL_SAMPLES &&
                (p->pooled == 0 || p->pool_bytes + size <= LARDER__POOL_BYTES);
    if (fits) {
        p->pool[p->pooled++] = (larder__pooled){.id = id, .encoded = *buf};
        p->pool_bytes += size;
        *buf = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    larder_buf_unref(buf);
}

static void read_one(sweep *s, uint64_t id) {
    larder_read read = {0};
    int rc = larder__data_read(s->p->data, &id, 1, &read);
    if (rc < 0 || read.code < 0) {
        if (!larder__profiler_stopped(s->p))
            larder__profiler_bad(s->p, id, rc < 0 ? larder_errmsg() : read.why);
        return;
    }
    atomic_fetch_add(&s->reads, 1);
    atomic_fetch_add(&s->bytes, larder_buf_size(read.buf));
    keep(s->p, id, &read.buf);
}

static void reader(void *arg, uint32_t member) {
    (void)member;
    sweep *s = arg;
    double waited = 0, begun = larder__now(), now = begun;
    bool first = true;
    /* However busy the machine is, one read: a thread may get its turn when the time is over. */
    for (; (first || now < s->until) && !larder__profiler_stopped(s->p); first = false) {
        uint64_t i = atomic_fetch_add(&s->next, 1);
        if (i >= atomic_load(&s->end))
            break;
        read_one(s, i * s->step % s->n);
        double then = larder__now();
        waited += then - now;
        now = then;
    }
    if (first) /* others had read all of it: that it came late says nothing of storage */
        return;
    pthread_mutex_lock(&s->lock);
    s->first = fmin(s->first, begun);
    s->last = fmax(s->last, now);
    s->waited += waited;
    pthread_mutex_unlock(&s->lock);
}

static int sweep_depth(sweep *s, uint32_t inflight, double seconds, larder__depth *out) {
    s->until = larder__now() + seconds;
    s->first = INFINITY;
    s->last = s->waited = 0;
    atomic_store(&s->reads, 0);
    atomic_store(&s->bytes, 0);
    uint32_t readers = larder__threads_run(reader, s, inflight);
    if (larder__profiler_stopped(s->p))
        return larder__fail(LARDER_E_CANCELLED, "stopped");
    uint64_t reads = atomic_load(&s->reads);
    *out = (larder__depth){.inflight = readers,
                           .reads = reads,
                           .bytes = atomic_load(&s->bytes),
                           .seconds = fmax(s->last - s->first, 0),
                           .latency = reads ? s->waited / (double)reads : 0,
                           .whole = atomic_load(&s->next) >= atomic_load(&s->end)};
    larder__profiler_tell(s->p, "storage, %u in flight: %.1f MB/s, %.0f reads/s", inflight,
                          (double)out->bytes / fmax(out->seconds, 1e-9) / 1e6,
                          (double)reads / fmax(out->seconds, 1e-9));
    return 0;
}

/* Bytes this process had a device bring; NAN where the kernel keeps that to itself. */
static double device_bytes(void) {
    FILE *f = fopen("/proc/self/io", "re");
    char line[128];
    unsigned long long bytes;
    double found = NAN;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "read_bytes: %llu", &bytes) == 1)
            found = (double)bytes;
    if (f)
        fclose(f);
    return found;
}

int larder__measure_storage(larder__profiler *p, double seconds, larder__profile *out) {
    sweep s = {.p = p, .n = out->samples, .step = far_step(out->samples)};
    double before = device_bytes(), bytes = 0;
    uint32_t inflight = 1;
    int rc = 0;
    pthread_mutex_init(&s.lock, NULL);
    for (int k = 0; rc == 0 && k < LARDER__DEPTHS; k++, inflight *= 4) {
        /* A part for each depth. With fewer samples than parts the first gets what there is. */
        uint64_t each = s.n / LARDER__DEPTHS, from = (uint64_t)k * each;
        atomic_store(&s.next, from);
        atomic_store(&s.end, each ? from + each : k == 0 ? s.n : 0);
        out->depths[k].inflight = inflight;
        rc = sweep_depth(&s, inflight, seconds / LARDER__DEPTHS, &out->depths[k]);
        bytes += (double)out->depths[k].bytes;
    }
    pthread_mutex_destroy(&s.lock);
    out->from_device = bytes > 0 ? (device_bytes() - before) / bytes : NAN;
    if (rc == 0 && p->pooled == 0)
        rc = larder__fail(LARDER_E_IO, "no sample could be read: %s", p->why);
    return rc;
}
