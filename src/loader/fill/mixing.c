/* Batch stages: each row with the one before it, the first with the last. Done once all rows of a
 * batch are there, by the thread that made the last of them. */
#include "base/clones.h"
#include "base/err.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/inside.h"

LARDER__CLONES
static void blend_f32(float *restrict a, const float *restrict b, size_t n, float own) {
    for (size_t i = 0; i < n; i++)
        a[i] = a[i] * own + b[i] * (1 - own);
}

LARDER__CLONES
static void blend_u8(uint8_t *restrict a, const uint8_t *restrict b, size_t n, float own) {
    for (size_t i = 0; i < n; i++)
        a[i] = (uint8_t)(int32_t)((float)a[i] * own + (float)b[i] * (1 - own) + 0.5f);
}

LARDER__CLONES
static void blend_f16(uint16_t *restrict a, const uint16_t *restrict b, size_t n, float own) {
    for (size_t i = 0; i < n; i++)
        a[i] = larder__f16_of_float(larder__float_of_f16(a[i]) * own +
                                    larder__float_of_f16(b[i]) * (1 - own));
}

LARDER__CLONES
static void blend_bf16(uint16_t *restrict a, const uint16_t *restrict b, size_t n, float own) {
    for (size_t i = 0; i < n; i++)
        a[i] = larder__bf16_of_float(larder__float_of_bf16(a[i]) * own +
                                     larder__float_of_bf16(b[i]) * (1 - own));
}

static void blend(const larder_loader *l, void *a, const void *b, float own) {
    size_t bytes = l->row_bytes;
    if (l->conf.dtype == LARDER_F32)
        blend_f32(a, b, bytes / sizeof(float), own);
    else if (l->conf.dtype == LARDER_U8)
        blend_u8(a, b, bytes, own);
    else if (l->conf.dtype == LARDER_F16)
        blend_f16(a, b, bytes / sizeof(uint16_t), own);
    else
        blend_bf16(a, b, bytes / sizeof(uint16_t), own);
}

/* The box, in all planes (or packed rows) of all views. */
static void paste(const larder_loader *l, unsigned char *a, const unsigned char *b,
                  const larder_mixing *m) {
    const larder_shape s = larder__loader_shape(l);
    bool packed = l->conf.layout == LARDER_NHWC;
    size_t pixel = larder__dtype_bytes(l->conf.dtype) * (packed ? s.c : 1), line = pixel * s.w;
    for (size_t plane = 0; plane < l->row_bytes; plane += line * s.h)
        for (size_t y = m->y0; y < m->y1; y++) {
            size_t at = plane + y * line + m->x0 * pixel;
            memcpy(a + at, b + at, (m->x1 - m->x0) * pixel);
        }
}

static void mix_row(const larder_loader *l, void *a, const void *b, const larder_mixing *m) {
    if (m->pasted)
        paste(l, a, b, m);
    else
        blend(l, a, b, (float)m->weight);
}

/* The good row before this one; rows that failed are left out of the batch or end the run. */
static size_t good_before(const larder__place *p, size_t row) {
    while (row > 0 && p->faults[row - 1].code < 0 && p->kind[row - 1] != LARDER_REPLACED)
        row--;
    return row; /* one past it */
}

/* Rows that go to a device are mixed there: who with whom is all that is said. */
static void pair_rows(larder__place *p, const larder_mixing *m, size_t last) {
    larder__twin *t = larder__pixel_block_beside(p->block);
    size_t first = last;
    larder__twin_mix(t, m);
    for (size_t i = last, before; i > 0; i = before) {
        before = good_before(p, i - 1);
        first = i;
        if (before > 0)
            larder__twin_pair(t, i - 1, before - 1);
    }
    larder__twin_pair(t, first - 1, last - 1);
    p->batch.mix_weight = (float)m->weight;
}

int larder__mixing_do(larder_loader *l, larder__place *p) {
    larder_mixing m;
    uint64_t number = p->plan.number * l->conf.world + l->conf.rank;
    p->batch.mix_weight = 1;
    int rc = larder__pipeline_mix(
        l->pipeline, larder__mix64(~l->conf.seed ^ larder__mix64(number + 1)) >> 1, &m);
    size_t last = good_before(p, p->plan.n), first = last;
    if (rc < 0 || m.weight >= 1 || last == 0)
        return rc;
    if (l->device) {
        pair_rows(p, &m, last);
        return 0;
    }
    unsigned char *kept = larder__malloc(l->row_bytes);
    if (!kept)
        return LARDER_E_NOMEM;
    memcpy(kept, p->x + (last - 1) * l->row_bytes, l->row_bytes);
    for (size_t i = last, before; i > 0; i = before) {
        before = good_before(p, i - 1);
        first = i;
        if (before > 0)
            mix_row(l, p->x + (i - 1) * l->row_bytes, p->x + (before - 1) * l->row_bytes, &m);
    }
    mix_row(l, p->x + (first - 1) * l->row_bytes, kept, &m);
    larder__free(kept);
    p->batch.mix_weight = (float)m.weight;
    return 0;
}
