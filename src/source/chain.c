#include "source/chain.h"

#include "source/answer.h"

/* Something short between two pieces, or no more in all than what is wanted. */
static bool may_skip(const larder__chain *r, uint64_t gap) {
    uint64_t skipped = r->end - r->begin - r->bytes;
    return gap <= LARDER__CHAIN_VOID || (gap <= LARDER__CHAIN_GAP && skipped + gap <= r->bytes);
}

bool larder__chain_add(larder__chain *r, int fd, uint64_t at, void *to, size_t n) {
    if (r->count == 0) {
        r->fd = fd;
        r->begin = r->end = at;
        r->bytes = 0;
    }
    if (fd < 0 || fd != r->fd || at < r->end || !may_skip(r, at - r->end) ||
        r->count + 2 + (int)((at - r->end) / LARDER__CHAIN_VOID) > LARDER__CHAIN_PIECES)
        return false;
    for (size_t some; at > r->end; r->end += some) {
        uint64_t gap = at - r->end;
        some = gap < LARDER__CHAIN_VOID ? (size_t)gap : LARDER__CHAIN_VOID;
        r->to[r->count++] = (struct iovec){r->between, some};
    }
    r->to[r->count++] = (struct iovec){to, n};
    r->end = at + n;
    r->bytes += n;
    return true;
}

static size_t lay_all(larder__chain *r, larder__chain_lay lay, void *arg, const uint64_t *ids,
                      size_t n, larder_read *out) {
    for (size_t k = 0; k < n; k++) {
        int count = r->count;
        uint64_t end = r->end, bytes = r->bytes;
        larder_buf *buf = NULL;
        if (!lay(arg, ids[k], r, &buf)) {
            r->count = count;
            r->end = end;
            r->bytes = bytes;
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
    r.end = r.bytes = 0;
    size_t k = lay_all(&r, lay, arg, ids, n, out);
    *read = k > 0 && preadv(r.fd, r.to, r.count, (off_t)r.begin) == (ssize_t)(r.end - r.begin);
    if (*read)
        larder_note_requests(1);
    for (size_t i = 0; !*read && i < k; i++)
        larder_buf_unref(&out[i].buf);
    return k ? k : 1;
}
