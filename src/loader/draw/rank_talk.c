#include "loader/draw/rank_talk.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>

enum { VERSION = 2, PACES = 6 }; /* 2: rows are dealt out one by one */

static larder_reader reader_of(const void *bytes, size_t size) {
    return (larder_reader){.at = bytes, .end = (const unsigned char *)bytes + size};
}

static int ended(larder_reader *r) {
    if (larder_read_status(r) == 0 && larder__read_left(r))
        larder_read_reject(r, "there is something after its end");
    return larder_read_status(r) < 0
               ? larder__fail(LARDER_E_FORMAT, "another rank said something that makes no sense")
               : 0;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void paces_of(larder_pace *p, double *out[PACES]) {
    double *all[PACES] = {&p->read_seconds,    &p->step_seconds, &p->decode_seconds,
                          &p->augment_seconds, &p->trained,      &p->waited};
    memcpy(out, all, sizeof all);
}

void larder__rank_turn_write(const larder__rank_turn *t, larder_writer *w) {
    larder_pace pace = t->pace;
    double *p[PACES];
    paces_of(&pace, p);
    larder_write_u32(w, VERSION);
    larder_write_u32(w, t->said);
    larder_write_u64(w, t->digest);
    larder_write_f64(w, t->accuracy);
    for (int i = 0; i < PACES; i++)
        larder_write_f64(w, *p[i]);
}

int larder__rank_turn_read(larder__rank_turn *t, const void *bytes, size_t size) {
    larder_reader r = reader_of(bytes, size);
    double *p[PACES];
    *t = (larder__rank_turn){0};
    paces_of(&t->pace, p);
    if (larder_read_u32(&r) != VERSION)
        larder_read_reject(&r, "it is of another version");
    t->said = larder_read_index(&r, LARDER__SAID_ALL + 1, false);
    t->digest = larder_read_u64(&r);
    t->accuracy = larder_read_f64(&r);
    if (!isnan(t->accuracy) && !(t->accuracy >= 0 && t->accuracy <= 1))
        larder_read_reject(&r, "its accuracy is no share");
    for (int i = 0; i < PACES; i++) {
        *p[i] = larder_read_f64(&r);
        if (!(*p[i] >= 0 && *p[i] < 1e12))
            larder_read_reject(&r, "its pace is no time");
    }
    return ended(&r);
}

larder_pace larder__rank_turns_pace(const larder__rank_turn *turns, size_t n) {
    larder_pace sum = {0};
    double *to[PACES], *from[PACES];
    size_t known[PACES] = {0};
    paces_of(&sum, to);
    for (size_t k = 0; k < n; k++) {
        larder_pace one = turns[k].pace;
        paces_of(&one, from);
        for (int i = 0; i < PACES; i++) {
            *to[i] += *from[i];
            known[i] += *from[i] > 0;
        }
    }
    for (int i = 0; i < PACES; i++)
        *to[i] = known[i] ? *to[i] / (double)known[i] : 0;
    return sum;
}

double larder__rank_turns_accuracy(const larder__rank_turn *turns, size_t n) {
    double first = (double)NAN, sum = 0;
    size_t known = 0;
    bool same = true;
    for (size_t k = 0; k < n; k++) {
        if (isnan(turns[k].accuracy))
            continue;
        if (known++ == 0)
            first = turns[k].accuracy;
        same &= turns[k].accuracy == first;
        sum += turns[k].accuracy;
    }
    return same ? first : sum / (double)known;
}

/* ---- reports --------------------------------------------------------------------------------- */

int larder__rank_rows_read(larder_report *out, void **memory, uint64_t samples, const void *bytes,
                           size_t size) {
    larder_reader r = reader_of(bytes, size);
    *out = (larder_report){.accuracy = (double)NAN};
    *memory = NULL;
    out->epoch = larder_read_u64(&r);
    int rc = larder__report_read(out, memory, samples, &r);
    return rc == LARDER_E_NOMEM ? rc : ended(&r);
}

typedef struct width { /* of a row in each field */
    size_t loss, classes, dim;
} width;

static width width_of(const larder_report *parts, size_t n) {
    width w = {0};
    bool first = true;
    for (size_t k = 0; k < n; k++) {
        const larder_report *p = &parts[k];
        if (p->n == 0)
            continue;
        if (first)
            w = (width){p->loss != NULL, p->classes, p->dim};
        first = false;
        w.loss &= p->loss != NULL;
        w.classes = w.classes == p->classes ? w.classes : 0;
        w.dim = w.dim == p->dim ? w.dim : 0;
    }
    return w;
}

/* Rows of a part that count: of the batch's `most` rows those at turn, turn + n ... are its. */
static size_t rows_of(const larder_report *part, size_t turn, size_t n, size_t most) {
    size_t own = turn < most ? (most - turn - 1) / n + 1 : 0;
    return part->n < own ? part->n : own;
}

static void join_row(larder_report *out, const width *w, size_t to, const larder_report *p,
                     size_t from) {
    memcpy((uint64_t *)(uintptr_t)out->ids + to, p->ids + from, sizeof *p->ids);
    memcpy((int64_t *)(uintptr_t)out->labels + to, p->labels + from, sizeof *p->labels);
    if (w->loss)
        memcpy((float *)(uintptr_t)out->loss + to, p->loss + from, sizeof *p->loss);
    if (w->classes)
        memcpy((float *)(uintptr_t)out->logits + to * w->classes, p->logits + from * w->classes,
               w->classes * sizeof *p->logits);
    if (w->dim)
        memcpy((float *)(uintptr_t)out->embeddings + to * w->dim, p->embeddings + from * w->dim,
               w->dim * sizeof *p->embeddings);
    out->epoch = p->epoch;
}

int larder__rank_rows_join(larder_report *out, void **memory, const larder_report *parts, size_t n,
                           size_t first, size_t most) {
    width w = width_of(parts, n);
    size_t rows = 0, at = 0;
    for (size_t k = 0; k < n; k++)
        rows += rows_of(&parts[(k + first) % n], k, n, most);
    char *m = *memory = larder__malloc(rows * (16 + 4 * (w.loss + w.classes + w.dim)) + 1);
    if (!m)
        return LARDER_E_NOMEM;
    float *loss = (float *)(void *)(m + rows * 16), *logits = loss + rows * w.loss;
    *out = (larder_report){.n = rows,
                           .classes = w.classes,
                           .dim = w.dim,
                           .ids = (uint64_t *)(void *)m,
                           .labels = (int64_t *)(void *)(m + rows * 8),
                           .loss = w.loss ? loss : NULL,
                           .logits = w.classes ? logits : NULL,
                           .embeddings = w.dim ? logits + rows * w.classes : NULL,
                           .accuracy = (double)NAN};
    for (size_t i = 0; at < rows; i++)
        for (size_t k = 0; k < n; k++) {
            const larder_report *part = &parts[(k + first) % n];
            if (i < rows_of(part, k, n, most))
                join_row(out, &w, at++, part, i);
        }
    return 0;
}

/* ---- losses ---------------------------------------------------------------------------------- */

void larder__rank_losses_write(larder_writer *w, const uint64_t *ids, const float *loss, size_t n) {
    larder_write_u64(w, n);
    larder_write_bytes(w, ids, n * sizeof *ids);
    larder_write_bytes(w, loss, n * sizeof *loss);
}

int larder__rank_losses_read(uint64_t **ids, float **loss, size_t *n, uint64_t samples,
                             const void *bytes, size_t size) {
    larder_reader r = reader_of(bytes, size);
    uint64_t count = larder_read_u64(&r);
    if (count > larder__read_left(&r) / 12)
        larder_read_reject(&r, "it is shorter than it says");
    *n = larder_read_status(&r) == 0 ? (size_t)count : 0;
    *ids = larder__malloc(*n * sizeof **ids + 1);
    *loss = larder__malloc(*n * sizeof **loss + 1);
    if (!*ids || !*loss)
        return LARDER_E_NOMEM;
    larder_read_bytes(&r, *ids, *n * sizeof **ids);
    larder_read_bytes(&r, *loss, *n * sizeof **loss);
    for (size_t i = 0; i < *n && larder_read_status(&r) == 0; i++)
        if ((*ids)[i] >= samples)
            larder_read_reject(&r, "there is no such sample");
    return ended(&r);
}
