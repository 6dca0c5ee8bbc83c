/* What larder's own stages share; what a stage is stands in larder/plugin.h. */
#ifndef LARDER_STAGE_STAGE_H
#define LARDER_STAGE_STAGE_H

#include <larder/plugin.h>

#define LARDER__MAX_SIDE 16384 /* of anything a stage is told to make, in pixels */

void larder__view_start(larder_view *, int64_t w, int64_t h);
bool larder__view_visible(const larder_view *); /* else there is nothing but padding */
/* Is its padding more than zeros? Then it is laid out by itself, not while a row is written. */
bool larder__view_coloured(const larder_view *);
/* As a view of all pixels that are looked at: those that padding mirrors may lie outside. */
larder_view larder__view_needs(const larder_view *);
/* Where these points of the source (pairs x, y) lie in it. */
void larder__view_move(const larder_view *, double *points, size_t count);

/* "a/b/c" into at most `max` numbers; `what` is for the sentence. */
int larder__numbers_parse(const char *what, const char *text, double *out, size_t max, size_t *n);

/* Stages that make h x w pixels share these parameters: size, or h and w apart. */
typedef struct larder__extent {
    int64_t h, w;
} larder__extent;
#define LARDER__EXTENT_PARAMS(help)                                                                \
    {"size", "int", "0", help, 0, LARDER__MAX_SIDE},                                               \
        {"h", "int", "0", "height in pixels, with w, instead of size", 0, LARDER__MAX_SIDE}, {     \
        "w", "int", "0", "width in pixels, with h, instead of size", 0, LARDER__MAX_SIDE           \
    }
/* Both sides from either; E_ARGS unless exactly one way is given. */
int larder__extent_read(larder__extent *, const char *stage, const larder_args *);

/* "low/high" within bounds; one number is both. */
typedef struct larder__range {
    double low, high;
} larder__range;
int larder__range_read(larder__range *, const char *stage, const larder_args *, const char *name,
                       double least, double most);
static inline double larder__range_draw(const larder__range *r, larder_rng *rng) {
    return r->low + larder_rng_unit(rng) * (r->high - r->low);
}

/* How pixels are found between others, and what lies beyond the edge. */
#define LARDER__FILTER_PARAM(initial)                                                              \
    { "interpolation", "bilinear|bicubic|nearest", initial, "how pixels are resampled", 0, 0 }
#define LARDER__ALIAS_PARAM                                                                        \
    { "antialias", "yes|no", "yes", "no: of many pixels only the nearest are looked at", 0, 0 }
larder_filter larder__filter_read(const larder_args *);
bool larder__yes(const larder_args *, const char *name); /* of a choice yes|no */
#define LARDER__FILL_PARAM                                                                         \
    {                                                                                              \
        "fill", "text", "0", "colour beyond the edge, 0..255: one number, or one a channel by /",  \
            0, 0                                                                                   \
    }
#define LARDER__EDGE_PARAM                                                                         \
    { "mode", "constant|edge|reflect|symmetric", "constant", "what lies beyond the edge", 0, 0 }
int larder__fill_read(uint8_t fill[LARDER_CHANNELS_MAX], const char *stage, const larder_args *);
larder_edge larder__edge_read(const larder_args *);

#endif
