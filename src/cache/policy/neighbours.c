#include "cache/policy/neighbours.h"

static larder__neighbour *at(const larder__neighbours *n, uint32_t number) {
    return larder__neighbour_of(n, (uint64_t)number - 1);
}

static void release(larder__neighbours *n, larder__neighbour *k) {
    if (k->before)
        at(n, k->before)->next = k->next;
    else
        at(n, k->hub)->first = k->next;
    if (k->next)
        at(n, k->next)->before = k->before;
    k->hub = k->next = k->before = 0;
    n->claimed--;
}

void larder__neighbours_claim(larder__neighbours *n, uint64_t hub, uint64_t key) {
    larder__neighbour *h = larder__neighbour_of(n, hub), *k = larder__neighbour_of(n, key);
    if (k->hub)
        release(n, k);
    k->hub = (uint32_t)hub + 1;
    k->next = h->first;
    k->before = 0;
    if (h->first)
        at(n, h->first)->before = (uint32_t)key + 1;
    h->first = (uint32_t)key + 1;
    n->claimed++;
}

void larder__neighbours_drop(larder__neighbours *n, uint64_t hub) {
    larder__neighbour *h = larder__neighbour_of(n, hub);
    while (h->first)
        release(n, at(n, h->first));
}
