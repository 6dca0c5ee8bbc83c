#include "loader/feedback/feedback.h"

#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"

#include <math.h>
#include <pthread.h>

typedef struct note {
    uint64_t batch, epoch;
    bool taken_up, reported;
    bool own;    /* of this rank's rows alone; others' are to come */
    bool lifted; /* its report has gone ahead; the accuracy has not */
    double accuracy;
    larder__losses told;
    larder_report report; /* its arrays point into `memory` */
    void *memory;
} note;

struct larder__feedback {
    pthread_mutex_t lock;
    uint64_t n;    /* samples of the data set */
    uint64_t next; /* first batch not taken yet */
    uint32_t size; /* batches next .. next+size-1 have a place */
    note *notes;
    bool heard; /* anything, at any time */
    void *lent; /* memory of the report taken last */
};

int larder__feedback_open(larder__feedback **out, uint64_t n, uint32_t lag) {
    larder__feedback *f = *out = larder__calloc(1, sizeof *f);
    if (!f)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&f->lock, NULL);
    f->n = n;
    f->size = lag + 2;
    f->notes = larder__calloc(f->size, sizeof *f->notes);
    if (!f->notes) {
        larder__feedback_close(out);
        return LARDER_E_NOMEM;
    }
    return 0;
}

void larder__feedback_close(larder__feedback **pf) {
    larder__feedback *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    for (uint32_t i = 0; f->notes && i < f->size; i++)
        larder__free(f->notes[i].memory);
    larder__free(f->notes);
    larder__free(f->lent);
    pthread_mutex_destroy(&f->lock);
    larder__free(f);
}

/* The place of a batch, or NULL with a sentence when it is due already or too far ahead. */
static note *place(larder__feedback *f, uint64_t batch) {
    if (batch < f->next || batch - f->next >= f->size) {
        larder__fail(LARDER_E_STATE, "feedback for batch %llu comes %s", (unsigned long long)batch,
                     batch < f->next ? "too late" : "too early");
        return NULL;
    }
    note *at = &f->notes[batch % f->size];
    f->heard = true;
    if (!at->taken_up)
        *at = (note){.batch = batch, .taken_up = true, .accuracy = NAN};
    return at;
}

static const float *take_embeddings(float *to, const larder_feedback *fb, size_t count) {
    if (fb->embeddings_dtype == LARDER_F16)
        larder__floats_of_f16(to, fb->embeddings, count);
    else if (fb->embeddings_dtype == LARDER_BF16)
        larder__floats_of_bf16(to, fb->embeddings, count);
    else
        memcpy(to, fb->embeddings, count * sizeof *to);
    return to;
}

/* One block of memory for all arrays of a report; missing ones stay NULL. */
static int fill(note *at, size_t n, const uint64_t *ids, const int64_t *labels,
                const larder_feedback *fb) {
    size_t loss = fb->loss ? n : 0, logits = fb->logits ? n * fb->classes : 0;
    size_t emb = fb->embeddings ? n * fb->dim : 0;
    char *m = larder__malloc(n * 16 + (loss + logits + emb) * sizeof(float));
    if (!m)
        return LARDER_E_NOMEM;
    float *floats = (float *)(void *)(m + n * 16);
    at->memory = m;
    at->report = (larder_report){.batch = at->batch,
                                 .epoch = at->epoch,
                                 .n = n,
                                 .classes = logits ? fb->classes : 0,
                                 .dim = emb ? fb->dim : 0,
                                 .ids = memcpy(m, ids, n * 8),
                                 .labels = memcpy(m + n * 8, labels, n * 8)};
    if (loss) {
        for (size_t i = 0; i < n; i++) /* infinite is no score either */
            floats[i] = isfinite(fb->loss[i]) ? fb->loss[i] : NAN;
        at->report.loss = floats;
    }
    if (logits)
        at->report.logits = memcpy(floats + loss, fb->logits, logits * sizeof(float));
    if (emb)
        at->report.embeddings = take_embeddings(floats + loss + logits, fb, emb);
    at->reported = true;
    return 0;
}

static void write_own(const note *at, larder_writer *w) {
    larder_write_u64(w, at->epoch);
    larder__report_write(&at->report, w);
}

