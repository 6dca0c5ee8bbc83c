#include "pictures.h"

#include "check.h"

#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LARDER_HAVE_JPEG
#include <jpeglib.h>

static uint8_t made_up(uint32_t x, uint32_t y, uint32_t c, uint32_t seed) {
    uint32_t noise = (x * 2654435761u ^ y * 40503u ^ c * 97u ^ seed * 7919u) >> 13;
    return (uint8_t)((x * (c + 1) / 2 + y * (3 - c % 3) + seed * 13 + noise % 61) % 256);
}

bool check_jpeg_arithmetic(void) {
#if defined(C_ARITH_CODING_SUPPORTED) && defined(D_ARITH_CODING_SUPPORTED)
    return true;
#else
    return false;
#endif
}

unsigned char *check_jpeg(const check_jpeg_conf *conf, size_t *size) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    c.err = jpeg_std_error(&err);
    jpeg_create_compress(&c);
    unsigned char *out = NULL;
    unsigned long n = 0;
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = conf->w;
    c.image_height = conf->h;
    c.input_components = conf->channels;
    c.in_color_space = conf->channels == 1   ? JCS_GRAYSCALE
                       : conf->channels == 3 ? JCS_RGB
                                             : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 85, TRUE);
    if (conf->channels == 3) {
        c.comp_info[0].h_samp_factor = conf->h_samp;
        c.comp_info[0].v_samp_factor = conf->v_samp;
    }
    if (conf->progressive)
        jpeg_simple_progression(&c);
    c.restart_interval = conf->restart;
    c.arith_code = conf->arithmetic && check_jpeg_arithmetic();
    jpeg_start_compress(&c, TRUE);
    size_t stride = (size_t)conf->w * (size_t)conf->channels;
    unsigned char *row = malloc(stride);
    assert_non_null(row);
    while (c.next_scanline < conf->h) {
        for (size_t i = 0; i < stride; i++)
            row[i] = made_up((uint32_t)(i / (size_t)conf->channels), c.next_scanline,
                             (uint32_t)(i % (size_t)conf->channels), conf->seed);
        JSAMPROW at = row;
        jpeg_write_scanlines(&c, &at, 1);
    }
    free(row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    *size = n;
    return out;
}
#else
bool check_jpeg_arithmetic(void) { return false; }

unsigned char *check_jpeg(const check_jpeg_conf *conf, size_t *size) {
    (void)conf;
    *size = 0;
    return NULL;
}
#endif

/* Sample c of pixel (x, y), as wide as `depth` bits. */
static unsigned png_sample(uint32_t x, uint32_t y, unsigned c, int depth) {
    return (x * 2057 + y * 771 + c * 5003 + x * y * 3) & ((1u << depth) - 1);
}

void check_png_pixel(uint32_t x, uint32_t y, int colour_type, int depth, uint8_t rgb[3]) {
    for (unsigned c = 0; c < 3; c++) {
        unsigned v = png_sample(x, y, colour_type & 2 && colour_type != 3 ? c : 0, depth);
        if (colour_type == 3) /* the palette below */
            rgb[c] = (uint8_t)(v * (c + 1) * 7);
        else
            rgb[c] = (uint8_t)(depth == 16 ? v >> 8 : v * 255 / ((1u << depth) - 1));
    }
}

#if LARDER_HAVE_SPNG
#include <spng.h>

static int channels_of(int colour_type) {
    return colour_type == 2 ? 3 : colour_type == 4 ? 2 : colour_type == 6 ? 4 : 1;
}

unsigned char *check_png(uint32_t w, uint32_t h, int colour_type, int depth, bool interlaced,
                         size_t *size) {
    unsigned n = (unsigned)channels_of(colour_type);
    size_t stride = ((size_t)w * n * (size_t)depth + 7) / 8;
    unsigned char *raw = calloc(h, stride);
    assert_non_null(raw);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t i = 0; i < w * n; i++) {
            unsigned v = png_sample(i / n, y, i % n, depth);
            size_t bit = (size_t)i * (size_t)depth;
            unsigned char *at = raw + y * stride + bit / 8;
            if (depth == 16)
                memcpy(at, &(uint16_t){(uint16_t)v}, 2); /* the host's order: spng swaps */
            else
                *at |= (unsigned char)(v << (8 - (unsigned)depth - bit % 8));
        }
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr head = {.width = w,
                             .height = h,
                             .bit_depth = (uint8_t)depth,
                             .color_type = (uint8_t)colour_type,
                             .interlace_method = interlaced};
    struct spng_plte palette = {.n_entries = 1u << (depth > 8 ? 8 : depth)};
    for (uint32_t i = 0; i < palette.n_entries; i++)
        palette.entries[i] =
            (struct spng_plte_entry){(uint8_t)(i * 7), (uint8_t)(i * 14), (uint8_t)(i * 21), 255};
    assert_int_equal(spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(ctx, &head), 0);
    if (colour_type == 3)
        assert_int_equal(spng_set_plte(ctx, &palette), 0);
    assert_int_equal(spng_encode_image(ctx, raw, h * stride, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
                     0);
    int err = 0;
    unsigned char *out = spng_get_png_buffer(ctx, size, &err);
    assert_non_null(out);
    spng_ctx_free(ctx);
    free(raw);
    return out;
}
#else
unsigned char *check_png(uint32_t w, uint32_t h, int colour_type, int depth, bool interlaced,
                         size_t *size) {
    (void)w, (void)h, (void)colour_type, (void)depth, (void)interlaced;
    *size = 0;
    return NULL;
}
#endif

int check_decode(const void *bytes, size_t size, const char *spec, uint8_t *out) {
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_U8, .layout = LARDER_NHWC};
    check_ok(larder__pipeline_open(&p, &conf));
    check_ok(larder__scratch_open(&s));
    int rc = larder__pipeline_run(p, s, bytes, size, 1, out);
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
    return rc;
}
