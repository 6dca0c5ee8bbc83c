/* mix: several sources in given shares, "mix:0.7*dir:a,0.3*tar:b".
 *
 * Ids must mean the same sample all along: caches, ledgers and saved states are about ids. So the
 * shares are those of the ids, once and for all: of an epoch of N samples a source has round(share
 * x N) ids, and its samples are spread over these evenly, each as often as any other, give or take
 * one. N is the least number for which no sample of any source is left out (epoch=all), or what
 * epoch= says; then a source with fewer ids than samples is thinned out evenly, and those left out
 * are never seen. A sample that comes k times in an epoch has k ids, to a cache as well.
 *
 * Classes go by their names where the sources have names, otherwise by number. */
#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/answer.h"
#include "source/ranges.h"
#include "source/source.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = LARDER_FIGURES };

typedef struct ingredient {
    larder__data *data;
    double share;     /* of 1 */
    uint64_t ids;     /* that it has */
    uint32_t *labels; /* from its own to those of the mix; NULL: the same */
    uint32_t own;     /* how many labels that is */
    _Atomic uint64_t reads;
} ingredient;

typedef struct mix {
    ingredient of[MOST];
    size_t n;
    double epoch; /* as given; 0: all */
    uint64_t firsts[MOST];
    uint64_t count;
    char **classes; /* names of all, each once, in the order of the sources */
    size_t class_count, classes_cap;
    larder_figure figures[MOST + 1];
    char names[MOST][40], helps[MOST][160];
    char says[400];
} mix;

/* ---- the text -------------------------------------------------------------------------------- */

/* Where "0.7*" at `at` ends; NULL: there is none. */
static const char *share_at(const char *at, double *share) {
    size_t n = strspn(at, "0123456789.");
    if (n == 0 || n > 20 || at[n] != '*')
        return NULL;
    char *end;
    *share = strtod(at, &end);
    return end == at + n ? at + n + 1 : NULL;
}

/* A part ends at a comma that the next share follows: commas may be part of a name. */
static size_t part_length(const char *at) {
    double share;
    size_t n = 0;
    while (at[n] && !(at[n] == ',' && share_at(at + n + 1, &share)))
        n++;
    return n;
}

static int add_part(mix *m, const char *uri, size_t n, double share) {
    if (m->n == MOST)
        return larder__fail(LARDER_E_ARGS, "mix: more than %d sources", MOST);
    if (!(share > 0))
        return larder__fail(LARDER_E_ARGS, "mix: a share of %g, which is nothing", share);
    if (n >= 4 && strncmp(uri, "mix:", 4) == 0)
        return larder__fail(LARDER_E_ARGS, "mix: around mix: makes no sense; multiply the shares");
    char *copy = larder__malloc(n + 1);
    if (!copy)
        return LARDER_E_NOMEM;
    memcpy(copy, uri, n);
    copy[n] = 0;
    ingredient *i = &m->of[m->n++];
    i->share = share;
    int rc = larder__data_begin(&i->data, copy);
    larder__free(copy);
    return rc;
}

static int mix_open(void *st, const char *where, const larder_args *args) {
    mix *m = st;
    const char *epoch = larder_args_text(args, "epoch");
    if (strcmp(epoch, "all") != 0) {
        char *end;
        m->epoch = strtod(epoch, &end);
        if (*end || end == epoch || !(m->epoch >= 1 && m->epoch < 4294967296.0))
            return larder__fail(LARDER_E_ARGS, "mix: epoch=%.40s is neither all nor a number",
                                epoch);
    }
    int rc = 0;
    for (const char *at = where; rc == 0 && *at;) {
        double share = 0;
        const char *uri = share_at(at, &share);
        if (!uri)
            return larder__fail(LARDER_E_ARGS,
                                "mix: \"%.60s\" does not begin with a share, as in "
                                "mix:0.7*dir:photos,0.3*tar:more.tar",
                                at);
        size_t n = part_length(uri);
        rc = add_part(m, uri, n, share);
        at = uri + n + (uri[n] == ',');
    }
    return rc;
}

