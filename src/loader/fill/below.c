#include "loader/fill/below.h"

#include "base/err.h"
#include "base/hash.h"
#include "disk/disk_store.h"

static larder__value encoded(uint64_t id, uint32_t size) {
    return (larder__value){.id = id, .size = size, .form = LARDER_ENCODED, .held = LARDER_ENCODED};
}

int larder__below_open(larder_loader *l) {
    const larder__cache_tier *below = &l->cache.below;
    const larder_dataset *about = larder__data_about(l->data);
    if (below->place != LARDER__ON_DISK || l->conf.order_only)
        return 0;
    if (l->own)
        return larder__fail(LARDER_E_UNSUPPORTED, "a data set of your own is cached in this "
                                                  "process's memory alone, not on a disk");
    if (l->parts)
        return larder__fail(LARDER_E_ARGS, "a cache on a disk keeps whole samples, not parts");
    larder__disk_measure m =
        larder__disk_measured(about->count, about->bytes, 0, larder__entry_bytes, l);
    uint64_t bytes = larder__cache_tier_bytes(below, about->bytes);
    larder__disk_conf conf = {.folder = l->cache.disk.folder,
                              .budget = !below->text[0]          ? 0
                                        : below->budget.relative ? larder__disk_takes(&m, bytes)
                                                                 : bytes,
                              .identity = larder__mix64(about->identity),
                              .keys = about->count,
                              .name = l->conf.source,
                              .wear = l->cache.disk.wear,
                              .patience = l->cache.disk.patience,
                              .stats = l->stats};
    return larder__disk_open(&l->below, &conf);
}

void larder__below_close(larder_loader *l) { larder__disk_close(&l->below); }

static void swap(larder__joint *j, size_t a, size_t b) {
    uint64_t id = j->ids[a];
    size_t row = j->rows[a];
    larder_read read = j->reads[a];
    j->ids[a] = j->ids[b], j->ids[b] = id;
    j->rows[a] = j->rows[b], j->rows[b] = row;
    j->reads[a] = j->reads[b], j->reads[b] = read;
}

static size_t part(larder__joint *j, size_t m) {
    for (size_t k = 0; k < m;)
        if (j->reads[k].buf)
            swap(j, k, --m);
        else
            k++;
    return m;
}

/* Up to LARDER__ROWS_AT_ONCE of them, sent for together. */
static void fetch_some(larder__disk *disk, const uint64_t *ids, larder_read *reads, size_t m) {
    larder__disk_fetch *fetches[LARDER__ROWS_AT_ONCE] = {0};
    size_t of[LARDER__ROWS_AT_ONCE] = {0}, n = 0;
    for (size_t k = 0; k < m; k++) {
        larder__value v = encoded(ids[k], 0);
        reads[k] = (larder_read){.buf = larder__disk_queued(disk, &v)};
        if (reads[k].buf || !larder__disk_has(disk, ids[k]) ||
            !(fetches[n] = larder__disk_fetch_new(&v)))
            continue;
        of[n++] = k;
    }
    larder__disk_send(disk, fetches, n);
    for (size_t i = 0; i < n; i++) {
        reads[of[i]].buf = larder__disk_receive(disk, fetches[i]);
        larder__disk_fetch_unref(&fetches[i]);
    }
}

size_t larder__below_take(larder_loader *l, larder__joint *j, size_t m) {
    for (size_t k = 0; k < m; k += LARDER__ROWS_AT_ONCE)
        fetch_some(l->below, j->ids + k, j->reads + k,
                   m - k < LARDER__ROWS_AT_ONCE ? m - k : LARDER__ROWS_AT_ONCE);
    return part(j, m);
}

void larder__below_keep(larder_loader *l, const larder__joint *j, size_t m) {
    for (size_t k = 0; k < m; k++)
        if (j->reads[k].code >= 0 && j->reads[k].buf) {
            larder__value v = encoded(j->ids[k], (uint32_t)larder_buf_size(j->reads[k].buf));
            larder__disk_put(l->below, &v, j->reads[k].buf);
        }
}

int larder__below_alone(larder_loader *l, larder__place *p, uint64_t id, larder_buf **out) {
    larder_read read = {0};
    size_t row = 0;
    larder__joint j = {.ids = &id, .rows = &row, .reads = &read};
    if (l->below && larder__below_take(l, &j, 1) == 0) {
        *out = read.buf;
        return 0;
    }
    int rc = larder__row_alone(l, p, id, out);
    if (rc == 0 && l->below) {
        read.buf = *out;
        larder__below_keep(l, &j, 1);
    }
    return rc;
}
