#include "report/svg.h"

#include "base/err.h"
#include "base/escape.h"
#include "report/placer.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* In pixels. The plot is PLOT high whatever stands above and below it. */
enum { WIDTH = 720, LEFT = 74, RIGHT = 24, TOP = 74, PLOT = 270, BOTTOM = 56, TICKS = 12 };
enum { LEGEND_FROM = 24, LEGEND_TO = WIDTH - 10, LEGEND_LINE = 20, SWATCH = 34 };
enum { NAME_BYTES = 1024 };

/* What names ask for. */
typedef struct layout {
    double top, bottom, height; /* of the plot, its axis and the picture */
    bool tilted;                /* names of bars do not fit beside one another */
} layout;

static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#7F7F7F"};
enum { COLOURS = sizeof colours / sizeof *colours };

const char *larder__chart_colour(size_t i) { return colours[i % COLOURS]; }

/* Where colours come round, lines are broken otherwise. */
static const char *dashes(size_t i) {
    static const char *const sorts[] = {"", " stroke-dasharray=\"7 3\"",
                                        " stroke-dasharray=\"2 3\""};
    return sorts[i / COLOURS % 3];
}

void larder__xml_text(FILE *to, const char *s) {
    while (s && *s) {
        char one[LARDER__SHOWN_BYTES], c;
        s += larder__shown_one(one, s);
        c = one[0];
        if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else if (c == '\'')
            fputs("&#39;", to);
        else
            fputs(one, to);
    }
}

/* ---- axes ------------------------------------------------------------------------------------ */

typedef struct axis {
    double from, to, step;
    int decimals;
    double start, length; /* in pixels; y runs upwards with a negative length */
} axis;

static double place(const axis *a, double v) {
    return a->start + (v - a->from) / (a->to - a->from) * a->length;
}

/* Steps of 1, 2 or 5 times a power of ten, about `wanted` of them. */
static void axis_steps(axis *a, double wanted) {
    double rough = (a->to - a->from) / wanted, power = pow(10, floor(log10(rough)));
    double lead = rough / power;
    a->step = power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
    double digits = -floor(log10(a->step) + 1e-9);
    a->decimals = digits < 0 ? 0 : digits > 9 ? 9 : (int)digits;
}

/* From the data's ends to round ones. */
static axis axis_of(double low, double high, double wanted, bool round_ends) {
    if (!(low <= high)) /* no data at all */
        low = 0, high = 1;
    if (high - low < 1e-12 * fmax(fabs(low), fabs(high)) || high == low) {
        double half = low == 0 ? 0.5 : fabs(low) * 0.1;
        low -= half, high += half;
    }
    axis a = {.from = low, .to = high};
    axis_steps(&a, wanted);
    if (round_ends) {
        a.from = floor(low / a.step + 1e-9) * a.step;
        a.to = ceil(high / a.step - 1e-9) * a.step;
    }
    return a;
}

static void widen(double v, double *low, double *high) {
    if (isfinite(v)) {
        *low = fmin(*low, v);
        *high = fmax(*high, v);
    }
}

enum { NUMBER_BYTES = 64 };

/* The number at an axis as it is shown. */
static void write_number(char out[NUMBER_BYTES], const axis *a, double v) {
    if (fabs(v) < 1e-9 * a->step)
        v = 0;
    if (fabs(v) >= 1e7)
        snprintf(out, NUMBER_BYTES, "%.3g", v);
    else
        snprintf(out, NUMBER_BYTES, "%.*f", a->decimals, v);
}

