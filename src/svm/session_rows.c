/* Which kernel rows a session keeps and records. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/held_rows.h"
#include "svm/session.h"
#include "svm/smo.h"
#include "svm/tiny.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef larder__svm_session trainer;

/* ---- keeping rows ---------------------------------------------------------------------------- */

/* A row that is kept is written once, into memory that the system has to find first, and read from
 * there at each use; computed afresh it goes straight into the gradient. Phishing and four
 * features, at three times, still lose by it (0.09 s for 0.065, 0.13 for 0.04). */
static const double worth_keeping = 6;

static uint64_t cache_budget(const trainer *t, size_t points) {
    uint64_t row = points * sizeof(float), all = row * points;
    if (t->conf->cache_rows)
        return t->conf->cache_rows < points ? t->conf->cache_rows * row : all;
    if (t->conf->cache_bytes != UINT64_MAX)
        return t->conf->cache_bytes < all ? t->conf->cache_bytes : all;
    long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : all;
    return half < all ? half : all;
}

static int open_rows(const trainer *t, larder__kept_rows **out, const larder__panel *panel,
                     size_t cells) {
    larder__row_cache_conf conf = {.policy = t->conf->policy ? t->conf->policy : "kkt",
                                   .rows = panel->n,
                                   .budget = cache_budget(t, panel->n),
                                   .seed = t->conf->seed};
    return larder__kept_rows_open(out, &conf, panel, cells);
}

/* Members of a function lie by class then. */
static bool by_pairs(const trainer *t) {
    return larder__task_has_classes(t->conf->task) && !t->conf->one_vs_all;
}
static bool has_parts(const trainer *t) { return (by_pairs(t) && t->classes > 2) || t->folds > 1; }

/* Points of the largest problem. */
static int find_largest(const trainer *t, size_t *out) {
    *out = t->samples.n;
    if (!by_pairs(t) || t->classes <= 2)
        return 0;
    size_t most = 0, next = 0, *n = larder__calloc(t->classes + 1, sizeof *n);
    if (!n)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", t->classes);
    for (size_t s = 0; s < t->samples.n; s++)
        n[t->class_of[s]]++;
    for (size_t c = 0; c < t->classes; c++)
        if (n[c] > most)
            next = most, most = n[c];
        else if (n[c] > next)
            next = n[c];
    larder__free(n);
    *out = most + next;
    return 0;
}

/* Every class must be there whichever fold is left out, or the others' models lack it. */
static int folds_hold(const trainer *t, bool *out) {
    bool named = larder__task_has_classes(t->conf->task);
    size_t cells = (t->classes + 1) * t->folds, *n = larder__calloc(cells, sizeof *n);
    *out = true;
    if (!n)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu folds", t->folds);
    for (size_t i = 0; i < t->n; i++)
        n[(named ? t->class_of[t->samples.sample_of[i]] : 0) * t->folds + t->fold_of_row[i]]++;
    for (size_t c = 0; c < (named ? t->classes : 1); c++) {
        size_t full = 0;
        for (size_t f = 0; f < t->folds; f++)
            full += n[c * t->folds + f] > 0;
        *out = *out && full > 1;
    }
    larder__free(n);
    return 0;
}

/* Points in the order of cells: a class, or a fold of a class, or a fold. */
int larder__session_sort(trainer *t) {
    bool pairs = by_pairs(t);
    if (!has_parts(t))
        return 0;
    t->cells = (pairs ? t->classes : 1) * t->folds;
    t->cell = larder__calloc(t->samples.n + 1, sizeof *t->cell);
    t->cell_start = larder__calloc(t->cells + 1, sizeof *t->cell_start);
    if (!t->cell || !t->cell_start)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", t->samples.n);
    for (size_t i = 0; i < t->n; i++) {
        uint32_t s = t->samples.sample_of[i], fold = t->fold_of_row ? t->fold_of_row[i] : 0;
        t->cell[s] = (uint32_t)((pairs ? t->class_of[s] : 0) * t->folds + fold);
    }
    return larder__samples_sort(&t->samples, t->n, t->cell, t->class_of, t->cells, t->cell_start);
}

/* One cache for all problems, if it holds the rows of the largest at least: its rows are as long as
 * all points, of which a problem needs a part. */
static int share_rows(trainer *t, size_t largest) {
    bool several = has_parts(t), hold = true;
    uint64_t row = t->samples.n * sizeof(float);
    if (t->conf->separate_rows || (several && cache_budget(t, t->samples.n) < largest * row))
        return 0;
    int rc = t->folds > 1 ? folds_hold(t, &hold) : 0;
    return rc < 0 || !hold ? rc : open_rows(t, &t->kept, &t->panel, t->cells);
}

/* ---- all values at once ---------------------------------------------------------------------- */

