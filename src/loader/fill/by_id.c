/* Samples by id, for whoever decides on the order alone. They pass through the loader's cache and
 * pipeline like the rows of a batch: claimed together, read together, prepared by the caller. */
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "loader/inside.h"

#include <math.h>

typedef struct visit { /* a place for up to LARDER__ROWS_AT_ONCE rows, on the caller's stack */
    larder__place place;
    larder_access accesses[LARDER__ROWS_AT_ONCE];
    larder__ticket tickets[LARDER__ROWS_AT_ONCE];
    larder_buf *bytes[LARDER__ROWS_AT_ONCE];
    uint64_t served[LARDER__ROWS_AT_ONCE];
    uint8_t kind[LARDER__ROWS_AT_ONCE], form[LARDER__ROWS_AT_ONCE];
    uint32_t read_bytes[LARDER__ROWS_AT_ONCE];
    larder__row_fault faults[LARDER__ROWS_AT_ONCE];
} visit;

static int check_ids(const larder_loader *l, const uint64_t *ids, size_t n) {
    uint64_t all = larder__data_about(l->data)->count;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= all)
            return larder__fail(LARDER_E_RANGE, "sample %llu of %llu", (unsigned long long)ids[i],
                                (unsigned long long)all);
    return 0;
}

static int may_visit(larder_loader *l, const uint64_t *ids, size_t n) {
    const larder_policy *policy = larder__draw_policy(l->draw);
    if (l->conf.order_only)
        return larder__fail(LARDER_E_STATE, "this loader gives the order alone");
    if (LARDER_HAS(policy, lends, stand_in) || LARDER_HAS(policy, shares, exchange) ||
        policy->brings)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s decides itself which samples come: by id take another",
                            policy->plugin.name);
    if (l->parts)
        return larder__fail(LARDER_E_ARGS, "by id samples are read whole: open with parts off");
    return check_ids(l, ids, n);
}

static void give_up(larder__cache *cache, larder__ticket *t) {
    larder_buf *bytes = NULL;
    if (t->flight && t->task == LARDER__MAKE)
        larder__cache_fail(cache, t, LARDER_E_NOMEM, "out of memory");
    else if (t->flight)
        larder__cache_wait_only(cache, t, &bytes);
    larder_buf_unref(&bytes);
    larder__ticket_drop(t);
}

