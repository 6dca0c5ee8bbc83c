#include "see/prometheus.h"

#include "base/escape.h"
#include "base/stat.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_BYTES = 96, SEEN = 512 }; /* names at most; JOB_STATS of a job, and jobs are alike */

/* ---- names and values ------------------------------------------------------------------------ */

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The unit belongs into the name, in its base form; `scale` turns the value into that. */
static void metric_name(char out[METRIC_BYTES], const larder__job_stat *s, double *scale) {
    static const struct {
        const char *unit, *suffix;
        double scale;
    } units[] = {{"bytes", "_bytes", 1},
                 {"seconds", "_seconds", 1},
                 {"percent", "_ratio", 0.01},
                 {"samples/s", "_samples_per_second", 1}};
    const char *suffix = "";
    *scale = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(s->unit, units[i].unit) == 0) {
            suffix = ends_with(s->name, units[i].suffix) ? "" : units[i].suffix;
            *scale = units[i].scale;
        }
    snprintf(out, METRIC_BYTES, "larder_%s%s%s", s->name, suffix, s->type == 'c' ? "_total" : "");
    for (char *c = out; *c; c++) /* another process has named it */
        if (!isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80)
            *c = '_';
}

static void label_text(FILE *to, const char *text) {
    while (*text) {
        char one[LARDER__SHOWN_BYTES];
        text += larder__shown_one(one, text);
        if (one[0] == '\\' || one[0] == '"')
            fputc('\\', to);
        fputs(one, to);
    }
}

/* In HELP a quote stays what it is. */
static void help_text(FILE *to, const char *text) {
    while (*text) {
        char one[LARDER__SHOWN_BYTES];
        text += larder__shown_one(one, text);
        if (one[0] == '\\')
            fputc('\\', to);
        fputs(one, to);
    }
}

static void head(FILE *to, const char *name, const char *type, const char *help) {
    fprintf(to, "# HELP %s ", name);
    help_text(to, *help ? help : "no words on it");
    fprintf(to, "\n# TYPE %s %s\n", name, type);
}

static void number(FILE *to, double v) {
    if (isnan(v))
        fputs("NaN\n", to);
    else if (isinf(v))
        fputs(v > 0 ? "+Inf\n" : "-Inf\n", to);
    else
        fprintf(to, "%.17g\n", v);
}

/* `job` is what Prometheus calls the target itself, and renames; it was larder's label until 0.1.
 */
static void whose(FILE *to, const larder__job *j) {
    fprintf(to, "larder_job=\"%" PRIu64 ".%" PRIu64 "\",job=\"%" PRIu64 ".%" PRIu64 "\"", j->pid,
            j->number, j->pid, j->number);
}

static void value(FILE *to, const char *name, const larder__job *job, const char *label,
                  const char *of, double v) {
    fprintf(to, "%s{", name);
    whose(to, job);
    if (label)
        fprintf(to, ",%s=\"", label), label_text(to, of), fputc('"', to);
    fputs("} ", to);
    number(to, v);
}

/* ---- figures of jobs ------------------------------------------------------------------------- */

