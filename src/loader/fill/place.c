/* A place of the ring: its memory, its beginning, and whose it is. */
#include "base/err.h"
#include "base/mem.h"
#include "loader/inside.h"

int larder__place_open(larder_loader *l, larder__place *p) {
    size_t n = l->conf.batch;
    int rc = larder__planned_open(&p->plan, l->draw);
    if (rc < 0)
        return rc;
    p->piece_read = larder__calloc(n / l->piece + 1, sizeof *p->piece_read);
    p->bytes = larder__calloc(larder__planned_room(l->draw), sizeof *p->bytes);
    p->y = larder__calloc(n, sizeof *p->y);
    p->served = larder__calloc(n, sizeof *p->served);
    p->kind = larder__calloc(n, sizeof *p->kind);
    p->form = larder__calloc(n, sizeof *p->form);
    p->read_bytes = larder__calloc(n, sizeof *p->read_bytes);
    p->faults = larder__calloc(n, sizeof *p->faults);
    if (!p->piece_read || !p->bytes || !p->y || !p->served || !p->kind || !p->form ||
        !p->read_bytes || !p->faults)
        return LARDER_E_NOMEM;
    if (l->device && !p->calm && (rc = larder__orders_open(&p->orders, n, l->conf.views)) < 0)
        return rc;
    p->batch = (larder_batch){.size = sizeof p->batch,
                              .shape = larder__loader_shape(l),
                              .dtype = l->conf.dtype,
                              .layout = l->conf.layout,
                              .y = p->y,
                              .ids = p->plan.ids,
                              .served = p->served,
                              .kind = p->kind,
                              .weight = p->plan.weights,
                              .views = (uint32_t)l->conf.views,
                              .mix_weight = 1};
    return 0;
}

void larder__place_lend(larder_loader *l, larder__place *p, larder__pixel_block *block) {
    p->block = block;
    p->x = larder__pixel_block_pixels(block);
    p->batch.x = l->conf.order_only || l->device || larder__x_bytes(l) == 0 ? NULL : p->x;
    if (l->device)
        larder__twin_begin(larder__pixel_block_beside(block), l->conf.batch);
    p->batch.columns = larder__pixel_block_columns(block, p->y);
    p->batch.column_count = l->columns ? l->columns->count : 0;
}

void larder__place_close(larder__place *p) {
    larder__orders_close(&p->orders);
    larder__planned_close(&p->plan);
    larder__free(p->piece_read);
    larder__free(p->bytes);
    larder__free(p->y);
    larder__free(p->served);
    larder__free(p->kind);
    larder__free(p->form);
    larder__free(p->read_bytes);
    larder__free(p->faults);
}

void larder__place_begin(larder_loader *l, larder__place *p) {
    p->reported = false;
    p->next_row = p->pieces_read = p->pieces_awaited = 0;
    p->device_rows = p->unsent = p->orders ? larder__freight_rows(l, p->plan.n) : 0;
    p->made_there = 0;
    p->unprepared = p->plan.n + (p->device_rows > 0);
    memset(p->kind, LARDER_HIT, p->plan.n);
    p->rows = p->plan.n + p->plan.fetched;
    p->rows_left = p->rows + (p->device_rows > 0);
    memset(p->read_bytes, 0, p->plan.n * sizeof *p->read_bytes);
    p->requests = 0;
    for (size_t i = 0; p->faulty && i < l->conf.batch; i++)
        p->faults[i].code = 0;
    p->faulty = false;
    p->phase = LARDER__WORKING;
    pthread_cond_broadcast(&l->work);
}

larder__place *larder__place_held(larder_loader *l, const larder_batch *b) {
    for (uint32_t k = 0; b && k < l->conf.ahead; k++)
        if (&l->ring[k].batch == b && l->ring[k].phase == LARDER__LENT)
            return &l->ring[k];
    larder__fail(LARDER_E_STATE, "this batch is not held (any more)");
    return NULL;
}
