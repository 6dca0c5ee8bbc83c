#include "report/html.h"

#include "base/err.h"
#include "base/mem.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the picture: accuracy against bytes ----------------------------------------------------- */

int larder__report_pareto(FILE *to, const larder__seed_groups *g) {
    enum { X, Y, DX, DY, ARRAYS };
    const larder__metric *megabytes = larder__metric_named("storage_megabytes");
    const larder__metric *accuracy = larder__metric_named("accuracy");
    larder__series *series = larder__calloc(g->count + 1, sizeof *series);
    double *room = larder__calloc(ARRAYS * (g->count + 1), sizeof *room);
    int rc = series && room ? 0 : larder__fail(LARDER_E_NOMEM, "report: no memory for a chart");
    for (size_t i = 0; rc == 0 && i < g->count; i++) {
        double *at = room + ARRAYS * i;
        larder__spread x = larder__group_spread(&g->at[i], megabytes);
        larder__spread y = larder__group_spread(&g->at[i], accuracy);
        at[X] = x.mean, at[Y] = y.mean, at[DX] = x.sd, at[DY] = y.sd;
        series[i] = (larder__series){.name = g->at[i].mean.meta.name,
                                     .n = 1,
                                     .x = at + X,
                                     .y = at + Y,
                                     .x_spread = at + DX,
                                     .y_spread = at + DY};
    }
    larder__chart c = {.kind = LARDER__CHART_POINTS,
                       .title = "Accuracy against bytes read: up and to the left is better",
                       .x_label = "MB read from storage in the whole run",
                       .y_label = "test accuracy, %",
                       .y_most = 100,
                       .series = series,
                       .count = g->count};
    if (rc == 0)
        rc = larder__chart_write(to, &c);
    larder__free(series);
    larder__free(room);
    return rc;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : (double)NAN;
}

/* ---- line charts over epochs ----------------------------------------------------------------- */

/* What an epoch puts on an axis; seconds and bytes of it are those of the run up to and with it. */
typedef double axis_fn(const larder__epoch *);

#define AXIS(name, value)                                                                          \
    static double axis_##name(const larder__epoch *e) { return value; }
#define AXIS_OF(field) AXIS(field, e->field)
AXIS(epoch, (double)e->epoch + 1)
AXIS(megabytes, (double)e->storage_bytes / 1e6)
AXIS(accuracy, 100 * e->accuracy)
AXIS(hits, share(e->hits, e->served))
AXIS_OF(seconds)
AXIS_OF(h)
AXIS_OF(fresh_loss)
AXIS_OF(reused_loss)
AXIS_OF(gap)
AXIS_OF(ratio)
AXIS_OF(sigma)
AXIS_OF(slope)
AXIS_OF(beta)
AXIS_OF(u)
AXIS_OF(plan_encoded)
AXIS_OF(plan_decoded)
AXIS_OF(plan_augmented)

typedef struct line_chart {
    const char *title, *x_label, *y_label;
    axis_fn *x, *y;
    double most; /* of y; 0: it has none */
} line_chart;

static const line_chart over_time = {"Accuracy over time", "seconds of training",
                                     "test accuracy, %",   axis_seconds,
                                     axis_accuracy,        100};

static const line_chart all_have[] = {
    {"Accuracy over bytes read", "MB read from storage", "test accuracy, %", axis_megabytes,
     axis_accuracy, 100},
    {"Storage read so far", "epoch", "MB read from storage", axis_epoch, axis_megabytes, 0},
    {"Hits of each epoch", "epoch", "% of samples served", axis_epoch, axis_hits, 100},
};

/* Figures that only some recipes have, in the order of their causes. */
#define OWN(title, y_label, y)                                                                     \
    { title, "epoch", y_label, axis_epoch, y, 0 }
