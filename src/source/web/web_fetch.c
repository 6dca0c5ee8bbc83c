/* From what samples need to requests: wants that lie near each other in one object become one
 * range, since a request costs more than some bytes that nobody wants. */
#include "source/web/web_data.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

int larder__web_wants_add(larder__web_wants *w, const larder__web_want *want) {
    int rc = larder__grow(&w->items, &w->cap, w->used + 1, sizeof *w->items);
    if (rc == 0)
        w->items[w->used++] = *want;
    return rc;
}

static int by_place(const void *a, const void *b) {
    const larder__web_want *x = a, *y = b;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* How many wants from items[i] on one request serves. */
static size_t run_of(const larder__web_data *d, const larder__web_wants *w, size_t i) {
    const larder__web_want *first = &w->items[i];
    uint64_t end = first->at + first->n;
    size_t k = i + 1;
    for (; k < w->used; k++) {
        const larder__web_want *next = &w->items[k];
        if (next->object != first->object || next->at < end || next->at - end > d->gap ||
            next->at + next->n - first->at > d->range)
            break;
        end = next->at + next->n;
    }
    return k - i;
}

typedef struct fetching { /* one call's requests */
    larder__web_request *requests;
    larder__web_piece *pieces; /* one a want, in the same order */
    size_t *firsts;            /* first want of each request, and their number at the end */
    size_t used;
} fetching;

static void fetching_free(fetching *f) {
    for (size_t i = 0; i < f->used; i++)
        larder__free((char *)f->requests[i].key);
    larder__free(f->requests);
    larder__free(f->pieces);
    larder__free(f->firsts);
}

static int add_request(larder__web_data *d, fetching *f, const larder__web_wants *w, size_t i,
                       size_t n) {
    const larder__web_want *first = &w->items[i], *last = &w->items[i + n - 1];
    uint64_t size = d->objects.bytes[first->object];
    char *key = larder__web_objects_key(&d->objects, first->object);
    if (!key)
        return LARDER_E_NOMEM;
    larder__web_request *r = &f->requests[f->used];
    *r = (larder__web_request){.key = key,
                               .from = first->at,
                               .bytes = last->at + last->n - first->at,
                               .object = size,
                               .pieces = f->pieces + i,
                               .piece_count = n};
    r->ranged = r->bytes != size;
    if (d->check)
        r->tag = larder__web_objects_tag(&d->objects, first->object);
    for (size_t k = i; k < i + n; k++)
        f->pieces[k] =
            (larder__web_piece){w->items[k].at - first->at, w->items[k].n, w->items[k].to};
    f->firsts[f->used++] = i;
    return 0;
}

/* Requests are large: first how many, then all of them. */
static int make_requests(larder__web_data *d, fetching *f, const larder__web_wants *w) {
    size_t count = 0;
    for (size_t i = 0; i < w->used; i += run_of(d, w, i))
        count++;
    f->requests = larder__malloc(count * sizeof *f->requests);
    f->pieces = larder__malloc(w->used * sizeof *f->pieces);
    f->firsts = larder__malloc((count + 1) * sizeof *f->firsts);
    int rc = f->requests && f->pieces && f->firsts ? 0 : LARDER_E_NOMEM;
    for (size_t i = 0, n; rc == 0 && i < w->used; i += n) {
        n = run_of(d, w, i);
        rc = add_request(d, f, w, i, n);
    }
    if (rc == 0)
        f->firsts[f->used] = w->used;
    return rc;
}

int larder__web_fetch(larder__web_data *d, larder__web_wants *w, larder_read *out) {
    fetching f = {0};
    if (w->used == 0)
        return 0;
    qsort(w->items, w->used, sizeof *w->items, by_place);
    int rc = make_requests(d, &f, w);
    if (rc == 0)
        larder__web_run(d->web, f.requests, f.used);
    for (size_t i = 0; rc == 0 && i < f.used; i++) {
        const larder__web_request *r = &f.requests[i];
        larder_note_requests(r->tries ? r->tries : 1);
        if (r->code == 0)
            larder__web_objects_seen(&d->objects, w->items[f.firsts[i]].object, r->answer.tag);
        for (size_t k = f.firsts[i]; r->code < 0 && k < f.firsts[i + 1]; k++) {
            larder_read *to = &out[w->items[k].sample];
            to->code = r->code;
            memcpy(to->why, r->why, sizeof to->why);
        }
    }
    fetching_free(&f);
    return rc;
}

int larder__web_get(larder__web_data *d, const larder__web_objects *o, uint64_t object, void *out,
                    size_t n, uint64_t at) {
    larder__web_piece piece = {0, n, out};
    char *key = larder__web_objects_key(o, object);
    if (!key)
        return LARDER_E_NOMEM;
    larder__web_request r = {.key = key,
                             .ranged = n != o->bytes[object],
                             .from = at,
                             .bytes = n,
                             .object = o->bytes[object],
                             .tag = d->check ? larder__web_objects_tag(o, object) : 0,
                             .pieces = &piece,
                             .piece_count = 1};
    larder__web_run(d->web, &r, 1);
    larder_note_requests(r.tries ? r.tries : 1);
    larder__free(key);
    return r.code < 0 ? larder__fail(r.code, "%s", r.why) : 0;
}
