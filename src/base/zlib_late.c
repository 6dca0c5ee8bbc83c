#include "base/late.h"

#if LARDER_HAVE_ZLIB

#include "base/zlib_late.h"

LARDER__LATE(zlib, LARDER_LATE_ZLIB, LARDER__ZLIB_CALLS)

int larder__zlib_open(void) { return larder__late_open(&zlib_late); }

#endif
