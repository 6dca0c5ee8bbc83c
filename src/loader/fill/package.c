/* Entries fetched besides a batch, a package at once: from the scratch folder or from storage. */
#include "base/clock.h"
#include "base/mem.h"
#include "loader/fill/joint.h"

/* What was fetched besides is only to be filled. */
static void settle_package(larder_loader *l, larder__place *p, size_t from, size_t n,
                           larder_buf **bytes) {
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        larder_buf_unref(&bytes[i]);
        larder__ticket_drop(t);
        if (t->task == LARDER__WAIT && t->flight)
            larder__cache_wait_only(larder__draw_cache(l->draw), t, &bytes[i]);
        larder_buf_unref(&bytes[i]);
    }
}

/* Takes what it can from the package that was laid down before. */
static void take_from_crate(larder_loader *l, larder__place *p, size_t from, size_t n,
                            larder__joint *j) {
    size_t *rows = j->rows, m = 0;
    larder_buf **got = larder__calloc(n, sizeof *got);
    for (size_t i = 0; got && i < n; i++)
        if (p->plan.tickets[from + i].kind == LARDER_MISS) {
            rows[m] = i;
            j->ids[m++] = p->plan.tickets[from + i].key;
        }
    double begun = larder__now();
    larder__at was = larder__seat_turn(LARDER__AT_READ);
    p->scratch_bytes = m ? larder__package_take(l->crates, p->crate, j->ids, m, got) : 0;
    larder__seat_turn(was);
    larder__stat_observe(l->stats, l->stat.scratch_time, larder__now() - begun);
    larder__stat_add(l->stats, l->stat.scratch_read, p->scratch_bytes);
    for (size_t k = 0; k < m; k++) {
        larder__ticket *t = &p->plan.tickets[from + rows[k]];
        if (!got[k])
            continue;
        p->scratch_samples++;
        p->scratch_payload += p->plan.accesses[from + rows[k]].size;
        if (t->task == LARDER__MAKE) /* else somebody else is at it, and a copy more does no harm */
            larder__cache_fill(larder__draw_cache(l->draw), t, got[k]);
        larder_buf_unref(&got[k]);
    }
    larder__free(got);
}

/* Lays down what was fetched, unless it was read from there. */
static void lay_down(larder_loader *l, larder__place *p, size_t from, size_t n, larder__joint *j) {
    for (size_t i = 0; i < n; i++)
        j->ids[i] = p->plan.tickets[from + i].key;
    p->scratch_written = larder__package_put(l->crates, p->crate, j->ids, j->bytes, n);
    larder__stat_add(l->stats, l->stat.scratch_written, p->scratch_written);
}

/* A package of its own bytes: from the scratch folder in one piece where it lies there, the rest
 * from storage by one joint read; then it is laid down. */
static void fill_whole(larder_loader *l, larder__place *p, size_t from, size_t n,
                       larder__joint *j) {
    if (p->crate && !p->lays_down)
        take_from_crate(l, p, from, n, j);
    larder__joint_read(l, p, from, n, j);
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        larder__ticket_drop(t);
        if (t->task == LARDER__WAIT && t->flight)
            larder__cache_wait_only(larder__draw_cache(l->draw), t, &j->bytes[i]);
    }
    if (p->crate && p->lays_down)
        lay_down(l, p, from, n, j);
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&j->bytes[i]);
}

/* Entries fetched besides: a package is one joint read, however large. Where memory for that is
 * short it is read in pieces. */
void larder__package_fill(larder_loader *l, larder__place *p, size_t from, size_t n) {
    larder__joint j = {.ids = larder__malloc(n * sizeof *j.ids),
                       .rows = larder__malloc(n * sizeof *j.rows),
                       .reads = larder__malloc(n * sizeof *j.reads),
                       .rects = larder__malloc(n * sizeof *j.rects),
                       .bytes = larder__calloc(n, sizeof *j.bytes)};
    bool whole = j.ids && j.rows && j.reads && j.rects && j.bytes;
    if (whole)
        fill_whole(l, p, from, n, &j);
    else if (p->crate && p->lays_down) /* a broken promise must be told */
        larder__package_put(l->crates, p->crate, NULL, NULL, 0);
    if (p->crate)
        larder__package_leave(l->crates, &p->crate);
    larder__free(j.ids);
    larder__free(j.rows);
    larder__free(j.reads);
    larder__free(j.rects);
    larder__free(j.bytes);
    for (size_t at = 0; !whole && at < n; at += LARDER__ROWS_AT_ONCE) {
        size_t some = n - at < LARDER__ROWS_AT_ONCE ? n - at : LARDER__ROWS_AT_ONCE;
        larder__rows_read(l, p, from + at, some);
        settle_package(l, p, from + at, some, p->bytes + from + at);
    }
}
