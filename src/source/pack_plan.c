#include "source/pack_plan.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

static bool covers_all(const larder__grid *g, const larder_rect *r) {
    return r->x0 == 0 && r->y0 == 0 && r->x1 == g->w && r->y1 == g->h;
}

static int check_rect(const larder__grid *g, const larder_rect *r) {
    if (r->x0 < r->x1 && r->y0 < r->y1 && r->x1 <= g->w && r->y1 <= g->h && r->shrink >= 1 &&
        r->shrink <= 8)
        return 0;
    return larder__fail(LARDER_E_RANGE, "pixels %u..%u by %u..%u of a picture of %u x %u", r->x0,
                        r->x1, r->y0, r->y1, g->w, g->h);
}

int larder__pack_plan_make(larder__pack_plan *p, const larder__pack_file *f, int fd,
                           const larder__pack_entry *e, const larder_rect *want, uint32_t margin,
                           uint32_t gap) {
    p->part = (larder__segment){.magic = LARDER__PART_MAGIC,
                                .grid = e->grid,
                                .head = e->data_at - e->head_at,
                                .jfif = e->jfif};
    int rc = check_rect(&e->grid, want);
    if (rc == 0)
        rc = larder__room(&p->lengths, &p->lengths_cap, larder__grid_segments(&e->grid),
                          sizeof *p->lengths);
    if (rc == 0)
        rc = larder__room(&p->runs, &p->runs_cap, larder__grid_down(&e->grid), sizeof *p->runs);
    if (rc == 0)
        rc = larder__pack_file_lengths(f, fd, e, p->lengths);
    if (rc < 0 || !p->runs)
        return rc;
    larder_rect wide = larder__grid_widen(&e->grid, *want, margin * want->shrink);
    if (covers_all(&e->grid, want)) {
        p->runs[0] = (larder__segment_run){0, larder__grid_segments(&e->grid)};
        p->part.runs = 1;
    } else
        p->part.runs = larder__grid_runs(&e->grid, &wide, p->lengths, gap, p->runs);
    return 0;
}

void larder__pack_plan_free(larder__pack_plan *p) {
    larder__free(p->lengths);
    larder__free(p->runs);
    *p = (larder__pack_plan){0};
}

uint32_t larder__pack_plan_size(const larder__pack_plan *p) {
    uint32_t data_at;
    return larder__part_size(&p->part, p->runs, p->lengths, &data_at);
}

size_t larder__pack_plan_begin(const larder__pack_plan *p, void *out) {
    return larder__part_begin(out, &p->part, p->runs, p->lengths);
}

/* The JPEG's head and the runs, one piece each; what lies side by side is one piece. */
int larder__pack_plan_pieces(const larder__pack_plan *p, const larder__pack_entry *e,
                             larder__pack_piece_fn piece, void *arg) {
    uint64_t at = e->offset + e->head_at; /* what is wanted next … */
    size_t n = p->part.head;              /* … and how much of it */
    uint64_t pos = e->offset + e->data_at;
    uint32_t segment = 0;
    for (uint32_t k = 0; k < p->part.runs; k++) {
        size_t bytes = 0;
        for (; segment < p->runs[k].first; segment++)
            pos += p->lengths[segment];
        for (uint32_t s = 0; s < p->runs[k].count; s++)
            bytes += p->lengths[segment++];
        if (pos != at + n) {
            int rc = piece(arg, at, n);
            if (rc < 0)
                return rc;
            at = pos;
            n = 0;
        }
        n += bytes;
        pos += bytes;
    }
    return piece(arg, at, n);
}

bool larder__pack_part_whole(const larder__pack_entry *e, const larder_rect *want,
                             uint32_t *bytes) {
    if (!e->data_at || !covers_all(&e->grid, want))
        return false;
    uint64_t size = sizeof(larder__segment) + sizeof(larder__segment_run) +
                    (uint64_t)larder__grid_segments(&e->grid) * 2 + e->bytes - e->head_at;
    *bytes = size <= UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    return true;
}
