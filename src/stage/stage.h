/* What larder's own stages share; what a stage is stands in larder/plugin.h. */
#ifndef LARDER_STAGE_STAGE_H
#define LARDER_STAGE_STAGE_H

#include <larder/plugin.h>

#define LARDER__MAX_SIDE 16384 /* of anything a stage is told to make, in pixels */

void larder__view_start(larder_view *, int64_t w, int64_t h);

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

#endif