static const line_chart some_have[] = {
    OWN("Reuse", "h, share of a batch drawn from memory", axis_h),
    OWN("Loss of fresh samples", "mean, before training on them", axis_fresh_loss),
    OWN("Loss of reused samples", "mean, of those that came within an epoch", axis_reused_loss),
    OWN("What reuse memorises", "gap: fresh less reused loss", axis_gap),
    OWN("Cache for important samples", "ratio of the budget; the rest is for hubs", axis_ratio),
    OWN("Spread of the scores", "sigma, standard deviation", axis_sigma),
    OWN("Slope of the spread", "smoothed, an epoch; the ratio moves after two below 0", axis_slope),
    OWN("Elastic manager", "beta: 1 once it has started", axis_beta),
    OWN("Growth of accuracy", "u: 1 holds the ratio back, 0 lets it move", axis_u),
    OWN("Cache for encoded samples", "percent, as planned", axis_plan_encoded),
    OWN("Cache for decoded samples", "percent, as planned", axis_plan_decoded),
    OWN("Cache for augmented samples", "percent, as planned", axis_plan_augmented),
};
#undef OWN

static bool any_has(axis_fn *y, const larder__seed_groups *g) {
    for (size_t i = 0; i < g->count; i++)
        for (size_t k = 0; k < g->at[i].mean.count; k++)
            if (isfinite(y(&g->at[i].mean.epochs[k])))
                return true;
    return false;
}

static void fill_lines(const larder__run *run, const line_chart *c, double *xs, double *ys) {
    double seconds = 0;
    uint64_t bytes = 0;
    for (size_t k = 0; k < run->count; k++) {
        larder__epoch e = run->epochs[k];
        e.seconds = seconds += e.seconds;
        e.storage_bytes = bytes += e.storage_bytes;
        xs[k] = c->x(&e);
        ys[k] = c->y(&e);
    }
}

/* Every seed's line is filled in turn and taken into sums of squares about the mean line. */
static void fill_spreads(const larder__seed_group *g, const line_chart *c, larder__series *s,
                         double *room) {
    double *dx = room, *dy = dx + s->n, *xs = dy + s->n, *ys = xs + s->n;
    for (size_t r = 0; r < g->count; r++) {
        fill_lines(g->runs[r], c, xs, ys);
        for (size_t k = 0; k < s->n; k++) {
            dx[k] += (xs[k] - s->x[k]) * (xs[k] - s->x[k]);
            dy[k] += (ys[k] - s->y[k]) * (ys[k] - s->y[k]);
        }
    }
    for (size_t k = 0; g->count > 1 && k < s->n; k++) {
        dx[k] = sqrt(dx[k] / (double)(g->count - 1));
        dy[k] = sqrt(dy[k] / (double)(g->count - 1));
    }
    s->x_spread = g->count > 1 ? dx : NULL;
    s->y_spread = g->count > 1 ? dy : NULL;
}

static int html_lines(FILE *to, const line_chart *c, const larder__seed_groups *g) {
    enum { ARRAYS = 6 };
    size_t points = 0, at = 0;
    for (size_t i = 0; i < g->count; i++)
        points += g->at[i].mean.count;
    larder__series *series = larder__calloc(g->count + 1, sizeof *series);
    double *room = larder__calloc(ARRAYS * points + 1, sizeof *room);
    int rc = series && room ? 0 : larder__fail(LARDER_E_NOMEM, "report: no memory for a chart");
    for (size_t i = 0; rc == 0 && i < g->count; i++) {
        const larder__run *mean = &g->at[i].mean;
        double *xs = room + at, *ys = xs + mean->count;
        fill_lines(mean, c, xs, ys);
        series[i] = (larder__series){.name = mean->meta.name, .n = mean->count, .x = xs, .y = ys};
        fill_spreads(&g->at[i], c, &series[i], ys + mean->count);
        at += ARRAYS * mean->count;
    }
    larder__chart chart = {.kind = LARDER__CHART_LINES,
                           .title = c->title,
                           .x_label = c->x_label,
                           .y_label = c->y_label,
                           .y_most = c->most,
                           .series = series,
                           .count = g->count};
    if (rc == 0)
        rc = larder__chart_write(to, &chart);
    larder__free(series);
    larder__free(room);
    return rc;
}

