/* liburing, opened at its first use; see late.h. Built with liburing alone. */
#ifndef LARDER_BASE_URING_LATE_H
#define LARDER_BASE_URING_LATE_H

#include "base/late.h"

#if LARDER_LATE /* the header calls this one itself, so it is named before it */
#define __io_uring_get_cqe larder__late___io_uring_get_cqe
#endif
#include <liburing.h>

#define LARDER__URING_OTHERS(X)                                                                    \
    X(io_uring_peek_batch_cqe)                                                                     \
    X(io_uring_queue_exit)                                                                         \
    X(io_uring_queue_init)                                                                         \
    X(io_uring_queue_init_params)                                                                  \
    X(io_uring_register_files)                                                                     \
    X(io_uring_submit) X(io_uring_submit_and_wait) X(io_uring_wait_cqe_timeout)
LARDER__URING_OTHERS(LARDER__LATE_NAME)

/* Before the first of these. */
int larder__uring_open(void);

#endif
