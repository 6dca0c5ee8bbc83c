#include "source/chain.h"

#include "source/answer.h"

bool larder__chain_add(larder__chain *r, int fd, uint64_t at, void *to, size_t n) {
    if (r->count == 0) {
        r->fd = fd;
        r->begin = r->end = at;
    }
    if (fd < 0 || fd != r->fd || at < r->end || at - r->end > LARDER__CHAIN_GAP ||
        r->count + 2 > LARDER__CHAIN_PIECES)
        return false;
    if (at > r->end)
        r->to[r->count++] = (struct iovec){r->between, (size_t)(at - r->end)};
    r->to[r->count++] = (struct iovec){to, n};
    r->end = at + n;
    return true;
}

static size_t lay_all(larder__chain *r, larder__chain_lay lay, void *arg, const uint64_t *ids,
                      size_t n, larder_read *out) {
    for (size_t k = 0; k < n; k++) {
        int count = r->count;
        uint64_t end = r->end;
        larder_buf *buf = NULL;
        if (!lay(arg, ids[k], r, &buf)) {
            r->count = count;
            r->end = end;
            larder_buf_unref(&buf);
            return k;
        }
        larder__answer_buf(&out[k], buf);
    }
    return n;
}

size_t larder__chain_read(larder__chain_lay lay, void *arg, const uint64_t *ids, size_t n,
                          larder_read *out, bool *read) {
    larder__chain r;
    r.count = 0;
    size_t k = lay_all(&r, lay, arg, ids, n, out);
    *read = k > 0 && preadv(r.fd, r.to, r.count, (off_t)r.begin) == (ssize_t)(r.end - r.begin);
    if (*read)
        larder_note_requests(1);
    for (size_t i = 0; !*read && i < k; i++)
        larder_buf_unref(&out[i].buf);
    return k ? k : 1;
}
