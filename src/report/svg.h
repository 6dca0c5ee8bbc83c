/* Small charts as SVG: lines or stacked bars with axes, grid and legend. Text is escaped, colours
 * are told apart by the colour-blind (Okabe and Ito's palette, and a marker a series), and the same
 * file reads well on light and dark pages. No script, no font, nothing from outside. */
#ifndef LARDER_REPORT_SVG_H
#define LARDER_REPORT_SVG_H

#include <stddef.h>
#include <stdio.h>

typedef struct larder__series {
    const char *name;
    size_t n;
    const double *x, *y; /* points that are not finite leave a gap; x is NULL for bars */
    const double *x_spread, *y_spread; /* points alone: whiskers so far to both sides; NULL: none */
} larder__series;

typedef enum {
    LARDER__CHART_LINES,  /* one line a series */
    LARDER__CHART_POINTS, /* points with whiskers, not joined, with their series' names */
    LARDER__CHART_BARS    /* bar i stacks y[i] of all series; negative values count as 0 */
} larder__chart_kind;

typedef struct larder__chart {
    larder__chart_kind kind;
    const char *title, *x_label, *y_label; /* NULL: none */
    const larder__series *series;
    size_t count;
    const char *const *bars; /* names below the bars, as many as series[0].n; lines: NULL */
    const char *unit;        /* behind values written into bars, "%"; NULL: none */
    double y_from, y_to;     /* fixed ends of the axis; both 0: from the data */
    double y_most; /* the axis ends there where the data does, 100 for shares; 0: no end */
} larder__chart;

/* 0, or LARDER_E_IO when the stream has failed. */
int larder__chart_write(FILE *, const larder__chart *);
/* `&`, `<`, `>` and quotes escaped, the rest as base/escape.h shows it; for SVG and HTML. */
void larder__xml_text(FILE *, const char *);
/* The colour of series i, "#0072B2"; they come round after seven. */
const char *larder__chart_colour(size_t i);

#endif
