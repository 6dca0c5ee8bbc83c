/* The tables of a report: every run, and mean and spread over seeds; as text, Markdown and JSON. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the table, once for both faces ---------------------------------------------------------- */

typedef struct run_column {
    const char *head, *help;
    void (*cell)(char *out, size_t cap, const larder__run *, const larder__epoch *total);
} run_column;

/* What cannot be known is a dash, never a 0. */
static void print_number(char *out, size_t cap, const char *format, double v) {
    if (!isfinite(v)) {
        snprintf(out, cap, "-");
        return;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, cap, format, v);
#pragma GCC diagnostic pop
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : (double)NAN;
}

#define CELL(name)                                                                                 \
    static void name(char *out, size_t cap, const larder__run *run, const larder__epoch *t)

CELL(cell_name) { (void)t, snprintf(out, cap, "%s", run->meta.name); }
CELL(cell_seed) { (void)t, snprintf(out, cap, "%" PRIu64, run->meta.seed); }
CELL(cell_bottleneck) {
    (void)run, snprintf(out, cap, "%s", t->plan_bottleneck[0] ? t->plan_bottleneck : "-");
}
CELL(cell_cache) { (void)t, snprintf(out, cap, "%s", run->meta.cache); }
CELL(cell_epochs) {
    snprintf(out, cap, "%" PRIu64 "%s", t->epoch, larder__run_whole(run) ? "" : "*");
}
CELL(cell_time) { (void)run, print_number(out, cap, "%.1f", t->seconds); }
CELL(cell_stall) { (void)run, print_number(out, cap, "%.0f", 100 * t->stall_seconds / t->seconds); }
CELL(cell_reads) {
    (void)run;
    snprintf(out, cap, "%" PRIu64, t->misses + t->background_reads + t->evaluation_reads);
}
CELL(cell_scratch) { (void)run, print_number(out, cap, "%.1f", (double)t->scratch_bytes / 1e6); }
CELL(cell_written) { (void)run, print_number(out, cap, "%.1f", (double)t->scratch_written / 1e6); }
CELL(cell_fill) { (void)run, print_number(out, cap, "%.2f", 1e3 * t->fill_mean); }
CELL(cell_fill_sd) { (void)run, print_number(out, cap, "%.2f", 1e3 * t->fill_sd); }
CELL(cell_bytes) { (void)run, print_number(out, cap, "%.1f", (double)t->storage_bytes / 1e6); }
CELL(cell_requests) { (void)run, print_number(out, cap, "%.0f", t->requests); }
CELL(cell_hits) { (void)run, print_number(out, cap, "%.1f", share(t->hits, t->served)); }
CELL(cell_subs) { (void)run, print_number(out, cap, "%.1f", share(t->substitutes, t->served)); }
CELL(cell_repeats) { (void)run, print_number(out, cap, "%.1f", share(t->repeats, t->served)); }
CELL(cell_forms) {
    (void)run;
    double shrunk = t->hits_shrunk > 0 ? t->hits_shrunk : 0;
    double all = t->hits_encoded + t->hits_decoded + t->hits_augmented + shrunk;
    if (all > 0 && shrunk > 0)
        snprintf(out, cap, "%.0f/%.0f/%.0f/%.0f", 100 * t->hits_encoded / all,
                 100 * t->hits_decoded / all, 100 * t->hits_augmented / all, 100 * shrunk / all);
    else if (all > 0)
        snprintf(out, cap, "%.0f/%.0f/%.0f", 100 * t->hits_encoded / all,
                 100 * t->hits_decoded / all, 100 * t->hits_augmented / all);
    else
        snprintf(out, cap, "-");
}
CELL(cell_tiers) {
    (void)run;
    double all = (double)(t->hits + t->substitutes);
    if (all > 0 && isfinite(t->hits_front))
        snprintf(out, cap, "%.0f/%.0f", 100 * t->hits_front / all,
                 100 * (all - t->hits_front) / all);
    else
        snprintf(out, cap, "-");
}
CELL(cell_misses) { (void)run, print_number(out, cap, "%.1f", share(t->misses, t->served)); }
CELL(cell_gap) { (void)run, print_number(out, cap, "%.4f", t->gap); }
CELL(cell_accuracy) { (void)run, print_number(out, cap, "%.2f", 100 * t->accuracy); }
CELL(cell_best) { (void)t, print_number(out, cap, "%.2f", 100 * larder__run_best(run)); }