/* ---- a bar a run ----------------------------------------------------------------------------- */

enum { PARTS = 3 };
typedef void parts_fn(const larder__epoch *total, double part[PARTS]);

static void parts_kinds(const larder__epoch *t, double part[PARTS]) {
    part[0] = share(t->hits, t->served);
    part[1] = share(t->misses, t->served);
    part[2] = share(t->substitutes, t->served);
}

static void parts_time(const larder__epoch *t, double part[PARTS]) {
    part[0] = t->seconds - t->stall_seconds;
    part[1] = t->stall_seconds;
    part[2] = 0;
}

static int html_bars(FILE *to, larder__chart chart, const char *const names[PARTS], size_t parts,
                     parts_fn *fill, const larder__seed_groups *g) {
    size_t count = g->count;
    double *room = larder__calloc(PARTS * count + 1, sizeof *room);
    const char **bars = larder__calloc(count + 1, sizeof *bars);
    int rc = room && bars ? 0 : larder__fail(LARDER_E_NOMEM, "report: no memory for a chart");
    larder__series series[PARTS];
    for (size_t i = 0; rc == 0 && i < count; i++) {
        larder__epoch total = larder__run_total(&g->at[i].mean);
        double part[PARTS];
        fill(&total, part);
        for (size_t p = 0; p < PARTS; p++)
            room[p * count + i] = part[p];
        bars[i] = g->at[i].mean.meta.name;
    }
    for (size_t p = 0; rc == 0 && p < parts; p++)
        series[p] = (larder__series){.name = names[p], .n = count, .y = room + p * count};
    chart.kind = LARDER__CHART_BARS;
    chart.series = series;
    chart.count = parts;
    chart.bars = bars;
    if (rc == 0)
        rc = larder__chart_write(to, &chart);
    larder__free(room);
    larder__free(bars);
    return rc;
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char style[] =
    ":root { color-scheme: light dark; --ink: #24292f; --page: #f6f8fa; --card: #fff; --line: "
    "#d8dee4; --soft: #57606a }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --page: #0d1117; --card: "
    "#161b22; --line: #30363d; --soft: #8b949e } }\n"
    "body { margin: 0 auto; max-width: 1240px; padding: 24px; font: 15px/1.5 system-ui, "
    "sans-serif; "
    "color: var(--ink); background: var(--page) }\n"
    "h2 { font-size: 18px; margin: 24px 0 8px } li { color: var(--soft) }\n"
    "h1 { font-size: 24px; margin: 0 0 4px } p { color: var(--soft); margin: 0 0 20px }\n"
    ".charts { display: grid; gap: 16px; margin-top: 16px; grid-template-columns: "
    "repeat(auto-fit, minmax(min(100%, 520px), 1fr)) }\n"
    ".charts > svg, .wide { width: 100%; height: auto; border: 1px solid var(--line); "
    "border-radius: 6px; background: var(--card); box-sizing: border-box }\n"
    ".wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; "
    "font-variant-numeric: tabular-nums } :focus-visible { outline: 2px solid #0969da }\n"
    "th, td { padding: 6px 8px; text-align: right; font-size: 13px; border-bottom: 1px solid "
    "var(--line); "
    "white-space: nowrap }\n"
    "tr > :first-child { text-align: left } tbody tr:last-child > * { border-bottom: 0 }\n"
    "tbody .long { white-space: normal; overflow-wrap: anywhere; min-width: 260px } thead th { "
    "color: var(--soft); font-weight: 600 }\n"
    "i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 8px "
    "}\n";

static void html_head(FILE *to, const char *title, const larder__run *runs, size_t count,
                      bool several) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          to);
    larder__xml_text(to, title);
    fprintf(to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
    larder__xml_text(to, title);
    fputs("</h1>\n<p>", to);
    if (count) {
        const larder__meta *m = &runs[0].meta;
        larder__xml_text(to, m->source);
        fprintf(to, ", %" PRIu64 " samples; net ", m->samples);
        larder__xml_text(to, m->net);
        fprintf(to, ", batches of %" PRIu64, m->batch);
        if (m->slow[0]) {
            fputs("; storage slowed to ", to);
            larder__xml_text(to, m->slow);
        }
        fputs(". Times are wall clock of training, validation not counted; storage bytes are what "
              "was read from the source for training.",
              to);
        if (several)
            fputs(" Lines are means over seeds, bars one standard deviation.", to);
    }
    fputs("</p>\n", to);
}

