/* How fast samples that lie in memory become rows: from their files, and from their pixels. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/threads.h"
#include "loader/draw/reserve.h"
#include "profile/profile_inside.h"

typedef enum manner { FROM_FILES, FROM_PIXELS, TO_PIXELS } manner;

typedef struct mill {
    larder__profiler *p;
    manner how;
    double until;
    _Atomic uint64_t made, next;
    pthread_mutex_t lock;
    double cpu;
    int code; /* of a thread that had no memory */
} mill;

static int make_one(mill *m, larder__scratch *scratch, larder_buf *b, uint64_t seed, void *row) {
    const larder__profiler *p = m->p;
    if (m->how == FROM_PIXELS)
        return larder__pipeline_run_decoded(p->pipeline, scratch, larder_buf_data(b),
                                            larder_buf_size(b), seed, row);
    if (m->how == FROM_FILES)
        return larder__pipeline_run(p->pipeline, scratch, larder_buf_data(b), larder_buf_size(b),
                                    seed, row);
    larder_buf *pixels = NULL;
    int rc = larder__pipeline_decode(p->pipeline, scratch, b, SIZE_MAX, &pixels);
    larder_buf_unref(&pixels);
    return rc;
}

static void grind(mill *m, larder__scratch *scratch, void *row) {
    larder__profiler *p = m->p;
    do {
        uint64_t i = atomic_fetch_add(&m->next, 1);
        const larder__pooled *s = &p->pool[i % p->pooled];
        larder_buf *b = m->how == FROM_PIXELS ? s->decoded : s->encoded;
        if (!b)
            continue;
        int rc = make_one(m, scratch, b, i, row);
        if (rc < 0) {
            larder__profiler_bad(p, s->id, larder_errmsg());
            return;
        }
        atomic_fetch_add(&m->made, 1);
    } while (larder__now() < m->until && !larder__profiler_stopped(p));
}

static void miller(void *arg, uint32_t member) {
    (void)member;
    mill *m = arg;
    larder__scratch *scratch = NULL;
    void *row = larder__memalign(64, larder__pipeline_bytes(m->p->pipeline) + 64);
    int rc = row ? larder__scratch_open(&scratch) : LARDER_E_NOMEM;
    double cpu = larder__thread_seconds();
    if (rc == 0)
        grind(m, scratch, row);
    cpu = larder__thread_seconds() - cpu;
    larder__scratch_close(&scratch);
    larder__free(row);
    pthread_mutex_lock(&m->lock);
    m->cpu += cpu;
    m->code = rc < 0 ? rc : m->code;
    pthread_mutex_unlock(&m->lock);
}

static int run_mill(mill *m, uint32_t threads, double seconds, double *by_clock, double *by_cpu) {
    double begun = larder__now();
    m->until = begun + seconds;
    m->cpu = 0;
    atomic_store(&m->made, 0);
    larder__threads_run(miller, m, threads);
    int rc = m->code;
    if (rc == 0 && larder__profiler_stopped(m->p))
        rc = larder__fail(LARDER_E_CANCELLED, "stopped");
    double made = (double)atomic_load(&m->made);
    if (rc == 0 && made == 0)
        rc = larder__fail(LARDER_E_FORMAT, "no sample could be prepared: %s", m->p->why);
    *by_clock = made / (larder__now() - begun);
    *by_cpu = made / (m->cpu > 0 ? m->cpu : 1e-9);
    return rc;
}

static int measure(larder__profiler *p, manner how, double seconds, uint32_t threads,
                   larder__stage_rate *out) {
    static const char *const names[] = {"decode and augment", "augment", "decode whole"};
    mill m = {.p = p, .how = how};
    double ignored;
    pthread_mutex_init(&m.lock, NULL);
    int rc = run_mill(&m, 1, seconds, &ignored, &out->core);
    if (rc == 0)
        rc = run_mill(&m, threads, seconds, &out->all, &ignored);
    pthread_mutex_destroy(&m.lock);
    if (rc == 0)
        larder__profiler_tell(p, "%s: %.0f samples/s a core, %.0f with %u thread%s", names[how],
                              out->core, out->all, threads, threads == 1 ? "" : "s");
    return rc;
}

/* Decodes the pool. Samples that cannot be decoded leave it. */
static int decode_pool(larder__profiler *p, larder__profile *out) {
    larder__scratch *scratch = NULL;
    larder__probe *probes = larder__calloc(p->pooled, sizeof *probes);
    int rc = probes ? larder__scratch_open(&scratch) : LARDER_E_NOMEM;
    size_t good = 0, room = LARDER__POOL_BYTES;
    for (size_t i = 0; rc == 0 && i < p->pooled && !larder__profiler_stopped(p); i++) {
        larder__pooled s = p->pool[i];
        uint64_t bytes;
        p->pool[i].encoded = NULL;
        int bad = larder__pipeline_measure(p->pipeline, scratch, larder_buf_data(s.encoded),
                                           larder_buf_size(s.encoded), &bytes);
        if (bad == 0 && (good == 0 || bytes <= room))
            bad = larder__pipeline_decode(p->pipeline, scratch, s.encoded, SIZE_MAX, &s.decoded);
        if (bad == LARDER_E_NOMEM)
            rc = bad;
        if (bad < 0) {
            larder__profiler_bad(p, s.id, larder_errmsg());
            larder_buf_unref(&s.encoded);
            continue;
        }
        if (s.decoded)
            room = room > bytes ? room - (size_t)bytes : 0;
        probes[good] = (larder__probe){(double)larder_buf_size(s.encoded), (double)bytes};
        p->pool[good++] = s;
    }
    p->pooled = good;
    larder__scratch_close(&scratch);
    if (rc == 0)
        out->decoded_bytes = larder__reserve_mean(probes, good);
    larder__free(probes);
    if (rc == 0 && good == 0)
        rc = larder__fail(LARDER_E_FORMAT, "no sample could be decoded: %s", p->why);
    return rc;
}

int larder__measure_stages(larder__profiler *p, double seconds, larder__profile *out) {
    uint32_t threads = out->threads;
    out->row_bytes = (double)larder__pipeline_bytes(p->pipeline);
    int rc = decode_pool(p, out);
    if (rc == 0)
        rc = measure(p, FROM_FILES, seconds / 6, threads, &out->decode);
    if (rc == 0)
        rc = measure(p, FROM_PIXELS, seconds / 6, threads, &out->augment);
    return rc < 0 ? rc : measure(p, TO_PIXELS, seconds / 6, threads, &out->whole);
}
