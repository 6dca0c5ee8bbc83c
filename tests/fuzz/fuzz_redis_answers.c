/* Whatever a server answers, it is read as an answer or refused, piece by piece. */
#include "redis/resp.h"
#include "shared/value.h"

#include <larder/larder.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct tape {
    const uint8_t *at;
    size_t left, most;
} tape;

static int play(void *arg, struct iovec *to, int count) {
    tape *t = arg;
    size_t got = 0;
    for (int i = 0; i < count && got < t->most; i++) {
        size_t n = to[i].iov_len < t->left ? to[i].iov_len : t->left;
        n = n < t->most - got ? n : t->most - got;
        memcpy(to[i].iov_base, t->at, n);
        t->at += n;
        t->left -= n;
        got += n;
    }
    return got ? (int)got : LARDER_E_IO;
}

static int take(larder__resp *in, uint64_t n) {
    unsigned char head[LARDER__VALUE_HEAD], body[256];
    larder__value asked = {.id = 1, .mark = 1, .size = sizeof body};
    if (n < sizeof head)
        return larder__resp_skip(in, n);
    int rc = larder__resp_bytes(in, head, sizeof head);
    n -= sizeof head;
    if (rc < 0 || !larder__value_fits(head, &asked, n))
        return rc < 0 ? rc : larder__resp_skip(in, n);
    rc = larder__resp_bytes(in, body, n);
    if (rc == 0)
        larder__value_sound(head, body, n);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__resp in;
    larder__resp_reply r;
    if (size == 0)
        return 0;
    tape t = {data + 1, size - 1, (size_t)data[0] + 1};
    if (larder__resp_open(&in, play, &t) < 0)
        return 0;
    int rc = 0;
    while (rc == 0 && (rc = larder__resp_next(&in, &r)) == 0)
        if (r.type == '$' && r.number >= 0 && (rc = take(&in, (uint64_t)r.number)) == 0)
            rc = larder__resp_tail(&in);
    larder__resp_close(&in);
    return 0;
}
