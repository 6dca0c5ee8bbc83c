#include "pack/reencode.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#if LARDER_HAVE_JPEG

#include "stage/codec.h"
#include "stage/pipeline.h"
#include "stage/scratch.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

enum { QUALITY_WHEN_SMALLER = 90 };

struct larder__reencoder {
    uint32_t quality, max_side;
    larder__scratch *scratch;
    uint8_t *pixels; /* RGB */
    size_t pixels_cap;
    unsigned char *jpeg; /* from libjpeg's malloc */
    unsigned long jpeg_size;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr err;
    bool ready;
    jmp_buf leave;
};

static void on_error(j_common_ptr c) {
    larder__reencoder *r = c->client_data;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    larder__fail(LARDER_E_FORMAT, "jpeg: %s", text);
    longjmp(r->leave, 1);
}
static void on_output(j_common_ptr c) { (void)c; }

int larder__reencoder_open(larder__reencoder **out, uint32_t quality, uint32_t max_side) {
    larder__reencoder *r = *out = larder__calloc(1, sizeof *r);
    int rc = r ? larder__scratch_open(&r->scratch) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__reencoder_close(out);
        return rc;
    }
    r->quality = quality;
    r->max_side = max_side;
    r->out.err = jpeg_std_error(&r->err);
    r->err.error_exit = on_error;
    r->err.output_message = on_output;
    r->out.client_data = r;
    if (setjmp(r->leave)) {
        larder__reencoder_close(out);
        return LARDER_E_NOMEM;
    }
    jpeg_create_compress(&r->out);
    r->out.client_data = r;
    r->ready = true;
    return 0;
}

void larder__reencoder_close(larder__reencoder **pr) {
    larder__reencoder *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    if (r->ready)
        jpeg_destroy_compress(&r->out);
    larder__scratch_close(&r->scratch);
    larder__free(r->pixels);
    free(r->jpeg); /* libjpeg's, see jpeg_mem_dest */
    larder__free(r);
}

/* The whole picture as RGB of w x h. */
static int get_pixels(larder__reencoder *r, const void *bytes, size_t size, uint32_t w,
                      uint32_t h) {
    char spec[64];
    snprintf(spec, sizeof spec, "resize:h=%u,w=%u", h, w);
    larder__pipeline *p = NULL;
    larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_U8, .layout = LARDER_NHWC};
    int rc = larder__pipeline_open(&p, &conf);
    if (rc == 0)
        rc = larder__room(&r->pixels, &r->pixels_cap, (size_t)w * h * 3, 1);
    if (rc == 0)
        rc = larder__pipeline_run(p, r->scratch, bytes, size, 0, r->pixels);
    larder__pipeline_close(&p);
    return rc;
}

static int encode(larder__reencoder *r, uint32_t w, uint32_t h) {
    free(r->jpeg);
    r->jpeg = NULL;
    if (setjmp(r->leave)) {
        jpeg_abort_compress(&r->out);
        return LARDER_E_FORMAT;
    }
    jpeg_mem_dest(&r->out, &r->jpeg, &r->jpeg_size);
    r->out.image_width = w;
    r->out.image_height = h;
    r->out.input_components = 3;
    r->out.in_color_space = JCS_RGB;
    jpeg_set_defaults(&r->out);
    jpeg_set_quality(&r->out, (int)(r->quality ? r->quality : QUALITY_WHEN_SMALLER), TRUE);
    jpeg_start_compress(&r->out, TRUE);
    while (r->out.next_scanline < h) {
        JSAMPROW row = r->pixels + (size_t)r->out.next_scanline * w * 3;
        jpeg_write_scanlines(&r->out, &row, 1);
    }
    jpeg_finish_compress(&r->out);
    return 0;
}

int larder__reencode(larder__reencoder *r, const void *bytes, size_t size, const void **out,
                     size_t *out_size, bool *again) {
    uint32_t w, h;
    *out = bytes;
    *out_size = size;
    *again = false;
    const larder__codec *codec = larder__codec_find(bytes, size);
    int rc = codec ? codec->head(r->scratch, bytes, size, &w, &h) : LARDER_E_FORMAT;
    if (rc < 0)
        return rc;
    uint32_t longer = w > h ? w : h;
    double scale = r->max_side && longer > r->max_side ? (double)r->max_side / longer : 1;
    if (scale == 1 && !r->quality)
        return 0;
    uint32_t to_w = (uint32_t)(w * scale + 0.5), to_h = (uint32_t)(h * scale + 0.5);
    to_w = to_w ? to_w : 1;
    to_h = to_h ? to_h : 1;
    if ((rc = get_pixels(r, bytes, size, to_w, to_h)) < 0 || (rc = encode(r, to_w, to_h)) < 0)
        return rc;
    *out = r->jpeg;
    *out_size = r->jpeg_size;
    *again = true;
    return 0;
}

#else

int larder__reencoder_open(larder__reencoder **out, uint32_t quality, uint32_t max_side) {
    (void)quality, (void)max_side;
    *out = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED, "this build encodes no JPEG");
}
void larder__reencoder_close(larder__reencoder **pr) { *pr = NULL; }
int larder__reencode(larder__reencoder *r, const void *bytes, size_t size, const void **out,
                     size_t *out_size, bool *again) {
    (void)r, (void)bytes, (void)size, (void)out, (void)out_size, (void)again;
    return LARDER_E_UNSUPPORTED;
}

#endif
