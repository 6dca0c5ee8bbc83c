/* A job's end of the wire: whatever a daemon answers, and whatever its memory holds, samples are
 * had or made by oneself, and nothing outside of that memory is touched. The first byte says
 * whether the greeting is right, or of the input too. */
#include "base/hash.h"
#include "base/mem.h"
#include "fuzz_daemon.h"
#include "unix/attach.h"
#include "unix/tray.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS = 64, BATCH = 4, SIZE = 900 };

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    if ((*out = larder_buf_new(want->size)))
        memset(larder_buf_data(*out), 1, want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static int prove(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out) {
    (void)arg;
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= KEYS)
            abort(); /* nothing of the kind was there to be asked for */
        out[i] = larder__mix64(ids[i] ^ nonce);
    }
    return n && ids[0] % 7 == 6 ? LARDER_E_IO : 0;
}

static void use(larder__cache *c, uint32_t from) {
    larder_access a[BATCH];
    larder_buf *out[BATCH];
    unsigned sum = 0;
    for (uint32_t i = 0; i < BATCH; i++)
        a[i] = (larder_access){.key = (from + i) % KEYS, .size = SIZE, .score = NAN};
    if (larder__cache_get(c, a, BATCH, make, NULL, out, NULL) < 0)
        abort(); /* making fails for want of memory alone, and no answer explains so much of it */
    for (size_t i = 0; i < BATCH; i++) {
        const unsigned char *at = larder_buf_data(out[i]);
        for (size_t k = 0; k < larder_buf_size(out[i]); k++)
            sum += at[k]; /* all of it is there */
        larder_buf_unref(&out[i]);
    }
    if (sum == UINT32_MAX)
        abort();
}

static void welcome(larder_writer *w, uint8_t how) {
    larder__welcome m = {.version = LARDER__WIRE_VERSION,
                         .arena_bytes = FAKE_ARENA,
                         .wants_sizes = how >> 2 & 1,
                         .streaming = how >> 3 & 1,
                         .pins = how & 2 ? 16 : 0,
                         .sealed = how >> 4 & 1,
                         .tray = how >> 6 & 1,
                         .about.keys = KEYS,
                         .about.share = {1},
                         .about.budget = KEYS * SIZE,
                         .about.policy = "lru"};
    larder__welcome_write(&m, w);
}

static uint32_t size_of(void *arg, uint64_t id) { return (void)arg, id < KEYS ? SIZE : 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder_writer greeting = {0};
    larder__cache *c = NULL;
    uint64_t keys[8];
    if (size == 0)
        return 0;
    if (fake.listener < 0)
        fake_open((const uint64_t[]){FAKE_ARENA, larder__table_bytes(KEYS), sizeof(larder__pins),
                                     sizeof(larder__tray)},
                  4);
    welcome(&greeting, data[0]);
    unsigned char *says =
        data[0] & 1 ? fake_says(LARDER__MSG_COMING, &(larder_writer){0}, data + 1, size - 1)
                    : fake_says(LARDER__MSG_WELCOME, &greeting, data + 1, size - 1);
    larder__attach_conf conf = {.door = larder__door_at(fake.path),
                                .hello = {.batch = BATCH,
                                          .identity = 1,
                                          .about.keys = KEYS,
                                          .payload = KEYS * SIZE,
                                          .about.share = {1},
                                          .about.policy = "lru",
                                          .name = "fuzz"},
                                .size_of = size_of,
                                .prove = prove,
                                .exchanges = data[0] >> 5 & 1};
    if (larder__attach_open(&c, &conf) == 0) {
        for (uint32_t i = 0; i < 3; i++)
            use(c, i * 3);
        larder__cache_fetch(c, keys, 8);
        use(c, 1);
        larder__cache_close(&c);
    }
    fake_hang_up();
    larder__free(says);
    larder__writer_free(&greeting);
    return 0;
}