static const run_column columns[] = {
    {"run", "recipe, or the name given to the run", cell_name},
    {"cache", "its budget", cell_cache},
    {"seed", "of order, augmentation and weights", cell_seed},
    {"epochs", "trained; * if the run did not end by itself", cell_epochs},
    {"acc %", "on the test part after the last epoch", cell_accuracy},
    {"time s", "of training, waiting included, validation not", cell_time},
    {"stall %", "share of the time spent waiting for data", cell_stall},
    {"read MB", "bytes read from storage, in millions", cell_bytes},
    {"hits %", "served from memory, the sample that was asked for", cell_hits},
    {"subst %", "another sample served from memory instead", cell_subs},
    {"repeats %", "served again in the same epoch, however it came", cell_repeats},
    {"misses %", "read from storage for this request", cell_misses},
    {"gap", "loss of fresh samples less that of reused ones, last epoch: what reuse memorises",
     cell_gap},
    {"best %", "the best of all epochs", cell_best},
    {"reads", "samples read from storage: misses, background and evaluation", cell_reads},
    {"requests", "to storage for these bytes, as the source made them", cell_requests},
    {"fill ms", "mean time to fill a batch, from its first row taken to its last", cell_fill},
    {"sd ms", "standard deviation of that", cell_fill_sd},
    {"scratch MB", "bytes read from packages in the scratch folder, in no other column",
     cell_scratch},
    {"laid MB", "bytes written there", cell_written},
    {"forms %", "hits from encoded/decoded/augmented samples, and shrunk ones", cell_forms},
    {"tiers %", "hits from memory in front/from Redis or the disk behind", cell_tiers},
    {"held up by", "what limited feeding when plan=auto last shared the cache out",
     cell_bottleneck},
};
enum { COLUMNS = sizeof columns / sizeof *columns, CELL_BYTES = LARDER__CELL_BYTES };

static const char *run_head(const void *arg, size_t column, const char **help) {
    (void)arg;
    *help = columns[column].help;
    return columns[column].head;
}

typedef struct run_list {
    const larder__run *runs;
    const larder__epoch *totals;
} run_list;

static void run_cell(const void *arg, size_t row, size_t column, char out[CELL_BYTES]) {
    const run_list *l = arg;
    columns[column].cell(out, CELL_BYTES, &l->runs[row], &l->totals[row]);
}

/* What a narrow terminal shows before all else: how good, at what price, and what was served for
 * it; and what tells rows apart, or that one has not ended. */
