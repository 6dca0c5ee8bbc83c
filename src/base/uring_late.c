#include "base/late.h"

#if LARDER_HAVE_URING

#include "base/uring_late.h"

#define CALLS(X) LARDER__URING_OTHERS(X) X(__io_uring_get_cqe)
LARDER__LATE(uring, LARDER_LATE_URING, CALLS)

int larder__uring_open(void) { return larder__late_open(&uring_late); }

#endif
