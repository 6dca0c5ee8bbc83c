/* What shrink= would save on this data set, and what it costs: bytes, time, and how far the pixels
 * of finished rows are from those that the files give, the same part of the picture drawn. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "profile/profile_inside.h"
#include "stage/jpeg_encode.h"

#include <math.h>
#include <stdio.h>

/* Rows of each sample; samples, whatever the time: the error is to be the same the next time. */
enum { ROWS = 4, SAMPLES = 256 };

typedef struct tally {
    larder__profiler *p;
    larder__scratch *scratch;
    void *row[2]; /* from the file, shrunk */
    double level[LARDER_CHANNELS_MAX];
    uint64_t samples, shrunk, values;
    double encoded, kept;                  /* bytes */
    double making, from_file, from_shrunk; /* seconds */
    double error, squares;                 /* levels */
} tally;

static double value_at(const tally *t, const void *row, size_t i) {
    return t->p->conf.dtype == LARDER_U8 ? ((const uint8_t *)row)[i]
                                         : (double)((const float *)row)[i];
}

static void compare_rows(tally *t) {
    larder_shape s = larder__pipeline_shape(t->p->pipeline);
    size_t plane = (size_t)s.h * s.w;
    for (size_t i = 0; i < plane * s.c; i++) {
        size_t channel = t->p->conf.layout == LARDER_NHWC ? i % s.c : i / plane;
        double off = (value_at(t, t->row[0], i) - value_at(t, t->row[1], i)) / t->level[channel];
        t->error += fabs(off);
        t->squares += off * off;
    }
    t->values += plane * s.c;
}

static int make_rows(tally *t, larder_buf *full, larder_buf *small, uint64_t seed) {
    double begun = larder__thread_seconds();
    int rc = larder__pipeline_run(t->p->pipeline, t->scratch, larder_buf_data(full),
                                  larder_buf_size(full), seed, t->row[0]);
    double between = larder__thread_seconds();
    if (rc == 0)
        rc = (small ? larder__pipeline_run_shrunk : larder__pipeline_run)(
            t->p->pipeline, t->scratch, larder_buf_data(small ? small : full),
            larder_buf_size(small ? small : full), seed, t->row[1]);
    t->from_file += between - begun;
    t->from_shrunk += larder__thread_seconds() - between;
    if (rc == 0)
        compare_rows(t);
    return rc;
}

static int try_one(tally *t, larder_buf *full, uint64_t id) {
    larder_buf *small = NULL;
    double begun = larder__thread_seconds();
    int rc = larder__pipeline_shrink(t->p->pipeline, t->scratch, full, &t->p->shrink, &small);
    t->making += larder__thread_seconds() - begun;
    for (uint64_t i = 0; rc == 0 && i < ROWS; i++)
        rc = make_rows(t, full, small, id * ROWS + i);
    t->samples++;
    t->shrunk += small != NULL;
    t->encoded += (double)larder_buf_size(full);
    t->kept += (double)larder_buf_size(small ? small : full);
    larder_buf_unref(&small);
    return rc;
}

static void conclude(const tally *t, larder__profile *out) {
    double n = (double)t->samples, values = (double)t->values;
    out->shrunk = (larder__shrunk){.side = t->p->shrink.side,
                                   .bytes = t->kept / n,
                                   .ratio = t->kept / t->encoded,
                                   .share = (double)t->shrunk / n,
                                   .seconds = t->making / n,
                                   .row_seconds = t->from_shrunk / (n * ROWS),
                                   .file_row_seconds = t->from_file / (n * ROWS),
                                   .error = t->error / values,
                                   .psnr = 10 * log10(255 * 255 * values / t->squares)};
    const larder__shrunk *s = &out->shrunk;
    char side[24] = "native size";
    if (s->side)
        snprintf(side, sizeof side, "side %u", s->side);
    larder__profiler_tell(
        t->p,
        "shrunk (%s, quality %u): %.1f KB a sample, %.1f %% of its file, "
        "%.2f ms to make; a row in %.2f ms instead of %.2f ms, %.2f of 255 levels "
        "away on average (%.1f dB)",
        side, t->p->shrink.quality, s->bytes / 1e3, 100 * s->ratio, 1e3 * s->seconds,
        1e3 * s->row_seconds, 1e3 * s->file_row_seconds, s->error, s->psnr);
}

int larder__measure_shrink(larder__profiler *p, larder__profile *out) {
    out->shrunk.bytes = (double)NAN;
    if (!p->conf.shrink.on)
        return 0;
    tally t = {.p = p};
    size_t bytes = larder__pipeline_bytes(p->pipeline) + 64;
    int rc = larder__scratch_open(&t.scratch);
    for (uint32_t c = 0; c < larder__pipeline_shape(p->pipeline).c; c++)
        t.level[c] = larder__pipeline_level(p->pipeline, c);
    for (int i = 0; i < 2; i++)
        t.row[i] = larder__memalign(64, bytes);
    if (!t.row[0] || !t.row[1])
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < p->pooled && i < SAMPLES; i++)
        rc = larder__profiler_stopped(p) ? larder__fail(LARDER_E_CANCELLED, "stopped")
                                         : try_one(&t, p->pool[i].encoded, p->pool[i].id);
    if (rc == 0)
        conclude(&t, out);
    larder__free(t.row[0]);
    larder__free(t.row[1]);
    larder__scratch_close(&t.scratch);
    return rc;
}

int larder__measure_shrink_open(larder__profiler *p) {
    p->shrink = p->conf.shrink.to;
    if (p->conf.shrink.on && !larder__jpeg_can_encode())
        return larder__fail(LARDER_E_UNSUPPORTED, "--shrink: this build encodes no JPEG");
    if (p->conf.shrink.automatic)
        p->shrink.side = larder__pipeline_side(p->pipeline);
    return 0;
}
