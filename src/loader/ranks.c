#include "loader/ranks.h"

larder__slice larder__ranks_share(const larder__ranks *r, size_t entries) {
    if (r->world == 0)
        return (larder__slice){.n = entries};
    size_t each = entries / r->world, more = entries % r->world;
    return (larder__slice){.from = each * r->rank + (r->rank < more ? r->rank : more),
                           .n = each + (r->rank < more)};
}

larder__slice larder__ranks_slice(const larder__ranks *r, size_t rows) {
    larder__slice s = larder__ranks_share(r, rows);
    if (s.n == 0 && rows)
        s = (larder__slice){.from = r->rank % rows, .n = 1, .again = true};
    return s;
}

uint64_t larder__ranks_length(const larder__ranks *r, uint64_t rows, uint64_t batch) {
    return rows / batch * larder__ranks_slice(r, (size_t)batch).n +
           larder__ranks_slice(r, (size_t)(rows % batch)).n;
}
