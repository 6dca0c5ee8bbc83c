/* zlib, opened at its first use; see late.h. Built with zlib alone. */
#ifndef LARDER_BASE_ZLIB_LATE_H
#define LARDER_BASE_ZLIB_LATE_H

#include "base/late.h"

#include <zlib.h>

#define LARDER__ZLIB_CALLS(X) X(inflate) X(inflateEnd) X(inflateInit2_) X(inflateReset)
LARDER__ZLIB_CALLS(LARDER__LATE_NAME)

/* Before the first of these. */
int larder__zlib_open(void);

#endif