/* The i-th number at an axis; false: there are no more. */
static bool tick(const axis *a, int i, double *v) {
    *v = ceil(a->from / a->step - 1e-9) * a->step + i * a->step;
    return i <= 2 * TICKS && !(*v > a->to + 1e-9 * a->step);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void text_at(FILE *to, double x, double y, const char *anchor, const char *more,
                    const char *text) {
    fprintf(to, "<text class=\"lt\" fill=\"#24292f\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>",
            x, y, anchor, more);
    larder__xml_text(to, text);
    fputs("</text>\n", to);
}

static void line_at(FILE *to, const char *kind, double x1, double y1, double x2, double y2) {
    fprintf(to,
            "<line class=\"%s\" stroke=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
            kind, kind[1] == 'g' ? "#d8dee4" : "#57606a", x1, y1, x2, y2);
}

static void head(FILE *to, const larder__chart *c, const layout *l) {
    fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"larder-chart\" viewBox=\"0 0 %d %.0f\" "
        "width=\"%d\" height=\"%.0f\" role=\"img\" font-family=\"system-ui, sans-serif\" "
        "font-size=\"13\">\n<title>",
        WIDTH, l->height, WIDTH, l->height);
    larder__xml_text(to, c->title ? c->title : "chart");
    fputs("</title>\n<style>@media (prefers-color-scheme: dark) { .larder-chart .lb { fill: "
          "#161b22 } "
          ".larder-chart .lt { fill: #e6edf3 } .larder-chart .lg { stroke: #30363d } "
          ".larder-chart .la { stroke: #8b949e } }</style>\n",
          to);
    fprintf(to, "<rect class=\"lb\" width=\"%d\" height=\"%.0f\" rx=\"6\" fill=\"#ffffff\"/>\n",
            WIDTH, l->height);
    if (c->title)
        text_at(to, 20, 28, "start", " font-size=\"16\" font-weight=\"600\"", c->title);
}

static void draw_y_axis(FILE *to, const larder__chart *c, const axis *y, const layout *l) {
    char shown[NUMBER_BYTES];
    double v;
    for (int i = 0; tick(y, i, &v); i++) {
        double at = place(y, v);
        write_number(shown, y, v);
        line_at(to, "lg", LEFT, at, WIDTH - RIGHT, at);
        text_at(to, LEFT - 8, at + 4.5, "end", "", shown);
    }
    if (c->y_label) {
        char turn[64];
        double middle = (l->top + l->bottom) / 2;
        snprintf(turn, sizeof turn, " transform=\"rotate(-90 18 %.0f)\"", middle);
        text_at(to, 18, middle, "middle", turn, c->y_label);
    }
    line_at(to, "la", LEFT, l->bottom, WIDTH - RIGHT, l->bottom);
    if (c->x_label)
        text_at(to, (LEFT + WIDTH - RIGHT) / 2.0, l->height - 14, "middle", "", c->x_label);
}

static void draw_x_axis(FILE *to, const axis *x, const layout *l) {
    char shown[NUMBER_BYTES];
    double v;
    for (int i = 0; tick(x, i, &v); i++) {
        double at = place(x, v);
        line_at(to, "la", at, l->bottom, at, l->bottom + 5);
        write_number(shown, x, v);
        text_at(to, at, l->bottom + 20, "middle", "", shown);
    }
}

/* Circle, square, triangle, diamond in turn: colour is not the only difference. */
static void marker(FILE *to, size_t series, double x, double y) {
    const char *colour = larder__chart_colour(series);
    switch (series % 4) {
    case 0:
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, colour);
        return;
    case 1:
        fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" fill=\"%s\"/>\n", x - 3.5,
                y - 3.5, colour);
        return;
    case 2:
        fprintf(to, "<path d=\"M%.1f %.1fl4.6 8h-9.2z\" fill=\"%s\"/>\n", x, y - 5, colour);
        return;
    default:
        fprintf(to, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"%s\"/>\n", x, y - 5, colour);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Of the character at `*s`, which moves on: at most, in the fonts there are, at 13 pixels. Half of
 * Unicode is as wide as it is high. */
static double take_one(const char **s) {
    const char *at = *s;
    size_t length = larder__utf8_length(at);
    *s += length ? length : 1;
    if (length != 1)
        return length > 2 ? 13 : 9;
    if (*at >= 'A' && *at <= 'Z')
        return strchr("MW", *at) ? 13 : 10;
    return strchr("mw@%", *at)                 ? 13
           : strchr("+<=>_#&", *at)            ? 11
           : strchr("ijlftr.,:;|!'()[] ", *at) ? 5.5
                                               : 8.3;
}

static double text_width(const char *s) {
    double sum = 0;
    while (*s)
        sum += take_one(&s);
    return sum;
}

/* The name as it is shown, in `width` pixels at most: what does not fit goes from its middle, as
 * names of runs differ at their ends. True: all of it is there. */
static bool fit_name(char out[NAME_BYTES], const char *name, double width) {
    static const char gone[] = "\u2026";
    char all[NAME_BYTES - sizeof gone];
    larder__shown(all, sizeof all, name ? name : "");
    double sum = text_width(all), half = (width - 13) / 2, taken = 0;
    const char *front = all, *next = all;
    if (sum <= width) {
        memcpy(out, all, strlen(all) + 1);
        return true;
    }
    while (*next && taken + take_one(&next) <= half)
        taken += take_one(&front);
    const char *back = front;
    for (double left = sum - taken; *back && left > half;)
        left -= take_one(&back);
    size_t kept = (size_t)(front - all);
    memcpy(out, all, kept);
    memcpy(out + kept, gone, sizeof gone - 1);
    memcpy(out + kept + sizeof gone - 1, back, strlen(back) + 1);
    return false;
}

