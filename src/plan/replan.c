#include "plan/replan.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { FIRST = 16, LOOKS = 32, MOST_TURNS = 4096 };
static const double first_gain = 1.02, later_gain = 1.1, drift = 1.25;

void larder__replan_open(larder__replan *r, const larder_rates *fixed, larder_split start,
                         double cores, uint64_t batches) {
    *r = (larder__replan){.rates = *fixed, .split = start, .cores = cores, .batches = batches};
}

void larder__replan_close(larder__replan *r) {
    larder__free(r->turns.at);
    larder__free(r->follow.at);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static bool add_turn(larder__turns *t, const larder__plan_turn *turn) {
    if (t->count == MOST_TURNS || larder__grow(&t->at, &t->cap, t->count + 1, sizeof *t->at) < 0)
        return false;
    t->at[t->count++] = *turn;
    return true;
}

/* False: something is not known yet. */
static bool take_pace(larder__replan *r, const larder_pace *p) {
    if (!(p->read_seconds > 0 && p->step_seconds > 0 && p->decode_seconds > 0 &&
          p->augment_seconds > 0))
        return false;
    r->rates.b_storage = r->rates.s_data / p->read_seconds;
    r->rates.t_gpu = 1 / p->step_seconds;
    r->rates.t_da = r->cores / p->decode_seconds;
    r->rates.t_a = r->cores / p->augment_seconds;
    return true;
}

static bool moved(double now, double then) { return now > then * drift || now < then / drift; }

static bool drifted(const larder_rates *a, const larder_rates *b) {
    return moved(a->b_storage, b->b_storage) || moved(a->t_gpu, b->t_gpu) ||
           moved(a->t_da, b->t_da) || moved(a->t_a, b->t_a);
}

static bool is_time(const larder__replan *r, uint64_t number) {
    uint64_t every = r->batches > LOOKS ? r->batches / LOOKS : 1;
    uint64_t last = r->turns.count ? r->turns.at[r->turns.count - 1].batch : 0;
    return number >= FIRST && number % every == 0 &&
           (r->turns.count == 0 || number - last >= r->batches / 2 + 1);
}

static bool look(larder__replan *r, uint64_t number, larder__plan_turn *out) {
    larder_plan plan;
    bool first = r->turns.count == 0;
    if (!first && !drifted(&r->rates, &r->then)) {
        r->in_a_row = 0;
        return false;
    }
    if (larder__plan_make(&plan, &r->rates, LARDER_PLAN_SHARED) < 0)
        return false;
    larder_outlook here = larder__plan_outlook(&r->rates, LARDER_PLAN_SHARED, r->split);
    bool more = plan.best.throughput >= here.throughput * (first ? first_gain : later_gain);
    r->in_a_row = more ? r->in_a_row + 1 : 0;
    *out = (larder__plan_turn){.batch = number,
                               .encoded = plan.best.split.encoded,
                               .decoded = plan.best.split.decoded,
                               .augmented = plan.best.split.augmented,
                               .expected = plan.best.throughput,
                               .before = here.throughput,
                               .held_up_by = here.bottleneck,
                               .bottleneck = plan.best.bottleneck};
    return r->in_a_row >= (first ? 1u : 2u);
}

static void take_turn(larder__replan *r, const larder__plan_turn *t) {
    r->split = (larder_split){t->encoded, t->decoded, t->augmented};
    r->then = r->rates;
    r->in_a_row = 0;
}

bool larder__replan_next(larder__replan *r, uint64_t number, const larder_pace *pace) {
    larder__plan_turn turn;
    bool known = take_pace(r, pace), wanted;
    if (r->follows) {
        while (r->next < r->follow.count && r->follow.at[r->next].batch < number)
            r->next++;
        wanted = r->next < r->follow.count && r->follow.at[r->next].batch == number;
        if (wanted)
            turn = r->follow.at[r->next];
    } else
        wanted = known && is_time(r, number) && look(r, number, &turn);
    if (!wanted || !add_turn(&r->turns, &turn))
        return false;
    take_turn(r, &turn);
    return true;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__replan_save(const larder__replan *r, larder_writer *w) {
    larder_write_u64(w, r->turns.count);
    for (size_t i = 0; i < r->turns.count; i++) {
        const larder__plan_turn *t = &r->turns.at[i];
        larder_write_u64(w, t->batch);
        larder_write_u32(w, (uint32_t)t->encoded);
        larder_write_u32(w, (uint32_t)t->decoded);
        larder_write_u32(w, (uint32_t)t->augmented);
        larder_write_u32(w, (uint32_t)t->held_up_by | (uint32_t)t->bottleneck << 16);
        larder_write_f64(w, t->expected);
        larder_write_f64(w, t->before);
    }
    larder_write_f64(w, r->then.b_storage);
    larder_write_f64(w, r->then.t_gpu);
    larder_write_f64(w, r->then.t_da);
    larder_write_f64(w, r->then.t_a);
    larder_write_u32(w, r->in_a_row);
}

static int read_turns(larder__turns *out, larder_reader *r) {
    uint64_t count = larder_read_u64(r), before = 0;
    if (count > MOST_TURNS)
        return larder_read_reject(r, "its list of plans is too long");
    out->count = 0;
    for (uint64_t i = 0; i < count && larder_read_status(r) == 0; i++) {
        larder__plan_turn t = {.batch = larder_read_u64(r)};
        t.encoded = (int)larder_read_index(r, 101, false);
        t.decoded = (int)larder_read_index(r, 101, false);
        t.augmented = (int)larder_read_index(r, 101, false);
        uint32_t by = larder_read_u32(r);
        if ((by & 0xffff) >= LARDER_RESOURCES || by >> 16 >= LARDER_RESOURCES)
            return larder_read_reject(r, "its list of plans names a resource there is not");
        t.held_up_by = (larder_resource)(by & 0xffff);
        t.bottleneck = (larder_resource)(by >> 16);
        t.expected = larder_read_f64(r);
        t.before = larder_read_f64(r);
        if (t.encoded + t.decoded + t.augmented != 100 || (i && t.batch <= before))
            return larder_read_reject(r, "its list of plans has one that cannot be");
        before = t.batch;
        if (!add_turn(out, &t))
            return LARDER_E_NOMEM;
    }
    return larder_read_status(r);
}

static int read_all(larder__replan *p, larder__turns *to, larder_reader *r, larder_rates *then,
                    uint32_t *in_a_row) {
    int rc = read_turns(to, r);
    *then = p->rates;
    then->b_storage = larder_read_f64(r);
    then->t_gpu = larder_read_f64(r);
    then->t_da = larder_read_f64(r);
    then->t_a = larder_read_f64(r);
    *in_a_row = larder_read_u32(r);
    return rc < 0 ? rc : larder_read_status(r);
}

int larder__replan_past(larder__replan *p, larder_reader *r) {
    larder_rates then;
    uint32_t in_a_row;
    int rc = read_all(p, &p->turns, r, &then, &in_a_row);
    if (rc < 0 || p->turns.count == 0)
        return rc;
    take_turn(p, &p->turns.at[p->turns.count - 1]);
    p->then = then;
    p->in_a_row = in_a_row > 1 ? 1 : in_a_row;
    return 0;
}

int larder__replan_follow(larder__replan *p, larder_reader *r) {
    larder_rates then;
    uint32_t in_a_row;
    p->follows = true;
    p->next = 0;
    return read_all(p, &p->follow, r, &then, &in_a_row);
}
