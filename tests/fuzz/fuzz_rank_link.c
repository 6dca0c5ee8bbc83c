/* A rank's end of the wire: whatever the daemon says about values, and in the name of other ranks,
 * is taken or refused, and nothing outside of the memory it lends is touched. */
#include "base/buf.h"
#include "base/mem.h"
#include "fuzz_daemon.h"
#include "unix/rank_link.h"
#include "unix/rank_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS = 64, SIZE = 900 };

static larder__value asked[3] = {{.id = 1, .size = SIZE, .held = LARDER__ANY_FORM},
                                 {.id = 2, .size = SIZE, .held = 0},
                                 {.id = 3, .size = 10, .held = LARDER__ANY_FORM}};

static const larder__value *value_of(larder_buf *token) {
    unsigned char which;
    memcpy(&which, larder_buf_data(token), 1);
    return &asked[which % 3];
}

static void stored(void *arg, bool there) { (void)arg, (void)there; }

static void use(larder__unix_ranks_link *link) {
    larder__depot d = larder__unix_ranks_depot(link);
    larder_buf *tokens[3], *out;
    uint8_t held;
    unsigned sum = 0;
    for (unsigned char i = 0; i < 3; i++) {
        if (!(tokens[i] = larder_buf_new(SIZE)))
            abort();
        memset(larder_buf_data(tokens[i]), i, SIZE);
    }
    d.ops->put(d.state, &(larder__value){.id = 9, .size = SIZE}, tokens[0], stored, NULL);
    d.ops->send(d.state, tokens, 3, value_of);
    for (int i = 0; i < 3; i++) {
        out = NULL;
        if (d.ops->receive(d.state, tokens[i], &out, &held) && out) {
            for (size_t k = 0; k < larder_buf_size(out); k++)
                sum += ((unsigned char *)larder_buf_data(out))[k];
            larder_buf_unref(&out);
        }
        larder_buf_unref(&tokens[i]);
    }
    if (sum == UINT32_MAX)
        abort();
    d.ops->close(&d.state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder_writer greeting = {0};
    larder__unix_ranks_link *link = NULL;
    larder__joined m = {
        .version = LARDER__WIRE_VERSION, .arena_bytes = FAKE_ARENA, .budget = KEYS * SIZE};
    if (fake.listener < 0)
        fake_open((const uint64_t[]){FAKE_ARENA}, 1);
    larder__joined_write(&m, &greeting);
    unsigned char *says = fake_says(LARDER__MSG_JOINED, &greeting, data, size);
    larder__unix_ranks_conf conf = {.door = larder__door_at(fake.path),
                                    .join = {.world = 2,
                                             .batch = 8,
                                             .turns = 2,
                                             .identity = 3,
                                             .keys = KEYS,
                                             .payload = KEYS * SIZE,
                                             .want = KEYS * SIZE,
                                             .job = "fuzz"},
                                    .patience = 30};
    if (larder__unix_ranks_open(&link, &conf) == 0) {
        use(link);
        larder__unix_ranks_close(&link);
    }
    fake_hang_up();
    larder__free(says);
    larder__writer_free(&greeting);
    return 0;
}