/* What was cut is said under the pointer. */
static void name_at(FILE *to, double x, double y, const char *anchor, const char *more,
                    const char *name, double width) {
    char shown[NAME_BYTES];
    bool whole = fit_name(shown, name, width);
    fprintf(to, "<text class=\"lt\" fill=\"#24292f\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>",
            x, y, anchor, more);
    if (!whole) {
        fputs("<title>", to);
        larder__xml_text(to, name);
        fputs("</title>", to);
    }
    larder__xml_text(to, shown);
    fputs("</text>\n", to);
}

static double name_width(const char *name, double most) {
    char shown[NAME_BYTES];
    fit_name(shown, name, most);
    return text_width(shown);
}

static void swatch(FILE *to, larder__chart_kind kind, size_t i, double x, double y) {
    if (kind == LARDER__CHART_BARS) {
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n",
                x, y - 6, larder__chart_colour(i));
        return;
    }
    if (kind == LARDER__CHART_LINES)
        fprintf(to,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2.5\"%s/>\n",
                x - 4, y, x + 14, y, larder__chart_colour(i), dashes(i));
    marker(to, i, x + 5, y);
}

/* All names, in as many lines as that takes, which is the answer; NULL: nothing is drawn. */
static int legend(FILE *to, const larder__chart *c) {
    const double most = LEGEND_TO - LEGEND_FROM - SWATCH;
    double x = LEGEND_FROM;
    int lines = 1;
    for (size_t i = 0; i < c->count; i++) {
        double width = SWATCH + name_width(c->series[i].name, most);
        if (x + width > LEGEND_TO && x > LEGEND_FROM)
            x = LEGEND_FROM, lines++;
        if (to) {
            double y = 50 + LEGEND_LINE * (lines - 1);
            swatch(to, c->kind, i, x, y);
            name_at(to, x + 20, y + 4.5, "start", "", c->series[i].name, most);
        }
        x += width;
    }
    return lines;
}

/* ---- names below bars ------------------------------------------------------------------------ */

/* Tilted ones, by 60 degrees and in 12 pixels, end at their bar's middle; the first must not run
 * out at the left. */
static const double tilted_across = 0.5 * 12 / 13, tilted_down = 0.866 * 12 / 13;

static double bar_room(const larder__chart *c) {
    size_t bars = c->count ? c->series[0].n : 0;
    return (double)(WIDTH - RIGHT - LEFT) / (double)(bars ? bars : 1);
}

static double tilted_most(double room) { return fmin((LEFT + room / 2 - 12) / tilted_across, 240); }

/* How far below the axis names of bars reach, beyond one line. */
static double tilted_depth(const larder__chart *c, bool *tilted) {
    double room = bar_room(c), longest = 0;
    *tilted = false;
    for (size_t b = 0; c->kind == LARDER__CHART_BARS && c->bars && c->count && b < c->series[0].n;
         b++) {
        *tilted |= name_width(c->bars[b], 2 * WIDTH) > room - 6;
        longest = fmax(longest, name_width(c->bars[b], tilted_most(room)));
    }
    return *tilted ? fmax(longest * tilted_down - (c->x_label ? 14 : 34), 0) : 0;
}

static void bar_name(FILE *to, const char *name, double x, double room, const layout *l) {
    char turn[80];
    if (!l->tilted) {
        name_at(to, x, l->bottom + 20, "middle", "", name, room);
        return;
    }
    snprintf(turn, sizeof turn, " font-size=\"12\" transform=\"rotate(-60 %.1f %.1f)\"", x + 4,
             l->bottom + 14);
    name_at(to, x + 4, l->bottom + 14, "end", turn, name, tilted_most(room));
}

