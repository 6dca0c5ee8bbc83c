#include "base/late.h"

#if LARDER_HAVE_JPEG

#include "stage/jpeg_late.h"

LARDER__LATE(jpeg, LARDER_LATE_JPEG, LARDER__JPEG_CALLS)

int larder__jpeg_library(void) { return larder__late_open(&jpeg_late); }

#endif
