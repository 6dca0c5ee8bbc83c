/* What goes through a loader beside the batches: feedback in, figures out. */
#include "base/err.h"
#include "loader/inside.h"

#include <math.h>

/* ---- feedback -------------------------------------------------------------------------------- */

/* For whoever looks from outside. Training that diverges says NaN and infinity, which is counted.
 */
static void note_loss(larder_loader *l, uint64_t epoch, size_t n, const float *loss) {
    double sum = 0;
    uint64_t odd = 0;
    for (size_t i = 0; loss && i < n; i++) {
        sum += (double)loss[i];
        odd += isfinite(loss[i]) ? 0 : 1;
    }
    if (odd)
        larder__stat_add(l->stats, l->stat.not_finite, odd);
    if (!loss || !isfinite(sum) || l->shown_epoch == UINT64_MAX || epoch > l->shown_epoch)
        return;
    larder__curve *c = larder__shown_curve(l, epoch);
    c->loss_sum += sum;
    c->reported += n;
}

/* Rows of which some number is NaN or infinite: all bits of its exponent are set. */
static size_t odd_rows(const void *values, bool wide, uint32_t exponent, size_t n, size_t width) {
    const uint32_t *long_ones = values;
    const uint16_t *short_ones = values;
    size_t odd = 0;
    for (size_t i = 0; values && i < n; i++) {
        bool found = false;
        for (size_t k = i * width; k < (i + 1) * width; k++)
            found |= ((wide ? long_ones[k] : short_ones[k]) & exponent) == exponent;
        odd += found;
    }
    return odd;
}

static void note_odd_rows(larder_loader *l, size_t n, const larder_feedback *fb) {
    enum { F32 = 0x7f800000, F16 = 0x7c00, BF16 = 0x7f80 };
    larder_dtype as = fb->embeddings_dtype;
    size_t logits = odd_rows(fb->logits, true, F32, n, fb->classes);
    size_t embeddings = odd_rows(fb->embeddings, as != LARDER_F16 && as != LARDER_BF16,
                                 as == LARDER_F16    ? F16
                                 : as == LARDER_BF16 ? BF16
                                                     : F32,
                                 n, fb->dim);
    size_t odd = logits > embeddings ? logits : embeddings;
    if (!odd)
        return;
    larder__stat_add(l->stats, l->stat.not_finite, odd);
    if (!l->odd_told)
        larder__note(l->stats,
                     "%s of %zu samples of a batch are NaN or infinite; more of them are counted "
                     "alone (losses_not_finite)",
                     logits ? "logits" : "embeddings", odd);
    l->odd_told = true;
}

static int check_feedback(const larder_feedback *fb) {
    if (!fb || (fb->logits && !fb->classes) || (fb->embeddings && !fb->dim))
        return larder__fail(LARDER_E_ARGS, "logits need `classes`, embeddings need `dim`");
    if (fb->embeddings_dtype < 0 || fb->embeddings_dtype > LARDER_BF16)
        return larder__fail(LARDER_E_ARGS, "embeddings are f32, f16 or bf16, not type %d",
                            (int)fb->embeddings_dtype);
    return 0;
}

