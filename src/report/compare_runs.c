#include "report/compare_runs.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "report/html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double level = 0.05;

/* ---- settings -------------------------------------------------------------------------------- */

typedef char larder__setting[256];

static void print_text(larder__setting out, const char *v) {
    snprintf(out, sizeof(larder__setting), "%s", v);
}
static void print_u64(larder__setting out, uint64_t v) {
    snprintf(out, sizeof(larder__setting), "%" PRIu64, v);
}
static void print_f64(larder__setting out, double v) {
    snprintf(out, sizeof(larder__setting), "%.9g", v);
}

/* A name and what was found to hold the job up are no settings; seeds differ within a group. */
static bool counts(const char *name) {
    return strcmp(name, "name") != 0 && strcmp(name, "seed") != 0 && strcmp(name, "verdict") != 0;
}

static void compare_settings(larder__comparison *c, const larder__meta *a, const larder__meta *b) {
    larder__setting left, right;
#define XX(kind, field)                                                                            \
    print_##kind(left, a->field);                                                                  \
    print_##kind(right, b->field);                                                                 \
    if (counts(#field) && strcmp(left, right) != 0 && c->setting_count < LARDER__COMPARED) {       \
        larder__difference *d = &c->settings[c->setting_count++];                                  \
        d->name = #field;                                                                          \
        memcpy(d->a, left, sizeof left);                                                           \
        memcpy(d->b, right, sizeof right);                                                         \
    }
    LARDER__META_FIELDS(XX)
#undef XX
}

/* ---- figures --------------------------------------------------------------------------------- */

void larder__compare(larder__comparison *out, const larder__seed_group *a,
                     const larder__seed_group *b) {
    *out = (larder__comparison){.a = a, .b = b, .told = a->count > 1 && b->count > 1};
    double p[LARDER__COMPARED];
    compare_settings(out, &a->runs[0]->meta, &b->runs[0]->meta);
    out->same_seeds =
        a->count == 1 && b->count == 1 && a->runs[0]->meta.seed == b->runs[0]->meta.seed;
    for (const larder__metric *m = larder__metrics; m->name; m++) {
        larder__figure_pair f = {
            .metric = m, .a = larder__group_spread(a, m), .b = larder__group_spread(b, m)};
        if ((f.a.n == 0 && f.b.n == 0) || out->figure_count == LARDER__COMPARED)
            continue;
        p[out->figure_count] = larder__welch(&f.a, &f.b);
        out->figures[out->figure_count++] = f;
    }
    size_t results = 0; /* before the times of batches, which are judged among themselves */
    while (results < out->figure_count &&
           strncmp(out->figures[results].metric->name, "wait_", 5) != 0)
        results++;
    larder__holm(p, results);
    larder__holm(p + results, out->figure_count - results);
    for (size_t i = 0; i < out->figure_count; i++) {
        out->figures[i].p = p[i];
        out->figures[i].beyond = p[i] < level; /* false for NAN */
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *figure_head(const void *arg, size_t column, const char **help) {
    (void)arg;
    static const char *const heads[] = {"figure", "first", "second", "difference", "p", "verdict"};
    *help = "";
    return heads[column];
}

static void figure_cell(const void *arg, size_t row, size_t column, char out[LARDER__CELL_BYTES]) {
    const larder__comparison *c = arg;
    const larder__figure_pair *f = &c->figures[row];
    double apart = f->b.mean - f->a.mean;
    if (column == 0)
        snprintf(out, LARDER__CELL_BYTES, "%s", f->metric->name);
    else if (column == 1 || column == 2)
        larder__print_spread(out, LARDER__CELL_BYTES, column == 1 ? &f->a : &f->b,
                             f->metric->decimals);
    else if (column == 3)
        snprintf(out, LARDER__CELL_BYTES, isfinite(apart) ? "%+.*f" : "-", f->metric->decimals,
                 apart);
    else if (column == 4)
        snprintf(out, LARDER__CELL_BYTES, isfinite(f->p) ? "%.3f" : "-", f->p);
    else
        snprintf(out, LARDER__CELL_BYTES, "%s",
                 f->beyond          ? "differs"
                 : isfinite(f->p)   ? "within the spread"
                 : apart == 0       ? "equal"
                 : !isfinite(apart) ? "one side has none"
                                    : "cannot be told");
}

static void print_side(FILE *to, const char *which, const larder__seed_group *g) {
    const larder__meta *m = &g->mean.meta;
    fprintf(to, "%-8s ", which);
    larder__shown_print(to, m->name);
    fputs(", cache ", to);
    larder__shown_print(to, m->cache);
    fprintf(to, ", %zu %s:", g->count, g->count == 1 ? "run, seed" : "runs, seeds");
    for (size_t i = 0; i < g->count; i++)
        fprintf(to, " %" PRIu64, g->runs[i]->meta.seed);
    fputs("\n", to);
}

int larder__compare_text(FILE *to, const larder__comparison *c) {
    print_side(to, "first:", c->a);
    print_side(to, "second:", c->b);
    fputs(c->setting_count ? "\nwhat is different\n" : "\nsettings, versions and machine agree\n",
          to);
    for (size_t i = 0; i < c->setting_count; i++) {
        fprintf(to, "  %-14s ", c->settings[i].name);
        larder__shown_print(to, c->settings[i].a[0] ? c->settings[i].a : "(none)");
        fputs("  |  ", to);
        larder__shown_print(to, c->settings[i].b[0] ? c->settings[i].b : "(none)");
        fputc('\n', to);
    }
    fputs("\n", to);
    larder__table t = {
        .rows = c->figure_count, .columns = 6, .head = figure_head, .cell = figure_cell, .arg = c};
    larder__table_text(to, &t);
    if (c->told)
        fputs("\nmean ± standard deviation over seeds; p: Welch's t test, corrected for the number "
              "of results\nand of batch times (Holm); differs: p below 0.05\n",
              to);
    else
        fprintf(to,
                "\nwith one seed on a side nothing can be told: the difference may be the seed's. "
                "Train both\nwith several seeds (3 to 5) and give them all, as in larder compare "
                "a1,a2,a3 b1,b2,b3.%s\n",
                c->same_seeds
                    ? " Counts of the cache repeat\nexactly with a seed; accuracy and time "
                      "do not."
                    : "");
    return ferror(to) ? larder__fail(LARDER_E_IO, "compare: writing failed") : 0;
}

static void json_side(larder__json *j, const char *key, const larder__seed_group *g) {
    larder__json_open(j, key, '{');
    larder__json_text(j, "name", g->mean.meta.name);
    larder__json_open(j, "seeds", '[');
    for (size_t i = 0; i < g->count; i++)
        larder__json_u64(j, NULL, g->runs[i]->meta.seed);
    larder__json_close(j, ']');
    larder__json_close(j, '}');
}

static void json_spread(larder__json *j, const char *key, const larder__spread *s) {
    larder__json_open(j, key, '{');
    larder__json_u64(j, "n", s->n);
    larder__json_f64(j, "mean", s->mean);
    larder__json_f64(j, "sd", s->sd);
    larder__json_close(j, '}');
}

int larder__compare_json(FILE *to, const larder__comparison *c) {
    larder__json j = {.to = to};
    larder__json_begin(&j);
    json_side(&j, "first", c->a);
    json_side(&j, "second", c->b);
    larder__json_bool(&j, "told", c->told);
    larder__json_text(&j, "rule", "Welch's t test, Holm's correction, p < 0.05");
    larder__json_open(&j, "settings", '{');
    for (size_t i = 0; i < c->setting_count; i++) {
        larder__json_open(&j, c->settings[i].name, '[');
        larder__json_text(&j, NULL, c->settings[i].a);
        larder__json_text(&j, NULL, c->settings[i].b);
        larder__json_close(&j, ']');
    }
    larder__json_close(&j, '}');
    larder__json_open(&j, "figures", '{');
    for (size_t i = 0; i < c->figure_count; i++) {
        const larder__figure_pair *f = &c->figures[i];
        larder__json_open(&j, f->metric->name, '{');
        json_spread(&j, "first", &f->a);
        json_spread(&j, "second", &f->b);
        larder__json_f64(&j, "difference", f->b.mean - f->a.mean);
        larder__json_f64(&j, "p", f->p);
        larder__json_bool(&j, "differs", f->beyond);
        larder__json_close(&j, '}');
    }
    larder__json_close(&j, '}');
    larder__json_close(&j, '}');
    return ferror(to) ? larder__fail(LARDER_E_IO, "compare: writing failed") : 0;
}
