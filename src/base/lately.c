#include "base/lately.h"

#include "base/mem.h"

enum {
    STEPS = 64,   /* of an epoch's worth of services */
    AROUND = 255, /* times that a byte tells apart; 0 is never */
    SWEEP = 128   /* steps after which times out of reach are taken out */
};
/* A time is at most STEPS + SWEEP steps old when it is looked at, so it is never taken for one a
 * round of the clock later. */
_Static_assert(STEPS + SWEEP < AROUND, "times stay unambiguous");

int larder__lately_open(larder__lately *l, uint64_t n, uint64_t share) {
    share = share ? share : 1;
    *l = (larder__lately){.n = n, .step = share / STEPS + (share % STEPS != 0)};
    l->reach = share / l->step;
    l->times = larder__calloc(n, 1);
    return l->times ? 0 : LARDER_E_NOMEM;
}

void larder__lately_close(larder__lately *l) {
    larder__free(l->times);
    l->times = NULL;
}

double larder__lately_keep(const larder__lately *l) { return 1 - 1 / (double)(l->reach + 1); }

static uint8_t time_at(uint64_t step) { return (uint8_t)(step % AROUND + 1); }

/* Steps from a time that is not 0 to `now`. */
static uint64_t age_of(const larder__lately *l, uint8_t time) {
    return (l->now % AROUND + AROUND + 1 - time) % AROUND;
}

/* Time goes on to this step. A batch may take it further than once around. */
static void go_on(larder__lately *l, uint64_t step) {
    uint64_t passed = step - l->now;
    if (step - l->swept >= SWEEP) {
        for (uint64_t id = 0; id < l->n; id++)
            if (l->times[id] && age_of(l, l->times[id]) + passed > l->reach)
                l->times[id] = 0;
        l->swept = step;
    }
    l->now = step;
}

uint64_t larder__lately_serve(larder__lately *l, const uint32_t *ids, size_t n, uint8_t *reused) {
    go_on(l, l->services / l->step);
    for (size_t i = 0; i < n; i++) {
        uint8_t time = l->times[ids[i]];
        reused[i] = time && age_of(l, time) <= l->reach;
    }
    for (size_t i = 0; i < n; i++)
        l->times[ids[i]] = time_at(l->now);
    l->services += n;
    return l->now;
}

void larder__lately_clear(larder__lately *l) {
    l->services = l->now = l->swept = 0;
    memset(l->times, 0, l->n);
}

void larder__lately_save(const larder__lately *l, larder_writer *w) {
    larder_write_u64(w, l->services);
    larder_write_u64(w, l->now);
    larder_write_u64(w, l->swept);
    larder_write_bytes(w, l->times, l->n);
}

int larder__lately_load(larder__lately *l, larder_reader *r) {
    l->services = larder_read_u64(r);
    l->now = larder_read_u64(r);
    l->swept = larder_read_u64(r);
    larder_read_bytes(r, l->times, l->n);
    if (l->services > UINT64_MAX / 2 || l->now > l->services || l->swept > l->now ||
        l->now - l->swept >= SWEEP)
        return larder_read_reject(r, "its clock does not fit");
    return larder_read_status(r);
}