static layout lay_out(const larder__chart *c) {
    layout l = {.top = TOP + LEGEND_LINE * (legend(NULL, c) - 1)};
    l.bottom = l.top + PLOT;
    l.height = l.bottom + BOTTOM + tilted_depth(c, &l.tilted);
    return l;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void whisker(FILE *to, size_t series, double x1, double y1, double x2, double y2) {
    fprintf(to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"1.5\"/>\n",
            x1, y1, x2, y2, larder__chart_colour(series));
}

static double spread_at(const double *spread, size_t k) {
    return spread && isfinite(spread[k]) ? spread[k] : 0;
}

/* A point with its spread to both sides; false: there is none. */
static bool draw_point(FILE *to, const larder__series *s, size_t k, size_t i, const axis *x,
                       const axis *y) {
    if (!isfinite(s->x[k]) || !isfinite(s->y[k]))
        return false;
    double px = place(x, s->x[k]), py = place(y, s->y[k]);
    double dx = spread_at(s->x_spread, k), dy = spread_at(s->y_spread, k);
    if (dx > 0)
        whisker(to, i, place(x, s->x[k] - dx), py, place(x, s->x[k] + dx), py);
    if (dy > 0)
        whisker(to, i, px, place(y, s->y[k] - dy), px, place(y, s->y[k] + dy));
    marker(to, i, px, py);
    return true;
}

static void draw_line(FILE *to, const larder__series *s, size_t i, const axis *x, const axis *y) {
    bool pen = false;
    fprintf(to,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" stroke-linejoin=\"round\"%s "
            "d=\"",
            larder__chart_colour(i), dashes(i));
    for (size_t k = 0; k < s->n; k++) {
        bool there = isfinite(s->x[k]) && isfinite(s->y[k]);
        if (there)
            fprintf(to, "%c%.1f %.1f", pen ? 'L' : 'M', place(x, s->x[k]), place(y, s->y[k]));
        pen = there;
    }
    fputs("\"/>\n", to);
    /* Of many points the last one has a marker, as the legend has it. */
    bool few = s->n <= 40;
    for (size_t k = 0; few && k < s->n; k++)
        draw_point(to, s, k, i, x, y);
    for (size_t k = s->n; !few && k-- > 0;)
        if (draw_point(to, s, k, i, x, y))
            break;
}

static void draw_points(FILE *to, const larder__series *s, size_t i, const axis *x, const axis *y,
                        larder__placer *p) {
    for (size_t k = 0; k < s->n; k++) {
        if (!draw_point(to, s, k, i, x, y))
            continue;
        double px = place(x, s->x[k]), py = place(y, s->y[k]);
        double dx = spread_at(s->x_spread, k), dy = spread_at(s->y_spread, k);
        double rx = fmax(fabs(place(x, s->x[k] + dx) - px), 6);
        double ry = fmax(fabs(place(y, s->y[k] + dy) - py), 6);
        larder__placer_take(p, (larder__box){px - rx, py - 6, px + rx, py + 6});
        larder__placer_take(p, (larder__box){px - 6, py - ry, px + 6, py + ry});
    }
}

/* A name that finds no free place is left out: the legend has it. */
static void name_points(FILE *to, const larder__series *s, const axis *x, const axis *y,
                        larder__placer *p) {
    enum { NAME_HEIGHT = 14, MOST = 240 };
    double width = 0.85 * name_width(s->name, MOST);
    for (size_t k = 0; k < s->n; k++) {
        larder__box b;
        if (isfinite(s->x[k]) && isfinite(s->y[k]) &&
            larder__placer_find(p, place(x, s->x[k]), place(y, s->y[k]), width, NAME_HEIGHT, &b))
            name_at(to, b.x0, b.y1 - 4, "start", " font-size=\"11\"", s->name, MOST);
    }
}

/* Does each of its numbers stand clear of the next? */
static bool numbers_fit(const axis *x) {
    enum { GAP = 6 };
    char shown[NUMBER_BYTES];
    double v, before = -INFINITY;
    for (int i = 0; tick(x, i, &v); i++) {
        write_number(shown, x, v);
        double at = place(x, v), half = text_width(shown) / 2;
        if (at - half < before + GAP)
            return false;
        before = at + half;
    }
    return true;
}

/* With as many numbers as fit, about eight at most. */
static axis x_axis_of(double low, double high, bool round_ends, bool whole) {
    for (double wanted = 8;; wanted--) {
        axis x = axis_of(low, high, wanted, round_ends);
        if (x.step < 1 && whole)
            x.step = 1, x.decimals = 0; /* there is no epoch 1.5 */
        x.start = LEFT + 12;
        x.length = WIDTH - RIGHT - 12 - x.start;
        if (wanted <= 1 || numbers_fit(&x))
            return x;
    }
}

static void set_y(axis *y, const larder__chart *c, const layout *l) {
    if (c->y_from < c->y_to) {
        *y = (axis){.from = c->y_from, .to = c->y_to};
        axis_steps(y, 6);
    }
    y->start = l->bottom;
    y->length = l->top - l->bottom;
}

static bool whole_numbers(const larder__chart *c) {
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            if (isfinite(c->series[i].x[k]) && c->series[i].x[k] != floor(c->series[i].x[k]))
                return false;
    return true;
}

static bool draw_lines(FILE *to, const larder__chart *c, const layout *l) {
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            if (isfinite(c->series[i].x[k]) && isfinite(c->series[i].y[k])) {
                double dx = spread_at(c->series[i].x_spread, k);
                double dy = spread_at(c->series[i].y_spread, k);
                widen(c->series[i].x[k] - dx, &x0, &x1);
                widen(c->series[i].x[k] + dx, &x0, &x1);
                widen(c->series[i].y[k] - dy, &y0, &y1);
                widen(c->series[i].y[k] + dy, &y0, &y1);
            }
    axis x = x_axis_of(x0, x1, c->kind == LARDER__CHART_POINTS, whole_numbers(c));
    axis y = axis_of(y0, y1, 6, true);
    if (c->y_most > 0 && y1 <= c->y_most)
        y.to = fmin(y.to, c->y_most);
    set_y(&y, c, l);
    draw_y_axis(to, c, &y, l);
    draw_x_axis(to, &x, l);
    larder__placer p = {.frame = {LEFT, l->top - 10, WIDTH - 4, l->bottom}};
    for (size_t i = 0; i < c->count; i++)
        if (c->kind == LARDER__CHART_POINTS)
            draw_points(to, &c->series[i], i, &x, &y, &p);
        else
            draw_line(to, &c->series[i], i, &x, &y);
    for (size_t i = 0; c->kind == LARDER__CHART_POINTS && i < c->count; i++)
        name_points(to, &c->series[i], &x, &y, &p);
    return x0 <= x1;
}

/* ---- stacked bars ---------------------------------------------------------------------------- */

static double part(const larder__series *s, size_t bar) {
    return bar < s->n && isfinite(s->y[bar]) && s->y[bar] > 0 ? s->y[bar] : 0;
}

static void draw_bar(FILE *to, const larder__chart *c, size_t bar, double x, double width,
                     const axis *y) {
    double sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        double v = part(&c->series[i], bar), low = place(y, sum), high = place(y, sum + v);
        sum += v;
        if (low - high < 0.05)
            continue;
        fprintf(to, "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" fill=\"%s\"/>\n", x,
                high, width, low - high, larder__chart_colour(i));
        if (low - high > 16 && width > 40) {
            fprintf(to,
                    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#ffffff\" "
                    "font-weight=\"600\">",
                    x + width / 2, (low + high) / 2 + 4.5);
            fprintf(to, v < 10 ? "%.1f" : "%.0f", v);
            larder__xml_text(to, c->unit);
            fputs("</text>\n", to);
        }
    }
}

