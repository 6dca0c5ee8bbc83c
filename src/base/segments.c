#include "base/segments.h"

#include "base/err.h"

static uint32_t divided_up(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

bool larder__grid_valid(const larder__grid *g) {
    if (g->w == 0 || g->h == 0 || g->step == 0 || g->mcu_w == 0 || g->mcu_h == 0 || g->mcu_w % 8 ||
        g->mcu_h % 8 || g->mcu_w > 32 || g->mcu_h > 32)
        return false;
    return larder__grid_segments(g) <= LARDER__SEGMENTS_MAX;
}

uint32_t larder__grid_across(const larder__grid *g) { return divided_up(g->w, g->mcu_w); }
uint32_t larder__grid_down(const larder__grid *g) { return divided_up(g->h, g->mcu_h); }
uint32_t larder__grid_segments(const larder__grid *g) {
    return divided_up(larder__grid_across(g) * larder__grid_down(g), g->step);
}

static uint32_t less(uint32_t a, uint32_t by) { return a > by ? a - by : 0; }
static uint32_t at_most(uint64_t a, uint32_t max) { return a < max ? (uint32_t)a : max; }

larder_rect larder__grid_widen(const larder__grid *g, larder_rect r, uint32_t margin) {
    /* An MCU of one block's width has no smaller chroma beside it to be smoothed. */
    uint32_t x = g->mcu_w > 8 ? margin : 0, y = g->mcu_h > 8 ? margin : 0;
    r.x0 = less(r.x0, x);
    r.y0 = less(r.y0, y);
    r.x1 = at_most((uint64_t)r.x1 + x, g->w);
    r.y1 = at_most((uint64_t)r.y1 + y, g->h);
    return r;
}

uint32_t larder__grid_runs(const larder__grid *g, const larder_rect *r, const uint16_t *lengths,
                           uint32_t gap, larder__segment_run *out) {
    const uint32_t across = larder__grid_across(g);
    const uint32_t x0 = r->x0 / g->mcu_w, x1 = divided_up(r->x1, g->mcu_w);
    const uint32_t y1 = divided_up(r->y1, g->mcu_h);
    uint32_t n = 0;
    for (uint32_t y = r->y0 / g->mcu_h; y < y1; y++) {
        uint32_t first = (y * across + x0) / g->step, end = (y * across + x1 - 1) / g->step + 1;
        uint32_t last = n ? out[n - 1].first + out[n - 1].count : 0;
        uint64_t between = 0;
        for (uint32_t s = last; n && s < first && between <= gap; s++)
            between += lengths[s];
        if (n && between <= gap) {
            out[n - 1].count = (end > last ? end : last) - out[n - 1].first;
            continue;
        }
        out[n++] = (larder__segment_run){first, end - first};
    }
    return n;
}

/* ---- a part as bytes ------------------------------------------------------------------------- */

bool larder__part_mine(const void *bytes, size_t size) {
    return size >= sizeof(larder__segment) && memcmp(bytes, LARDER__PART_MAGIC, 8) == 0;
}

larder__segment_run larder__part_run(const larder__part_view *v, uint32_t i) {
    larder__segment_run r;
    memcpy(&r, v->runs + (size_t)i * sizeof r, sizeof r);
    return r;
}

uint16_t larder__part_length(const larder__part_view *v, uint32_t segment) {
    uint16_t n;
    memcpy(&n, v->lengths + (size_t)segment * 2, 2);
    return n;
}

/* Runs in order, inside the picture, and as many bytes as their segments have. */
static bool runs_fit(const larder__part_view *v) {
    uint64_t bytes = 0;
    uint32_t end = 0;
    for (uint32_t i = 0; i < v->about.runs; i++) {
        larder__segment_run r = larder__part_run(v, i);
        if (r.count == 0 || r.first < end || r.first > v->segments ||
            r.count > v->segments - r.first)
            return false;
        end = r.first + r.count;
        for (uint32_t s = r.first; s < end; s++)
            bytes += larder__part_length(v, s);
    }
    return bytes == v->data_size;
}

int larder__part_parse(larder__part_view *v, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    if (!larder__part_mine(bytes, size))
        return larder__fail(LARDER_E_FORMAT, "part: %zu bytes that are none", size);
    memcpy(&v->about, at, sizeof v->about);
    const larder__segment *p = &v->about;
    if (!larder__grid_valid(&p->grid))
        return larder__fail(LARDER_E_FORMAT, "part: of a picture that cannot be");
    v->segments = larder__grid_segments(&p->grid);
    uint64_t before = sizeof *p + (uint64_t)p->runs * sizeof(larder__segment_run) +
                      (uint64_t)v->segments * 2 + p->head;
    if (p->runs > larder__grid_down(&p->grid) || before > size)
        return larder__fail(LARDER_E_FORMAT, "part: cut short, it ends at byte %zu", size);
    v->runs = at + sizeof *p;
    v->lengths = v->runs + (size_t)p->runs * sizeof(larder__segment_run);
    v->head = v->lengths + (size_t)v->segments * 2;
    v->data = v->head + p->head;
    v->data_size = size - (size_t)before;
    return runs_fit(v) ? 0
                       : larder__fail(LARDER_E_FORMAT,
                                      "part: its segments do not make up its %zu bytes", size);
}

uint32_t larder__part_size(const larder__segment *p, const larder__segment_run *runs,
                           const uint16_t *lengths, uint32_t *data_at) {
    uint64_t size = sizeof *p + (uint64_t)p->runs * sizeof *runs +
                    (uint64_t)larder__grid_segments(&p->grid) * 2 + p->head;
    *data_at = (uint32_t)size;
    for (uint32_t i = 0; i < p->runs; i++)
        for (uint32_t s = runs[i].first; s < runs[i].first + runs[i].count; s++)
            size += lengths[s];
    return size <= UINT32_MAX ? (uint32_t)size : 0;
}

size_t larder__part_begin(void *out, const larder__segment *p, const larder__segment_run *runs,
                          const uint16_t *lengths) {
    unsigned char *to = out;
    size_t run_bytes = p->runs * sizeof *runs;
    size_t length_bytes = (size_t)larder__grid_segments(&p->grid) * 2;
    memcpy(to, p, sizeof *p);
    memcpy(to + sizeof *p, runs, run_bytes);
    memcpy(to + sizeof *p + run_bytes, lengths, length_bytes);
    return sizeof *p + run_bytes + length_bytes;
}
