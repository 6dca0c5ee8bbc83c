/* Pictures made up for tests: smooth colours with some noise, encoded as asked. */
#ifndef LARDER_TEST_PICTURES_H
#define LARDER_TEST_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct check_jpeg_conf {
    uint32_t w, h;
    int channels;       /* 1, 3 or 4 (CMYK) */
    int h_samp, v_samp; /* of the luma; 1,1 is 4:4:4 */
    bool progressive;
    uint32_t restart; /* MCUs between restart markers; 0: none */
    uint32_t seed;
    bool arithmetic; /* coded so where libjpeg can, check_jpeg_arithmetic() */
} check_jpeg_conf;

/* Bytes to free() by the caller, or NULL where this build has no such library. */
unsigned char *check_jpeg(const check_jpeg_conf *, size_t *size);
bool check_jpeg_arithmetic(void);
unsigned char *check_png(uint32_t w, uint32_t h, int colour_type, int depth, bool interlaced,
                         size_t *size);
/* What check_png put into it, as 8-bit RGB would be read back. */
void check_png_pixel(uint32_t x, uint32_t y, int colour_type, int depth, uint8_t rgb[3]);

/* The picture in `bytes` through a pipeline, as 8-bit HWC. */
int check_decode(const void *bytes, size_t size, const char *spec, uint8_t *out);

#endif
