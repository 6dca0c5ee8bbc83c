/* A start that is warm: of a cache whose bytes outlive the process, what an earlier run left is
 * resident before the first batch. Only where the order follows from the seed alone: recipes that
 * look at who is resident decide as on an empty cache, so that they repeat, and find those bytes
 * when they come to them. */
#include "loader/draw/draw_inside.h"

void larder__draw_adopt(larder__draw *d) {
    bool wanted = d->warm && d->now == 0 && larder__cache_slots(d->cache)->used == 0;
    d->warm = false;
    for (uint64_t id = 0; wanted && id < d->conf.n; id++) {
        uint32_t size = d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id);
        if (!larder__cache_adopt(d->cache, id, size))
            break;
    }
}
