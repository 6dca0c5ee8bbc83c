#include "source/own.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"
#include "source/answer.h"
#include "source/own_source.h"

#include <stdatomic.h>
#include <stdio.h>

enum { PROBES = 32, A_PROBE_IN = 128 /* samples */ };

static int describe(void *st, larder_dataset *out) {
    const larder__own *o = st;
    *out = (larder_dataset){.count = o->given.count,
                            .bytes = (uint64_t)(o->mean * (double)o->given.count),
                            .classes = o->given.classes,
                            .fingerprint = o->given.fingerprint,
                            .parcels = true};
    return 0;
}

static int stat_sample(void *st, uint64_t id, larder_sample *out) {
    const larder__own *o = st;
    *out =
        (larder_sample){.bytes = o->reserve, .label = o->given.labels ? o->given.labels[id] : -1};
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    const larder__own *o = st;
    if (o->given.name)
        return o->given.name(o->given.arg, id, out, cap);
    snprintf(out, cap, "item %llu", (unsigned long long)id);
    return 0;
}

/* A sentence about a sample says which one, by the name it has in the program. */
static void blame(larder__own *o, uint64_t id, larder_read *r) {
    char shown[120] = "?", why[sizeof r->why];
    name(o, id, shown, sizeof shown);
    snprintf(why, sizeof why, "%s", r->why);
    snprintf(r->why, sizeof r->why, "sample %llu (%.80s): %.160s", (unsigned long long)id, shown,
             why);
}

static int read_samples(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    larder__own *o = st;
    for (size_t i = 0; i < n; i++)
        out[i] = (larder_read){.code = LARDER_E_STATE, .why = "it was not answered"};
    int rc = o->given.read(o->given.arg, ids, n, out);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (out[i].code == 0 && !out[i].buf)
            larder__answer_failure(&out[i], larder__fail(LARDER_E_FORMAT, "no bytes came"));
        if (out[i].code == 0)
            atomic_store_explicit(&o->came_to[ids[i]], (uint32_t)larder_buf_size(out[i].buf),
                                  memory_order_relaxed);
        else if (strncmp(out[i].why, "sample ", 7) != 0)
            blame(o, ids[i], &out[i]);
    }
    return rc;
}

static void interrupt(void *st) {
    const larder__own *o = st;
    if (o->given.interrupt)
        o->given.interrupt(o->given.arg, true);
}

static void close_own(void *st) {
    larder__own *o = st;
    larder__free((void *)o->came_to);
    larder__free(o->shown);
}

const larder_source larder__source_own = {
    .plugin = {.name = "own", .state_size = sizeof(larder__own)},
    .close = close_own,
    .describe = describe,
    .stat = stat_sample,
    .name = name,
    .read = read_samples,
    .interrupt = interrupt,
};

static size_t probes_of(uint64_t count) {
    uint64_t n = count / A_PROBE_IN + 1;
    return (size_t)(n > PROBES ? PROBES : n > count ? count : n);
}

/* What cannot be read here fails again when it is wanted, and is told then; but where all fail,
 * nothing else will come of it. */
static int learn(larder__own *o, uint64_t *probes, uint64_t *bytes) {
    uint64_t ids[PROBES] = {0}, good = 0;
    larder_read reads[PROBES];
    size_t n = probes_of(o->given.count);
    for (size_t i = 0; i < n; i++)
        ids[i] = (2 * i + 1) * o->given.count / (2 * n);
    int rc = read_samples(o, ids, n, reads);
    *probes = n;
    *bytes = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t size = reads[i].buf ? larder_buf_size(reads[i].buf) : 0;
        o->reserve = size > o->reserve ? (uint32_t)size : o->reserve;
        *bytes += size;
        good += reads[i].code == 0;
        larder_buf_unref(&reads[i].buf);
    }
    if (rc == 0 && n && good == 0)
        return larder__fail(reads[0].code, "%s", reads[0].why);
    o->reserve = o->reserve ? o->reserve : 1;
    o->mean = good ? (double)*bytes / (double)good : 1;
    return rc;
}

int larder__own_begin(larder__own *o, const larder_own_source *given, uint64_t *probes,
                      uint64_t *bytes) {
    int rc = larder__sized_in(&o->given, sizeof o->given, given, "larder_own_source");
    if (rc < 0)
        return rc;
    if (!o->given.read)
        return larder__fail(LARDER_E_ARGS, "a source of one's own without a function that reads");
    if (o->given.count >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "%llu samples: at most 4 billion",
                            (unsigned long long)o->given.count);
    o->shown = larder__strdup(o->given.shown ? o->given.shown : "own");
    o->came_to = larder__calloc(o->given.count + 1, sizeof *o->came_to);
    if (!o->came_to || !o->shown)
        return LARDER_E_NOMEM;
    if (o->given.interrupt)
        o->given.interrupt(o->given.arg, false);
    return learn(o, probes, bytes);
}
