#include "shared/merge.h"

#include "base/mem.h"

#include <larder/larder.h>
#include <math.h>
#include <string.h>

enum { HISTORY = 1024 };

typedef struct voice {     /* one job */
    float *said;           /* its last word on every key, NAN: none */
    float recent[HISTORY]; /* in the order they came */
    float sorted[HISTORY]; /* the same in order of size */
    uint32_t count, oldest;
} voice;

struct larder__merge {
    uint64_t keys;
    uint32_t jobs;
    uint32_t alone;  /* the job whose scores are told as they are; `jobs`: ranks are told */
    float *left;     /* of each key: its rank when the last who had spoken of it left, NAN: none;
                        NULL: nobody has spoken */
    uint64_t *asked; /* of each job, of late */
    voice *voices[]; /* NULL: silent so far */
};

int larder__merge_open(larder__merge **out, uint64_t keys, uint32_t jobs) {
    larder__merge *m = larder__calloc(1, sizeof *m + jobs * sizeof *m->voices);
    *out = m;
    if (!m || !(m->asked = larder__calloc(jobs, sizeof *m->asked))) {
        larder__free(m);
        *out = NULL;
        return LARDER_E_NOMEM;
    }
    m->keys = keys;
    m->jobs = m->alone = jobs;
    return 0;
}

static void silence(larder__merge *m, uint32_t job) {
    if (m->voices[job])
        larder__free(m->voices[job]->said);
    larder__free(m->voices[job]);
    m->voices[job] = NULL;
    m->asked[job] = 0;
}

void larder__merge_close(larder__merge **pm) {
    larder__merge *m = *pm;
    *pm = NULL;
    if (!m)
        return;
    for (uint32_t j = 0; j < m->jobs; j++)
        silence(m, j);
    larder__free(m->left);
    larder__free(m->asked);
    larder__free(m);
}

static float *no_numbers(uint64_t n) {
    float *out = larder__malloc(n * sizeof *out);
    for (uint64_t i = 0; out && i < n; i++)
        out[i] = NAN;
    return out;
}

static voice *voice_of(larder__merge *m, uint32_t job) {
    if (m->voices[job])
        return m->voices[job];
    if (!m->left && !(m->left = no_numbers(m->keys)))
        return NULL;
    voice *v = larder__calloc(1, sizeof *v);
    if (v && !(v->said = no_numbers(m->keys))) {
        larder__free(v);
        v = NULL;
    }
    return m->voices[job] = v;
}

/* ---- a job's own scale ----------------------------------------------------------------------- */

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

static float rank_of(const voice *v, float score) {
    return ((float)below(v, score) + 0.5f) / (float)(v->count + 1);
}