static void mix_close(void *st) {
    mix *m = st;
    for (size_t i = 0; i < m->n; i++) {
        larder__data_close(&m->of[i].data);
        larder__free(m->of[i].labels);
    }
    for (size_t i = 0; i < m->class_count; i++)
        larder__free(m->classes[i]);
    larder__free(m->classes);
}

/* ---- what it is ------------------------------------------------------------------------------ */

static const larder_dataset *about(const mix *m, size_t i) {
    return larder__data_about(m->of[i].data);
}

static int class_numbered(mix *m, const char *name, uint32_t *out) {
    for (*out = 0; *out < m->class_count; ++*out)
        if (strcmp(m->classes[*out], name) == 0)
            return 0;
    int rc = larder__grow(&m->classes, &m->classes_cap, m->class_count + 1, sizeof *m->classes);
    if (rc == 0 && !(m->classes[m->class_count] = larder__strdup(name)))
        rc = LARDER_E_NOMEM;
    m->class_count += rc == 0;
    return rc;
}

static int join_classes(mix *m) {
    for (size_t i = 0; i < m->n; i++)
        if (about(m, i)->classes == 0 || !larder__data_class(m->of[i].data, 0))
            return 0; /* then numbers have to do */
    for (size_t i = 0; i < m->n; i++) {
        ingredient *in = &m->of[i];
        in->labels = larder__malloc(about(m, i)->classes * sizeof *in->labels);
        if (!in->labels)
            return LARDER_E_NOMEM;
        for (in->own = 0; in->own < about(m, i)->classes; in->own++) {
            const char *name = larder__data_class(in->data, in->own);
            int rc = class_numbered(m, name ? name : "", &in->labels[in->own]);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* The least epoch in which every source has as many ids as samples. */
static double epoch_of_all(const mix *m) {
    double most = 0;
    for (size_t i = 0; i < m->n; i++) {
        double need = ceil((double)about(m, i)->count / m->of[i].share - 1e-9);
        most = need > most ? need : most;
    }
    return most;
}

/* Whole numbers that add up to n: what rounding down leaves goes to the largest remainders. */
static void divide(mix *m, uint64_t n) {
    double rest[MOST] = {0};
    uint64_t given = 0;
    for (size_t i = 0; i < m->n; i++) {
        double exact = m->of[i].share * (double)n;
        m->of[i].ids = (uint64_t)(exact + 1e-9);
        rest[i] = exact - (double)m->of[i].ids;
        given += m->of[i].ids;
    }
    for (; given < n; given++) {
        size_t best = 0;
        for (size_t i = 1; i < m->n; i++)
            best = rest[i] > rest[best] ? i : best;
        m->of[best].ids++;
        rest[best] -= 1;
    }
}

static int share_out(mix *m) {
    double sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += m->of[i].share;
    for (size_t i = 0; i < m->n; i++)
        m->of[i].share /= sum;
    double epoch = m->epoch > 0 ? m->epoch : epoch_of_all(m);
    if (!(epoch < 4294967296.0))
        return larder__fail(LARDER_E_RANGE,
                            "mix: an epoch in which every sample comes has %g of them: a share is "
                            "too small for its source; take a part of it (?take=10%%) or say "
                            "epoch=N",
                            epoch);
    divide(m, (uint64_t)epoch);
    for (size_t i = 0; i < m->n; i++) {
        m->firsts[i] = m->count;
        m->count += m->of[i].ids;
        if (m->of[i].ids == 0)
            return larder__fail(LARDER_E_ARGS, "mix: %.150s has no share in an epoch of %g samples",
                                larder__data_uri(m->of[i].data), epoch);
    }
    return 0;
}

static int check_alike(const mix *m) {
    const larder_dataset *a = about(m, 0);
    for (size_t i = 1; i < m->n; i++) {
        const larder_dataset *b = about(m, i);
        if (a->raw.h == b->raw.h && a->raw.w == b->raw.w && a->raw.c == b->raw.c &&
            a->parcels == b->parcels && (a->raw.h == 0 || a->layout == b->layout))
            continue;
        return larder__fail(
            LARDER_E_ARGS,
            "mix: raw pixels of one shape, encoded samples and typed ones cannot be "
            "mixed: %.100s and %.100s",
            larder__data_uri(m->of[0].data), larder__data_uri(m->of[i].data));
    }
    return 0;
}

/* Which sample of its source an id is. */
static uint64_t sample_of(const mix *m, size_t i, uint64_t id) {
    uint64_t at = id - m->firsts[i]; /* all below 2^32 */
    return at * about(m, i)->count / m->of[i].ids;
}

static int choose(void *st, const char *const *names, size_t n) {
    mix *m = st;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = larder__data_choose(m->of[i].data, names, n);
    if (rc == 0)
        rc = check_alike(m);
    if (rc == 0)
        rc = join_classes(m);
    return rc < 0 ? rc : share_out(m);
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    mix *m = st;
    size_t i = (size_t)larder__range_of(m->firsts, m->n, id);
    const ingredient *in = &m->of[i];
    int rc = larder__data_stat(in->data, sample_of(m, i, id), out);
    if (rc == 0 && in->labels && out->label >= 0 && (uint32_t)out->label < in->own)
        out->label = (int32_t)in->labels[out->label];
    return rc;
}

static int describe(void *st, larder_dataset *out) {
    mix *m = st;
    int rc = m->count ? 0 : choose(m, NULL, 0);
    if (rc < 0)
        return rc;
    *out = *about(m, 0);
    out->count = m->count;
    out->bytes = out->fingerprint = out->identity = out->content = 0;
    for (size_t i = 0; i < m->n; i++) {
        const larder_dataset *a = about(m, i);
        uint64_t which[] = {a->fingerprint, m->of[i].ids}, bytes[] = {a->identity, m->of[i].ids};
        out->fingerprint = larder__hash_bytes(out->fingerprint, which, sizeof which);
        out->identity = larder__hash_bytes(out->identity, bytes, sizeof bytes);
        out->content = larder__hash_bytes(out->content, &a->content, sizeof a->content);
        out->classes = a->classes > out->classes ? a->classes : out->classes;
        out->parts &= a->parts;
    }
    if (m->class_count)
        out->classes = (uint32_t)m->class_count;
    for (uint64_t id = 0; rc == 0 && id < m->count; id++) {
        larder_sample s;
        rc = stat_one(m, id, &s);
        out->bytes += rc == 0 ? s.bytes : 0;
    }
    return rc;
}

/* "2:cat/7.jpg", and "2:cat/7.jpg (3)" of the third id that it has. */
static int name(void *st, uint64_t id, char *out, size_t cap) {
    mix *m = st;
    size_t i = (size_t)larder__range_of(m->firsts, m->n, id);
    uint64_t sample = sample_of(m, i, id), time = 1;
    char inner[4096];
    while (id > m->firsts[i] && sample_of(m, i, id - 1) == sample) {
        id--;
        time++;
    }
    int rc = larder__data_name(m->of[i].data, sample, inner, sizeof inner);
    if (rc < 0)
        return rc;
    if (time > 1)
        snprintf(out, cap, "%zu:%s (%llu)", i + 1, inner, (unsigned long long)time);
    else
        snprintf(out, cap, "%zu:%s", i + 1, inner);
    return 0;
}

static const char *class_name(void *st, uint32_t label) {
    const mix *m = st;
    return label < m->class_count ? m->classes[label] : NULL;
}

static const char *field(void *st, size_t i) {
    return larder__data_field(((mix *)st)->of[0].data, i);
}

static const char *note(void *st, size_t i) {
    mix *m = st;
    for (size_t k = 0; k < m->n; k++) {
        const char *says;
        for (size_t own = 0; (says = larder__data_source_note(m->of[k].data, own)); own++)
            if (i-- == 0) {
                snprintf(m->says, sizeof m->says, "%.120s: %s", larder__data_uri(m->of[k].data),
                         says);
                return m->says;
            }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { AT_ONCE = 64 };

typedef struct request {
    const uint64_t *ids;
    const larder_rect *rects; /* or NULL */
    larder_read *out;
    size_t n;
} request;

/* Those of source i go to it together. */
static int read_of(mix *m, size_t i, const request *r) {
    uint64_t ids[AT_ONCE];
    larder_rect rects[AT_ONCE];
    larder_read out[AT_ONCE];
    size_t at[AT_ONCE], n = 0;
    for (size_t k = 0; k < r->n; k++) {
        if (larder__range_of(m->firsts, m->n, r->ids[k]) != i)
            continue;
        ids[n] = sample_of(m, i, r->ids[k]);
        if (r->rects)
            rects[n] = r->rects[k];
        at[n++] = k;
    }
    if (n == 0)
        return 0;
    atomic_fetch_add_explicit(&m->of[i].reads, n, memory_order_relaxed);
    int rc = r->rects ? larder__data_read_parts(m->of[i].data, ids, rects, n, out)
                      : larder__data_read(m->of[i].data, ids, n, out);
    for (size_t k = 0; k < n; k++) {
        if (rc == 0)
            r->out[at[k]] = out[k];
        else
            larder__answer_failure(&r->out[at[k]], rc);
    }
    return 0;
}

static int read_all(mix *m, const uint64_t *ids, const larder_rect *rects, size_t n,
                    larder_read *out) {
    for (size_t at = 0; at < n; at += AT_ONCE) {
        request r = {ids + at, rects ? rects + at : NULL, out + at,
                     n - at < AT_ONCE ? n - at : AT_ONCE};
        for (size_t i = 0; i < m->n; i++)
            read_of(m, i, &r);
    }
    return 0;
}

static int mix_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return read_all(st, ids, NULL, n, out);
}

static int read_parts(void *st, const uint64_t *ids, const larder_rect *rects, size_t n,
                      larder_read *out) {
    return read_all(st, ids, rects, n, out);
}

static int extent(void *st, uint64_t id, uint32_t *w, uint32_t *h) {
    mix *m = st;
    size_t i = (size_t)larder__range_of(m->firsts, m->n, id);
    return larder__data_extent(m->of[i].data, sample_of(m, i, id), w, h);
}

static int part_bytes(void *st, uint64_t id, const larder_rect *r, uint32_t *out) {
    mix *m = st;
    size_t i = (size_t)larder__range_of(m->firsts, m->n, id);
    return larder__data_part_bytes(m->of[i].data, sample_of(m, i, id), r, out);
}

static void interrupt(void *st) {
    mix *m = st;
    for (size_t i = 0; i < m->n; i++)
        larder__data_interrupt(m->of[i].data);
}

/* ---- figures --------------------------------------------------------------------------------- */

static const larder_figure *figures(void *st) {
    mix *m = st;
    for (size_t i = 0; i < m->n; i++) {
        snprintf(m->names[i], sizeof m->names[i], "mix_reads_%zu", i + 1);
        snprintf(m->helps[i], sizeof m->helps[i],
                 "samples read of source %zu, which has %llu of the %llu of an epoch: %.40s", i + 1,
                 (unsigned long long)m->of[i].ids, (unsigned long long)m->count,
                 larder__data_uri(m->of[i].data));
        m->figures[i] = (larder_figure){m->names[i], "", m->helps[i]};
    }
    return m->figures;
}

static double figure(void *st, size_t i) {
    mix *m = st;
    return (double)atomic_load_explicit(&m->of[i].reads, memory_order_relaxed);
}

static const larder_param params[] = {
    {"epoch", "text", "all",
     "samples of an epoch; all: the fewest for which every sample of every source comes", 0, 0},
    {0}};

const larder_source larder__source_mix = {
    .plugin = {.name = "mix",
               .summary = "several others in given shares: mix:0.7*dir:photos,0.3*tar:more.tar",
               .params = params,
               .state_size = sizeof(mix)},
    .wraps = true,
    .many = true,
    .open = mix_open,
    .close = mix_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .class_name = class_name,
    .read = mix_read,
    .extent = extent,
    .part_bytes = part_bytes,
    .read_parts = read_parts,
    .interrupt = interrupt,
    .figures = figures,
    .figure = figure,
    .note = note,
    .choose = choose,
    .field = field,
};
