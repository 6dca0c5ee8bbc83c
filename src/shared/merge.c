#include "shared/merge.h"

#include "base/mem.h"

#include <larder/larder.h>
#include <math.h>
#include <string.h>

enum { HISTORY = 1024 };

typedef struct voice {     /* one job */
    float *ranks;          /* of every key, NAN: this job said nothing */
    float recent[HISTORY]; /* in the order they came */
    float sorted[HISTORY]; /* the same in order of size */
    uint32_t count, oldest;
} voice;

struct larder__merge {
    uint64_t keys;
    uint32_t jobs;
    voice *voices[]; /* NULL: silent so far */
};

int larder__merge_open(larder__merge **out, uint64_t keys, uint32_t jobs) {
    larder__merge *m = larder__calloc(1, sizeof *m + jobs * sizeof *m->voices);
    *out = m;
    if (!m)
        return LARDER_E_NOMEM;
    m->keys = keys;
    m->jobs = jobs;
    return 0;
}

void larder__merge_close(larder__merge **pm) {
    larder__merge *m = *pm;
    *pm = NULL;
    for (uint32_t j = 0; m && j < m->jobs; j++)
        larder__merge_leave(m, j);
    larder__free(m);
}

void larder__merge_leave(larder__merge *m, uint32_t job) {
    if (!m || !m->voices[job])
        return;
    larder__free(m->voices[job]->ranks);
    larder__free(m->voices[job]);
    m->voices[job] = NULL;
}

static voice *voice_of(larder__merge *m, uint32_t job) {
    if (m->voices[job])
        return m->voices[job];
    voice *v = larder__calloc(1, sizeof *v);
    if (v && !(v->ranks = larder__malloc(m->keys * sizeof *v->ranks))) {
        larder__free(v);
        v = NULL;
    }
    for (uint64_t i = 0; v && i < m->keys; i++)
        v->ranks[i] = NAN;
    return m->voices[job] = v;
}

/* Scores of the history that are smaller. */
static uint32_t below(const voice *v, float score) {
    uint32_t low = 0, high = v->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (v->sorted[middle] < score)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remember(voice *v, float score) {
    if (v->count == HISTORY) { /* the oldest goes */
        uint32_t at = below(v, v->recent[v->oldest]);
        memmove(v->sorted + at, v->sorted + at + 1, (v->count - at - 1) * sizeof *v->sorted);
        v->count--;
    }
    uint32_t at = below(v, score);
    memmove(v->sorted + at + 1, v->sorted + at, (v->count - at) * sizeof *v->sorted);
    v->sorted[at] = score;
    v->recent[v->oldest] = score;
    v->oldest = (v->oldest + 1) % HISTORY;
    v->count++;
}

int larder__merge_add(larder__merge *m, uint32_t job, uint32_t live, uint32_t key, float score,
                      float *merged) {
    voice *v = voice_of(m, job);
    if (!v)
        return LARDER_E_NOMEM;
    remember(v, score);
    v->ranks[key] = ((float)below(v, score) + 0.5f) / (float)v->count;
    *merged = score;
    if (live < 2)
        return 0;
    *merged = v->ranks[key];
    for (uint32_t j = 0; j < m->jobs; j++)
        if (m->voices[j] && m->voices[j]->ranks[key] > *merged)
            *merged = m->voices[j]->ranks[key];
    return 0;
}

void larder__merge_save(const larder__merge *m, larder_writer *w) {
    for (uint32_t j = 0; j < m->jobs; j++) {
        const voice *v = m->voices[j];
        larder_write_u32(w, v != NULL);
        if (!v)
            continue;
        larder_write_u32(w, v->count);
        larder_write_u32(w, v->oldest);
        larder_write_bytes(w, v->recent, sizeof v->recent);
        larder_write_bytes(w, v->sorted, sizeof v->sorted);
        larder_write_bytes(w, v->ranks, m->keys * sizeof *v->ranks);
    }
}

int larder__merge_load(larder__merge *m, larder_reader *r) {
    for (uint32_t j = 0; j < m->jobs && larder_read_status(r) == 0; j++) {
        if (!larder_read_u32(r))
            continue;
        voice *v = voice_of(m, j);
        if (!v)
            return LARDER_E_NOMEM;
        v->count = larder_read_index(r, HISTORY + 1, false);
        v->oldest = larder_read_index(r, HISTORY, false);
        larder_read_bytes(r, v->recent, sizeof v->recent);
        larder_read_bytes(r, v->sorted, sizeof v->sorted);
        larder_read_bytes(r, v->ranks, m->keys * sizeof *v->ranks);
        for (uint32_t i = 0; i < v->count; i++)
            if (!isfinite(v->recent[i]) || !isfinite(v->sorted[i]))
                return larder_read_reject(r, "a score is no number");
    }
    return larder_read_status(r);
}