static bool kept(const larder__table *t, size_t column) {
    static const char *const always[] = {"acc %",   "time s",    "read MB", "hits %",
                                         "subst %", "repeats %", "misses %"};
    static const char *const telling[] = {"cache", "seed", "seeds", "epochs"};
    char first[CELL_BYTES], cell[CELL_BYTES];
    const char *help, *head = t->head(t->arg, column, &help);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(head, always[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        for (size_t row = 0; strcmp(head, telling[i]) == 0 && row < t->rows; row++) {
            t->cell(t->arg, 0, column, first);
            t->cell(t->arg, row, column, cell);
            if (strcmp(first, cell) != 0 || strchr(cell, '*'))
                return true;
        }
    return false;
}

/* Every run by itself. */
int larder__runs_table(FILE *to, const larder__run *runs, size_t count, size_t room,
                       larder__table_fn *write) {
    larder__epoch *totals = larder__calloc(count + 1, sizeof *totals);
    if (!totals)
        return larder__fail(LARDER_E_NOMEM, "report: no memory for a table");
    for (size_t i = 0; i < count; i++)
        totals[i] = larder__run_total(&runs[i]);
    run_list list = {runs, totals};
    larder__table t = {.rows = count,
                       .columns = COLUMNS,
                       .head = run_head,
                       .cell = run_cell,
                       .arg = &list,
                       .title = "every run",
                       .room = room,
                       .kept = kept};
    write(to, &t);
    larder__free(totals);
    return 0;
}

/* ---- groups: mean and spread over seeds ------------------------------------------------------ */

enum { GROUP_COLUMNS = 4 }; /* before the figures */

typedef struct group_view {
    const larder__seed_groups *groups;
    size_t from; /* of the metrics; the short table has its own choice of them */
    bool is_short;
} group_view;

static size_t first_batch_time(void) {
    size_t i = 0;
    while (larder__metrics[i].name && strncmp(larder__metrics[i].name, "wait_", 5) != 0)
        i++;
    return i;
}

/* What an 80-column terminal has room for: accuracy, what it took, and what was done for it. */
static const struct {
    const char *head, *metric;
} short_columns[] = {{"run", NULL},
                     {"acc %", "accuracy"},
                     {"time s", "seconds"},
                     {"wait %", "waiting"},
                     {"read MB", "storage_megabytes"},
                     {"hits %", "hits"},
                     {"subst %", "substitutes"},
                     {"repeat %", "repeats"}};
enum { SHORT_COLUMNS = sizeof short_columns / sizeof *short_columns };

static const larder__metric *metric_at(const group_view *v, size_t at) {
    return v->is_short ? larder__metric_named(short_columns[at].metric)
                       : &larder__metrics[v->from + at - GROUP_COLUMNS];
}

static const char *group_head(const void *arg, size_t at, const char **help) {
    static const char *const names[GROUP_COLUMNS] = {"runs of", "cache", "seeds", "epochs"};
    static const char *const helps[GROUP_COLUMNS] = {
        "runs that differ in nothing but their seed", "its budget",
        "runs that mean and deviation are over", "trained by each of them"};
    const group_view *v = arg;
    bool figure = at >= (v->is_short ? 1 : GROUP_COLUMNS);
    *help = figure ? metric_at(v, at)->help : helps[at];
    return v->is_short ? short_columns[at].head : figure ? metric_at(v, at)->head : names[at];
}

void larder__print_spread(char *out, size_t cap, const larder__spread *s, int decimals) {
    if (s->n == 0)
        snprintf(out, cap, "-");
    else if (s->n == 1)
        snprintf(out, cap, "%.*f", decimals, s->mean);
    else
        snprintf(out, cap, "%.*f ± %.*f", decimals, s->mean, decimals, s->sd);
}

/* All runs of a group went equally far. */
static bool cut_short(const larder__seed_group *g) { return !larder__run_whole(g->runs[0]); }

/* Three digits, or four, and accuracy with all of its own. */
static int short_decimals(const larder__metric *m, const larder__spread *s) {
    bool share = strcmp(m->head + strlen(m->head) - 1, "%") == 0;
    return m->decimals == 1 && (share || s->mean >= 100) ? 0 : m->decimals;
}

static void short_cell(const void *arg, size_t row, size_t at, char out[CELL_BYTES]) {
    const group_view *v = arg;
    const larder__seed_group *g = &v->groups->at[row];
    if (at == 0) {
        snprintf(out, CELL_BYTES, "%s%s", g->mean.meta.name, cut_short(g) ? "*" : "");
    } else {
        larder__spread s = larder__group_spread(g, metric_at(v, at));
        larder__print_spread(out, CELL_BYTES, &s, short_decimals(metric_at(v, at), &s));
    }
}

static void group_cell(const void *arg, size_t row, size_t at, char out[CELL_BYTES]) {
    const group_view *v = arg;
    const larder__seed_group *g = &v->groups->at[row];
    if (at == 0)
        snprintf(out, CELL_BYTES, "%s", g->mean.meta.name);
    else if (at == 1)
        snprintf(out, CELL_BYTES, "%s", g->mean.meta.cache);
    else if (at == 2)
        snprintf(out, CELL_BYTES, "%zu", g->count);
    else if (at == 3)
        snprintf(out, CELL_BYTES, "%zu", g->mean.count);
    else {
        larder__spread s = larder__group_spread(g, metric_at(v, at));
        larder__print_spread(out, CELL_BYTES, &s, metric_at(v, at)->decimals);
    }
}

void larder__groups_table(FILE *to, const larder__seed_groups *g, bool batch_times, size_t room,
                          larder__table_fn *write) {
    size_t from = batch_times ? first_batch_time() : 0;
    size_t end = batch_times ? larder__metric_count() : first_batch_time();
    group_view view = {.groups = g, .from = from};
    larder__table t = {.rows = g->count,
                       .columns = GROUP_COLUMNS + end - from,
                       .head = group_head,
                       .cell = group_cell,
                       .arg = &view,
                       .title = batch_times ? "batch times by recipe" : "results by recipe",
                       .coloured = true,
                       .room = room,
                       .kept = batch_times ? NULL : kept};
    write(to, &t);
}

/* Over how many seeds, for a heading: "3", or "1 to 3". */
static void print_seeds(FILE *to, const larder__seed_groups *g) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < g->count; i++) {
        least = g->at[i].count < least ? g->at[i].count : least;
        most = g->at[i].count > most ? g->at[i].count : most;
    }
    if (least < most)
        fprintf(to, "%zu to ", least);
    fprintf(to, "%zu", most);
}

