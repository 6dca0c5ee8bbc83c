/* larder svm-grid: cross validation over C and gamma, kernel rows and solutions handed on. */
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/libsvm_args.h"
#include "cli/stoppable.h"
#include "cli/svm_show.h"

#include <larder/svm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 256 };

typedef struct options {
    larder__svm_args svm;
    const char *file, *log2c, *log2g, *stats;
    uint64_t folds;
    bool json;
    double c[MOST], gamma[MOST];
    size_t cs, gammas;
} options;

static const char about[] =
    "Tries all C = 2^x and gamma = 2^y of the two ranges (begin,end,step) by cross validation and\n"
    "says which pair is best. The folds of a gamma share one cache of kernel rows over all C, and\n"
    "each C starts from the solution of the one below it.";
static const char examples[] = "  larder svm-grid heart_scale\n"
                               "  larder svm-grid --log2c -1,5,2 --log2g -5,1,2 -v 3 --json a9a";

static int wrong(const char *why) { return larder__wrong_usage("svm-grid", why); }

/* "-5,15,2": powers of two, from the lower end up. */
static int read_range(const char *text, double *out, size_t *count) {
    double v[3];
    char *end;
    for (size_t i = 0; i < 3; i++) {
        v[i] = strtod(text, &end);
        if (end == text || *end != (i < 2 ? ',' : '\0') || !isfinite(v[i]))
            return wrong("a range is begin,end,step, such as -5,15,2");
        text = end + 1;
    }
    double low = fmin(v[0], v[1]), high = fmax(v[0], v[1]), step = fabs(v[2]);
    if (!(step > 0) || (high - low) / step >= MOST || low < -300 || high > 300)
        return wrong("a range has at most 256 steps, between -300 and 300");
    for (*count = 0; low + (double)*count * step <= high + 1e-9; ++*count)
        out[*count] = exp2(low + (double)*count * step);
    return 0;
}

static int read_options(options *o, int argc, char **argv) {
    larder__svm_args *a = &o->svm;
    size_t words;
    larder__svm_args_defaults(a);
    o->log2c = "-5,15,2", o->log2g = "-15,3,2", o->stats = NULL, o->folds = 5, o->json = false;
    const larder__option table[] = {
        {"log2c", LARDER__TEXT, &o->log2c, "RANGE", "powers of two for C (-5,15,2)"},
        {"log2g", LARDER__TEXT, &o->log2g, "RANGE", "powers of two for gamma (-15,3,2)"},
        {"v", LARDER__NUMBER, &o->folds, "N", "folds (5)"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object a line and point"},
        {"stats", LARDER__TEXT, &o->stats, "FILE", "leave times and counts there, as JSON"},
        LARDER__SVM_OPTIONS(a),
        {0}};
    larder__command command = {"svm-grid", "larder svm-grid [options] FILE", about, examples,
                               table};
    if (larder__svm_args_rewrite(a, "svm-grid", &argc, argv) < 0)
        return -1;
    int rc = larder__options_parse(&command, argc, argv, &o->file, 1, &words);
    if (rc != 0)
        return rc;
    if (words != 1)
        return wrong("name the file to search on");
    if (read_range(o->log2c, o->c, &o->cs) < 0 || read_range(o->log2g, o->gamma, &o->gammas) < 0)
        return -1;
    return larder__svm_args_settle(a, "svm-grid");
}

typedef struct session {
    const options *o;
    larder__stop *stop;
    bool regression, any;
    double best, best_c, best_gamma;
} session;

static int progress(void *arg, const larder_svm_progress *p) {
    (void)p;
    return larder__stop_code(((session *)arg)->stop);
}

static int told(void *arg, double c, double gamma, double score) {
    session *s = arg;
    if (!s->any || (s->regression ? score < s->best : score > s->best))
        s->best = score, s->best_c = c, s->best_gamma = gamma, s->any = true;
    if (s->o->json)
        printf("{\"schema\": %d, \"c\": %.17g, \"gamma\": %.17g, \"score\": %.9g}\n",
               LARDER__JSON_SCHEMA, c, gamma, score);
    else if (!s->o->svm.quiet)
        printf("log2c %g log2g %g: %g  (best %g at c = %g, g = %g)\n", log2(c), log2(gamma), score,
               s->best, s->best_c, s->best_gamma);
    fflush(stdout);
    return larder__stop_code(s->stop);
}

static int run(void *arg, larder__stop *stop) {
    options *o = arg;
    larder_svm_data *data = NULL;
    larder_svm_stats stats = {.size = sizeof stats};
    larder_svm_conf *c = &o->svm.conf;
    session s = {.o = o, .stop = stop};
    s.regression = c->task == LARDER_SVM_EPSILON_SVR || c->task == LARDER_SVM_NU_SVR;
    bool has_gamma = c->kernel != LARDER_SVM_LINEAR && c->kernel != LARDER_SVM_PRECOMPUTED;
    larder_svm_grid grid = {.size = sizeof grid,
                            .c = o->c,
                            .gamma = has_gamma ? o->gamma : NULL,
                            .cs = o->cs,
                            .gammas = has_gamma ? o->gammas : 1,
                            .folds = o->folds,
                            .told = told,
                            .arg = &s};
    c->progress = progress;
    c->progress_arg = &s;
    grid.score = larder__malloc(grid.cs * grid.gammas * sizeof *grid.score);
    int rc = grid.score
                 ? larder_svm_read(&data, o->file,
                                   c->kernel == LARDER_SVM_PRECOMPUTED ? LARDER_SVM_INDEX_ZERO : 0)
                 : larder__fail(LARDER_E_NOMEM, "no memory for the grid");
    if (rc == 0)
        rc = larder_svm_search(data, c, &grid, &stats);
    c->progress_arg = NULL;
    if (s.any && !o->json)
        printf("%g %g %g\n", s.best_c, s.best_gamma, s.best); /* as LIBSVM's grid.py ends */
    if (rc == 0 && o->stats)
        rc = larder__svm_show_stats(&stats, o->stats);
    larder_svm_data_close(&data);
    larder__free(grid.score);
    return rc;
}

int larder__cmd_svm_grid(int argc, char **argv) {
    static options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    return larder__stoppable_run(&(larder__stoppable){.name = "svm-grid",
                                                      .run = run,
                                                      .options = &o,
                                                      .may_finish = true,
                                                      .looks = true,
                                                      .stopped = "stopped"});
}