/* Decides, as one batch of the cache's, and reads what is missing. */
static int begin_visit(larder_loader *l, visit *v, const uint64_t *ids, size_t n) {
    uint64_t now = atomic_fetch_add(&l->by_id, n);
    memset(v, 0, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v->accesses[i] = (larder_access){.key = ids[i],
                                         .now = now + i,
                                         .next_use = LARDER_UNKNOWN,
                                         .size = larder__entry_bytes(l, ids[i]),
                                         .group = LARDER_NO_GROUP,
                                         .score = NAN};
    v->place = (larder__place){.bytes = v->bytes,
                               .served = v->served,
                               .kind = v->kind,
                               .form = v->form,
                               .read_bytes = v->read_bytes,
                               .faults = v->faults,
                               .plan = {.tickets = v->tickets, .accesses = v->accesses}};
    larder__cache *cache = larder__draw_cache(l->draw);
    bool looks =
        larder__draw_ranks(l->draw); /* what one rank asks for, the others do not hear of */
    int rc = looks ? 0 : larder__cache_claim(cache, v->accesses, n, v->tickets);
    for (size_t i = 0; looks && rc == 0 && i < n; i++) {
        rc = larder__cache_reclaim(cache, ids[i], v->accesses[i].size, LARDER_ENCODED, 0,
                                   &v->tickets[i]);
        for (size_t k = 0; rc < 0 && k < i; k++)
            give_up(cache, &v->tickets[k]);
    }
    if (rc < 0)
        return rc;
    v->place.plan.n = n;
    larder__rows_read(l, &v->place, 0, n);
    for (size_t i = 0; i < n; i++) /* in whatever order they come, so it is settled at once */
        if (v->tickets[i].make == LARDER_SHRUNK && v->tickets[i].form != LARDER_SHRUNK)
            larder__cache_settle(cache, v->tickets[i].key, 0);
    return 0;
}

static int finish_visit(larder_loader *l, larder__scratch *scratch, visit *v, size_t n,
                        const uint64_t *chance, void *x, int64_t *y) {
    v->place.calm = chance == NULL;
    v->place.chances = chance;
    v->place.x = x;
    v->place.y = y;
    larder__rows_prepare(l, scratch, &v->place, 0, n);
    for (size_t i = 0; i < n; i++)
        if (v->faults[i].code < 0)
            return larder__fail(v->faults[i].code, "%s", v->faults[i].why);
    return 0;
}

static int get_some(larder_loader *l, larder__scratch *scratch, visit *v, const uint64_t *ids,
                    size_t n, const uint64_t *chance, void *x, int64_t *y) {
    int rc = begin_visit(l, v, ids, n);
    return rc < 0 ? rc : finish_visit(l, scratch, v, n, chance, x, y);
}

/* Without the lock: whoever comes by id waits for storage and for the cache, not for batches. */
static int visit_open(larder_loader *l, const uint64_t *ids, size_t n, larder__scratch **scratch,
                      visit **v) {
    *v = NULL;
    *scratch = NULL;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    pthread_mutex_unlock(&l->lock);
    if (l->device)
        return larder__fail(LARDER_E_STATE, "samples by id lie in memory, and batches of this "
                                            "loader are for a device: open another without one");
    if ((rc = may_visit(l, ids, n)) < 0 || (rc = larder__loader_scratch(l, scratch)) < 0)
        return rc;
    *v = larder__malloc(sizeof **v);
    return *v ? 0 : LARDER_E_NOMEM;
}

static void visit_close(larder__scratch **scratch, visit **v) {
    larder__scratch_close(scratch);
    larder__free(*v);
    *v = NULL;
}

/* A batch of its own, which is on hold from the start. */
static int gather(larder_loader *l, larder__scratch *scratch, visit *v, const uint64_t *ids,
                  size_t n, const uint64_t *chance, const larder_batch **out) {
    larder__pixel_block *block;
    int64_t y[LARDER__ROWS_AT_ONCE];
    float weight[LARDER__ROWS_AT_ONCE];
    if (n > LARDER__ROWS_AT_ONCE || n > l->conf.batch)
        return larder__fail(LARDER_E_ARGS, "%zu samples at once; at most %d, and a batch of %zu", n,
                            LARDER__ROWS_AT_ONCE, l->conf.batch);
    int rc = larder__pixel_block_take(l->pool, &block);
    if (rc == 0)
        rc = begin_visit(l, v, ids, n);
    if (rc == 0) {
        larder__place_lend(l, &v->place, block);
        rc = finish_visit(l, scratch, v, n, chance, v->place.x, y);
    }
    if (rc == 0) {
        for (size_t i = 0; i < n; i++)
            weight[i] = 1;
        larder_batch b = v->place.batch;
        b.size = sizeof b;
        b.n = n;
        b.shape = larder__loader_shape(l);
        b.dtype = l->conf.dtype;
        b.layout = l->conf.layout;
        b.views = (uint32_t)l->conf.views;
        b.mix_weight = 1;
        b.y = y;
        b.ids = b.served = v->served;
        b.kind = v->kind;
        b.weight = weight;
        *out = larder__pixel_block_hold(block, &b);
    }
    larder__pixel_block_unref(&block);
    return rc;
}

int larder_loader_gather(larder_loader *l, const uint64_t *ids, size_t n, const uint64_t *chance,
                         const larder_batch **out) {
    larder__scratch *scratch;
    visit *v;
    *out = NULL;
    int rc = visit_open(l, ids, n, &scratch, &v);
    if (rc == 0)
        rc = gather(l, scratch, v, ids, n, chance, out);
    visit_close(&scratch, &v);
    return rc;
}

/* By way of a batch: columns have no other place to go. */
static int get_of_columns(larder_loader *l, larder__scratch *scratch, visit *v, const uint64_t *ids,
                          size_t n, const uint64_t *chance, void *x, int64_t *y) {
    size_t most = l->conf.batch < LARDER__ROWS_AT_ONCE ? l->conf.batch : LARDER__ROWS_AT_ONCE;
    int rc = 0;
    for (size_t at = 0, some; rc == 0 && at < n; at += some) {
        const larder_batch *b = NULL;
        some = n - at < most ? n - at : most;
        rc = gather(l, scratch, v, ids + at, some, chance ? chance + at : NULL, &b);
        if (rc == 0 && b->x)
            memcpy((unsigned char *)x + at * l->row_bytes, b->x, some * l->row_bytes);
        if (rc == 0)
            memcpy(y + at, b->y, some * sizeof *y);
        larder_batch_release(&b);
    }
    return rc;
}

static int get_labels(larder_loader *l, const uint64_t *ids, size_t n, int64_t *y) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    pthread_mutex_unlock(&l->lock);
    rc = check_ids(l, ids, n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        larder_sample s = {.label = -1};
        rc = larder__data_stat(l->data, ids[i], &s);
        y[i] = l->targets ? larder__targets_label(l->targets, ids[i]) : s.label;
    }
    return rc;
}

