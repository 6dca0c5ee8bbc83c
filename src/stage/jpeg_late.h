/* libjpeg, opened at its first use; see base/late.h. Built with libjpeg alone. */
#ifndef LARDER_STAGE_JPEG_LATE_H
#define LARDER_STAGE_JPEG_LATE_H

#include "base/late.h"

#include <stdio.h>

#include <jpeglib.h>

#define LARDER__JPEG_CALLS(X)                                                                      \
    X(jpeg_CreateCompress)                                                                         \
    X(jpeg_CreateDecompress)                                                                       \
    X(jpeg_abort_compress)                                                                         \
    X(jpeg_abort_decompress)                                                                       \
    X(jpeg_alloc_huff_table)                                                                       \
    X(jpeg_copy_critical_parameters)                                                               \
    X(jpeg_crop_scanline)                                                                          \
    X(jpeg_destroy_compress)                                                                       \
    X(jpeg_destroy_decompress)                                                                     \
    X(jpeg_finish_compress)                                                                        \
    X(jpeg_mem_src)                                                                                \
    X(jpeg_read_coefficients)                                                                      \
    X(jpeg_read_header)                                                                            \
    X(jpeg_read_scanlines)                                                                         \
    X(jpeg_save_markers)                                                                           \
    X(jpeg_set_defaults)                                                                           \
    X(jpeg_set_quality)                                                                            \
    X(jpeg_skip_scanlines)                                                                         \
    X(jpeg_start_compress)                                                                         \
    X(jpeg_start_decompress)                                                                       \
    X(jpeg_std_error)                                                                              \
    X(jpeg_suppress_tables) X(jpeg_write_coefficients) X(jpeg_write_scanlines)
LARDER__JPEG_CALLS(LARDER__LATE_NAME)

/* Before the first of these. */
int larder__jpeg_library(void);

#endif