/* `own`: rows of this rank alone; those that it shares a cache with are told. */
static int report_rows(larder_loader *l, uint64_t number, uint64_t epoch, const uint64_t *served,
                       const int64_t *labels, size_t n, const larder_feedback *fb, bool own) {
    int rc = check_feedback(fb);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (served[i] >= larder_loader_samples(l))
            return larder__fail(LARDER_E_RANGE, "feedback about sample %llu of %llu",
                                (unsigned long long)served[i],
                                (unsigned long long)larder_loader_samples(l));
    if ((rc = larder__loader_enter(l)) < 0)
        return rc;
    size_t rows = larder__draw_rows(l->draw, number);
    if (!own)
        n = n < rows ? n : rows; /* those taken once more come last */
    if (number >= l->taken)
        rc = larder__fail(LARDER_E_STATE, "batch %llu has not been taken yet",
                          (unsigned long long)number);
    else if (larder__draw_listens(l->draw))
        rc = own ? larder__draw_note(l->draw, number, epoch, n, served, labels, fb)
                 : larder__feedback_note(larder__draw_feedback(l->draw), number, epoch, n, served,
                                         labels, fb);
    if (rc == 0) {
        note_loss(l, epoch, n, fb->loss);
        note_odd_rows(l, n, fb);
        larder__recording_losses(l, number, served, labels, n, fb, false);
        rc = larder__draw_reported(l->draw);
    }
    larder__stat_add(l->stats, rc == 0 ? l->stat.reports : l->stat.refused, 1);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_report_rows(larder_loader *l, uint64_t number, uint64_t epoch,
                              const uint64_t *served, const int64_t *labels, size_t n,
                              const larder_feedback *fb) {
    return report_rows(l, number, epoch, served, labels, n, fb, false);
}

int larder_loader_report_own(larder_loader *l, uint64_t number, uint64_t epoch,
                             const uint64_t *served, const int64_t *labels, size_t n,
                             const larder_feedback *fb) {
    return report_rows(l, number, epoch, served, labels, n, fb, true);
}

int larder_loader_report(larder_loader *l, const larder_batch *b, const larder_feedback *fb) {
    int rc = check_feedback(fb);
    if (rc < 0)
        return rc;
    rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__place *p = larder__place_held(l, b);
    rc = p ? 0 : LARDER_E_STATE;
    if (p && p->reported)
        rc = larder__fail(LARDER_E_STATE, "batch %llu was reported twice",
                          (unsigned long long)b->number);
    if (rc == 0 && larder__draw_listens(l->draw))
        rc = larder__draw_note(l->draw, b->number, b->epoch, b->n, b->served, b->y, fb);
    if (rc == 0) {
        p->reported = true;
        note_loss(l, b->epoch, b->n, fb->loss);
        larder__recording_losses(l, b->number, b->served, b->y, b->n, fb, true);
        rc = larder__draw_reported(l->draw);
    }
    larder__stat_add(l->stats, rc == 0 ? l->stat.reports : l->stat.refused, 1);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_validate(larder_loader *l, double accuracy) {
    if (!(accuracy >= 0 && accuracy <= 1))
        return larder__fail(LARDER_E_ARGS, "accuracy %g is not a fraction of 1", accuracy);
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__feedback *to = larder__draw_feedback(l->draw);
    if (l->taken == 0)
        rc = larder__fail(LARDER_E_STATE, "no batch has been taken yet");
    else if (to)
        rc = larder__feedback_note_accuracy(to, l->taken - 1, accuracy);
    if (rc == 0) {
        larder__shown_curve(l, l->shown_epoch)->accuracy = accuracy;
        larder__tape_add_accuracy(l->tape, l->taken - 1, accuracy);
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* ---- looking in ------------------------------------------------------------------------------ */

bool larder_loader_listens(const larder_loader *l) {
    return larder__draw_listens(l->draw) || l->tape;
}

bool larder_loader_together(const larder_loader *l) { return larder__draw_ranks(l->draw) != NULL; }

uint64_t larder_loader_samples(const larder_loader *l) {
    return larder__data_about(l->data)->count;
}
uint64_t larder_loader_payload(const larder_loader *l) {
    return larder__data_about(l->data)->bytes;
}
uint32_t larder_loader_classes(const larder_loader *l) {
    return larder__data_about(l->data)->classes;
}
larder_shape larder_loader_shape(const larder_loader *l) {
    return larder__pipeline_shape(l->pipeline);
}
const char *larder_loader_class_name(const larder_loader *l, uint32_t label) {
    return larder__data_class(l->data, label);
}

uint64_t larder_loader_batches(const larder_loader *l) {
    if (larder__loader_enter((larder_loader *)(uintptr_t)l) < 0)
        return 0;
    uint64_t ids = l->epoch_length, batch = larder__draw_batch(l->draw);
    pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&l->lock);
    return ids / batch + (ids % batch != 0);
}

int larder_loader_figures(larder_loader *l, uint64_t epoch, larder_figures *out) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    rc = larder__ledger_figures(l->ledger, epoch, out);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int64_t larder_loader_audit(larder_loader *l) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    int64_t verdict = l->audit;
    if (verdict)
        larder__errmsg_set(l->audit_says);
    pthread_mutex_unlock(&l->lock);
    return verdict;
}

int larder_loader_bad(larder_loader *l, size_t i, larder_bad *out) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    if (i < l->bad_count)
        *out = l->bad[i];
    else
        rc = larder__fail(LARDER_E_RANGE, "%zu bad samples are listed", l->bad_count);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_replan(larder_loader *l, size_t i, larder_replan *out) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    while (l->planning) /* the list may grow meanwhile */
        pthread_cond_wait(&l->ready, &l->lock);
    const larder__replan *r = larder__draw_replan(l->draw);
    size_t count = r ? r->turns.count : 0;
    if (i < count)
        *out = r->turns.at[i];
    else
        rc = larder__fail(LARDER_E_RANGE, "the cache was shared out anew %zu times", count);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_cache_note(larder_loader *l, char *why, size_t cap) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__cache_note(larder__draw_cache(l->draw), why, cap);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

int larder_loader_scratch(larder_loader *l, uint64_t *refused, char *why, size_t cap) {
    *refused = 0;
    if (cap)
        why[0] = 0;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    if (l->crates)
        *refused = larder__crates_refused(l->crates, why, cap);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

const char *larder_loader_note(larder_loader *l, size_t i) {
    return l ? larder__note_at(l->stats, i) : NULL;
}

int larder_loader_recorded(larder_loader *l, uint64_t *bytes, char *why, size_t cap) {
    *bytes = 0;
    if (cap)
        why[0] = 0;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    *bytes = larder__tape_written(l->tape, why, cap);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

int larder_loader_stat(larder_loader *l, size_t i, larder_stat_value *out) {
    int rc = larder__loader_enter(l); /* probes take the cache's lock */
    if (rc < 0)
        return rc;
    pthread_mutex_unlock(&l->lock);
    return larder__stat_read(l->stats, i, out);
}
