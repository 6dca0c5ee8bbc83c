#include "loader_kit.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

larder_loader_conf kit_conf(const char *source, const char *recipe) {
    larder_loader_conf c = {.size = sizeof c, .cache = "20%"};
    c.source = source;
    c.recipe = recipe;
    c.augment = KIT_PIXELS;
    c.batch = 16;
    c.threads = 2;
    c.seed = 7;
    c.dtype = LARDER_U8;
    return c;
}

uint64_t kit_digest(const larder_batch *b) {
    size_t row = (size_t)b->shape.h * b->shape.w * b->shape.c * (b->dtype == LARDER_F32 ? 4 : 1);
    uint64_t h = larder__mix64(b->number * 31 + b->epoch * 7 + b->n);
    h = larder__hash_bytes(h, b->ids, b->n * sizeof *b->ids);
    h = larder__hash_bytes(h, b->served, b->n * sizeof *b->served);
    h = larder__hash_bytes(h, b->y, b->n * sizeof *b->y);
    h = larder__hash_bytes(h, b->weight, b->n * sizeof *b->weight);
    return larder__hash_bytes(h, b->x, b->n * row) | 2;
}

float kit_loss(uint64_t id, uint64_t epoch) {
    return (float)(larder__mix64(id * 1000 + epoch) % 1000) / 100.0f;
}

size_t kit_run(larder_loader *l, uint64_t *digests, size_t max) {
    float losses[4096];
    size_t at = 0;
    while (at < max) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END)
            break;
        if (rc == LARDER_END_EPOCH) {
            digests[at++] = 1;
            continue;
        }
        digests[at++] = kit_digest(b);
        for (size_t i = 0; i < b->n; i++)
            losses[i] = kit_loss(b->served[i], b->epoch);
        larder_feedback fb = {.size = sizeof fb, .loss = losses};
        check_ok(larder_loader_report(l, b, &fb));
        check_ok(larder_loader_done(l, b));
    }
    return at;
}

larder_loader *kit_resume(const larder_loader_conf *conf, size_t before, const uint64_t *whole,
                          size_t count) {
    larder_loader_conf c = *conf;
    larder_loader *l = NULL;
    uint64_t *got = calloc(count + 1, sizeof *got); /* one more would be too many */
    void *bytes;
    size_t size;
    assert_non_null(got);
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(kit_run(l, got, before), before);
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    c.threads = 1 + (uint32_t)before % 5;
    c.prefetch = 1 + (uint32_t)before % 7;
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
    larder_free(bytes);
    assert_int_equal(kit_run(l, got + before, count + 1 - before), count - before);
    if (memcmp(got, whole, count * sizeof *got) != 0)
        fail_msg("%s: resumed after %zu of %zu, the rest differs", c.recipe, before, count);
    free(got);
    return l;
}

void kit_write_array(const char *folder, const char *name, const char *type, uint64_t rows,
                     uint64_t cols, const void *data, size_t size) {
    char path[512], head[129] = "", *bytes = malloc(128 + size);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int n =
        snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }",
                 type, (int)rows, (int)cols);
    memset(head + n, ' ', (size_t)(117 - n));
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(bytes + 10, head, 117);
    bytes[127] = '\n';
    memcpy(bytes + 128, data, size);
    check_write(path, bytes, 128 + size);
    free(bytes);
}
