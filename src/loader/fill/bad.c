/* Bad samples: rows that could not be read or decoded. `fail` ends the run, `skip` leaves the row
 * out of its batch, `replace` puts another sample there, chosen by seed and place alone. Others are
 * read by the thread that finishes the batch; what follows from it is booked when the batch is
 * handed out, so that it depends on the order and not on thread timing. */
#include "base/asked.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <stdio.h>

enum { TRIES = 16 }; /* replacements tried for one row */

/* Out of memory, or a worker that has ended, is our trouble, not the sample's: leaving samples out
 * would hide it. */
static bool is_ours(int code) { return code == LARDER_E_NOMEM || code == LARDER_E_STATE; }

static int list_bad(larder_loader *l, uint64_t id, const larder__row_fault *f) {
    l->bad_total++;
    larder__stat_add(l->stats, l->stat.bad, 1);
    if (l->bad_count == LARDER__BAD_LISTED)
        return 0;
    if (larder__grow(&l->bad, &l->bad_cap, l->bad_count + 1, sizeof *l->bad) < 0)
        return LARDER_E_NOMEM;
    larder_bad *b = &l->bad[l->bad_count++];
    *b = (larder_bad){.id = id, .code = f->code};
    memcpy(b->why, f->why, sizeof f->why);
    return 0;
}

static bool in_batch(const larder__place *p, uint64_t id) {
    for (size_t i = 0; i < p->plan.n; i++)
        if ((p->faults[i].code == 0 || p->kind[i] == LARDER_REPLACED
                 ? p->served[i]
                 : p->plan.tickets[i].key) == id)
            return true;
    return false;
}

/* One try: reads and decodes sample `id` into the row. */
static int put_instead(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       uint64_t id) {
    larder_read read = {0};
    uint64_t before = larder__requests();
    int rc = larder__data_read(l->data, &id, 1, &read);
    if (rc == 0 && read.code < 0)
        rc = larder__fail(read.code, "%s", read.why);
    if (rc < 0)
        return rc;
    p->read_bytes[row] += (uint32_t)larder_buf_size(read.buf);
    larder__joint_note(l, p, before, 1, larder_buf_size(read.buf));
    rc = larder__row_decode(l, scratch, p, row, id, read.buf, LARDER_ENCODED,
                            larder__row_seed(l, &p->plan, row));
    larder_buf_unref(&read.buf);
    return rc;
}

static void replace_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row) {
    larder_rng rng;
    larder_rng_seed(&rng, l->conf.seed ^ 0xbad, larder__row_seed(l, &p->plan, row));
    uint64_t n = larder__data_about(l->data)->count;
    for (int k = 0; k < TRIES; k++) {
        uint64_t id = larder_rng_below(&rng, (uint32_t)n);
        if (in_batch(p, id) && k < TRIES / 2) /* a tiny data set may have no other choice */
            continue;
        if (put_instead(l, scratch, p, row, id) == 0) {
            p->kind[row] = LARDER_REPLACED; /* the fault stays, to be booked */
            return;
        }
    }
}

void larder__bad_replace(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    for (size_t i = 0; p->faulty && i < p->plan.n; i++)
        if (p->faults[i].code < 0 && !is_ours(p->faults[i].code))
            replace_row(l, scratch, p, i);
}

static int accept_replacement(larder__place *p, size_t row) {
    larder__row_fault *f = &p->faults[row];
    if (p->kind[row] != LARDER_REPLACED)
        return larder__fail(f->code, "%s; no replacement found in %d tries", f->why, TRIES);
    f->code = 0;
    return 0;
}

static void move_row(larder_loader *l, larder__place *p, size_t to, size_t from) {
    size_t x = larder__x_bytes(l);
    if (l->device)
        larder__twin_move(larder__pixel_block_beside(p->block), to, from);
    else
        memcpy(p->x + to * x, p->x + from * x, x);
    if (l->columns && !l->maker.whole)
        larder__pixel_block_move(p->block, to, from);
    p->y[to] = p->y[from];
    p->served[to] = p->served[from];
    p->kind[to] = p->kind[from];
    p->form[to] = p->form[from];
    p->read_bytes[to] = p->read_bytes[from];
    p->plan.ids[to] = p->plan.ids[from];
    p->plan.weights[to] = p->plan.weights[from];
    p->faults[to].code = p->faults[from].code;
}

static int skip_rows(larder_loader *l, larder__place *p) {
    size_t kept = 0, first_bad = 0;
    for (size_t i = 0; i < p->plan.n; i++) {
        if (p->faults[i].code < 0) {
            first_bad = i;
            if (p->read_bytes[i]) /* read in vain, but read */
                larder__ledger_background(l->ledger, 1, p->read_bytes[i]);
            continue;
        }
        if (kept != i)
            move_row(l, p, kept, i);
        kept++;
    }
    if (kept == 0)
        return larder__fail(p->faults[first_bad].code, "every sample of batch %llu is bad: %s",
                            (unsigned long long)p->plan.number, p->faults[first_bad].why);
    p->plan.n = kept;
    return 0;
}

int larder__bad_settle(larder_loader *l, larder__place *p) {
    size_t bad = 0;
    for (size_t i = 0; p->faulty && i < p->plan.n; i++) {
        if (p->faults[i].code == 0)
            continue;
        if (is_ours(p->faults[i].code))
            return larder__fail(p->faults[i].code, "%s", p->faults[i].why);
        if (l->conf.on_bad == LARDER_BAD_FAIL)
            return larder__fail(p->faults[i].code, "%s%s", p->faults[i].why,
                                p->faults[i].code == LARDER_E_FORMAT ? "; on_bad=skip leaves it out"
                                                                     : "");
        int rc = list_bad(l, p->plan.tickets[i].key, &p->faults[i]);
        if (rc == 0 && l->conf.on_bad == LARDER_BAD_REPLACE)
            rc = accept_replacement(p, i);
        if (rc < 0)
            return rc;
        bad++;
    }
    if (bad)
        larder__ledger_bad(l->ledger, bad);
    return bad && l->conf.on_bad == LARDER_BAD_SKIP ? skip_rows(l, p) : 0;
}
