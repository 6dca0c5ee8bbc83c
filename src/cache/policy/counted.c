#include "cache/policy/counted.h"

int larder__counted_init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    return larder__by_count_init(st, slots, slots->slot_data, slots->key_data);
}

void larder__counted_fini(void *st) { larder__by_count_fini(st); }

bool larder__counted_admit(void *st, const larder_access *a) {
    larder__by_count_miss(st, a->key);
    return true;
}

void larder__counted_insert(void *st, larder_slot s, const larder_access *a) {
    larder__by_count_insert(st, s, a->key);
}

void larder__counted_hit(void *st, larder_slot s, const larder_access *a) {
    larder__by_count_hit(st, s, a->key);
}

void larder__counted_remove(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__by_count_remove(st, s);
}

void larder__counted_save(const void *st, larder_writer *w) { larder__by_count_save(st, w); }
int larder__counted_load(void *st, larder_reader *r) { return larder__by_count_load(st, r); }
