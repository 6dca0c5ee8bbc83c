#include "unix/witness.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

static bool chosen(const larder__prove *p, uint64_t key) {
    for (uint32_t i = 0; i < p->count; i++)
        if (p->keys[i] == key)
            return true;
    return false;
}

/* Floyd's: different ones, each set of them as likely as any other. */
void larder__witness_ask(larder__prove *out, uint64_t secret, uint64_t identity, uint64_t keys) {
    const uint64_t about[] = {identity, keys};
    larder_rng rng;
    larder_rng_seed(&rng, larder__hash_bytes(secret, about, sizeof about), 0);
    *out = (larder__prove){.nonce = larder_rng_next(&rng)};
    for (uint64_t i = keys < LARDER__WITNESSES ? 0 : keys - LARDER__WITNESSES; i < keys; i++) {
        uint64_t key = larder_rng_next(&rng) % (i + 1);
        out->keys[out->count] = chosen(out, key) ? i : key;
        out->count++;
    }
}

void larder__witness_hear(larder__testimony *out, const larder__prove *asked,
                          larder_reader *proof) {
    *out = (larder__testimony){.count = 0};
    if (larder__read_left(proof) != asked->count * sizeof(uint64_t))
        return;
    while (out->count < asked->count)
        out->came_to[out->count++] = larder_read_u64(proof);
}

bool larder__witness_agrees(const larder__witness *w, const larder__testimony *other) {
    bool same = other->count > 0 && w->shown.count == other->count;
    for (uint32_t i = 0; same && i < other->count; i++)
        same = w->shown.came_to[i] == other->came_to[i];
    return same;
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

void larder__witness_close(larder__witness *w) {
    larder__free(w->users);
    *w = (larder__witness){.user_count = 0};
}
