/* What training says: about batches still held, about batches named, and how good it is by now. */
#include "base/err.h"
#include "base/sized.h"
#include "loader/inside.h"

#include <math.h>

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

/* Losses of fresh and of reused samples apart, for the ledger. */
static void note_sorts(larder_loader *l, const larder_batch *b, size_t n,
                       const larder_feedback *fb) {
    larder__losses told;
    larder_report said = {.batch = b->number,
                          .epoch = b->epoch,
                          .n = n,
                          .classes = fb->classes,
                          .ids = b->served,
                          .labels = b->y,
                          .loss = fb->loss,
                          .logits = fb->logits};
    if (!larder__draw_compares(l->draw) || (!fb->loss && !fb->logits))
        return;
    larder__draw_told(l->draw, &said, &told);
    larder__ledger_told(l->ledger, b->epoch, &told);
    larder__measures_told(l, b->epoch);
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

/* Has a row of it logits and a label? */
static bool has_plain(const int64_t *labels, size_t n, const larder_feedback *fb) {
    for (size_t i = 0; fb->logits && i < n; i++)
        if (labels[i] >= 0 && (uint64_t)labels[i] < fb->classes)
            return true;
    return false;
}

/* Said once: the recipe hears nothing of what is reported. */
static void note_unheard(larder_loader *l, const int64_t *labels, size_t n,
                         const larder_feedback *fb) {
    const larder_signal *s = larder__draw_signal(l->draw);
    if (l->unheard_told || !s || !s->without_logits || !(fb->loss || fb->logits) ||
        has_plain(labels, n, fb))
        return;
    larder__note(l->stats, "%s", s->without_logits);
    l->unheard_told = true;
}

static int check_feedback(const larder_feedback *fb) {
    if ((fb->logits && !fb->classes) || (fb->embeddings && !fb->dim))
        return larder__fail(LARDER_E_ARGS, "logits need `classes`, embeddings need `dim`");
    if (fb->embeddings_dtype != LARDER_F32 && fb->embeddings_dtype != LARDER_F16 &&
        fb->embeddings_dtype != LARDER_BF16)
        return larder__fail(LARDER_E_ARGS, "embeddings are f32, f16 or bf16, not type %d",
                            (int)fb->embeddings_dtype);
    return 0;
}

static int check_named(const larder_loader *l, const larder_batch *b) {
    uint64_t all = larder__data_about(l->data)->count;
    if (b->n && (!b->served || !b->y))
        return larder__fail(LARDER_E_ARGS, "a batch that is named has `served` and `y`");
    for (size_t i = 0; i < b->n; i++)
        if (b->served[i] >= all)
            return larder__fail(LARDER_E_RANGE, "feedback about sample %llu of %llu",
                                (unsigned long long)b->served[i], (unsigned long long)all);
    return 0;
}

/* With the lock held. */
static int hear_named(larder_loader *l, const larder_batch *b, const larder_feedback *fb) {
    bool own = fb->rows == LARDER_ROWS_OWN;
    size_t n = b->n, rows = larder__draw_rows(l->draw, b->number);
    int rc = 0;
    if (!own)
        n = n < rows ? n : rows; /* those taken once more come last */
    if (b->number >= l->taken)
        rc = larder__fail(LARDER_E_STATE, "batch %llu has not been taken yet",
                          (unsigned long long)b->number);
    else if (larder__draw_listens(l->draw))
        rc = larder__draw_note(l->draw, b->number, b->epoch, n, b->served, b->y, fb, !own);
    if (rc == 0) {
        note_sorts(l, b, n, fb);
        note_loss(l, b->epoch, n, fb->loss);
        note_odd_rows(l, n, fb);
        note_unheard(l, b->y, n, fb);
        larder__recording_losses(l, b->number, b->served, b->y, n, fb, false);
    }
    return rc;
}

/* With the lock held. */
static int hear_held(larder_loader *l, const larder_batch *b, const larder_feedback *fb) {
    larder__place *p = larder__place_held(l, b);
    int rc = p ? 0 : LARDER_E_STATE;
    if (p && p->reported)
        rc = larder__fail(LARDER_E_STATE, "batch %llu was reported twice",
                          (unsigned long long)b->number);
    if (rc == 0 && larder__draw_listens(l->draw))
        rc = larder__draw_note(l->draw, b->number, b->epoch, b->n, b->served, b->y, fb, false);
    if (rc == 0) {
        p->reported = true;
        note_sorts(l, b, b->n, fb);
        note_loss(l, b->epoch, b->n, fb->loss);
        note_unheard(l, b->y, b->n, fb);
        larder__recording_losses(l, b->number, b->served, b->y, b->n, fb, true);
    }
    return rc;
}

int larder_loader_report(larder_loader *l, const larder_batch *b, const larder_feedback *given) {
    larder_feedback fb = {0};
    larder_batch named = {0};
    int rc = larder__sized_in(&fb, sizeof fb, given, "larder_feedback");
    if (rc < 0 || (rc = check_feedback(&fb)) < 0)
        return rc;
    bool held = fb.rows == LARDER_ROWS_HELD;
    if (!held && ((rc = larder__sized_in(&named, sizeof named, b, "larder_batch")) < 0 ||
                  (rc = check_named(l, &named)) < 0))
        return rc;
    if ((rc = larder__loader_enter(l)) < 0)
        return rc;
    rc = held ? hear_held(l, b, &fb) : hear_named(l, &named, &fb);
    if (rc == 0)
        rc = larder__draw_reported(l->draw);
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