static void summary(FILE *to, const char *name, const larder__job *job, const larder__job_stat *s) {
    char part[METRIC_BYTES + 8];
    value(to, name, job, "quantile", "0.5", s->p50);
    value(to, name, job, "quantile", "0.9", s->p90);
    value(to, name, job, "quantile", "0.99", s->p99);
    snprintf(part, sizeof part, "%s_sum", name);
    value(to, part, job, NULL, NULL, s->value * (double)s->count);
    snprintf(part, sizeof part, "%s_count", name);
    value(to, part, job, NULL, NULL, (double)s->count);
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* "larder_batch_wait_seconds" for stall_seconds: what those guess who have not seen the code. The
 * summaries keep their names for as long as they are there. */
static void histogram_name(char out[METRIC_BYTES], const larder__job_stat *s) {
    static const struct {
        const char *figure, *name;
    } better[] = {{"stall_seconds", "larder_batch_wait_seconds"},
                  {"fill_seconds", "larder_batch_fill_seconds"}};
    double scale;
    for (size_t i = 0; i < sizeof better / sizeof *better; i++)
        if (strcmp(s->name, better[i].figure) == 0) {
            snprintf(out, METRIC_BYTES, "%s", better[i].name);
            return;
        }
    metric_name(out, s, &scale);
    char *end = out + strlen(out) - strlen("_seconds");
    if (end > out && strcmp(end, "_seconds") == 0)
        snprintf(end, METRIC_BYTES - (size_t)(end - out), "_duration_seconds");
}

/* What another process says of itself: so many numbers that do not fall. */
static bool read_below(const char *text, uint64_t out[LARDER__STAT_BOUNDS + 1]) {
    for (size_t k = 0; k <= LARDER__STAT_BOUNDS; k++) {
        size_t n = strspn(text, "0123456789");
        char digits[24];
        snprintf(digits, sizeof digits, "%.*s", (int)(n < 20 ? n : 20), text);
        out[k] = strtoull(digits, NULL, 10);
        if (n == 0 || n > 19 || (k > 0 && out[k] < out[k - 1]) ||
            text[n] != (k < LARDER__STAT_BOUNDS ? ',' : '\0'))
            return false;
        text += n + 1;
    }
    return true;
}

static void buckets(FILE *to, const char *name, const larder__job *job, const larder__job_stat *s) {
    uint64_t below[LARDER__STAT_BOUNDS + 1];
    char part[METRIC_BYTES + 8], bound[32];
    if (!read_below(s->below, below))
        return;
    snprintf(part, sizeof part, "%s_bucket", name);
    for (size_t k = 0; k <= LARDER__STAT_BOUNDS; k++) {
        snprintf(bound, sizeof bound, k < LARDER__STAT_BOUNDS ? "%.9g" : "+Inf",
                 larder__stat_bound(k < LARDER__STAT_BOUNDS ? k : 0));
        value(to, part, job, "le", bound, (double)below[k]);
    }
    snprintf(part, sizeof part, "%s_sum", name);
    value(to, part, job, NULL, NULL, s->value * (double)below[LARDER__STAT_BOUNDS]);
    snprintf(part, sizeof part, "%s_count", name);
    value(to, part, job, NULL, NULL, (double)below[LARDER__STAT_BOUNDS]);
}

static void histogram(FILE *to, const larder__job *jobs, size_t count,
                      const larder__job_stat *like) {
    char name[METRIC_BYTES];
    histogram_name(name, like);
    head(to, name, "histogram", like->help);
    for (size_t i = 0; i < count; i++) {
        const larder__job_stat *s = larder__job_find(&jobs[i], like->name);
        if (s && s->type == 'h')
            buckets(to, name, &jobs[i], s);
    }
}

/* Of all jobs that have it: a count of rows and a count of samples are one metric. */
static void figure(FILE *to, const larder__job *jobs, size_t count, const larder__job_stat *like) {
    char name[METRIC_BYTES];
    double scale;
    metric_name(name, like, &scale);
    head(to, name,
         like->type == 'c'   ? "counter"
         : like->type == 'h' ? "summary"
                             : "gauge",
         like->help);
    for (size_t i = 0; i < count; i++) {
        const larder__job_stat *s = larder__job_find(&jobs[i], like->name);
        char own[METRIC_BYTES];
        if (!s || s->type != like->type)
            continue;
        metric_name(own, s, &scale);
        if (strcmp(own, name) != 0)
            continue;
        if (s->type == 'h')
            summary(to, name, &jobs[i], s);
        else
            value(to, name, &jobs[i], NULL, NULL, s->value * scale);
    }
}

typedef struct seen {
    char names[SEEN][METRIC_BYTES];
    size_t count;
} seen;

static bool is_new(seen *s, const char *name) {
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return false;
    if (s->count == SEEN)
        return false;
    snprintf(s->names[s->count++], METRIC_BYTES, "%s", name);
    return true;
}

/* The parts of a step have a metric of their own, by label; and so have figures that a paper calls
 * by a letter, which would be taken for a unit at the end of a name. */
static bool is_letter(const char *name) { return strlen(name) < 3; }
static bool is_apart(const char *name) {
    return strncmp(name, "wait_", 5) == 0 || strcmp(name, "training") == 0 || is_letter(name);
}

static void letters(FILE *to, const larder__job *jobs, size_t count) {
    head(to, "larder_recipe_figure", "gauge", "what recipes show under a letter, such as h");
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < jobs[i].stat_count; k++)
            if (is_letter(jobs[i].stats[k].name))
                value(to, "larder_recipe_figure", &jobs[i], "figure", jobs[i].stats[k].name,
                      jobs[i].stats[k].value);
}

/* ---- jobs as such ---------------------------------------------------------------------------- */

