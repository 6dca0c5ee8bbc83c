#include "cache/policy/queue.h"

int larder__queue_init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    larder__queue *q = st;
    q->slots = slots;
    larder__list_init(&q->order);
    return 0;
}

void larder__queue_insert(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    larder__queue *q = st;
    larder__list_push(&q->order, larder__queue_links(q), s);
}

larder_slot larder__queue_oldest(void *st, const larder_access *incoming) {
    (void)incoming;
    return ((larder__queue *)st)->order.oldest;
}

void larder__queue_remove(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__queue *q = st;
    larder__list_cut(&q->order, larder__queue_links(q), s);
}

void larder__queue_save(const void *st, larder_writer *w) {
    const larder__queue *q = st;
    larder__list_save(&q->order, larder__queue_links(q), w);
}

int larder__queue_load(void *st, larder_reader *r) {
    larder__queue *q = st;
    return larder__list_load(&q->order, larder__queue_links(q), q->slots, r);
}
