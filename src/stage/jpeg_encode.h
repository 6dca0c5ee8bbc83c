/* Pixels into a JPEG, 4:2:0. */
#ifndef LARDER_STAGE_JPEG_ENCODE_H
#define LARDER_STAGE_JPEG_ENCODE_H

#include "stage/codec.h"

typedef struct larder__jpeg_conf {
    uint32_t quality; /* 1 to 100 */
    bool grey;        /* the first channel alone */
    bool bare;        /* without the code tables that every decoder knows: 430 bytes less */
    size_t limit;     /* bytes at most */
} larder__jpeg_conf;

/* `pixels` has 4 bytes each and begins with those of the picture. *out lies in the scratch until
 * the next call. NULL and 0: it would take more than the limit. */
int larder__jpeg_encode(larder__scratch *, const larder__picture *pixels, uint32_t w, uint32_t h,
                        const larder__jpeg_conf *, const uint8_t **out, size_t *size);
bool larder__jpeg_can_encode(void); /* else: E_UNSUPPORTED */

#endif
