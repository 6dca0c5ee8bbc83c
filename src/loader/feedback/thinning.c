#include "loader/feedback/thinning.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>

enum { REPORTS_MOST = INT32_MAX }; /* far from the numbers that mean something else */

int larder__thinning_open(larder__thinning *t, uint64_t n) {
    if (t->scored)
        return 0;
    *t = (larder__thinning){.n = n, .scored = larder__calloc(n + 1, sizeof *t->scored)};
    return t->scored ? 0
                     : larder__fail(LARDER_E_NOMEM, "no memory for when %llu samples were scored",
                                    (unsigned long long)n);
}

void larder__thinning_close(larder__thinning *t) {
    larder__free(t->scored);
    *t = (larder__thinning){0};
}

uint32_t larder__thinning_stride(uint32_t waiting) {
    static const uint32_t strides[] = {1, 1, 2, 3, 4, 6, LARDER__STRIDE_MOST, LARDER__STRIDE_MOST};
    return waiting < sizeof strides / sizeof *strides ? strides[waiting] : 0;
}

typedef struct row {
    uint32_t scored, at;
} row;

static int longest_ago_first(const void *a, const void *b) {
    const row *x = a, *y = b;
    return x->scored != y->scored ? (x->scored > y->scored) - (x->scored < y->scored)
                                  : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b) {
    const row *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Of an id that stands there twice the last row counts, the others come last of all. All samples of
 * the report are marked as scored. */
static void rank_rows(larder__thinning *t, const larder_report *r, row *rows) {
    uint32_t now = ++t->reports;
    for (size_t i = r->n; i-- > 0;) {
        uint32_t *scored = &t->scored[r->ids[i]];
        rows[i] = (row){*scored == now ? UINT32_MAX : *scored, (uint32_t)i};
        *scored = now;
    }
}

static void move_rows(const void *array, size_t row_bytes, const row *rows, size_t n) {
    char *a = (char *)(uintptr_t)array;
    for (size_t i = 0; a && i < n; i++)
        memmove(a + i * row_bytes, a + rows[i].at * row_bytes, row_bytes);
}

int larder__thinning_keep(larder__thinning *t, larder_report *r, uint32_t stride, uint64_t *fresh) {
    *fresh = 0;
    if (!t->scored || r->n == 0)
        return 0;
    row *rows = larder__malloc(r->n * sizeof *rows);
    if (!rows)
        return LARDER_E_NOMEM;
    size_t keep = (r->n + stride - 1) / stride;
    rank_rows(t, r, rows);
    if (keep < r->n)
        qsort(rows, r->n, sizeof *rows, longest_ago_first);
    for (size_t i = keep; i < r->n; i++)
        if (rows[i].scored != UINT32_MAX) {
            t->scored[r->ids[rows[i].at]] = rows[i].scored;
            *fresh += rows[i].scored == 0;
        }
    if (keep < r->n) {
        qsort(rows, keep, sizeof *rows, by_place);
        move_rows(r->ids, sizeof *r->ids, rows, keep);
        move_rows(r->labels, sizeof *r->labels, rows, keep);
        move_rows(r->loss, sizeof *r->loss, rows, keep);
        move_rows(r->logits, r->classes * sizeof *r->logits, rows, keep);
        move_rows(r->embeddings, r->dim * sizeof *r->embeddings, rows, keep);
        r->n = keep;
    }
    larder__free(rows);
    return 0;
}

uint64_t larder__thinning_fresh(const larder__thinning *t, const larder_report *r) {
    uint64_t fresh = 0;
    for (size_t i = 0; t->scored && i < r->n; i++)
        fresh += t->scored[r->ids[i]] == 0;
    return fresh;
}

void larder__thinning_save(const larder__thinning *t, larder_writer *w) {
    larder_write_u32(w, t->scored != NULL);
    if (!t->scored)
        return;
    larder_write_u32(w, t->reports);
    larder_write_bytes(w, t->scored, t->n * sizeof *t->scored);
}

int larder__thinning_load(larder__thinning *t, larder_reader *r) {
    uint32_t there = larder_read_u32(r);
    if (there > 1 || larder_read_status(r) < 0)
        return larder_read_reject(r, "when samples were scored is not told");
    if (!there)
        return 0;
    /* A run that always waits has no use for it. */
    larder__thinning unused = {0}, *to = t->scored ? t : &unused;
    int rc = t->scored ? 0 : larder__thinning_open(&unused, t->n);
    if (rc == 0) {
        to->reports = larder_read_u32(r);
        larder_read_bytes(r, to->scored, to->n * sizeof *to->scored);
        if (to->reports > REPORTS_MOST)
            rc = larder_read_reject(r, "more reports were scored than can be");
        for (uint64_t i = 0; i < to->n && rc == 0; i++)
            if (to->scored[i] > to->reports)
                rc = larder_read_reject(r, "a sample was scored with a report that is to come");
    }
    larder__thinning_close(&unused);
    return rc < 0 ? rc : larder_read_status(r);
}