static bool draw_bars(FILE *to, const larder__chart *c, const layout *l) {
    size_t bars = c->count ? c->series[0].n : 0;
    double top = 0;
    for (size_t b = 0; b < bars; b++) {
        double sum = 0;
        for (size_t i = 0; i < c->count; i++)
            sum += part(&c->series[i], b);
        widen(sum, &(double){0}, &top);
    }
    axis y = axis_of(0, top > 0 ? top : 1, 6, true);
    set_y(&y, c, l);
    draw_y_axis(to, c, &y, l);
    double room = bar_room(c), width = fmin(room * 0.62, 110);
    for (size_t b = 0; b < bars; b++) {
        double middle = LEFT + room * ((double)b + 0.5);
        draw_bar(to, c, b, middle - width / 2, width, &y);
        if (c->bars)
            bar_name(to, c->bars[b], middle, room, l);
    }
    return bars > 0;
}

int larder__chart_write(FILE *to, const larder__chart *c) {
    layout l = lay_out(c);
    head(to, c, &l);
    bool any = c->kind == LARDER__CHART_BARS ? draw_bars(to, c, &l) : draw_lines(to, c, &l);
    if (any)
        legend(to, c);
    else
        text_at(to, WIDTH / 2.0, l.height / 2, "middle", "", "nothing measured");
    fputs("</svg>\n", to);
    return ferror(to) ? larder__fail(LARDER_E_IO, "chart: writing failed") : 0;
}
