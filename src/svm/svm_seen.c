#include "svm/svm_seen.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>

/* To be seen takes a socket and a thread, more than a small training itself: such a one is shown
 * only if it lasts. */
enum { MANY_ROWS = 1000 };
static const double lasting = 0.1; /* seconds */

static void look(void *arg, larder__job *out);

static int hear(void *arg, const larder_svm_progress *p) {
    larder__svm_seen *s = arg;
    if (!s->shown && larder__now() - s->opened > lasting) { /* one thread at a time comes here */
        s->shown = true;
        larder__expose(&s->exposed, look, s);
    }
    pthread_mutex_lock(&s->lock);
    s->last = *p;
    s->any = true;
    pthread_mutex_unlock(&s->lock);
    return s->progress ? s->progress(s->progress_arg, p) : 0;
}

static void show(larder__job *out, char type, const char *name, const char *unit, const char *help,
                 double value) {
    if (isfinite(value))
        larder__job_show(
            out, &(larder_stat_value){
                     .name = name, .unit = unit, .help = help, .type = type, .value = value});
}

static void show_progress(larder__job *out, const larder_svm_progress *p) {
    show(out, 'c', "samples", "rows", "kernel rows that entered the working set",
         (double)p->rows_asked);
    show(out, 'c', "hits", "rows", "found in the cache", (double)p->rows_hit);
    show(out, 'c', "misses", "rows", "computed", (double)(p->rows_asked - p->rows_hit));
    show(out, 'g', "svm_gap", "", "largest violation of the optimality conditions", p->gap);
    show(out, 'g', "svm_tolerance", "", "where training ends", p->tolerance);
    show(out, 'g', "svm_objective", "", "of the problem being solved", p->objective);
    show(out, 'g', "svm_hit_ratio", "", "share of kernel rows found in the cache", p->hits);
    show(out, 'c', "svm_rounds", "", "working sets so far, of this problem", (double)p->rounds);
    show(out, 'c', "svm_iterations", "", "steps inside them", (double)p->iterations);
    show(out, 'g', "svm_left_seconds", "seconds", "time left, as far as can be told",
         p->seconds_left);
}

static void look(void *arg, larder__job *out) {
    static const char *const tasks[] = {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"};
    static const char *const kernels[] = {"linear", "poly", "rbf", "sigmoid", "given"};
    larder__svm_seen *s = arg;
    pthread_mutex_lock(&s->lock);
    larder_svm_progress p = s->last;
    bool any = s->any;
    pthread_mutex_unlock(&s->lock);
    larder__job_say(out->kind, "svm");
    larder__job_say(out->name, program_invocation_short_name);
    larder__job_say(out->state, any ? "running" : "waiting");
    snprintf(out->recipe, sizeof out->recipe, "%s %s", tasks[s->conf.task],
             kernels[s->conf.kernel]);
    larder__job_say(out->cache, s->conf.policy ? s->conf.policy : "kkt");
    larder__job_say(out->shown, "svm_gap");
    snprintf(out->source, sizeof out->source, "%zu rows", s->rows);
    out->samples = s->rows;
    out->uptime = larder__now() - s->opened;
    if (!any)
        return;
    out->epoch = p.problem + 1;
    out->epochs = p.problems;
    if (isfinite(p.seconds_left)) { /* per mille of all there is to do */
        out->steps = 1000;
        out->step = (uint64_t)(1000 * p.seconds / (p.seconds + p.seconds_left + 1e-9));
    }
    show_progress(out, &p);
}

void larder__svm_seen_begin(larder__svm_seen *s, const larder_svm_conf *conf, size_t rows) {
    *s = (larder__svm_seen){.conf = *conf,
                            .progress = conf->progress,
                            .progress_arg = conf->progress_arg,
                            .rows = rows,
                            .opened = larder__now()};
    pthread_mutex_init(&s->lock, NULL);
    s->conf.progress = hear;
    s->conf.progress_arg = s;
    s->shown = rows >= MANY_ROWS;
    if (s->shown)
        larder__expose(&s->exposed, look, s);
}

void larder__svm_seen_end(larder__svm_seen *s) {
    if (s->opened == 0)
        return;
    larder__expose_end(&s->exposed);
    pthread_mutex_destroy(&s->lock);
}
