#include "unix/witness.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/world.h"

int larder__witness_open(larder__witness *w) {
    *w = (larder__witness){.seen = 0};
    if (larder__world_chance(&w->asked.nonce, sizeof w->asked.nonce) < 0)
        return larder__fail(LARDER_E_IO, "no chance for a question from the system");
    larder_rng_seed(&w->rng, w->asked.nonce, 0);
    return 0;
}

void larder__witness_close(larder__witness *w) {
    larder__free(w->users);
    *w = (larder__witness){.seen = 0};
}

void larder__witness_see(larder__witness *w, uint64_t key, const void *bytes, size_t n) {
    uint32_t at = w->asked.count;
    uint64_t seen = ++w->seen;
    if (at < LARDER__WITNESSES)
        w->asked.count++;
    else if (seen > UINT32_MAX ||
             (at = larder_rng_below(&w->rng, (uint32_t)seen)) >= LARDER__WITNESSES)
        return;
    w->asked.keys[at] = key;
    w->came_to[at] = larder__hash_bytes(w->asked.nonce, bytes, n);
}

bool larder__witness_knows(const larder__witness *w, uint32_t user) {
    for (size_t i = 0; i < w->user_count; i++)
        if (w->users[i] == user)
            return true;
    return false;
}

int larder__witness_admit(larder__witness *w, uint32_t user) {
    if (larder__witness_knows(w, user))
        return 0;
    int rc = larder__grow(&w->users, &w->user_cap, w->user_count + 1, sizeof *w->users);
    if (rc == 0)
        w->users[w->user_count++] = user;
    return rc;
}

bool larder__witness_check(const larder__witness *w, larder_reader *proof) {
    bool same = w->asked.count > 0 && larder__read_left(proof) == w->asked.count * sizeof(uint64_t);
    for (uint32_t i = 0; same && i < w->asked.count; i++)
        same = larder_read_u64(proof) == w->came_to[i];
    return same;
}
