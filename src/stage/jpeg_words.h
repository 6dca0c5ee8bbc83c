/* Which of libjpeg's complaints matter. For files that include jpeglib.h and jerror.h first. */
#ifndef LARDER_STAGE_JPEG_WORDS_H
#define LARDER_STAGE_JPEG_WORDS_H

#include <stdbool.h>

/* Real progressive files have about ten; hostile ones have thousands, each a pass over it all. */
enum { LARDER__JPEG_SCANS_MAX = 100 };

/* Odd headers and stray bytes between segments do no harm; after any other warning pixels are wrong
 * or missing. */
static inline bool larder__jpeg_harmless(int code) {
    return code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_PROGRESSION ||
           code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR;
}

#endif