/* Folds use each value many times. Pairs of small classes use nearly all of them once, and a
 * blocked product makes them cheaper than row by row. */
enum { FEW_POINTS = 8192, FEW_PAIRED = 4096, SMALL_CLASS = 256, FEW_DOUBLES = 512 };
/* Pairs of larger classes may want a few of their rows or all of them. Where a value is dear, some
 * pairs are solved first to see. */
enum { MOST_PAIRED = 16384, DEAR_FEATURES = 64, MANY_PAIRS = 15 };

/* Which rows are kept, and how, is asked for or recorded. */
static bool told_of_rows(const trainer *t) {
    const larder_svm_conf *c = t->conf;
    return c->cache_always || c->cache_rows || c->policy || c->separate_rows || c->access_log;
}

static bool suits_gram(const trainer *t) {
    const larder_svm_conf *c = t->conf;
    size_t n = t->samples.n;
    if (told_of_rows(t) || c->kernel == LARDER_SVM_PRECOMPUTED || n > FEW_POINTS ||
        cache_budget(t, n) < (uint64_t)n * n * sizeof(float))
        return false;
    return t->folds > 1 || (has_parts(t) && n <= FEW_PAIRED && n / t->classes <= SMALL_CLASS);
}

static bool could_suit_gram(const trainer *t, size_t largest) {
    size_t n = t->samples.n;
    return has_parts(t) && t->folds == 1 && t->functions >= MANY_PAIRS && !told_of_rows(t) &&
           !t->conf->checkpoint && t->kernel.engine == LARDER__ENGINE_DENSE &&
           t->kernel.dim >= DEAR_FEATURES && n <= MOST_PAIRED && largest <= LARDER__WHOLE_AT_HAND &&
           cache_budget(t, n) >= (uint64_t)n * n * sizeof(float);
}

static int open_gram(trainer *t) {
    bool hold = true;
    int rc = t->folds > 1 ? folds_hold(t, &hold) : 0;
    if (rc < 0 || !hold)
        return rc;
    double start = larder__now();
    rc = larder__gram_open(&t->gram, &t->kernel, &t->panel, t->team);
    t->stats->kernel_seconds += larder__now() - start;
    t->stats->values += larder__gram_values(t->gram.n);
    return rc;
}

/* Where problems are many they look at the same points in doubles; all values at once where every
 * problem is tiny. */
static int open_exact(trainer *t, size_t largest) {
    bool balanced = t->conf->task == LARDER_SVM_C_SVC || t->conf->task == LARDER_SVM_EPSILON_SVR;
    int rc = larder__exact_open(&t->exact, &t->kernel, t->data, t->samples.point_row,
                                t->samples.points, balanced);
    size_t n = t->samples.points;
    if (rc < 0 || told_of_rows(t) || n > FEW_DOUBLES || largest > LARDER__TINY)
        return rc;
    t->stats->values += (uint64_t)n * n;
    return larder__exact_hold(&t->exact);
}

/* A GPU's values serve all folds, where these may be shared at all. */
static int keep_shared(trainer *t) {
    bool hold = true;
    int rc = t->folds > 1 ? folds_hold(t, &hold) : 0;
    if (rc == 0 && !hold)
        larder__svm_shared_close(&t->shared);
    return rc;
}

/* A problem that fits the working set computes each value once. */
static int decide_keeping(trainer *t, size_t largest) {
    larder_svm_stats *s = t->stats;
    bool told = t->conf->cache_always || t->conf->access_log || t->folds > 1;
    size_t fits = told ? LARDER__WS : LARDER__WHOLE;
    if (cache_budget(t, t->samples.points) == 0 || largest <= fits)
        return 0;
    int rc = larder__held_measure(&t->kernel, &t->panel, &s->make_us, &s->keep_us);
    t->keeps = t->conf->cache_always || s->make_us > worth_keeping * s->keep_us;
    if (rc == 0 && t->keeps)
        rc = share_rows(t, largest);
    s->cache_on = t->keeps;
    snprintf(s->policy, sizeof s->policy, "%s",
             !t->keeps         ? ""
             : t->conf->policy ? t->conf->policy
                               : "kkt");
    return rc;
}

int larder__session_decide_rows(trainer *t) {
    size_t largest = 0;
    int rc = find_largest(t, &largest);
    if (rc == 0 && has_parts(t))
        rc = open_exact(t, largest);
    if (rc == 0 && t->shared)
        return keep_shared(t);
    if (rc < 0 || (t->exact.held && t->folds == 1))
        return rc;
    if (suits_gram(t))
        return open_gram(t);
    t->looks = could_suit_gram(t, largest);
    return t->looks ? 0 : decide_keeping(t, largest);
}