int larder__feedback_note(larder__feedback *f, uint64_t batch, uint64_t epoch, size_t n,
                          const uint64_t *served, const int64_t *labels, const larder_feedback *fb,
                          const larder__losses *told, larder_writer *w) {
    pthread_mutex_lock(&f->lock);
    note *at = place(f, batch);
    int rc = at ? 0 : LARDER_E_STATE;
    if (at && (at->reported || at->lifted))
        rc = larder__fail(LARDER_E_STATE, "batch %llu was reported twice",
                          (unsigned long long)batch);
    if (rc == 0) {
        at->epoch = epoch;
        rc = fill(at, n, served, labels, fb);
        at->told = told ? *told : (larder__losses){0};
        at->own = rc == 0 && w;
        if (at->own)
            write_own(at, w);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

int larder__feedback_note_accuracy(larder__feedback *f, uint64_t batch, double accuracy) {
    pthread_mutex_lock(&f->lock);
    note *at = place(f, batch);
    if (at)
        at->accuracy = accuracy;
    pthread_mutex_unlock(&f->lock);
    return at ? 0 : LARDER_E_STATE;
}

bool larder__feedback_take(larder__feedback *f, uint64_t batch, larder_report *out,
                           larder__losses *told) {
    pthread_mutex_lock(&f->lock);
    note *at = &f->notes[batch % f->size];
    bool there = at->taken_up && at->batch == batch;
    f->next = batch + 1;
    if (there) {
        larder__free(f->lent);
        f->lent = at->memory;
        *out = at->report;
        out->batch = batch;
        out->accuracy = at->accuracy;
        *told = at->told;
        *at = (note){0};
    }
    pthread_mutex_unlock(&f->lock);
    return there;
}

bool larder__feedback_lift(larder__feedback *f, uint64_t batch, larder_report *out, void **memory) {
    pthread_mutex_lock(&f->lock);
    note *at = &f->notes[batch % f->size];
    bool there = at->taken_up && at->batch == batch && at->reported && !at->own;
    if (there) {
        *out = at->report;
        *memory = at->memory;
        at->memory = NULL;
        at->report = (larder_report){.batch = batch, .epoch = at->epoch};
        at->reported = false;
        at->lifted = true;
    }
    pthread_mutex_unlock(&f->lock);
    return there;
}

/* ---- of ranks that tell each other ----------------------------------------------------------- */

static note *find(larder__feedback *f, uint64_t batch) {
    note *at = &f->notes[batch % f->size];
    return at->taken_up && at->batch == batch ? at : NULL;
}

void larder__feedback_own(larder__feedback *f, uint64_t batch, larder_writer *w) {
    pthread_mutex_lock(&f->lock);
    note *at = find(f, batch);
    if (at && at->own)
        write_own(at, w);
    pthread_mutex_unlock(&f->lock);
}

larder__said larder__feedback_said(larder__feedback *f, uint64_t batch, double *accuracy) {
    pthread_mutex_lock(&f->lock);
    const note *at = find(f, batch);
    larder__said said = !at || !(at->reported || at->lifted) ? LARDER__SAID_NOTHING
                        : at->own                            ? LARDER__SAID_OWN
                                                             : LARDER__SAID_ALL;
    *accuracy = at ? at->accuracy : (double)NAN;
    pthread_mutex_unlock(&f->lock);
    return said;
}

bool larder__feedback_open_own(larder__feedback *f, uint64_t *batch) {
    bool found = false;
    pthread_mutex_lock(&f->lock);
    for (uint64_t k = f->next; !found && k < f->next + f->size; k++) {
        const note *at = find(f, k);
        found = at && at->own;
        *batch = k;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

int larder__feedback_whole(larder__feedback *f, uint64_t batch, const larder_report *report,
                           const larder__losses *told, void **memory) {
    pthread_mutex_lock(&f->lock);
    note *at = place(f, batch);
    if (at) {
        larder__free(at->memory);
        at->memory = *memory;
        *memory = NULL;
        at->report = *report;
        at->report.batch = batch;
        at->told = told ? *told : (larder__losses){0};
        at->epoch = report->epoch;
        at->reported = true;
        at->own = false;
    }
    pthread_mutex_unlock(&f->lock);
    return at ? 0 : LARDER_E_STATE;
}

bool larder__feedback_heard(larder__feedback *f) {
    pthread_mutex_lock(&f->lock);
    bool heard = f->heard;
    pthread_mutex_unlock(&f->lock);
    return heard;
}

uint64_t larder__feedback_next(larder__feedback *f) {
    pthread_mutex_lock(&f->lock);
    uint64_t next = f->next;
    pthread_mutex_unlock(&f->lock);
    return next;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__report_write(const larder_report *r, larder_writer *w) {
    larder_write_u64(w, r->n);
    larder_write_u64(w, r->classes);
    larder_write_u64(w, r->dim);
    larder_write_u32(w, r->loss != NULL);
    larder_write_bytes(w, r->ids, r->n * 8);
    larder_write_bytes(w, r->labels, r->n * 8);
    larder_write_bytes(w, r->loss, r->loss ? r->n * 4 : 0);
    larder_write_bytes(w, r->logits, r->n * r->classes * 4);
    larder_write_bytes(w, r->embeddings, r->n * r->dim * 4);
}

void larder__feedback_save(larder__feedback *f, larder_writer *w) {
    pthread_mutex_lock(&f->lock);
    larder_write_u64(w, f->next);
    larder_write_u32(w, f->heard);
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->size; i++)
        count += f->notes[i].taken_up;
    larder_write_u32(w, count);
    for (uint32_t i = 0; i < f->size; i++) {
        const note *at = &f->notes[i];
        if (!at->taken_up)
            continue;
        const larder_report *r = &at->report;
        larder_write_u64(w, at->batch);
        larder_write_u64(w, at->epoch);
        larder_write_f64(w, at->accuracy);
        larder_write_u32(w, at->lifted ? 2 : at->reported);
        larder__losses_save(&at->told, w);
        if (!at->reported)
            continue;
        larder__report_write(r, w);
    }
    pthread_mutex_unlock(&f->lock);
}

int larder__report_read(larder_report *out, void **memory, uint64_t samples, larder_reader *r) {
    uint64_t n = larder_read_u64(r), classes = larder_read_u64(r), dim = larder_read_u64(r);
    uint32_t has_loss = larder_read_u32(r);
    uint64_t left = larder__read_left(r);
    if (n > left / 16 || (n && classes > left / n / 4) || (n && dim > left / n / 4) || has_loss > 1)
        return larder_read_reject(r, "a report is larger than it");
    size_t floats = n * (has_loss + classes + dim);
    char *m = *memory = larder__malloc(n * 16 + floats * 4);
    if (!m)
        return LARDER_E_NOMEM;
    larder_read_bytes(r, m, n * 16 + floats * 4);
    const float *at = (const float *)(const void *)(m + n * 16);
    out->n = n, out->classes = classes, out->dim = dim;
    out->ids = (const uint64_t *)(const void *)m;
    out->labels = (const int64_t *)(const void *)(m + n * 8);
    out->loss = has_loss ? at : NULL;
    out->logits = classes ? at + n * has_loss : NULL;
    out->embeddings = dim ? at + n * (has_loss + classes) : NULL;
    for (uint64_t i = 0; i < n && larder_read_status(r) == 0; i++)
        if (out->ids[i] >= samples)
            return larder_read_reject(r, "a report is about a sample that does not exist");
    return larder_read_status(r);
}

static int load_note(larder__feedback *f, note *at, larder_reader *r) {
    at->epoch = larder_read_u64(r);
    at->accuracy = larder_read_f64(r);
    uint32_t reported = larder_read_u32(r);
    at->lifted = reported == 2;
    int rc = larder__losses_load(&at->told, r);
    if (rc < 0 || reported != 1)
        return rc < 0 ? rc : larder_read_status(r);
    at->reported = true;
    at->report = (larder_report){.batch = at->batch, .epoch = at->epoch};
    return larder__report_read(&at->report, &at->memory, f->n, r);
}

int larder__feedback_load(larder__feedback *f, uint64_t drawn, larder_reader *r) {
    pthread_mutex_lock(&f->lock);
    f->next = larder_read_u64(r);
    f->heard = larder_read_u32(r) == 1;
    if (!f->heard) /* then its lag is anybody's */
        f->next = drawn > f->size - 2 ? drawn - (f->size - 2) : 0;
    uint32_t count = larder_read_u32(r);
    int rc = count > f->size ? larder_read_reject(r, "more reports than the lag allows") : 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        uint64_t batch = larder_read_u64(r);
        if (batch < f->next || batch - f->next >= f->size || f->notes[batch % f->size].taken_up) {
            rc = larder_read_reject(r, "a report is out of place");
            break;
        }
        note *at = place(f, batch);
        rc = load_note(f, at, r);
    }
    pthread_mutex_unlock(&f->lock);
    return rc < 0 ? rc : larder_read_status(r);
}