static void info(FILE *to, const larder__job *j) {
    const struct {
        const char *label, *text;
    } labels[] = {{"kind", j->kind},
                  {"name", j->name},
                  {"recipe", j->recipe},
                  {"source", j->source},
                  {"cache", j->cache}};
    fputs("larder_job_info{", to);
    whose(to, j);
    fprintf(to, ",pid=\"%" PRIu64 "\"", j->pid);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        fprintf(to, ",%s=\"", labels[i].label);
        label_text(to, labels[i].text);
        fputc('"', to);
    }
    fputs("} 1\n", to);
}

/* A series each, of which one is 1: none comes or goes while the job runs. */
static void one_of(FILE *to, const char *name, const char *label, const char *const *all,
                   const larder__job *j, const char *is) {
    for (size_t i = 0; all[i]; i++)
        value(to, name, j, label, all[i], strcmp(all[i], is) == 0);
}

static void states(FILE *to, const larder__job *jobs, size_t count) {
    static const char *const all[] = {"waiting", "running", "done", "failed", "cancelled", NULL};
    static const char *const parts[] = {"training", "storage",  "decode", "augment",
                                        "cache",    "assembly", NULL};
    head(to, "larder_job_state", "gauge", "1 for the state that a job is in");
    for (size_t i = 0; i < count; i++)
        one_of(to, "larder_job_state", "state", all, &jobs[i], jobs[i].state);
    head(to, "larder_job_bottleneck", "gauge", "1 for what held it up over the whole run");
    for (size_t i = 0; i < count; i++)
        one_of(to, "larder_job_bottleneck", "part", parts, &jobs[i], jobs[i].bottleneck);
}

static void steps(FILE *to, const larder__job *j) {
    const struct {
        const char *part;
        double seconds;
    } parts[] = {{"training", j->training}, {"storage", j->storage}, {"decode", j->decode},
                 {"augment", j->augment},   {"cache", j->deciding},  {"assembly", j->assembly}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        value(to, "larder_step_seconds_total", j, "part", parts[i].part, parts[i].seconds);
}

static void of_each(FILE *to, const larder__job *jobs, size_t count, const char *name,
                    const char *help, double (*get)(const larder__job *)) {
    head(to, name, "gauge", help);
    for (size_t i = 0; i < count; i++)
        value(to, name, &jobs[i], NULL, NULL, get(&jobs[i]));
}

static double get_uptime(const larder__job *j) { return j->uptime; }
static double get_epoch(const larder__job *j) { return (double)j->epoch; }
static const larder__job_epoch *newest(const larder__job *j) {
    return j->past_count ? &j->past[j->past_count - 1] : NULL;
}
static double get_loss(const larder__job *j) { return newest(j) ? newest(j)->loss : (double)NAN; }
static double get_accuracy(const larder__job *j) {
    for (size_t i = j->past_count; i-- > 0;)
        if (isfinite(j->past[i].accuracy))
            return j->past[i].accuracy;
    return (double)NAN;
}

void larder__prometheus_write(FILE *to, const larder__job *jobs, size_t count) {
    head(to, "larder_build_info", "gauge", "the version that answers");
    fprintf(to, "larder_build_info{version=\"%s\"} 1\n", LARDER_VERSION);
    head(to, "larder_jobs", "gauge", "jobs of this user that are running");
    fprintf(to, "larder_jobs %zu\n", count);
    head(to, "larder_job_info", "gauge", "what a job is, by its labels");
    for (size_t i = 0; i < count; i++)
        info(to, &jobs[i]);
    states(to, jobs, count);
    of_each(to, jobs, count, "larder_job_uptime_seconds", "since the job began", get_uptime);
    of_each(to, jobs, count, "larder_job_epoch", "epoch under way, counted from 1", get_epoch);
    of_each(to, jobs, count, "larder_job_loss", "mean loss reported in this epoch", get_loss);
    of_each(to, jobs, count, "larder_job_accuracy_ratio", "last validation accuracy reported",
            get_accuracy);
    head(to, "larder_step_seconds_total", "counter",
         "time of training steps: the step itself, and what it waited for");
    for (size_t i = 0; i < count; i++)
        steps(to, &jobs[i]);
    letters(to, jobs, count);
    seen names = {.count = 0};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < jobs[i].stat_count; k++) {
            char name[METRIC_BYTES];
            double scale;
            metric_name(name, &jobs[i].stats[k], &scale);
            if (is_apart(jobs[i].stats[k].name) || !is_new(&names, name))
                continue;
            figure(to, jobs, count, &jobs[i].stats[k]);
            if (jobs[i].stats[k].type == 'h')
                histogram(to, jobs, count, &jobs[i].stats[k]);
        }
}
