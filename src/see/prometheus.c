#include "see/prometheus.h"

#include "base/escape.h"
#include "base/stat.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_BYTES = 96, SEEN = 512 }; /* names at most; JOB_STATS of a job, and jobs are alike */

/* The page so far. Prometheus refuses all of one on which a name stands twice, and figures have
 * whatever names the writer of a recipe liked. */
typedef struct metrics {
    FILE *to;
    const larder__job *jobs;
    size_t job_count, count;
    struct {
        char name[METRIC_BYTES], type;
        const larder__job_stat *like; /* NULL: of jobs as such */
    } seen[SEEN];
} metrics;

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

/* ---- the names of a page --------------------------------------------------------------------- */

/* "x_sum" of a summary or histogram "x" */
static bool is_part(const char *name, const char *of, char type) {
    size_t n = strlen(of);
    return type == 'h' && strncmp(name, of, n) == 0 &&
           (strcmp(name + n, "_sum") == 0 || strcmp(name + n, "_count") == 0 ||
            strcmp(name + n, "_bucket") == 0);
}

static bool is_taken(const metrics *m, const char *name, char type) {
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->seen[i].name, name) == 0 || is_part(name, m->seen[i].name, m->seen[i].type) ||
            is_part(m->seen[i].name, name, type))
            return true;
    return false;
}

/* Begins a metric; where another has that name, with a number behind it, which stays in `name`. */
static void head(metrics *m, char name[METRIC_BYTES], const char *kind, const char *help,
                 const larder__job_stat *like) {
    enum { NUMBER = 8 };
    char type = like ? like->type : 'g';
    size_t n = strnlen(name, METRIC_BYTES - NUMBER);
    for (unsigned i = 2; is_taken(m, name, type); i++)
        snprintf(name + n, METRIC_BYTES - n, "_%u", i);
    if (m->count < SEEN) {
        snprintf(m->seen[m->count].name, METRIC_BYTES, "%s", name);
        m->seen[m->count].type = type;
        m->seen[m->count++].like = like;
    }
    fprintf(m->to, "# HELP %s ", name);
    help_text(m->to, *help ? help : "no words on it");
    fprintf(m->to, "\n# TYPE %s %s\n", name, kind);
}

