#include "unix/cost.h"

/* Bytes of an entry besides its own: head and rounding in shared memory; in the heap what says
 * where it lies, who reads it and who makes it (pinned blocks, notes, leases, flights). */
enum { HEAD = 96, NOTES = 256 };
#define HUGE_BUDGET ((uint64_t)1 << 48) /* sums of less do not overflow */
#define TOO_MUCH ((uint64_t)1 << 62)

uint64_t larder__cost_entries(const larder__cost *c, uint64_t budget) {
    uint64_t n = budget / c->mean + 1;
    return n < c->entries ? n : c->entries;
}

uint64_t larder__cost_slack(uint32_t batch, uint64_t mean, uint64_t all) {
    enum { BATCHES = 64, LEAST = 64 << 10, MOST = 8 << 20 }; /* four jobs, sixteen ahead */
    uint64_t most = all / 8 < MOST ? all / 8 : MOST;
    double want = (double)BATCHES * batch * (double)mean;
    want = want < LEAST ? LEAST : want;
    return want < (double)most ? (uint64_t)want : most;
}

uint64_t larder__cost_arena(const larder__cost *c, uint64_t budget) {
    if (budget > HUGE_BUDGET || c->slack > HUGE_BUDGET)
        return TOO_MUCH;
    uint64_t staying = c->staying < budget ? c->staying : budget;
    return budget + budget / 8 + c->slack + staying + larder__cost_entries(c, budget) * HEAD;
}

uint64_t larder__cost_all(const larder__cost *c, uint64_t budget) {
    if (budget > HUGE_BUDGET || c->fixed > HUGE_BUDGET)
        return TOO_MUCH;
    return c->fixed + c->job + larder__cost_arena(c, budget) +
           larder__cost_entries(c, budget) * NOTES;
}

uint64_t larder__cost_fit(const larder__cost *c, uint64_t want, uint64_t most) {
    uint64_t low = 0, high = want < HUGE_BUDGET ? want : HUGE_BUDGET;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        if (larder__cost_all(c, middle) <= most)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
