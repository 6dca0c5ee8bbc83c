/* How much a decoded sample reserves in the cache.
 *
 * The cache decides before a byte is read, but the size of a picture is known only from its head.
 * So a few samples spread evenly over the data set are read at open, and two rules are tried on
 * them: a multiple of the encoded size, and one size for all. The rule and the number that keep the
 * most samples decoded per byte reserved win. Nothing else is learned later: what is decided
 * depends on the data set alone, not on which sample was decoded first. A sample whose pixels do
 * not fit what it has reserved stays encoded in that place. */
#include "loader/draw/reserve.h"
#include "base/asked.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <math.h>

enum { PROBES = 48 };

static double reserved_by(const larder__probe *p, double ratio, double bytes) {
    return fmax(p->encoded, fmax(floor(ratio * p->encoded), bytes));
}

/* Samples kept decoded per byte, if each reserves `ratio` times its size or `bytes`. */
static double worth(const larder__probe *p, size_t n, double ratio, double bytes) {
    double fit = 0, reserved = 0;
    for (size_t i = 0; i < n; i++) {
        double mine = reserved_by(&p[i], ratio, bytes);
        fit += p[i].decoded <= mine;
        reserved += mine;
    }
    return reserved > 0 ? fit / reserved : 0;
}

void larder__reserve_choose(const larder__probe *p, size_t n, double *ratio, uint32_t *bytes) {
    double best = 0;
    *ratio = 1;
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        /* A hair above, so that rounding does not leave out the very sample it came from. */
        double multiple = p[i].encoded > 0 ? (p[i].decoded + 0.5) / p[i].encoded : 1;
        double as_ratio = worth(p, n, multiple, 0), as_bytes = worth(p, n, 0, p[i].decoded);
        if (as_ratio > best) {
            best = as_ratio;
            *ratio = multiple;
            *bytes = 0;
        }
        if (as_bytes > best && p[i].decoded < UINT32_MAX) {
            best = as_bytes;
            *ratio = 0;
            *bytes = (uint32_t)p[i].decoded;
        }
    }
}

double larder__reserve_mean(const larder__probe *p, size_t n) {
    double ratio, sum = 0;
    uint32_t bytes;
    larder__reserve_choose(p, n, &ratio, &bytes);
    for (size_t i = 0; i < n; i++)
        sum += reserved_by(&p[i], ratio, bytes);
    return n ? sum / (double)n : 0;
}

static size_t measure(larder_loader *l, uint64_t before, larder_read *reads, size_t n,
                      larder__probe *out) {
    size_t good = 0;
    uint64_t bytes = 0, decoded;
    for (size_t i = 0; i < n; i++) {
        if (reads[i].code < 0 || !reads[i].buf)
            continue;
        size_t size = larder_buf_size(reads[i].buf);
        bytes += size;
        l->probes++;
        if (larder__pipeline_measure(l->pipeline, l->own_scratch, larder_buf_data(reads[i].buf),
                                     size, &decoded) == 0)
            out[good++] = (larder__probe){(double)size, (double)decoded};
        larder_buf_unref(&reads[i].buf);
    }
    l->probe_bytes += bytes; /* nobody asked for them: background reads of the first batch */
    larder__joint_note(l, NULL, before, n, bytes);
    return good;
}

int larder__reserve_learn(larder_loader *l, double *ratio, uint32_t *bytes) {
    const larder_dataset *about = larder__data_about(l->data);
    *ratio = 1;
    *bytes = 0;
    if (about->raw.h || about->count == 0)
        return 0;
    uint64_t ids[PROBES];
    larder__probe seen[PROBES];
    size_t n = about->count < PROBES ? (size_t)about->count : PROBES;
    for (size_t i = 0; i < n; i++)
        ids[i] = (2 * i + 1) * about->count / (2 * n);
    larder_read *reads = larder__calloc(n, sizeof *reads);
    if (!reads)
        return LARDER_E_NOMEM;
    uint64_t before = larder__requests();
    int rc = larder__data_read(l->data, ids, n, reads);
    if (rc == 0) {
        size_t good = measure(l, before, reads, n, seen);
        larder__reserve_choose(seen, good, ratio, bytes); /* none is good: training will say why */
    }
    larder__free(reads);
    return rc;
}
