/* Where the points of a session lie: in this process, for an engine, or on a GPU. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/session.h"

#include <stdio.h>
#include <string.h>

typedef larder__svm_session trainer;

/* With fewer points than this `auto` stays with the CPU, which is done before a GPU has begun. */
enum { WORTH_A_GPU = 3000 };

static bool is_auto(const trainer *t) {
    return t->conf->device && strcmp(t->conf->device, "auto") == 0;
}

/* Why there is nothing for a GPU to do here, or NULL. */
static const char *better_here(const trainer *t) {
    if (t->conf->kernel == LARDER_SVM_PRECOMPUTED)
        return "a precomputed kernel has nothing to compute";
    if (t->conf->access_log)
        return "rows are recorded";
    return is_auto(t) && t->samples.points < WORTH_A_GPU ? "there are few points" : NULL;
}

static void say_cpu(trainer *t, const char *why) {
    const larder_svm_conf *c = t->conf;
    snprintf(t->stats->device, sizeof t->stats->device, "cpu: %.200s", why);
    if (is_auto(t) || !c->warn)
        return;
    char line[300];
    snprintf(line, sizeof line, "the CPU trains, not the GPU: %.200s", why);
    c->warn(c->warn_arg, line);
}

static void say_gpu(trainer *t, const larder__svm_device *d) {
    larder_svm_stats *s = t->stats;
    const char *policy = t->shared->policy;
    s->cache_on = !t->shared->values && strcmp(policy, "none") != 0;
    snprintf(s->policy, sizeof s->policy, "%s", s->cache_on ? policy : "");
    snprintf(s->device, sizeof s->device, "cuda: %s", larder__gpu_about_it(d->gpu)->name);
}

static int fill_here(trainer *t) {
    return larder__panel_fill(&t->panel, &t->kernel, t->data, t->samples.point_row,
                              t->samples.points);
}

static int open_shared(trainer *t, larder__svm_device *d) {
    const larder_svm_conf *c = t->conf;
    bool off = c->cache_rows == 0 && c->cache_bytes == 0;
    size_t n = t->samples.points;
    larder__svm_shared_conf conf = {.budget = c->cache_bytes,
                                    .rows = c->cache_rows,
                                    .never_all = off || c->policy || c->cache_always,
                                    .policy = off         ? "none"
                                              : c->policy ? c->policy
                                                          : LARDER__DEVICE_POLICY,
                                    .seed = c->seed};
    t->panel.n = n;
    t->panel.norm = larder__calloc(n + 1, sizeof *t->panel.norm);
    if (!t->panel.norm)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu points", n);
    return larder__svm_shared_open(&t->shared, d, &t->kernel, t->data, t->samples.point_row, n,
                                   t->panel.norm, &conf);
}

int larder__session_points(trainer *t) {
    larder__svm_device *d = NULL;
    char note[256] = "";
    const char *why = better_here(t);
    larder_svm_stats *s = t->stats;
    int rc = why ? larder__svm_device_check(t->conf->device)
                 : larder__svm_device_find(&d, t->conf->device, note, sizeof note);
    if (rc < 0)
        return rc;
    if (d && (rc = open_shared(t, d)) == 0) {
        s->start_seconds = d->start_seconds;
        s->kernel_seconds += t->shared->seconds;
        s->values += t->shared->values ? (uint64_t)t->samples.points * t->samples.points : 0;
        say_gpu(t, d);
        return 0;
    }
    if (d && !is_auto(t))
        return rc;
    larder__panel_free(&t->panel);
    if (d || note[0] || (why && t->conf->device && strcmp(t->conf->device, "cpu") != 0))
        say_cpu(t, d ? larder_errmsg() : why ? why : note);
    else
        snprintf(s->device, sizeof s->device, "cpu");
    return fill_here(t);
}
