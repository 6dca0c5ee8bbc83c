/* The ranks of a job that meet through Redis: whatever lies there in the name of the others, they
 * meet or do not, and what is taken for a record has its checksum. The first byte says which rank
 * this is (3: of three; others of two) and whether they have met already (4); the rest is what
 * Redis says. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#if LARDER_HAVE_HIREDIS
#include "redis/redis_relay.c"

#include "fuzz_redis.h"

enum { STEPS = 12 };

static void wake(larder__relay *core) { (void)core; }
static const larder__relay_ops idle = {wake, wake, wake};

static void meet_by_itself(larder__redis_relay *r) {
    memcpy(r->session, "0123456789abcdef", 17);
    r->core.met = true;
    r->met_at = fake_now();
}

/* What a thread would do, while somebody waits for the records of the others. */
static void play(larder__redis_relay *r) {
    larder__relayed out[3] = {{0}};
    for (uint32_t k = 0; k < r->core.world; k++) {
        out[k].size = k != r->core.rank;
        r->core.missing += out[k].size;
    }
    r->core.wish = out;
    r->core.serial++;
    r->core.wish_kind = 'b';
    r->core.wish_number = 5;
    r->core.wished_at = fake_now();
    larder__relay_post(&r->core, 'b', 5, "record", 6);
    for (int i = 0; i < STEPS && r->core.missing && !r->core.failed; i++) {
        int rc = step(r);
        if (rc < 0 && !larder_errmsg()[0])
            abort();
        if (rc < 0 && rc != LARDER_E_STATE)
            larder__conn_close(&r->conn);
        judge(r, fake_now());
        if (i == 4)
            larder__relay_forget(&r->core, 'b', 5);
        fake.clock += 0.4;
    }
    r->core.wish = NULL;
    say_good_bye(r);
    for (uint32_t k = 0; k < r->core.world; k++) {
        volatile unsigned char last = 0;
        if (out[k].bytes && out[k].size)
            last = ((unsigned char *)out[k].bytes)[out[k].size - 1];
        (void)last;
        larder__free(out[k].bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    double seen[3] = {0};
    uint64_t left[3] = {0};
    if (size == 0)
        return 0;
    fake_says(data + 1, size - 1);
    larder__redis_relay *r = calloc(1, sizeof *r);
    uint32_t world = (data[0] & 3) == 3 ? 3 : 2;
    if (!r || larder__relay_init(&r->core, &idle, (data[0] & 3) % world, world, 10) < 0)
        abort();
    r->seen = seen;
    r->left = left;
    snprintf(r->prefix, sizeof r->prefix, "larder:{1}:");
    snprintf(r->nonce, sizeof r->nonce, "%016llx", 7ULL);
    snprintf(r->identity, sizeof r->identity, "%016llx", 3ULL);
    r->far = fake_values(false, false);
    if (larder__redis_nodes_open(r->far) < 0)
        abort();
    if (data[0] & 4)
        meet_by_itself(r);
    play(r);
    larder__conn_close(&r->conn);
    fake_values_close(&r->far);
    larder__free(r->words);
    larder__relay *core = &r->core;
    larder__relay_close(&core);
    free(r);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return (void)data, (void)size, 0; }
#endif
