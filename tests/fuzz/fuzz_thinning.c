/* When each sample was scored last, from a state of any bytes: refused with a sentence, or the rule
 * holds from there on. The input is the state of 16 samples (72 bytes, fewer: cut off), then
 * reports: a stride, a number of rows, and their ids. */
#include "loader/feedback/thinning.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 16, STATE = 8 + 4 * N, ROWS = 32 };

/* Kept are as many as the stride says, in their order, each with what came along with it. */
static void check_kept(const larder_report *r, const uint64_t *ids, size_t n, uint32_t stride) {
    size_t at = 0;
    if (r->n != (n + stride - 1) / stride)
        abort();
    for (size_t i = 0; i < r->n; i++, at++) {
        while (at < n && (ids[at] != r->ids[i] || r->labels[i] != (int64_t)at))
            at++;
        if (at == n)
            abort();
    }
}

static void report(larder__thinning *t, uint32_t stride, const uint8_t *from, size_t n) {
    uint64_t ids[ROWS], asked[ROWS], fresh;
    int64_t labels[ROWS];
    for (size_t i = 0; i < n; i++) {
        ids[i] = asked[i] = from[i] % N;
        labels[i] = (int64_t)i;
    }
    larder_report r = {.n = n, .ids = ids, .labels = labels};
    if (larder__thinning_fresh(t, &r) > n)
        abort();
    if (larder__thinning_keep(t, &r, stride, &fresh) == 0)
        check_kept(&r, asked, n, stride);
    if (fresh > n)
        abort();
    for (size_t i = 0; i < N; i++)
        if (t->scored[i] > t->reports)
            abort(); /* scored with a report that is to come */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__thinning t = {0};
    if (larder__thinning_open(&t, N) < 0)
        abort();
    size_t at = size < STATE ? size : STATE;
    larder_reader in = {.at = data, .end = data + at};
    if (larder__thinning_load(&t, &in) == 0)
        while (at + 2 <= size) {
            uint32_t stride = 1 + data[at] % LARDER__STRIDE_MOST;
            size_t n = data[at + 1] % (ROWS + 1);
            at += 2;
            n = n < size - at ? n : size - at;
            report(&t, stride, data + at, n);
            at += n;
        }
    else if (!larder_errmsg()[0])
        abort();
    larder_writer w = {0};
    larder__thinning_save(&t, &w);
    larder__writer_free(&w);
    larder__thinning_close(&t);
    return 0;
}
