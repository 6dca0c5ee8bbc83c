#include "cli/svm_show.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double live_every = 0.2, plain_every = 5;

void larder__svm_show_open(larder__svm_show *s, FILE *to) {
    const char *term = getenv("TERM");
    *s = (larder__svm_show){.to = to};
    s->live = to && isatty(fileno(to)) && term && strcmp(term, "dumb") != 0;
    s->next = larder__now() + (s->live ? live_every : plain_every);
}

static void format(char *out, size_t cap, const larder_svm_progress *p) {
    char part[48] = "", hits[32] = "", left[48] = "";
    if (p->problems > 1)
        snprintf(part, sizeof part, "problem %zu/%zu, ", p->problem + 1, p->problems);
    if (isfinite(p->hits))
        snprintf(hits, sizeof hits, ", rows hit %.1f%%", 100 * p->hits);
    if (isfinite(p->seconds_left))
        snprintf(left, sizeof left, ", about %.0f s left", p->seconds_left);
    snprintf(out, cap, "%sround %llu, gap %.3g (to %.3g), obj %.6f%s, %.0f s%s", part,
             (unsigned long long)p->rounds, p->gap, p->tolerance, p->objective, hits, p->seconds,
             left);
}

void larder__svm_show_progress(larder__svm_show *s, const larder_svm_progress *p, double now) {
    char line[256];
    if (!s->to || now < s->next)
        return;
    s->next = now + (s->live ? live_every : plain_every);
    format(line, sizeof line, p);
    fprintf(s->to, s->live ? "\r\033[K%s" : "%s\n", line);
    fflush(s->to);
    s->drawn = s->live;
}

void larder__svm_show_clear(larder__svm_show *s) {
    if (s->drawn)
        fputs("\r\033[K", s->to);
    s->drawn = false;
}

static void times(larder__json *j, const larder_svm_stats *s) {
    double rest = s->seconds - s->kernel_seconds - s->cache_seconds - s->select_seconds -
                  s->solve_seconds - s->update_seconds;
    larder__json_open(j, "seconds", '{');
    larder__json_f64(j, "all", s->seconds);
    larder__json_f64(j, "kernel", s->kernel_seconds);
    larder__json_f64(j, "cache", s->cache_seconds);
    larder__json_f64(j, "select", s->select_seconds);
    larder__json_f64(j, "solve", s->solve_seconds);
    larder__json_f64(j, "update", s->update_seconds);
    larder__json_f64(j, "rest", rest > 0 ? rest : 0);
    larder__json_f64(j, "start", s->start_seconds);
    larder__json_close(j, '}');
}

static void rows(larder__json *j, const larder_svm_stats *s) {
    larder__json_open(j, "cache", '{');
    larder__json_bool(j, "on", s->cache_on);
    larder__json_text(j, "policy", s->policy);
    larder__json_f64(j, "make_us", s->make_us);
    larder__json_f64(j, "keep_us", s->keep_us);
    larder__json_u64(j, "asked", s->rows_asked);
    larder__json_u64(j, "hits", s->rows_hit);
    larder__json_u64(j, "switches", s->switches);
    larder__json_open(j, "switched", '[');
    for (size_t i = 0; i < s->switches && i < LARDER_SVM_SWITCHES; i++) {
        const larder_svm_switch *w = &s->switched[i];
        larder__json_open(j, NULL, '{');
        larder__json_u64(j, "round", w->round);
        larder__json_text(j, "to", w->to);
        larder__json_f64(j, "was", w->was);
        larder__json_f64(j, "other", w->other);
        larder__json_close(j, '}');
    }
    larder__json_close(j, ']');
    larder__json_close(j, '}');
}

int larder__svm_show_stats(const larder_svm_stats *s, const char *path) {
    larder__fresh file;
    int rc = larder__fresh_open(&file, path);
    if (rc < 0)
        return rc;
    larder__json j = {.to = file.to};
    larder__json_begin(&j);
    larder__json_u64(&j, "rows", s->rows);
    larder__json_u64(&j, "points", s->points);
    larder__json_text(&j, "engine", s->engine);
    larder__json_text(&j, "device", s->device);
    larder__json_u64(&j, "threads", s->threads);
    larder__json_u64(&j, "problems", s->problems);
    larder__json_u64(&j, "rounds", s->rounds);
    larder__json_u64(&j, "iterations", s->iterations);
    larder__json_f64(&j, "objective", s->objective);
    larder__json_f64(&j, "gap", s->gap);
    larder__json_u64(&j, "exact", s->exact);
    larder__json_u64(&j, "unreached", s->unreached);
    larder__json_u64(&j, "rows_made", s->rows_made);
    larder__json_u64(&j, "values", s->values);
    times(&j, s);
    rows(&j, s);
    larder__json_close(&j, '}');
    putc('\n', file.to);
    return larder__fresh_close(&file, 0);
}

/* ---- how good predictions are ---------------------------------------------------------------- */

void larder__svm_score(larder__svm_scores *s, double p, double t) {
    s->right += p == t;
    s->n++;
    s->error += (p - t) * (p - t);
    s->sp += p, s->st += t;
    s->spp += p * p, s->stt += t * t, s->spt += p * t;
}

static bool is_regression(larder_svm_task t) {
    return t == LARDER_SVM_EPSILON_SVR || t == LARDER_SVM_NU_SVR;
}

static double correlation(const larder__svm_scores *s) {
    double n = (double)s->n, cross = n * s->spt - s->sp * s->st;
    return cross * cross / ((n * s->spp - s->sp * s->sp) * (n * s->stt - s->st * s->st));
}

static double accuracy(const larder__svm_scores *s) {
    return 100 * (double)s->right / (double)s->n;
}

void larder__svm_print_scores(const larder__svm_scores *s, larder_svm_task task) {
    if (!is_regression(task)) {
        printf("Accuracy = %g%% (%zu/%zu) (classification)\n", accuracy(s), s->right, s->n);
        return;
    }
    printf("Mean squared error = %g (regression)\n", s->error / (double)s->n);
    printf("Squared correlation coefficient = %g (regression)\n", correlation(s));
}

void larder__svm_print_cross(const larder__svm_scores *s, larder_svm_task task) {
    if (!is_regression(task)) {
        printf("Cross Validation Accuracy = %g%%\n", accuracy(s));
        return;
    }
    printf("Cross Validation Mean squared error = %g\n", s->error / (double)s->n);
    printf("Cross Validation Squared correlation coefficient = %g\n", correlation(s));
}