int larder__session_decide_again(trainer *t) {
    double asked = 0, seen = 0, all = 0;
    size_t largest = 0, at = 0;
    t->looks = false;
    for (size_t a = 0; a < t->classes; a++)
        for (size_t b = a + 1; b < t->classes; b++, at++) {
            size_t n =
                t->cell_start[a + 1] - t->cell_start[a] + t->cell_start[b + 1] - t->cell_start[b];
            double square = (double)n * (double)n;
            largest = n > largest ? n : largest;
            all += square;
            if (t->done[at])
                seen += square, asked += (double)t->made[at].solved.values;
        }
    bool many = asked * all > seen * (double)larder__gram_values(t->samples.n);
    return many ? open_gram(t) : decide_keeping(t, largest);
}

/* Cells of all points that are this function's, one after the other as its members are. */
static int list_parts(larder__solving *f) {
    const trainer *t = f->t;
    for (size_t c = 0; c < t->cells; c++) {
        size_t n = t->cell_start[c + 1] - t->cell_start[c], local = 0;
        if (n == 0 || (t->left_out != SIZE_MAX && c % t->folds == t->left_out))
            continue;
        if (f->part_count)
            local = f->parts[f->part_count - 1].local + f->parts[f->part_count - 1].n;
        if (local < f->task.n && f->own_points[local] == t->cell_start[c])
            f->parts[f->part_count++] = (larder__row_part){local, t->cell_start[c], n, c};
    }
    const larder__row_part *last = f->parts + f->part_count - 1;
    return f->part_count && last->local + last->n == f->task.n
               ? 0
               : larder__fail(LARDER_E_STATE, "samples do not lie in cells");
}

int larder__solving_rows(larder__solving *f) {
    trainer *t = f->t;
    if (!t->keeps || f->task.n <= LARDER__WS)
        return 0;
    if (!(f->parts = larder__calloc(t->cells + 1, sizeof *f->parts)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu cells", t->cells);
    if (t->kept && t->cell) {
        f->kept = t->kept;
        return list_parts(f);
    }
    f->parts[0] = (larder__row_part){.n = f->own_points ? f->own.n : t->panel.n};
    f->part_count = 1;
    f->kept = t->kept;
    return t->kept ? 0 : open_rows(t, &f->kept, f->own_points ? &f->own : &t->panel, 1);
}

static void count_hits(trainer *t, const larder__kept_rows *kept) {
    larder__row_cache_figures f;
    larder__row_cache_read(kept->cache, &f);
    t->stats->rows_hit += f.hits;
    larder_switch from;
    for (uint64_t i = 0; larder__row_cache_switched(kept->cache, i, &from); i++) {
        if (t->stats->switches < LARDER_SVM_SWITCHES) {
            larder_svm_switch *to = &t->stats->switched[t->stats->switches];
            *to = (larder_svm_switch){.round = from.round, .was = from.was, .other = from.other};
            snprintf(to->to, sizeof to->to, "%s", from.to);
        }
        t->stats->switches++;
    }
}

void larder__session_count(trainer *t) {
    if (t->kept)
        count_hits(t, t->kept);
}

void larder__solving_count(larder__solving *f) {
    if (f->kept && f->kept != f->t->kept)
        count_hits(f->t, f->kept);
}

/* ---- the sequence of rows -------------------------------------------------------------------- */

static const uint32_t *among_all(const larder__solving *f, const uint32_t *points, size_t n) {
    if (!f->own_points)
        return points;
    for (size_t i = 0; i < n; i++)
        f->t->ids[i] = f->own_points[points[i]];
    return f->t->ids;
}

static int rows_leave(void *arg, const uint32_t *points, const float *dist, size_t n) {
    larder__solving *f = arg;
    return larder__access_log_leave(f->t->log, among_all(f, points, n), dist, n);
}

/* Pairs of classes have points of their own, too few to be worth the room. */
static int rows_scored(void *arg, const float *dist) {
    larder__solving *f = arg;
    return f->own_points ? 0 : larder__access_log_scores(f->t->log, dist);
}

static int rows_enter(void *arg, const uint32_t *points, size_t n) {
    larder__solving *f = arg;
    return larder__access_log_round(f->t->log, among_all(f, points, n), n, 0);
}

int larder__session_open_log(trainer *t) {
    if (!t->conf->access_log)
        return 0;
    larder__free(t->ids);
    t->ids = larder__malloc((t->samples.points + 1) * sizeof *t->ids);
    if (!t->ids)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu points", t->samples.points);
    return larder__access_log_open(&t->log, t->conf->access_log, t->samples.points);
}

int larder__solving_log(larder__solving *f, larder__solver_conf *conf) {
    if (!f->t->log)
        return 0;
    conf->leave = rows_leave, conf->enter = rows_enter, conf->scores = rows_scored;
    conf->arg = f;
    return larder__access_log_solver(f->t->log, (uint32_t)f->at);
}
