#include "loader/fill/freight_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "stage/blueprint.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

/* "gpu", "auto", with ":fast" behind it or not. */
static int read_decode(const char *text, larder__decoding *out, bool *fast) {
    size_t n = text ? strcspn(text, ":") : 0;
    *out = LARDER__DECODE_HERE;
    *fast = text && strcmp(text + n, ":fast") == 0;
    if (n == 0 || strcmp(text, "cpu") == 0)
        return 0;
    bool there = n == 3 && memcmp(text, "gpu", n) == 0;
    *out = there ? LARDER__DECODE_THERE : LARDER__DECODE_AUTO;
    if ((there || (n == 4 && memcmp(text, "auto", n) == 0)) && (*fast || !text[n]))
        return 0;
    return larder__fail(LARDER_E_ARGS,
                        "decode is cpu, gpu or auto, or one of these two with :fast behind it, "
                        "not \"%.40s\"",
                        text);
}

static int read_number(const char *text, int *out) {
    char *end = NULL;
    *out = 0;
    if (strcmp(text, "cuda") == 0)
        return 0;
    long n = strncmp(text, "cuda:", 5) == 0 && text[5] ? strtol(text + 5, &end, 10) : -1;
    if (n < 0 || n > 1 << 16 || *end)
        return larder__fail(LARDER_E_ARGS, "device is \"cuda\" or \"cuda:1\", not \"%.40s\"", text);
    *out = (int)n;
    return 0;
}

static int open_gpu(larder__freight *d, int number) {
    int rc = larder__gpu_open(&d->gpu, number);
    return rc < 0 ? rc : larder__levels_open(&d->code, d->gpu);
}

static void close_gpu(larder__freight **pd) {
    larder__freight *d = *pd;
    *pd = NULL;
    if (!d)
        return;
    larder__levels_close(&d->code);
    larder__gpu_close(&d->gpu);
    pthread_cond_destroy(&d->sent);
    larder__free(d);
}

void larder__freight_done(void *device) {
    larder__freight *d = device;
    close_gpu(&d);
}

/* Samples that are not x as the stages make it, or that a cache keeps as x: these travel as asked
 * for. Rows as levels would be other entries, and the cache would choose others. */
static bool travels(const larder_loader *l, const larder_loader_conf *given) {
    bool kept = l->plans;
    for (size_t i = 0; i < l->cache.tier_count; i++)
        kept |= l->cache.tiers[i].budget.share[LARDER_AUGMENTED] > 0;
    return !kept && !given->own && !given->maker && !l->conf.fields && !l->conf.target &&
           !l->conf.order_only;
}

int larder__freight_open(larder_loader *l, const larder_loader_conf *given) {
    larder__decoding decode;
    bool fast;
    int number = 0, rc = read_decode(given->decode, &decode, &fast);
    bool named = given->device && given->device[0];
    if (rc == 0 && named)
        rc = read_number(given->device, &number);
    if (rc == 0 && decode == LARDER__DECODE_THERE && !named)
        rc = larder__fail(LARDER_E_ARGS, "decode=gpu is for batches that go to one: name it, "
                                         "device=cuda");
    if (rc == 0 && decode == LARDER__DECODE_THERE && !travels(l, given))
        rc = larder__fail(LARDER_E_ARGS,
                          "decode=gpu makes x of encoded pictures: it does not go with fields=, "
                          "target=, functions of one's own, or a cache of augmented samples");
    if (rc == 0 && decode == LARDER__DECODE_THERE && l->cage)
        rc = larder__fail(LARDER_E_ARGS, "a cage holds larder's decoders; a GPU's run outside of "
                                         "it: leave out decode=gpu or the cage");
    if (rc < 0 || !named || !travels(l, given))
        return rc;
    larder__freight *d = larder__calloc(1, sizeof *d);
    if (!d)
        return LARDER_E_NOMEM;
    pthread_cond_init(&d->sent, NULL);
    d->fast = fast;
    d->decode = l->cage ? LARDER__DECODE_HERE : decode;
    l->device = d;
    rc = open_gpu(d, number);
    if (rc < 0 && decode != LARDER__DECODE_THERE) {
        larder__note(l->stats,
                     "batches go to %s as they are made here, and are not normalised "
                     "there: %s",
                     given->device, larder_errmsg());
        close_gpu(&l->device);
        rc = 0;
    }
    return rc < 0 ? larder__fail_in(rc, "device %s", given->device) : 0;
}

/* Is there something for it to do? E_UNSUPPORTED and why not. */
static int check_decodable(const larder_loader *l) {
    const larder_dataset *about = larder__data_about(l->data);
    const char *stage = larder__pipeline_unsayable(l->pipeline);
    if (about->raw.h)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "samples are pixels already: a GPU has nothing to decode");
    if (stage)
        return larder__fail(LARDER_E_UNSUPPORTED, "a GPU has no code for stage %s%s", stage,
                            strcmp(stage, "rrc") == 0 || strcmp(stage, "resize") == 0 ||
                                    strcmp(stage, "crop") == 0
                                ? " after one that changes colours"
                                : "");
    return 0;
}

