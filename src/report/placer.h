/* Where the name of a point may stand in a chart so that it covers nothing: near the point, inside
 * the frame, over no marker, whisker or other name. */
#ifndef LARDER_REPORT_PLACER_H
#define LARDER_REPORT_PLACER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct larder__box {
    double x0, y0, x1, y1; /* x0 <= x1, y0 <= y1 */
} larder__box;

enum { LARDER__PLACER_BOXES = 256 };
typedef struct larder__placer {
    larder__box frame;
    larder__box taken[LARDER__PLACER_BOXES];
    size_t count;
} larder__placer;

/* From now on nothing may stand there; what comes after LARDER__PLACER_BOXES is not kept. */
void larder__placer_take(larder__placer *, larder__box);
/* A place for w x h beside (x, y), the nearest first, which is taken then. False: there is none. */
bool larder__placer_find(larder__placer *, double x, double y, double w, double h,
                         larder__box *out);
bool larder__box_overlaps(larder__box, larder__box);

#endif