static void head_of_jobs(metrics *m, const char *name, const char *kind, const char *help) {
    char own[METRIC_BYTES];
    snprintf(own, sizeof own, "%s", name);
    head(m, own, kind, help, NULL);
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
    size_t n = strlen(out) - (ends_with(out, "_seconds") ? strlen("_seconds") : 0);
    snprintf(out + n, METRIC_BYTES - n, out[n] ? "_duration_seconds" : "_distribution");
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

/* A count of rows and a count of samples are one metric. */
static bool is_alike(const larder__job_stat *a, const larder__job_stat *b) {
    char x[METRIC_BYTES], y[METRIC_BYTES];
    double scale;
    if (a->type != b->type || strcmp(a->name, b->name) != 0)
        return false;
    metric_name(x, a, &scale);
    metric_name(y, b, &scale);
    return strcmp(x, y) == 0;
}

static void histogram(metrics *m, const larder__job_stat *like) {
    char name[METRIC_BYTES];
    histogram_name(name, like);
    head(m, name, "histogram", like->help, like);
    for (size_t i = 0; i < m->job_count; i++) {
        const larder__job_stat *s = larder__job_find(&m->jobs[i], like->name);
        if (s && is_alike(s, like))
            buckets(m->to, name, &m->jobs[i], s);
    }
}

/* Of all jobs that have it. */
static void figure(metrics *m, const larder__job_stat *like) {
    char name[METRIC_BYTES], own[METRIC_BYTES];
    double scale;
    metric_name(name, like, &scale);
    head(m, name,
         like->type == 'c'   ? "counter"
         : like->type == 'h' ? "summary"
                             : "gauge",
         like->help, like);
    for (size_t i = 0; i < m->job_count; i++) {
        const larder__job_stat *s = larder__job_find(&m->jobs[i], like->name);
        if (!s || !is_alike(s, like))
            continue;
        metric_name(own, s, &scale);
        if (s->type == 'h')
            summary(m->to, name, &m->jobs[i], s);
        else
            value(m->to, name, &m->jobs[i], NULL, NULL, s->value * scale);
    }
    if (like->type == 'h')
        histogram(m, like);
}

static bool is_new(const metrics *m, const larder__job_stat *s) {
    for (size_t i = 0; i < m->count; i++)
        if (m->seen[i].like && is_alike(m->seen[i].like, s))
            return false;
    return m->count < SEEN;
}

/* The parts of a step have a metric of their own, by label; and so have figures that a paper calls
 * by a letter, which would be taken for a unit at the end of a name. */
static bool is_letter(const char *name) { return strlen(name) < 3; }
static bool is_apart(const char *name) {
    return strncmp(name, "wait_", 5) == 0 || strcmp(name, "training") == 0 || is_letter(name);
}

static void letters(metrics *m) {
    head_of_jobs(m, "larder_recipe_figure", "gauge", "what recipes show under a letter, such as h");
    for (size_t i = 0; i < m->job_count; i++)
        for (size_t k = 0; k < m->jobs[i].stat_count; k++) {
            const larder__job_stat *s = &m->jobs[i].stats[k];
            if (is_letter(s->name) && larder__job_find(&m->jobs[i], s->name) == s)
                value(m->to, "larder_recipe_figure", &m->jobs[i], "figure", s->name, s->value);
        }
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

static void states(metrics *m) {
    static const char *const all[] = {"waiting", "running", "done", "failed", "cancelled", NULL};
    static const char *const parts[] = {"training", "storage",  "decode", "augment",
                                        "cache",    "assembly", NULL};
    head_of_jobs(m, "larder_job_state", "gauge", "1 for the state that a job is in");
    for (size_t i = 0; i < m->job_count; i++)
        one_of(m->to, "larder_job_state", "state", all, &m->jobs[i], m->jobs[i].state);
    head_of_jobs(m, "larder_job_bottleneck", "gauge", "1 for what held it up over the whole run");
    for (size_t i = 0; i < m->job_count; i++)
        one_of(m->to, "larder_job_bottleneck", "part", parts, &m->jobs[i], m->jobs[i].bottleneck);
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

static void of_each(metrics *m, const char *name, const char *help,
                    double (*get)(const larder__job *)) {
    head_of_jobs(m, name, "gauge", help);
    for (size_t i = 0; i < m->job_count; i++)
        value(m->to, name, &m->jobs[i], NULL, NULL, get(&m->jobs[i]));
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
    metrics m = {.to = to, .jobs = jobs, .job_count = count};
    head_of_jobs(&m, "larder_build_info", "gauge", "the version that answers");
    fprintf(to, "larder_build_info{version=\"%s\"} 1\n", LARDER_VERSION);
    head_of_jobs(&m, "larder_jobs", "gauge", "jobs of this user that are running");
    fprintf(to, "larder_jobs %zu\n", count);
    head_of_jobs(&m, "larder_job_info", "gauge", "what a job is, by its labels");
    for (size_t i = 0; i < count; i++)
        info(to, &jobs[i]);
    states(&m);
    of_each(&m, "larder_job_uptime_seconds", "since the job began", get_uptime);
    of_each(&m, "larder_job_epoch", "epoch under way, counted from 1", get_epoch);
    of_each(&m, "larder_job_loss", "mean loss reported in this epoch", get_loss);
    of_each(&m, "larder_job_accuracy_ratio", "last validation accuracy reported", get_accuracy);
    head_of_jobs(&m, "larder_step_seconds_total", "counter",
                 "time of training steps: the step itself, and what it waited for");
    for (size_t i = 0; i < count; i++)
        steps(to, &jobs[i]);
    letters(&m);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < jobs[i].stat_count; k++)
            if (!is_apart(jobs[i].stats[k].name) && is_new(&m, &jobs[i].stats[k]))
                figure(&m, &jobs[i].stats[k]);
}