static int open_figures(larder_loader *l) {
    larder__loader_stats *t = &l->stat;
    int rc = larder__stat_counter(l->stats, &t->decoded_gpu, "decoded_gpu", "samples",
                                  "decoded and augmented on the GPU");
    rc = rc < 0 ? rc
                : larder__stat_gauge(l->stats, &t->gpu_share, "gpu_share", "percent",
                                     "of the samples of a batch were decoded on the GPU, lately");
    rc = rc < 0 ? rc
                : larder__stat_histogram(l->stats, &t->gpu_time, "gpu_decode_seconds", "seconds",
                                         "decoding and augmenting up to 64 samples on the GPU");
    rc = rc < 0 ? rc
                : larder__stat_gauge(l->stats, &t->gpu_engine, "gpu_engine", "",
                                     "1: by the card's own engine for JPEGs, 0: by CUDA's kernels");
    rc = rc < 0 ? rc
                : larder__stat_counter(l->stats, &t->gpu_refused, "gpu_refused", "samples",
                                       "the GPU would not decode, so that the cores did");
    if (rc < 0)
        return rc;
    larder__stat_set(l->stats, t->gpu_engine, larder__jpegs_engine(l->device->decoder.jpegs));
    return 0;
}

int larder__freight_settle(larder_loader *l) {
    larder__freight *d = l->device;
    if (d->decode != LARDER__DECODE_THERE && larder__pipeline_levelless(l->pipeline)) {
        close_gpu(&l->device);
        return 0;
    }
    d->row_bytes = larder__pipeline_bytes(l->pipeline) * l->conf.views;
    d->rows = l->conf.batch;
    int rc = check_decodable(l);
    d->could = rc == 0 && !l->cage;
    if (d->decode == LARDER__DECODE_HERE)
        return 0;
    rc = rc < 0 ? rc : larder__decoder_open(l, &d->decoder);
    d->share = 1;
    d->processors = larder__cpu_count();
    if (rc < 0 && d->decode == LARDER__DECODE_AUTO) {
        larder__note(l->stats, "all pictures are decoded by the cores: %s", larder_errmsg());
        larder__decoder_close(d->gpu, &d->decoder);
        d->decode = LARDER__DECODE_HERE;
        return 0;
    }
    return rc < 0 ? larder__fail_in(rc, "decode=gpu") : open_figures(l);
}

bool larder__freight_decodes(const larder_loader *l) {
    return l->device && l->device->decode != LARDER__DECODE_HERE;
}

/* ---- how many rows --------------------------------------------------------------------------- */

size_t larder__freight_rows(larder_loader *l, size_t n) {
    larder__freight *d = l->device;
    if (!larder__freight_decodes(l) || d->lost)
        return 0;
    size_t rows = (size_t)((double)n * d->share + 0.5);
    return rows < n ? rows : n;
}

/* How far the share goes at once, so that as many threads are busy as there is room for: what rows
 * cost is seen in those that are. Only a part of the way, since it is seen some batches later. */
static double step_to(const larder__freight_case *c, double room) {
    const double part = 0.1, most = 1.0 / 32;
    double over = c->busy - room;
    double a_thread = c->busy > 0.1 && c->share < 1 ? (1 - c->share) / c->busy : 1;
    double step = part * over * a_thread;
    return step > most ? most : step < -most ? -most : step;
}

double larder__freight_next_share(const larder__freight_case *c) {
    enum { KEPT = 2 };
    const double much = 0.02, up = 1.0 / 32;
    double room = c->processors > KEPT ? c->processors - KEPT : 0, share = c->share;
    if (c->waited > much)
        share += c->device_busy > 0.9 ? -up : up;
    else if (c->busy > room || c->ready)
        share += step_to(c, room);
    return share > 1 ? 1 : share < 0 ? 0 : share;
}

/* The next batch is there, and those behind it but the last two: the one whose memory came back
 * just now, and the one that cores and device are at. Of one or two none can be. */
static bool enough_ready(const larder_loader *l) {
    uint64_t all = l->conf.prefetch, some = all > 3 ? all - 3 : all / 3;
    for (uint64_t k = l->taken; k < l->taken + some; k++)
        if (k >= l->planned || l->ring[k % l->conf.ahead].phase != LARDER__FILLED)
            return false;
    return true;
}

/* Threads that were at it since they were last looked at, smoothed. */
static double smoothed(double was, double *spent, double now_spent, double seconds) {
    double here = seconds > 0 ? (now_spent - *spent) / seconds : was;
    *spent = now_spent;
    return 0.8 * was + 0.2 * here;
}

static void steer(larder_loader *l) {
    larder__freight *d = l->device;
    uint32_t cores = l->conf.threads;
    double all = l->waited + l->stepped, for_decoding = l->waited - l->starved;
    double now = larder__now(), since = d->looked > 0 ? now - d->looked : 0;
    d->busy = smoothed(d->busy, &d->spent, larder__stall_preparing(l, 0, cores), since);
    d->there = smoothed(d->there, &d->spent_there,
                        larder__stall_preparing(l, cores, cores + LARDER__FREIGHT_THREADS), since);
    d->looked = now;
    larder__freight_case c = {.share = d->share,
                              .waited = all > 0 ? for_decoding / all : 0,
                              .device_busy = d->there,
                              .ready = enough_ready(l),
                              .busy = d->busy,
                              .processors = d->processors};
    d->share = larder__freight_next_share(&c);
}

void larder__freight_handed(larder_loader *l, const larder__place *p) {
    larder__freight *d = l->device;
    if (p->made_there)
        larder__stat_add(l->stats, l->stat.decoded_gpu, p->made_there);
    if (!larder__freight_decodes(l) || d->lost || p->plan.n == 0)
        return;
    if (d->decode == LARDER__DECODE_AUTO)
        steer(l);
    double seen = (double)p->made_there / (double)p->plan.n;
    d->seen = d->handed ? 0.95 * d->seen + 0.05 * seen : seen;
    d->handed = true;
    larder__stat_set(l->stats, l->stat.gpu_share, 100 * d->seen);
}
