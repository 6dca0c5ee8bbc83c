/* Whatever lies in a group's journal in Redis, agreement, snapshot and records, is applied or
 * refused, and tables stay sound. The first byte says which policy rules and whether a snapshot
 * comes first; then each piece after its length in two bytes. */
#include "shared/machine.h"

#include <larder/larder.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS = 70 };

static uint32_t size_of(void *unused, uint64_t id) {
    (void)unused;
    return 10 + (uint32_t)(id % 7);
}

static size_t piece(const uint8_t **data, size_t *size) {
    if (*size < 2)
        return 0;
    size_t n = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2;
    *size -= 2;
    return n < *size ? n : *size;
}

static void check(const larder__machine *r, const larder_slot *table) {
    const larder_slots *s =
        larder__cache_slots(larder__machine_cache((larder__machine *)(uintptr_t)r));
    uint64_t bytes = 0;
    uint32_t there = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        if (table[k] == LARDER_NO_SLOT)
            continue;
        if (table[k] >= s->used || s->key_of[table[k]] != k)
            abort();
        bytes += s->size_of[table[k]];
        there++;
    }
    if (there != s->resident || bytes != s->bytes || bytes > s->budget)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const policies[] = {"ods",  "lru",    "app",   "minio",
                                           "hilo", "rotate", "spider"};
    larder_slot table[KEYS];
    larder__machine *r = NULL;
    larder_writer room = {0};
    larder__agreement a = {.keys = KEYS, .budget = 300, .seed = 5, .share = {1}};
    if (size < 1)
        return 0;
    uint8_t how = *data++;
    size--;
    larder_reader raw = {.at = data, .end = data + size};
    larder__agreement read;
    larder__agreement_read(&read, &raw);
    const char *policy = policies[(how >> 1) % 7];
    for (size_t i = 0; policy[i]; i++)
        a.policy[i] = policy[i];
    larder__machine_conf conf = {.about = &a, .size_of = size_of, .slot_of = table};
    if (larder__machine_open(&r, &conf) < 0)
        abort();
    int rc = 0;
    if (how & 1) {
        size_t n = piece(&data, &size);
        larder_reader in = {.at = data, .end = data + n};
        rc = larder__machine_load(r, &in);
        data += n;
        size -= n;
    }
    while (rc == 0 && size) {
        larder__outcome o;
        size_t n = piece(&data, &size);
        larder__op op;
        larder_reader in = {.at = data, .end = data + n};
        uint32_t head = larder_read_u32(&in);
        larder_read_u32(&in); /* the writer's count */
        rc = larder_read_status(&in) < 0 ? LARDER_E_FORMAT
                                         : larder__op_read(&op, head & 0xff, &in, KEYS, &room);
        if (rc == 0)
            rc = larder__machine_apply(r, head >> 8, &op, &o);
        if (rc == 0)
            check(r, table);
        data += n;
        size -= n;
    }
    larder__writer_free(&room);
    larder__machine_close(&r);
    return 0;
}
