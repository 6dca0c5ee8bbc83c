/* The deciding half's saved state. */
#include "base/err.h"
#include "base/mem.h"
#include "loader/draw/draw_inside.h"

static void save_turns(const larder__draw *d, larder_writer *w) {
    const larder_turn *t;
    size_t n = d->recipe.sampler->turns(d->sampler, &t);
    larder_write_u64(w, n);
    for (size_t i = 0; i < n; i++) {
        larder_write_u64(w, t[i].batch);
        larder_write_f64(w, t[i].value);
    }
}

static int load_turns(larder__draw *d, larder_reader *r,
                      int (*take)(void *st, const larder_turn *, size_t n)) {
    uint64_t n = larder_read_u64(r);
    if (larder_read_status(r) < 0 || n > larder__read_left(r) / 16)
        return larder_read_reject(r, "its list of measured decisions does not fit");
    larder_turn *t = larder__malloc((n + 1) * sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    for (uint64_t i = 0; i < n; i++) {
        t[i].batch = larder_read_u64(r);
        t[i].value = larder_read_f64(r);
    }
    int rc = take(d->sampler, t, (size_t)n);
    larder__free(t);
    return rc;
}

void larder__draw_effects(larder__draw *d, larder_writer *w) {
    if (d->scoring)
        larder__scoring_effects(d->scoring, w);
    if (d->recipe.replan)
        larder__replan_save(&d->replan, w);
    if (d->recipe.sampler->turns)
        save_turns(d, w);
}

int larder__draw_past(larder__draw *d, larder_reader *r) {
    const larder_sampler *s = d->recipe.sampler;
    int rc = d->scoring ? larder__scoring_past(d->scoring, r) : 0;
    if (rc == 0 && d->recipe.replan)
        rc = larder__replan_past(&d->replan, r);
    return rc < 0 || !s->turns ? rc : load_turns(d, r, s->past);
}

int larder__draw_follow(larder__draw *d, larder_reader *r) {
    const larder_sampler *s = d->recipe.sampler;
    int rc = d->scoring ? larder__scoring_follow(d->scoring, r) : 0;
    if (rc == 0 && d->recipe.replan)
        rc = larder__replan_follow(&d->replan, r);
    return rc < 0 || !s->turns ? rc : load_turns(d, r, s->follow);
}

int larder__draw_follow_turns(larder__draw *d, const larder_turn *t, size_t n) {
    const larder_sampler *s = d->recipe.sampler;
    if (s->turns)
        return s->follow(d->sampler, t, n);
    return n == 0 ? 0 : larder__fail(LARDER_E_ARGS, "sampler %s measures nothing", s->plugin.name);
}

size_t larder__draw_turns(const larder__draw *d, const larder_turn **out) {
    *out = NULL;
    return d->recipe.sampler->turns ? d->recipe.sampler->turns(d->sampler, out) : 0;
}

void larder__draw_save(larder__draw *d, larder_writer *w) {
    larder_write_u64(w, d->number);
    larder_write_u64(w, d->epoch);
    larder_write_u64(w, d->drawn);
    larder_write_u64(w, d->now);
    larder_write_u32(w, (uint32_t)d->epoch_begun | (uint32_t)d->evaluated << 1);
    larder__cache_save(d->cache, w);
    if (larder__parts_keep(d->conf.parts))
        larder__parts_save(d->conf.parts, larder__cache_slots(d->cache), w);
    if (d->recent) {
        larder__recent_save(d->recent, w);
        larder__gap_save(&d->gap, w);
    }
    if (d->feedback)
        larder__feedback_save(d->feedback, w);
    if (d->signal) {
        larder_write_bytes(w, d->scores, d->conf.n * sizeof *d->scores);
        if (d->scoring)
            larder__scoring_save(d->scoring, w);
        else if (d->recipe.signal->save)
            d->recipe.signal->save(d->signal, w);
    }
    d->recipe.sampler->save(d->sampler, w);
}

static int load_signal(larder__draw *d, larder_reader *r) {
    int rc = d->feedback ? larder__feedback_load(d->feedback, d->number, r) : 0;
    if (rc < 0 || !d->signal)
        return rc;
    larder_read_bytes(r, d->scores, d->conf.n * sizeof *d->scores);
    rc = larder_read_status(r);
    if (rc == 0 && d->scoring)
        return larder__scoring_load(d->scoring, r);
    return rc < 0 || !d->recipe.signal->load ? rc : d->recipe.signal->load(d->signal, r);
}

static int load_recent(larder__draw *d, larder_reader *r, bool divided) {
    int rc = divided ? larder__recent_skip(d->recent, r) : larder__recent_load(d->recent, r);
    if (rc == 0)
        rc = larder__gap_load(&d->gap, r);
    d->memorised = larder__gap_read(&d->gap);
    return rc;
}

/* All that comes before the sampler. */
static int load_head(larder__draw *d, larder_reader *r, bool divided, uint64_t *drawn,
                     bool *begun) {
    d->number = larder_read_u64(r);
    d->epoch = larder_read_u64(r);
    *drawn = larder_read_u64(r);
    d->now = larder_read_u64(r);
    uint32_t flags = larder_read_u32(r);
    *begun = flags & 1;
    d->evaluated = flags & 2;
    if (d->recipe.replan && d->replan.turns.count)
        larder__draw_share_out(d);
    int rc = larder__cache_load(d->cache, r);
    if (rc == 0 && larder__parts_keep(d->conf.parts))
        rc = larder__parts_load(d->conf.parts, larder__cache_slots(d->cache), r);
    if (rc == 0 && d->recent)
        rc = load_recent(d, r, divided);
    return rc < 0 ? rc : load_signal(d, r);
}

/* Where all ranks together were: each had taken as many whole batches. */
static int place_taken(const larder__draw *d, larder_reader *r, const larder__division *v,
                       uint64_t drawn, bool begun, uint64_t *epoch, uint64_t *taken) {
    uint64_t all = begun ? drawn : 0;
    *epoch = v->kept ? v->epoch : d->epoch;
    if (v->kept && !(begun && d->epoch == v->epoch))
        all = v->length;
    if (v->kept_ids > all || (all -= v->kept_ids) % v->batch || all > d->conf.n)
        return larder_read_reject(r, "its place in the epoch makes no sense");
    *taken = all * v->world + (*epoch == v->known_epoch ? v->known : 0);
    return *taken < d->conf.n ? 0 : larder_read_reject(r, "it has taken more than there is");
}

int larder__draw_divide(larder__draw *d, larder_reader *r, const larder__division *v,
                        uint64_t *taken) {
    uint64_t drawn, epoch;
    bool begun;
    const larder_sampler *s = d->recipe.sampler;
    int rc = load_head(d, r, true, &drawn, &begun);
    if (rc < 0 || (rc = place_taken(d, r, v, drawn, begun, &epoch, taken)) < 0)
        return rc;
    d->epoch = epoch;
    d->epoch_begun = *taken > 0;
    d->evaluated = false;
    d->drawn = 0;
    if (*taken && (rc = s->epoch(d->sampler, d->epoch)) < 0)
        return rc;
    if ((rc = s->divide(d->sampler, r, *taken)) < 0)
        return rc;
    d->length = s->length(d->sampler);
    if (d->length == 0) { /* drop_last: nothing is left of it for batches of this size */
        d->epoch++;
        d->epoch_begun = false;
        *taken = 0;
    }
    d->divided = d->epoch_begun;
    if (!d->epoch_begun)
        return 0;
    larder__draw_tell_tags(d);
    return larder__draw_look_ahead(d);
}

int larder__draw_load(larder__draw *d, larder_reader *r) {
    uint64_t drawn;
    bool begun;
    int rc = load_head(d, r, false, &drawn, &begun);
    if (rc < 0)
        return rc;
    if (!begun) /* between two epochs there may still be something to remember */
        return d->recipe.sampler->load(d->sampler, r);
    /* The order of the epoch is made again; then the sampler is told how far it was. */
    if ((rc = d->recipe.sampler->epoch(d->sampler, d->epoch)) < 0)
        return rc;
    d->epoch_begun = true;
    d->drawn = drawn;
    if ((rc = d->recipe.sampler->load(d->sampler, r)) < 0)
        return rc;
    d->length = d->recipe.sampler->length(d->sampler); /* may depend on scores that have changed */
    if (drawn >= d->length)
        return larder_read_reject(r, "its epoch is longer than this one");
    larder__draw_tell_tags(d);
    return larder__draw_look_ahead(d);
}
