#include "report/placer.h"

bool larder__box_overlaps(larder__box a, larder__box b) {
    return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

void larder__placer_take(larder__placer *p, larder__box b) {
    if (p->count < LARDER__PLACER_BOXES)
        p->taken[p->count++] = b;
}

static bool is_free(const larder__placer *p, larder__box b) {
    const larder__box *f = &p->frame;
    if (b.x0 < f->x0 || b.x1 > f->x1 || b.y0 < f->y0 || b.y1 > f->y1)
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (larder__box_overlaps(b, p->taken[i]))
            return false;
    return true;
}

bool larder__placer_find(larder__placer *p, double x, double y, double w, double h,
                         larder__box *out) {
    /* Right, left, above, below and the corners; then the same further away. */
    static const struct {
        double x, y; /* of the box' middle: -1 left of or above the point, 0 at it, 1 beyond */
    } sides[] = {{1, -1}, {1, 1}, {-1, -1}, {-1, 1}, {1, 0}, {-1, 0}, {0, -1}, {0, 1}};
    enum { SIDES = sizeof sides / sizeof *sides, RINGS = 6 };
    for (int ring = 0; ring < RINGS && p->count < LARDER__PLACER_BOXES; ring++)
        for (int i = 0; i < SIDES; i++) {
            double away_x = sides[i].y == 0 || ring > 0 ? 8 + 6 * ring : 8;
            double away_y = sides[i].x == 0 ? 8 + 8 * ring : 8 * ring;
            double mx = x + sides[i].x * (away_x + w / 2);
            double my = y + sides[i].y * (away_y + h / 2);
            larder__box b = {mx - w / 2, my - h / 2, mx + w / 2, my + h / 2};
            if (is_free(p, b)) {
                larder__placer_take(p, b);
                *out = b;
                return true;
            }
        }
    return false;
}
