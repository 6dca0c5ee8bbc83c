/* When it is decided what shrunk entries weigh.
 *
 * A cache decides before a byte is read, so a shrunk entry first counts for its file's size, which
 * it never exceeds. What it really came to is known once it is made; it is told to the cache a
 * fixed number of batches later. So decisions follow from the order alone, as everything else does:
 * an entry that is not made by then, as after a restore, is made once more for its size. */
#include "base/grow.h"
#include "loader/draw/draw_inside.h"

void larder__draw_settle_after(larder__draw *d, uint32_t after) { d->unsettled.after = after; }

int larder__unsettled_note(larder__draw *d, const larder__ticket *t, size_t n) {
    larder__unsettled *u = &d->unsettled;
    for (size_t i = 0; d->recipe.shrink.on && i < n; i++) {
        if (t[i].make != LARDER_SHRUNK || t[i].form == LARDER_SHRUNK)
            continue;
        int rc = larder__grow(&u->at, &u->cap, u->count + 1, sizeof *u->at);
        if (rc < 0)
            return rc;
        u->at[u->count++] = (larder__unsettled_entry){d->number + u->after, t[i].key};
    }
    return 0;
}

void larder__unsettled_settle(larder__draw *d) {
    larder__unsettled *u = &d->unsettled;
    for (; u->from < u->count && u->at[u->from].due <= d->number; u->from++) {
        uint64_t key = u->at[u->from].key;
        uint32_t size =
            larder__cache_settle(d->cache, key, 0) ? 0 : d->conf.shrunk_size(d->conf.size_arg, key);
        if (size)
            larder__cache_settle(d->cache, key, size);
    }
    if (u->from > u->count / 2) { /* what is left moves to the front, now and then */
        memmove(u->at, u->at + u->from, (u->count - u->from) * sizeof *u->at);
        u->count -= u->from;
        u->from = 0;
    }
}

void larder__unsettled_save(const larder__draw *d, larder_writer *w) {
    const larder__unsettled *u = &d->unsettled;
    larder_write_u32(w, d->conf.shrink.side);
    larder_write_u32(w, d->conf.shrink.quality);
    larder_write_u32(w, u->after);
    larder_write_u64(w, u->count - u->from);
    for (size_t i = u->from; i < u->count; i++) {
        larder_write_u64(w, u->at[i].due);
        larder_write_u64(w, u->at[i].key);
    }
}

int larder__unsettled_load(larder__draw *d, larder_reader *r) {
    larder__unsettled *u = &d->unsettled;
    uint32_t side = larder_read_u32(r), quality = larder_read_u32(r);
    u->after =
        larder_read_u32(r); /* of whoever began: else it would decide otherwise from here on */
    uint64_t n = larder_read_u64(r);
    if (larder_read_status(r) == 0 &&
        (side != d->conf.shrink.side || quality != d->conf.shrink.quality))
        return larder_read_reject(r, "its samples were shrunk to another size (shrink=auto follows "
                                     "from augment)");
    if (larder_read_status(r) < 0 || n > larder__read_left(r) / 16)
        return larder_read_reject(r, "its list of shrunk samples does not fit");
    int rc = larder__grow(&u->at, &u->cap, (size_t)n, sizeof *u->at);
    for (u->from = u->count = 0; rc == 0 && u->count < n; u->count++) {
        larder__unsettled_entry e = {.due = larder_read_u64(r)};
        e.key = larder_read_u64(r);
        if (e.key >= d->conf.n)
            return larder_read_reject(r, "its list of shrunk samples makes no sense");
        u->at[u->count] = e;
    }
    return rc < 0 ? rc : larder_read_status(r);
}