int larder_loader_get(larder_loader *l, const uint64_t *ids, size_t n, const uint64_t *chance,
                      void *x, int64_t *y) {
    larder__scratch *scratch;
    visit *v;
    if (!x)
        return get_labels(l, ids, n, y);
    int rc = visit_open(l, ids, n, &scratch, &v);
    if (rc == 0 && l->columns) {
        rc = get_of_columns(l, scratch, v, ids, n, chance, x, y);
        n = 0;
    }
    for (size_t at = 0, some; rc == 0 && at < n; at += some) {
        some = n - at < LARDER__ROWS_AT_ONCE ? n - at : LARDER__ROWS_AT_ONCE;
        rc = get_some(l, scratch, v, ids + at, some, chance ? chance + at : NULL,
                      (unsigned char *)x + at * l->row_bytes, y + at);
    }
    visit_close(&scratch, &v);
    return rc;
}

/* ---- one sample as it is --------------------------------------------------------------------- */

static int pixels_of(larder_loader *l, larder__scratch *scratch, larder_buf **buf, uint8_t held,
                     larder_item *out) {
    larder_buf *pixels = NULL;
    int rc = 0;
    if (held == LARDER_ENCODED) {
        rc = larder__pipeline_decode(l->pipeline, scratch, *buf, SIZE_MAX, &pixels);
        larder_buf_unref(buf);
        *buf = pixels;
    }
    out->buf = *buf;
    return rc < 0 ? rc : larder__pipeline_pixels(l->pipeline, *buf, out);
}

static int take_item(larder_loader *l, uint64_t id, larder_form form, larder_item *out) {
    larder__scratch *scratch;
    visit *v;
    larder_sample s = {.label = -1};
    int rc = visit_open(l, &id, 1, &scratch, &v);
    if (rc == 0 && (rc = larder__data_stat(l->data, id, &s)) == 0 &&
        (rc = begin_visit(l, v, &id, 1)) == 0) {
        uint8_t held = LARDER_ENCODED;
        rc = larder__row_bytes(l, &v->place, 0, &out->buf, &held);
        if (rc == 0 && held != LARDER_ENCODED && held != form) {
            larder_buf_unref(&out->buf); /* the cache keeps what was made of it: storage has it */
            rc = larder__row_alone(l, &v->place, id, &out->buf);
            held = LARDER_ENCODED;
        }
        if (rc == 0 && form == LARDER_DECODED && larder__data_about(l->data)->parcels)
            rc = larder__fail(LARDER_E_ARGS, "a sample of several fields has no one picture");
        else if (rc == 0 && form == LARDER_DECODED) {
            rc = pixels_of(l, scratch, &out->buf, held, out);
            rc = rc < 0 ? larder__row_blame(l, id, rc) : 0;
        } else if (rc == 0) {
            out->data = larder_buf_data(out->buf);
            out->bytes = larder_buf_size(out->buf);
        }
        if (rc < 0)
            larder_buf_unref(&out->buf);
    }
    out->label = s.label;
    visit_close(&scratch, &v);
    return rc;
}

int larder_loader_item(larder_loader *l, uint64_t id, larder_form form, larder_item *out) {
    larder_item own = {.label = -1};
    int rc = larder__sized_out(out, &own, sizeof own, "larder_item");
    if (rc < 0)
        return rc;
    if (form != LARDER_ENCODED && form != LARDER_DECODED)
        return larder__fail(LARDER_E_ARGS, "a sample before any stage is encoded or decoded");
    rc = take_item(l, id, form, &own);
    larder__sized_out(out, &own, sizeof own, "larder_item");
    return rc;
}
