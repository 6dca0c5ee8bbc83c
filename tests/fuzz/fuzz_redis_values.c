/* Values in Redis as a job reads them: whatever a server or a cluster answers to questions for
 * values, for its map and for keys that nobody owns, bytes are had that belong to what was asked
 * for, or none. The first byte says which server (1: a cluster, 2: with replicas), how large values
 * are (4) and who sweeps (8); the rest is what it says. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#if LARDER_HAVE_HIREDIS
#include "fuzz_redis.h"

enum { VALUES = 4, SMALL = 40, LARGE = 20000, ROUNDS = 3 };

static void fetch(larder__redis_values *f, uint32_t bytes, uint64_t from) {
    larder__redis_fetch *all[VALUES];
    for (uint64_t i = 0; i < VALUES; i++) {
        const larder__value v = {.id = from + i,
                                 .mark = 7,
                                 .size = bytes,
                                 .form = 0,
                                 .held = i % 2 ? LARDER__ANY_FORM : 0};
        if (!(all[i] = larder__redis_fetch_new(&v)))
            abort();
    }
    larder__redis_values_send(f, all, VALUES);
    for (size_t i = 0; i < VALUES; i++) {
        unsigned sum = 0;
        larder_buf *b = larder__redis_values_receive(f, all[i]);
        for (size_t k = 0; b && k < larder_buf_size(b); k++)
            sum += ((const unsigned char *)larder_buf_data(b))[k]; /* all of it is there */
        if (sum == UINT32_MAX)
            abort();
        larder_buf_unref(&b);
        larder__redis_fetch_unref(&all[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    fake_says(data + 1, size - 1);
    larder__redis_values *f = fake_values(data[0] & 1, data[0] & 2);
    f->lease = data[0] & 8;
    if (larder__redis_nodes_open(f) == 0) {
        for (uint32_t i = 0; f->lease && larder__redis_nodes_at(f, i); i++)
            memcpy(larder__redis_nodes_at(f, i)->scan, "0", 2);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            fetch(f, data[0] & 4 ? LARGE : SMALL, round * 3);
            larder__redis_nodes_tend(f, fake_now());
            larder__lease_renew(f, fake_now());
            for (uint32_t i = 0; i < 3 && larder__redis_nodes_at(f, i); i++)
                larder__sweep_some(f, larder__redis_nodes_at(f, i));
            fake.clock += 20;
        }
    }
    fake_values_close(&f);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return (void)data, (void)size, 0; }
#endif
