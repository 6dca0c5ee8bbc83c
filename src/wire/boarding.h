/* From the daemon's answers to tickets of the cache, and from tickets back to the daemon: an entry
 * that is there is read where it lies, one that is missing is made in its place in shared memory,
 * one that another job makes is waited for there. */
#ifndef LARDER_WIRE_BOARDING_H
#define LARDER_WIRE_BOARDING_H

#include "cache/link.h"
#include "wire/attachment.h"

/* Functions of larder__link; `st` is a larder__attachment. */
int larder__board_claim(void *st, larder_access *, size_t n, larder__ticket *out);
void larder__board_alone(void *st, const larder_access *, larder__ticket *out);
void larder__board_fill(void *st, larder__ticket *, larder_buf *);
void larder__board_fail(void *st, larder__ticket *, int code, const char *why);
int larder__board_wait(void *st, larder__ticket *, larder_buf **out);

/* For exchanges, with `talk` held. Room for n requests in `accesses`; the body of a claim for those
 * (`in` NULL: they are there already) with all that goes back; answers nobody comes for go back. */
int larder__board_reserve(larder__attachment *, size_t n);
void larder__board_write(larder__attachment *, const larder_access *in, size_t n, uint32_t fetch);
void larder__board_refuse_kept(larder__attachment *);
/* Keeps the answers that follow in `body` for the claims to come. */
int larder__board_keep(larder__attachment *, larder_reader *body, size_t rows, size_t fetched);

#endif
