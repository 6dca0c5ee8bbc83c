#include "base/list.h"

int larder__list_load(larder__list *l, larder__link *links, const larder_slots *slots,
                      larder_reader *r) {
    larder__list_init(l);
    uint32_t n = larder_read_u32(r);
    if (n != slots->resident)
        return larder_read_reject(r, "a list does not hold every resident");
    /* A slot that is not linked yet is recognised by pointing at itself. */
    for (larder_slot s = 0; s < slots->used; s++)
        links[s] = (larder__link){s, s};
    for (uint32_t i = 0; i < n; i++) {
        larder_slot s = larder_read_index(r, slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (links[s].newer != s || slots->key_of[s] == UINT32_MAX)
            return larder_read_reject(r, "a list names a slot twice or an empty one");
        larder__list_push(l, links, s);
    }
    return larder_read_status(r);
}
