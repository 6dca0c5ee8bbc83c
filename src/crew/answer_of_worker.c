#include "crew/answer_of_worker.h"

#include "base/err.h"

#include <stdio.h>

int larder__crew_message(larder__crew_answer *a, const void *bytes, size_t size, uint64_t number,
                         size_t n) {
    if (size == sizeof *a)
        memcpy(a, bytes, sizeof *a);
    if (size != sizeof *a || a->magic != LARDER_CREW_TELLS)
        return larder__fail(LARDER_E_FORMAT, "a worker sent %zu bytes that are no answer", size);
    if (a->number != number || a->n != n || a->used > a->size ||
        a->used < LARDER__CREW_PROGRESS + n * sizeof(larder__crew_record))
        return larder__fail(LARDER_E_FORMAT, "a worker answered something else than was asked");
    return 0;
}

static void failure(larder_read *r, int code, const char *why, size_t bytes) {
    size_t n = strnlen(why, bytes);
    r->buf = NULL;
    r->code = code < LARDER_E_FULL ? LARDER_E_FORMAT : code;
    snprintf(r->why, sizeof r->why, "%.*s", (int)(n < sizeof r->why ? n : sizeof r->why - 1), why);
}

static int take(larder_read *r, unsigned char *at, uint64_t bytes, const larder__crew_taker *t) {
    if (bytes >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "it came to %llu bytes; a sample has less than 4 GiB",
                            (unsigned long long)bytes);
    *r = (larder_read){.buf = t->lend ? t->lend(t->arg, at, (uint32_t)bytes) : NULL};
    if (r->buf)
        return 0;
    if (!(r->buf = larder_buf_new((size_t)bytes)))
        return larder__fail(LARDER_E_NOMEM, "out of memory");
    memcpy(larder_buf_data(r->buf), at, (size_t)bytes);
    return 0;
}

int larder__crew_take(const larder__crew_answer *a, unsigned char *memory, size_t size,
                      const uint64_t *ids, larder_read *out, const larder__crew_taker *t) {
    if (a->used > size)
        return larder__fail(LARDER_E_FORMAT, "a worker's answer is longer than its memory");
    for (size_t i = 0; i < a->n; i++) {
        larder__crew_record r; /* looked at once: it may change */
        memcpy(&r, memory + LARDER__CREW_PROGRESS + i * sizeof r, sizeof r);
        int rc = 0;
        if (r.offset > a->used || r.bytes > a->used - r.offset)
            rc = larder__fail(LARDER_E_FORMAT, "a worker's answer lies outside of its memory");
        else if (r.code >= 0)
            rc = take(&out[i], memory + r.offset, r.bytes, t);
        else {
            char text[LARDER__CREW_TRACE];
            size_t n = r.bytes < sizeof text ? (size_t)r.bytes : sizeof text - 1;
            memcpy(text, memory + r.offset, n);
            text[n] = 0;
            failure(&out[i], r.code, text, n);
            size_t sentence = strlen(text);
            if (sentence + 1 < n)
                t->trace(t->arg, ids[i], text + sentence + 1, n - sentence - 1);
        }
        if (rc < 0)
            failure(&out[i], rc, larder_errmsg(), sizeof out[i].why);
    }
    return 0;
}
