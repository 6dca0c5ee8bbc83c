/* From the daemon's answers to tickets of the cache, and from tickets back to the daemon: an entry
 * that is there is read where it lies, one that is missing is made in its place in shared memory,
 * one that another job makes is waited for there. */
#ifndef LARDER_UNIX_TICKETS_H
#define LARDER_UNIX_TICKETS_H

#include "unix/connection.h"

/* Functions of larder__carrier; `st` is a larder__connection. */
void larder__tickets_tickets(void *st, const larder__reply *, const larder_access *, size_t n,
                             larder__ticket *out);
void larder__tickets_refuse(void *st, const larder__reply *, size_t n);
void larder__tickets_fill(void *st, larder__ticket *, larder_buf *);
void larder__tickets_fail(void *st, larder__ticket *, int code);
int larder__tickets_wait(void *st, larder__ticket *, larder_buf **out);

#endif
