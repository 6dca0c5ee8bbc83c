#include "loader/draw/ranks.h"

uint32_t larder__ranks_first(const larder__ranks *r, uint64_t number, size_t rows) {
    return r->world && rows == r->batch && rows > r->world ? (uint32_t)(number % r->world) : 0;
}

static larder__slice deal(const larder__ranks *r, uint32_t first, size_t entries) {
    if (r->world == 0)
        return (larder__slice){.step = 1, .n = entries};
    uint32_t turn = (r->rank + r->world - first) % r->world;
    return (larder__slice){
        .from = turn, .step = r->world, .n = entries / r->world + (turn < entries % r->world)};
}

larder__slice larder__ranks_share(const larder__ranks *r, uint64_t number, size_t entries) {
    if (r->world == 0)
        return (larder__slice){.step = 1, .n = entries};
    uint64_t turn = (r->rank + number) % r->world;
    size_t from = (size_t)(entries * turn / r->world);
    return (larder__slice){
        .from = from, .step = 1, .n = (size_t)(entries * (turn + 1) / r->world) - from};
}

larder__slice larder__ranks_slice(const larder__ranks *r, uint64_t number, size_t rows) {
    larder__slice s = deal(r, larder__ranks_first(r, number, rows), rows);
    if (s.n == 0 && rows)
        s = (larder__slice){.from = r->rank % rows, .step = r->world, .n = 1, .again = true};
    return s;
}

bool larder__slice_has(const larder__slice *s, size_t row) {
    if (s->again || row < s->from)
        return false;
    size_t behind = row - s->from;
    return behind % s->step == 0 && behind / s->step < s->n;
}

uint64_t larder__ranks_length(const larder__ranks *r, uint64_t rows) {
    if (r->world == 0)
        return rows;
    return rows / r->batch * (r->batch / r->world) +
           larder__ranks_slice(r, 0, (size_t)(rows % r->batch)).n;
}
