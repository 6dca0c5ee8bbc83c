/* A batch as decided: its memory, and what it asks of storage. */
#include "base/mem.h"
#include "loader/draw/draw_inside.h"

#include <math.h>

/* Entries brought in with one batch at most: so many, or as many as the batch has. */
enum { FETCH_AT_ONCE = 4096 }; /* a package of 1 MiB has 1338 samples of 784 bytes */

size_t larder__draw_fetch_room(const larder__draw *d) {
    size_t room = d->conf.batch > FETCH_AT_ONCE ? d->conf.batch : FETCH_AT_ONCE;
    if (d->recipe.sampler->brings)
        return d->recipe.sampler->brings_most(d->sampler);
    return d->recipe.policy->brings ? room : 0;
}

size_t larder__planned_room(const larder__draw *d) {
    return larder__draw_slice(d, 0, d->conf.batch).n + larder__draw_fetch_room(d);
}

static int open_rows(larder__planned *p, const larder__draw *d, size_t batch) {
    size_t all = batch + larder__draw_fetch_room(d);
    *p = (larder__planned){.step = 1};
    p->ids = larder__calloc(batch, sizeof *p->ids);
    p->weights = larder__calloc(batch, sizeof *p->weights);
    p->accesses = larder__calloc(all, sizeof *p->accesses);
    p->tickets = larder__calloc(all, sizeof *p->tickets);
    bool keep = larder__parts_keep(d->conf.parts);
    p->holds = keep ? larder__calloc(all, sizeof *p->holds) : NULL;
    if (p->ids && p->weights && p->accesses && p->tickets && (p->holds || !keep))
        return 0;
    larder__planned_close(p);
    return LARDER_E_NOMEM;
}

int larder__planned_open(larder__planned *p, const larder__draw *d) {
    int rc = open_rows(p, d, larder__draw_slice(d, 0, d->conf.batch).n);
    if (rc < 0 || !d->ranks.world)
        return rc;
    p->whole = larder__calloc(d->conf.batch, sizeof *p->whole);
    if (p->whole)
        return 0;
    larder__planned_close(p);
    return LARDER_E_NOMEM;
}

int larder__planned_open_all(larder__planned *p, const larder__draw *d) {
    return open_rows(p, d, d->conf.batch);
}

void larder__planned_close(larder__planned *p) {
    larder__free(p->ids);
    larder__free(p->weights);
    larder__free(p->accesses);
    larder__free(p->tickets);
    larder__free(p->holds);
    larder__free(p->whole);
    *p = (larder__planned){0};
}

static void note_whole(const larder__planned *all, larder__planned *p) {
    p->whole_n = all->n;
    for (size_t i = 0; i < all->n; i++) {
        const larder__ticket *t = &all->tickets[i];
        p->whole[i] = (larder__decided){.id = all->ids[i],
                                        .key = t->key,
                                        .mark = t->mark,
                                        .weight = all->weights[i],
                                        .substitute = t->kind == LARDER_SUBSTITUTE,
                                        .form = t->form};
    }
}

static void take_entries(const larder__planned *all, larder__planned *p, size_t to, size_t first,
                         const larder__slice *s) {
    for (size_t i = 0; i < s->n; i++) {
        size_t from = first + larder__slice_row(s, i);
        p->accesses[to + i] = all->accesses[from];
        p->tickets[to + i] = all->tickets[from];
    }
}

int larder__draw_hand_over(larder__draw *d, larder__planned *p) {
    larder__planned *all = &d->all, own = *p;
    larder__slice s = larder__draw_slice(d, all->number, all->n);
    larder__slice f = larder__ranks_share(&d->ranks, all->number, all->fetched);
    *p = *all;
    p->ids = own.ids, p->weights = own.weights;
    p->accesses = own.accesses, p->tickets = own.tickets;
    p->holds = own.holds, p->whole = own.whole;
    note_whole(all, p);
    p->n = s.n;
    p->at = s.from;
    p->step = s.step;
    p->again = s.again;
    p->fetched = f.n;
    p->length = larder__draw_share(d, all->length);
    p->whole_length = all->length;
    for (size_t i = 0; i < s.n; i++) {
        p->ids[i] = all->ids[larder__slice_row(&s, i)];
        p->weights[i] = all->weights[larder__slice_row(&s, i)];
    }
    take_entries(all, p, 0, 0, &s);
    take_entries(all, p, s.n, all->n, &f);
    memset(all->tickets, 0, (all->n + all->fetched) * sizeof *all->tickets); /* settled by others */
    if (!s.again)
        return 0;
    const larder__decided *row = &p->whole[s.from];
    p->tickets[0] = (larder__ticket){0};
    return larder__cache_reclaim(d->cache, row->key, p->accesses[0].size, (larder_form)row->form,
                                 row->mark, &p->tickets[0]);
}

larder_rect larder__planned_rect(const larder__planned *p, const larder__parts *parts, size_t i) {
    const larder__ticket *t = &p->tickets[i];
    if (!t->kept && t->make != LARDER_SHRUNK && i < p->n)
        return larder__parts_need(parts, p->number, larder__planned_place(p, i), t->key);
    return p->holds ? p->holds[i] : larder__parts_whole(parts, t->key);
}

uint32_t larder__planned_bytes(const larder__planned *p, const larder__parts *parts, size_t i) {
    if (p->tickets[i].kind != LARDER_MISS)
        return 0;
    if (!parts || p->tickets[i].kept)
        return p->accesses[i].size;
    larder_rect r = larder__planned_rect(p, parts, i);
    return larder__parts_bytes(parts, p->tickets[i].key, &r);
}

uint64_t larder__planned_reads(const larder__planned *p) {
    uint64_t reads = 0;
    for (size_t i = p->n; i < p->n + p->fetched; i++)
        reads += p->tickets[i].kind == LARDER_MISS;
    return reads;
}

uint64_t larder__planned_requests(const larder__planned *p) {
    uint64_t requests = 0, last = UINT64_MAX;
    for (size_t i = 0; i < p->n + p->fetched; i++) {
        if (p->tickets[i].kind != LARDER_MISS)
            continue;
        uint64_t id = p->tickets[i].key;
        requests += i < p->n || last == UINT64_MAX || id <= last || id > last + 2;
        last = i < p->n ? UINT64_MAX : id;
    }
    return requests;
}

void larder__planned_note_plan(larder__planned *p, const larder__draw *d) {
    const larder__turns *t = &d->replan.turns;
    p->split = d->replan.split;
    p->plan_changes = t->count;
    p->plan_bottleneck = t->count ? (double)t->at[t->count - 1].bottleneck : (double)NAN;
    p->plan_rate = t->count ? t->at[t->count - 1].expected : (double)NAN;
}