/* The score that has this rank. */
static float score_at(const voice *v, float rank) {
    uint32_t at = (uint32_t)(rank * (float)v->count);
    return v->sorted[at < v->count ? at : v->count - 1];
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Half of it is forgotten now and then, so that paces may change. */
void larder__merge_asked(larder__merge *m, uint32_t job, size_t rows) {
    m->asked[job] += rows;
    if (m->asked[job] < 2 * m->keys)
        return;
    for (uint32_t j = 0; j < m->jobs; j++)
        m->asked[j] /= 2;
}

int larder__merge_add(larder__merge *m, uint32_t job, uint32_t key, float score) {
    voice *v = voice_of(m, job);
    if (!v)
        return LARDER_E_NOMEM;
    remember(v, score);
    v->said[key] = score;
    return 0;
}

static float mean_rank(const larder__merge *m, uint32_t key) {
    double sum = 0, weight = 0;
    for (uint32_t j = 0; j < m->jobs; j++) {
        const voice *v = m->voices[j];
        if (!v || isnan(v->said[key]))
            continue;
        double asks = 1 + (double)m->asked[j];
        sum += asks * (double)rank_of(v, v->said[key]);
        weight += asks;
    }
    return weight > 0 ? (float)(sum / weight) : m->left ? m->left[key] : NAN;
}

float larder__merge_value(const larder__merge *m, uint32_t key) {
    if (m->alone == m->jobs)
        return mean_rank(m, key);
    const voice *v = m->voices[m->alone];
    if (!isnan(v->said[key]))
        return v->said[key];
    return isnan(m->left[key]) ? NAN : score_at(v, m->left[key]);
}

float larder__merge_view(const larder__merge *m, uint32_t job, uint32_t key, float score) {
    if (m->alone == job || !m->left)
        return score; /* as it speaks */
    float known = larder__merge_value(m, key);
    if (!isnan(known) || isnan(score) || !m->voices[job])
        return known;
    return m->alone == m->jobs ? rank_of(m->voices[job], score) : score;
}

bool larder__merge_rescales(larder__merge *m, uint32_t live, uint32_t job) {
    uint32_t now = live == 1 && m->voices[job] ? job : live == 1 ? m->alone : m->jobs;
    bool other = now != m->alone;
    m->alone = now;
    return other && m->left;
}

/* Its words go, but what only it had spoken of is not forgotten. */
void larder__merge_leave(larder__merge *m, uint32_t job) {
    const voice *v = m->voices[job];
    for (uint64_t k = 0; v && k < m->keys; k++)
        if (!isnan(v->said[k]))
            m->left[k] = mean_rank(m, (uint32_t)k);
    if (m->alone == job)
        m->alone = m->jobs;
    silence(m, job);
}

/* ---- saving ---------------------------------------------------------------------------------- */

void larder__merge_save(const larder__merge *m, larder_writer *w) {
    larder_write_u32(w, m->alone);
    larder_write_u32(w, m->left != NULL);
    if (m->left)
        larder_write_bytes(w, m->left, m->keys * sizeof *m->left);
    for (uint32_t j = 0; j < m->jobs; j++) {
        const voice *v = m->voices[j];
        larder_write_u64(w, m->asked[j]);
        larder_write_u32(w, v != NULL);
        if (!v)
            continue;
        larder_write_u32(w, v->count);
        larder_write_u32(w, v->oldest);
        larder_write_bytes(w, v->recent, sizeof v->recent);
        larder_write_bytes(w, v->sorted, sizeof v->sorted);
        larder_write_bytes(w, v->said, m->keys * sizeof *v->said);
    }
}

static int load_voice(larder__merge *m, larder_reader *r, uint32_t job) {
    voice *v = voice_of(m, job);
    if (!v)
        return LARDER_E_NOMEM;
    v->count = larder_read_index(r, HISTORY + 1, false);
    v->oldest = larder_read_index(r, HISTORY, false);
    larder_read_bytes(r, v->recent, sizeof v->recent);
    larder_read_bytes(r, v->sorted, sizeof v->sorted);
    larder_read_bytes(r, v->said, m->keys * sizeof *v->said);
    for (uint32_t i = 0; i < v->count; i++)
        if (!isfinite(v->recent[i]) || !isfinite(v->sorted[i]))
            return larder_read_reject(r, "a score is no number");
    return v->count ? 0 : larder_read_reject(r, "a job has spoken and said nothing");
}

int larder__merge_load(larder__merge *m, larder_reader *r) {
    uint32_t alone = larder_read_index(r, m->jobs + 1, false);
    if (larder_read_u32(r)) {
        if (!m->left && !(m->left = no_numbers(m->keys)))
            return LARDER_E_NOMEM;
        larder_read_bytes(r, m->left, m->keys * sizeof *m->left);
        for (uint64_t k = 0; k < m->keys; k++)
            if (!isnan(m->left[k]) && !(m->left[k] >= 0 && m->left[k] <= 1))
                return larder_read_reject(r, "a rank is none");
    }
    for (uint32_t j = 0; j < m->jobs && larder_read_status(r) == 0; j++) {
        m->asked[j] = larder_read_u64(r);
        int rc = larder_read_u32(r) ? load_voice(m, r, j) : 0;
        if (rc < 0)
            return rc;
    }
    if (larder_read_status(r) == 0 && alone < m->jobs && !m->voices[alone])
        return larder_read_reject(r, "the job that is alone never spoke");
    m->alone = larder_read_status(r) == 0 ? alone : m->jobs;
    return larder_read_status(r);
}
