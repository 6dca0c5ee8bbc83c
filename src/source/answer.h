/* How a source answers one read of a batch: with a buffer, or with a code and the sentence that
 * this thread's last failure left. */
#ifndef LARDER_SOURCE_ANSWER_H
#define LARDER_SOURCE_ANSWER_H

#include <larder/plugin.h>

#include <stdio.h>

static inline void larder__answer_buf(larder_read *r, larder_buf *buf) {
    r->buf = buf;
    r->code = 0;
    r->why[0] = 0;
}

static inline void larder__answer_failure(larder_read *r, int code) {
    r->buf = NULL;
    r->code = code;
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, larder_errmsg());
}

#endif
