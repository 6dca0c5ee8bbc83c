/* mem: samples made up on the spot, for tests and benchmarks. Bytes, sizes and labels are a
 * function of seed and id, so nothing is stored and ten million samples cost nothing. */
#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/answer.h"

#include <stdlib.h>

typedef struct synthetic {
    uint64_t n, seed, total;
    uint32_t low, high; /* bytes of a sample */
    uint32_t classes;
    larder_shape raw;
    uint64_t *bad;
    size_t bad_used, bad_cap;
} synthetic;

enum { SIZES = 1, LABELS = 2, PAYLOAD = 3 }; /* independent streams of the same seed */

static uint64_t chance(const synthetic *s, uint64_t id, uint64_t stream) {
    return larder__mix64(larder__mix64(s->seed * 4 + stream) ^ (id * 0x9e3779b97f4a7c15u));
}

static uint32_t size_of(const synthetic *s, uint64_t id) {
    if (s->low == s->high)
        return s->low;
    return s->low + (uint32_t)(chance(s, id, SIZES) % ((uint64_t)(s->high - s->low) + 1));
}

static int parse_sizes(synthetic *s, const char *text) {
    char low[32];
    uint64_t a, b;
    size_t n = strcspn(text, "-");
    if (n == 0 || n >= sizeof low)
        return larder__fail(LARDER_E_ARGS, "source mem: bytes: \"%.60s\" is not 3072 or 100-5000",
                            text);
    memcpy(low, text, n);
    low[n] = 0;
    int rc = larder__parse_bytes(low, &a);
    b = a;
    if (rc == 0 && text[n])
        rc = larder__parse_bytes(text + n + 1, &b);
    if (rc < 0)
        return larder__fail_in(rc, "source mem: bytes");
    if (a > b || b > UINT32_MAX)
        return larder__fail(LARDER_E_ARGS, "source mem: bytes: \"%.60s\" is no range below 4 GiB",
                            text);
    s->low = (uint32_t)a;
    s->high = (uint32_t)b;
    return 0;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* "3/17/99" */
static int parse_bad(synthetic *s, const char *text) {
    while (*text) {
        char one[24];
        size_t n = strcspn(text, "/");
        if (n == 0 || n >= sizeof one)
            return larder__fail(LARDER_E_ARGS, "source mem: bad: \"%.60s\" is not ID/ID/…", text);
        memcpy(one, text, n);
        one[n] = 0;
        int rc = larder__grow(&s->bad, &s->bad_cap, s->bad_used + 1, sizeof *s->bad);
        if (rc == 0)
            rc = larder__parse_u64("source mem: bad", one, UINT64_MAX, &s->bad[s->bad_used]);
        if (rc < 0)
            return rc;
        s->bad_used++;
        text += n + (text[n] != 0);
    }
    if (s->bad_used)
        qsort(s->bad, s->bad_used, sizeof *s->bad, by_value);
    return 0;
}

static int mem_open(void *st, const char *where, const larder_args *args) {
    synthetic *s = st;
    if (where[0])
        return larder__fail(LARDER_E_ARGS,
                            "mem:%.60s: takes no place, only parameters, as in mem:?n=1000", where);
    s->n = (uint64_t)larder_args_number(args, "n");
    s->seed = (uint64_t)larder_args_number(args, "seed");
    s->classes = (uint32_t)larder_args_number(args, "classes");
    s->raw = (larder_shape){(uint32_t)larder_args_number(args, "h"),
                            (uint32_t)larder_args_number(args, "w"),
                            (uint32_t)larder_args_number(args, "c")};
    int rc = parse_bad(s, larder_args_text(args, "bad"));
    if (rc < 0)
        return rc;
    if (s->raw.h && s->raw.w && s->raw.c)
        s->low = s->high = s->raw.h * s->raw.w * s->raw.c; /* each bounded by its parameter */
    else if (s->raw.h || s->raw.w)
        return larder__fail(LARDER_E_ARGS, "source mem: a shape needs h, w and c");
    else if ((rc = parse_sizes(s, larder_args_text(args, "bytes"))) < 0)
        return rc;
    s->total = s->n * s->low;
    for (uint64_t i = 0; s->low != s->high && i < s->n; i++)
        s->total += size_of(s, i) - s->low;
    return 0;
}

static void mem_close(void *st) { larder__free(((synthetic *)st)->bad); }

static int describe(void *st, larder_dataset *out) {
    const synthetic *s = st;
    uint64_t id[] = {s->n, s->seed, s->low, s->high, s->classes, s->raw.h, s->raw.w, s->raw.c};
    *out = (larder_dataset){.count = s->n,
                            .bytes = s->total,
                            .classes = s->classes,
                            .raw = s->raw.h ? s->raw : (larder_shape){0},
                            .layout = LARDER_NCHW,
                            .fingerprint = larder__hash_bytes(0x3e3, id, sizeof id)};
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    const synthetic *s = st;
    out->bytes = size_of(s, id);
    out->label = s->classes ? (int32_t)(chance(s, id, LABELS) % s->classes) : -1;
    return 0;
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    (void)st;
    snprintf(out, cap, "mem#%llu", (unsigned long long)id);
    return 0;
}

/* One file, as it were. */
static int file(void *st, uint64_t id, uint64_t *out) {
    (void)st, (void)id;
    *out = 0;
    return 0;
}

static larder_buf *make(const synthetic *s, uint64_t id) {
    size_t size = size_of(s, id), at = 0;
    larder_buf *buf = larder_buf_new(size);
    if (!buf)
        return NULL;
    unsigned char *bytes = larder_buf_data(buf);
    larder_rng rng;
    larder_rng_seed(&rng, chance(s, id, PAYLOAD), 0);
    for (; at < size; at += 8) {
        uint64_t word = larder_rng_next(&rng);
        memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
    }
    return buf;
}

static int mem_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    const synthetic *s = st;
    for (size_t i = 0; i < n; i++) {
        if (s->bad_used && bsearch(&ids[i], s->bad, s->bad_used, sizeof *s->bad, by_value)) {
            larder__answer_failure(&out[i],
                                   larder__fail(LARDER_E_IO, "mem#%llu: is bad, as was asked",
                                                (unsigned long long)ids[i]));
            continue;
        }
        larder_buf *buf = make(s, ids[i]);
        if (buf)
            larder__answer_buf(&out[i], buf);
        else
            larder__answer_failure(&out[i], LARDER_E_NOMEM);
    }
    return 0;
}

static const larder_param params[] = {
    {"n", "int", "1000", "samples", 0, 4294967294.0},
    {"bytes", "text", "3072", "size of a sample, or a range such as 100-5000", 0, 0},
    {"classes", "int", "10", "labels are 0 to this; 0: no labels", 0, 1e6},
    {"seed", "int", "1", "another seed makes other bytes and labels", 0, 9007199254740992.0},
    {"h", "int", "0", "height of raw pixels; with w and c instead of bytes", 0, 4096},
    {"w", "int", "0", "width of raw pixels", 0, 4096},
    {"c", "int", "3", "channels of raw pixels", 1, 4},
    {"bad", "text", "", "ids whose reads fail, as in 3/17/99", 0, 0},
    {0}};

const larder_source larder__source_mem = {
    .plugin = {.name = "mem",
               .summary = "made-up samples for tests and benchmarks; nothing is stored",
               .params = params,
               .state_size = sizeof(synthetic)},
    .open = mem_open,
    .close = mem_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .read = mem_read,
    .file = file,
};
