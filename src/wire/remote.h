/* A daemon on another machine: reached by TCP with a token, and since its memory cannot be mapped,
 * bytes come and go over the socket. */
#ifndef LARDER_WIRE_REMOTE_H
#define LARDER_WIRE_REMOTE_H

#include "cache/cache.h"
#include "wire/attachment.h"

bool larder__remote_named(const char *path); /* tcp://host:port */
/* A socket on which the token was said. */
int larder__remote_connect(const char *path, const larder__token *);

/* With `talk` held, after these answers: values[i] for those that are there, NULL for the others.
 * On failure the daemon counts as gone. */
int larder__remote_values(larder__attachment *, const larder__wire_ticket *, size_t n,
                          larder_buf **values);
/* What was promised; false: it could not be sent. */
bool larder__remote_fill(larder__attachment *, const larder__mapping *, uint32_t lease,
                         uint8_t held, larder_buf *);
/* What another job makes, at most so long; NULL: it did not. */
larder_buf *larder__remote_wait(larder__attachment *, const larder__mapping *, uint32_t lease,
                                uint8_t *held, double seconds);

#endif
