#include "report/svg.h"

#include "base/err.h"
#include "base/escape.h"
#include "report/placer.h"

#include <math.h>
#include <stdbool.h>

enum { WIDTH = 720, HEIGHT = 400, LEFT = 74, RIGHT = 24, TOP = 74, BOTTOM = 56, TICKS = 12 };

static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#7F7F7F"};
enum { COLOURS = sizeof colours / sizeof *colours };

const char *larder__chart_colour(size_t i) { return colours[i % COLOURS]; }

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

static void number(FILE *to, double v, int decimals) {
    if (fabs(v) >= 1e7)
        fprintf(to, "%.3g", v);
    else
        fprintf(to, "%.*f", decimals, v);
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

static void head(FILE *to, const larder__chart *c) {
    fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"larder-chart\" viewBox=\"0 0 %d %d\" "
        "width=\"%d\" height=\"%d\" role=\"img\" font-family=\"system-ui, sans-serif\" "
        "font-size=\"13\">\n<title>",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    larder__xml_text(to, c->title ? c->title : "chart");
    fputs("</title>\n<style>@media (prefers-color-scheme: dark) { .larder-chart .lb { fill: "
          "#161b22 } "
          ".larder-chart .lt { fill: #e6edf3 } .larder-chart .lg { stroke: #30363d } "
          ".larder-chart .la { stroke: #8b949e } }</style>\n",
          to);
    fprintf(to, "<rect class=\"lb\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#ffffff\"/>\n",
            WIDTH, HEIGHT);
    if (c->title)
        text_at(to, 20, 28, "start", " font-size=\"16\" font-weight=\"600\"", c->title);
}

/* The i-th number at an axis; false: there are no more. */
static bool tick(const axis *a, int i, double *v) {
    *v = ceil(a->from / a->step - 1e-9) * a->step + i * a->step;
    return i <= 2 * TICKS && !(*v > a->to + 1e-9 * a->step);
}

static void draw_y_axis(FILE *to, const larder__chart *c, const axis *y) {
    double v;
    for (int i = 0; tick(y, i, &v); i++) {
        double at = place(y, v);
        line_at(to, "lg", LEFT, at, WIDTH - RIGHT, at);
        fprintf(to, "<text class=\"lt\" fill=\"#24292f\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                LEFT - 8, at + 4.5);
        number(to, fabs(v) < 1e-9 * y->step ? 0 : v, y->decimals);
        fputs("</text>\n", to);
    }
    if (c->y_label) {
        char turn[64];
        int middle = (TOP + HEIGHT - BOTTOM) / 2;
        snprintf(turn, sizeof turn, " transform=\"rotate(-90 18 %d)\"", middle);
        text_at(to, 18, middle, "middle", turn, c->y_label);
    }
    line_at(to, "la", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
    if (c->x_label)
        text_at(to, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, "middle", "", c->x_label);
}

static void draw_x_axis(FILE *to, const axis *x) {
    double v;
    for (int i = 0; tick(x, i, &v); i++) {
        double at = place(x, v);
        line_at(to, "la", at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 5);
        fprintf(to,
                "<text class=\"lt\" fill=\"#24292f\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                at, HEIGHT - BOTTOM + 20);
        number(to, fabs(v) < 1e-9 * x->step ? 0 : v, x->decimals);
        fputs("</text>\n", to);
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

/* How wide a text will be, roughly: UTF-8 continuation bytes take no room. */
static double text_width(const char *s) {
    double n = 0;
    for (; s && *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n * 7.8;
}

static void legend(FILE *to, const larder__chart *c) {
    double x = 24;
    for (size_t i = 0; i < c->count; i++) {
        double width = 34 + text_width(c->series[i].name);
        if (x + width > WIDTH - 10 && i > 0)
            return; /* more names than a line holds: the table has them all */
        if (c->kind == LARDER__CHART_POINTS) {
            marker(to, i, x + 5, 50);
        } else if (c->kind == LARDER__CHART_LINES) {
            fprintf(to,
                    "<line x1=\"%.1f\" y1=\"50\" x2=\"%.1f\" y2=\"50\" stroke=\"%s\" "
                    "stroke-width=\"2.5\"/>\n",
                    x - 4, x + 14, larder__chart_colour(i));
            marker(to, i, x + 5, 50);
        } else {
            fprintf(to,
                    "<rect x=\"%.1f\" y=\"44\" width=\"12\" height=\"12\" rx=\"2\" "
                    "fill=\"%s\"/>\n",
                    x, larder__chart_colour(i));
        }
        text_at(to, x + 20, 54.5, "start", "", c->series[i].name);
        x += width;
    }
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
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" stroke-linejoin=\"round\" "
            "d=\"",
            larder__chart_colour(i));
    for (size_t k = 0; k < s->n; k++) {
        bool there = isfinite(s->x[k]) && isfinite(s->y[k]);
        if (there)
            fprintf(to, "%c%.1f %.1f", pen ? 'L' : 'M', place(x, s->x[k]), place(y, s->y[k]));
        pen = there;
    }
    fputs("\"/>\n", to);
    for (size_t k = 0; s->n <= 40 && k < s->n; k++)
        draw_point(to, s, k, i, x, y);
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
    enum { NAME_HEIGHT = 14 };
    for (size_t k = 0; k < s->n; k++) {
        larder__box b;
        if (isfinite(s->x[k]) && isfinite(s->y[k]) &&
            larder__placer_find(p, place(x, s->x[k]), place(y, s->y[k]), 0.85 * text_width(s->name),
                                NAME_HEIGHT, &b))
            text_at(to, b.x0, b.y1 - 4, "start", " font-size=\"11\"", s->name);
    }
}

static void set_y(axis *y, const larder__chart *c) {
    if (c->y_from < c->y_to) {
        *y = (axis){.from = c->y_from, .to = c->y_to};
        axis_steps(y, 6);
    }
    y->start = HEIGHT - BOTTOM;
    y->length = -(double)(HEIGHT - BOTTOM - TOP);
}

static bool whole_numbers(const larder__chart *c) {
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            if (isfinite(c->series[i].x[k]) && c->series[i].x[k] != floor(c->series[i].x[k]))
                return false;
    return true;
}

static bool draw_lines(FILE *to, const larder__chart *c) {
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
    axis x = axis_of(x0, x1, 8, c->kind == LARDER__CHART_POINTS), y = axis_of(y0, y1, 6, true);
    if (x.step < 1 && whole_numbers(c))
        x.step = 1, x.decimals = 0; /* there is no epoch 1.5 */
    x.start = LEFT + 12;
    x.length = WIDTH - RIGHT - 12 - x.start;
    set_y(&y, c);
    draw_y_axis(to, c, &y);
    draw_x_axis(to, &x);
    larder__placer p = {.frame = {LEFT, TOP - 10, WIDTH - 4, HEIGHT - BOTTOM}};
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
    if (c->bars)
        text_at(to, x + width / 2, HEIGHT - BOTTOM + 20, "middle", "", c->bars[bar]);
}

static bool draw_bars(FILE *to, const larder__chart *c) {
    size_t bars = c->count ? c->series[0].n : 0;
    double top = 0;
    for (size_t b = 0; b < bars; b++) {
        double sum = 0;
        for (size_t i = 0; i < c->count; i++)
            sum += part(&c->series[i], b);
        widen(sum, &(double){0}, &top);
    }
    axis y = axis_of(0, top > 0 ? top : 1, 6, true);
    set_y(&y, c);
    draw_y_axis(to, c, &y);
    double room = (double)(WIDTH - RIGHT - LEFT) / (double)(bars ? bars : 1);
    double width = fmin(room * 0.62, 110);
    for (size_t b = 0; b < bars; b++)
        draw_bar(to, c, b, LEFT + room * ((double)b + 0.5) - width / 2, width, &y);
    return bars > 0;
}

int larder__chart_write(FILE *to, const larder__chart *c) {
    head(to, c);
    bool any = c->kind == LARDER__CHART_BARS ? draw_bars(to, c) : draw_lines(to, c);
    if (any)
        legend(to, c);
    else
        text_at(to, WIDTH / 2.0, HEIGHT / 2.0, "middle", "", "nothing measured");
    fputs("</svg>\n", to);
    return ferror(to) ? larder__fail(LARDER_E_IO, "chart: writing failed") : 0;
}
