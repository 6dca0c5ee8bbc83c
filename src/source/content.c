#include "source/content.h"

#include "base/hash.h"

void larder__content_begin(larder__content *c, uint64_t total) {
    *c = (larder__content){.hash = larder__mix64(total), .total = total};
}

/* Where place i begins: all there is where that is little, else one place in each of 64 equal
 * stretches, at random in it, so that no regular layout of the files escapes. */
static uint64_t begin_of(const larder__content *c, uint32_t i) {
    uint64_t stretch = c->total / LARDER__CONTENT_PLACES;
    if (stretch <= LARDER__CONTENT_BYTES)
        return (uint64_t)i * LARDER__CONTENT_BYTES;
    uint64_t chance = larder__mix64(c->total * 0x9e3779b97f4a7c15u + i);
    return i * stretch + chance % (stretch - LARDER__CONTENT_BYTES + 1);
}

static void take(larder__content *c, larder__content_read read, void *arg, uint64_t at, size_t n) {
    unsigned char bytes[LARDER__CONTENT_BYTES];
    if (c->files++ >= LARDER__CONTENT_FILES)
        return;
    c->hash = read(arg, bytes, n, at) < 0 ? larder__mix64(~c->hash)
                                          : larder__hash_bytes(c->hash, bytes, n);
}

void larder__content_add(larder__content *c, uint64_t size, larder__content_read read, void *arg) {
    uint64_t end = c->at + size;
    while (c->place < LARDER__CONTENT_PLACES) {
        uint64_t from = begin_of(c, c->place), to = from + LARDER__CONTENT_BYTES;
        from = from > c->at ? from : c->at;
        if (from >= end)
            break;
        take(c, read, arg, from - c->at, (size_t)((to < end ? to : end) - from));
        if (to > end) /* it goes on in the next file */
            break;
        c->place++;
        c->files = 0;
    }
    c->at = end;
}
