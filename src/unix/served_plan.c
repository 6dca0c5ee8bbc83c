#include "unix/served_plan.h"

#include "unix/served_set_inside.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static int percent(double share) { return (int)(share * 100 + 0.5); }

void larder__served_plan_open(larder__served *s) {
    const larder__agreement *f = &s->conf.about;
    larder_rates r;
    larder__rates_defaults(&r);
    r.n_total = (double)s->conf.about.keys;
    r.s_data = fmax(s->conf.mean, 1);
    r.s_cache = (double)s->conf.about.budget;
    r.m = fmax(f->row_bytes / r.s_data, 1e-9);
    r.m_decoded = fmax(fmax(f->decoded_ratio, f->decoded_bytes / r.s_data), 1);
    r.jobs = 1;
    larder_split start = {percent(f->share[LARDER_ENCODED]), percent(f->share[LARDER_DECODED]),
                          percent(f->share[LARDER_AUGMENTED])};
    larder__replan_open(&s->replan, &r, start, 1, 1);
}

/* All jobs that have told their rates, as if they were one. */
static larder_pace together(larder__served *s, uint32_t *jobs) {
    double read = 0, step = 0, decode = 0, augment = 0, cores = 0,
           has = (double)sysconf(_SC_NPROCESSORS_ONLN);
    *jobs = 0;
    for (uint32_t i = 0; i < LARDER__SERVED_JOBS; i++) {
        const larder__served_job *j = &s->jobs[i];
        if (!j->here || j->cores <= 0)
            continue;
        read += 1 / j->pace.read_seconds;
        step += 1 / j->pace.step_seconds;
        decode += j->pace.decode_seconds;
        augment += j->pace.augment_seconds;
        cores += j->cores;
        ++*jobs;
    }
    s->replan.cores = has > 0 && cores > has ? has : cores;
    return (larder_pace){.read_seconds = 1 / read,
                         .step_seconds = 1 / step,
                         .decode_seconds = decode / *jobs,
                         .augment_seconds = augment / *jobs};
}

static bool is_rate(double seconds) { return seconds > 1e-12 && seconds < 1e6; }

bool larder__served_rates(larder__served *s, uint32_t number, const larder_pace *pace, double cores,
                          larder__plan_turn *out) {
    larder__served_job *j = &s->jobs[number];
    uint32_t jobs;
    if (!s->conf.movable || !is_rate(pace->read_seconds) || !is_rate(pace->step_seconds) ||
        !is_rate(pace->decode_seconds) || !is_rate(pace->augment_seconds) || !(cores >= 1) ||
        cores > 65536)
        return false;
    j->pace = *pace;
    j->cores = cores;
    larder_pace all = together(s, &jobs);
    s->replan.rates.jobs = jobs;
    s->replan.batches = s->conf.about.keys / (s->conf.batch ? s->conf.batch : 1) * jobs + 1;
    if (!larder__replan_next(&s->replan, s->batches, &all))
        return false;
    const larder_split *to = &s->replan.split;
    larder__op shares = {.type = LARDER__OP_SHARES};
    shares.value[LARDER_ENCODED] = to->encoded / 100.0;
    shares.value[LARDER_DECODED] = to->decoded / 100.0;
    shares.value[LARDER_AUGMENTED] = to->augmented / 100.0;
    larder__served_feed(s, number, &shares);
    *out = s->replan.turns.at[s->replan.turns.count - 1];
    return true;
}

bool larder__served_split(const larder__served *s, larder_split *out, size_t *changes) {
    *out = s->replan.split;
    *changes = s->replan.turns.count;
    return s->conf.movable;
}

double larder__served_training(const larder__served *s, uint32_t job) {
    return s->jobs[job].cores > 0 ? 1 / s->jobs[job].pace.step_seconds : (double)NAN;
}