int larder__report_short(FILE *to, const larder__run *runs, size_t count, larder__table_fn *write) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, runs, count);
    if (rc < 0)
        return rc;
    if (g.several) {
        fputs("mean ± standard deviation over ", to);
        print_seeds(to, &g);
        fputs(" seeds\n\n", to);
    }
    group_view view = {.groups = &g, .is_short = true};
    larder__table t = {.rows = g.count,
                       .columns = SHORT_COLUMNS,
                       .head = group_head,
                       .cell = short_cell,
                       .arg = &view};
    write(to, &t);
    for (size_t i = 0; i < g.count; i++)
        if (cut_short(&g.at[i])) {
            fputs("\n* ", to);
            larder__shown_print(to, g.at[i].mean.meta.name);
            fprintf(to, " has not ended: epoch %zu of %" PRIu64 "\n", g.at[i].mean.count,
                    g.at[i].mean.meta.epochs_asked);
        }
    larder__groups_free(&g);
    return ferror(to) ? larder__fail(LARDER_E_IO, "report: writing failed") : 0;
}

int larder__report_text(FILE *to, const larder__run *runs, size_t count, size_t room) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, runs, count);
    if (rc == 0 && g.several) {
        fputs("mean ± standard deviation over seeds\n", to);
        larder__groups_table(to, &g, false, room, larder__table_text);
        fputs("\nbatches: waited for by training (wait), and filled (fill), in ms\n", to);
        larder__groups_table(to, &g, true, room, larder__table_text);
        fputs("\nevery run\n", to);
    }
    if (rc == 0)
        rc = larder__runs_table(to, runs, count, room, larder__table_text);
    larder__groups_free(&g);
    return rc < 0 ? rc : ferror(to) ? larder__fail(LARDER_E_IO, "report: writing failed") : 0;
}

/* ---- Markdown and JSON ----------------------------------------------------------------------- */

int larder__report_md(FILE *to, const char *title, const larder__run *runs, size_t count) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, runs, count);
    if (rc < 0)
        return rc;
    fprintf(to, "# %s\n\n%s\n\n", title,
            g.several ? "Mean ± standard deviation over seeds." : "One run each.");
    larder__groups_table(to, &g, false, 0, larder__table_md);
    fputs("\nBatches: waited for by training (wait), and filled (fill), in ms.\n\n", to);
    larder__groups_table(to, &g, true, 0, larder__table_md);
    fputs("\n## Every run\n\n", to);
    rc = larder__runs_table(to, runs, count, 0, larder__table_md);
    fputs("\nlarder ", to);
    larder__shown_print(to, runs[0].meta.version);
    fputs("; ", to);
    larder__shown_print(to, runs[0].meta.machine);
    fputc('\n', to);
    larder__groups_free(&g);
    return rc < 0 ? rc : ferror(to) ? larder__fail(LARDER_E_IO, "report: writing failed") : 0;
}

int larder__report_json(FILE *to, const larder__run *runs, size_t count) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, runs, count);
    for (size_t i = 0; rc == 0 && i < g.count; i++) {
        larder__json j = {.to = to};
        larder__json_begin(&j);
        larder__json_text(&j, "name", g.at[i].mean.meta.name);
        larder__json_text(&j, "recipe", g.at[i].mean.meta.recipe);
        larder__json_text(&j, "cache", g.at[i].mean.meta.cache);
        larder__json_text(&j, "version", g.at[i].mean.meta.version);
        larder__json_text(&j, "machine", g.at[i].mean.meta.machine);
        larder__json_open(&j, "seeds", '[');
        for (size_t k = 0; k < g.at[i].count; k++)
            larder__json_u64(&j, NULL, g.at[i].runs[k]->meta.seed);
        larder__json_close(&j, ']');
        for (const larder__metric *m = larder__metrics; m->name; m++) {
            larder__spread s = larder__group_spread(&g.at[i], m);
            larder__json_open(&j, m->name, '{');
            larder__json_f64(&j, "mean", s.mean);
            larder__json_f64(&j, "sd", s.sd);
            larder__json_close(&j, '}');
        }
        larder__json_close(&j, '}');
    }
    larder__groups_free(&g);
    return rc;
}