static int html_charts(FILE *to, const larder__seed_groups *g) {
    static const char *const kinds[PARTS] = {"hits", "misses", "substitutes"};
    static const char *const times[PARTS] = {"computing", "waiting for data", ""};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof all_have / sizeof *all_have; i++)
        rc = html_lines(to, &all_have[i], g);
    for (size_t i = 0; rc == 0 && i < sizeof some_have / sizeof *some_have; i++)
        if (any_has(some_have[i].y, g))
            rc = html_lines(to, &some_have[i], g);
    larder__chart c = {.title = "Where samples came from",
                       .y_label = "% of samples served",
                       .unit = "%",
                       .y_from = 0,
                       .y_to = 100};
    if (rc < 0 || (rc = html_bars(to, c, kinds, 3, parts_kinds, g)) < 0)
        return rc;
    c = (larder__chart){.title = "Where time went", .y_label = "seconds", .unit = " s"};
    return html_bars(to, c, times, 2, parts_time, g);
}

static void html_heading(FILE *to, const char *text) { fprintf(to, "<h2>%s</h2>\n", text); }

/* Which machine, version and settings: of every run that differs from the one before. */
static void html_machines(FILE *to, const larder__run *runs, size_t count) {
    html_heading(to, "Machine and versions");
    fputs("<ul>\n", to);
    for (size_t i = 0; i < count; i++) {
        const larder__meta *m = &runs[i].meta, *last = i ? &runs[i - 1].meta : NULL;
        if (last && strcmp(m->machine, last->machine) == 0 &&
            strcmp(m->version, last->version) == 0 && strcmp(m->features, last->features) == 0)
            continue;
        fputs("<li>", to);
        larder__xml_text(to, m->name);
        fputs(": larder ", to);
        larder__xml_text(to, m->version[0] ? m->version : "of an unknown version");
        fputs(m->features[0] ? " (" : "", to);
        larder__xml_text(to, m->features);
        fputs(m->features[0] ? ")" : "", to);
        fputs(m->machine[0] ? " on " : "", to);
        larder__xml_text(to, m->machine);
        fputs("</li>\n", to);
    }
    fputs("</ul>\n", to);
}

int larder__report_html(FILE *to, const char *title, const larder__run *runs, size_t count) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, runs, count);
    if (rc < 0)
        return rc;
    html_head(to, title, runs, count, g.several);
    fputs("<div class=\"charts\">\n", to);
    rc = html_lines(to, &over_time, &g);
    if (rc == 0)
        rc = larder__report_pareto(to, &g);
    fputs("</div>\n", to);
    html_heading(to, g.several ? "Mean ± standard deviation over seeds" : "Figures");
    larder__groups_table(to, &g, false, 0, larder__table_html);
    fputs("<div class=\"charts\">\n", to);
    if (rc == 0)
        rc = html_charts(to, &g);
    fputs("</div>\n", to);
    html_heading(to, "Batches: waited for by training, and filled; milliseconds");
    larder__groups_table(to, &g, true, 0, larder__table_html);
    html_heading(to, "Every run");
    if (rc == 0)
        rc = larder__runs_table(to, runs, count, 0, larder__table_html);
    html_machines(to, runs, count);
    fputs("</main>\n</body>\n</html>\n", to);
    larder__groups_free(&g);
    return rc < 0 ? rc : ferror(to) ? larder__fail(LARDER_E_IO, "report: writing failed") : 0;
}
