/* A batch as decided: its memory, and what it asks of storage. */
#include "base/mem.h"
#include "loader/draw_inside.h"

#include <math.h>

/* Entries brought in with one batch at most: so many, or as many as the batch has. */
enum { FETCH_AT_ONCE = 4096 }; /* a package of 1 MiB has 1338 samples of 784 bytes */

size_t larder__draw_fetch_room(const larder__draw *d) {
    size_t room = d->conf.batch > FETCH_AT_ONCE ? d->conf.batch : FETCH_AT_ONCE;
    return d->recipe.policy->fetch ? room : 0;
}

size_t larder__planned_room(const larder__draw *d) {
    return d->conf.batch + larder__draw_fetch_room(d);
}

int larder__planned_open(larder__planned *p, const larder__draw *d) {
    uint64_t batch = d->conf.batch, all = larder__planned_room(d);
    *p = (larder__planned){0};
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

void larder__planned_close(larder__planned *p) {
    larder__free(p->ids);
    larder__free(p->weights);
    larder__free(p->accesses);
    larder__free(p->tickets);
    larder__free(p->holds);
    *p = (larder__planned){0};
}

larder_rect larder__planned_rect(const larder__planned *p, const larder__parts *parts, size_t i) {
    const larder__ticket *t = &p->tickets[i];
    if (!t->kept && i < p->n)
        return larder__parts_need(parts, p->number, i, t->key);
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

void larder__planned_note_plan(larder__planned *p, const larder__draw *d) {
    const larder__turns *t = &d->replan.turns;
    p->split = d->replan.split;
    p->plan_changes = t->count;
    p->plan_bottleneck = t->count ? (double)t->at[t->count - 1].bottleneck : (double)NAN;
    p->plan_rate = t->count ? t->at[t->count - 1].expected : (double)NAN;
}
