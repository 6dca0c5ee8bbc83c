/* Records of jobs: read or refused, and what was read names only samples that are there. The hashes
 * of the blocks are set right first, so that chance gets behind them; a first byte of 'x' leaves
 * them. */
#include "base/mem.h"
#include "sim/feed.h"
#include "tape/tape.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(unsigned char *b, size_t size) {
    uint64_t block = 0;
    for (size_t at = LARDER__TAPE_HEAD; at + LARDER__TAPE_FRAME <= size; block++) {
        size_t n = b[at] | (size_t)b[at + 1] << 8 | (size_t)b[at + 2] << 16;
        b[at + 3] = 0;
        if (n > size - at - LARDER__TAPE_FRAME)
            break;
        uint64_t h = larder__tape_hash(block, b + at + LARDER__TAPE_FRAME, n);
        for (int i = 0; i < 8; i++)
            b[at + 4 + (size_t)i] = (unsigned char)(h >> (8 * i));
        at += LARDER__TAPE_FRAME + n;
    }
}

static void check(const larder__tape *t) {
    uint64_t at = 0, batches = 0;
    for (uint64_t k = 0; k < t->count; k++) {
        if (t->batches[k].begin != at)
            abort();
        at += t->batches[k].n;
    }
    if (at != t->requests)
        abort();
    for (uint64_t i = 0; i < t->requests; i++)
        if (t->ids[i] >= t->job.samples || t->served[i] >= t->job.samples || t->kinds[i] > 3 ||
            !t->size_of[t->ids[i]] || !t->size_of[t->served[i]])
            abort();
    for (uint64_t e = 0; e < t->epoch_count; e++) {
        if (t->epochs[e].begin != batches || t->epochs[e].end > t->count)
            abort();
        batches = t->epochs[e].end;
    }
    for (uint64_t i = 0; i < t->looked_rows; i++)
        if (t->looked_ids[i] >= t->job.samples)
            abort();
}

static void feed(const larder__tape *t) {
    larder__feed *f = NULL;
    if (t->job.samples > 1 << 16 || larder__feed_open(&f, t) < 0)
        return;
    for (uint64_t k = 0; k < t->count && k < 64; k++) {
        uint64_t id = t->batches[k].n ? t->served[t->batches[k].begin] : 0;
        float loss;
        larder__feed_place p = {k, t->batches[k].epoch, 0, t->batches[k].length};
        larder__feed_losses(f, &p, &id, 1, &loss);
        larder__feed_looked(f, t->batches[k].epoch, &id, 1, &loss);
        larder__feed_accuracy(f, k);
    }
    larder__feed_measure(t);
    larder__feed_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__tape t;
    if (size == 0)
        return 0;
    unsigned char *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (copy[0] != 'x')
        mend(copy, size);
    copy[0] = 'L';
    if (larder__tape_parse(&t, copy, size, "input") == 0) {
        check(&t);
        feed(&t);
        larder__tape_free(&t);
    }
    free(copy);
    return 0;
}
