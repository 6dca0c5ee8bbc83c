/* JPEG through libjpeg-turbo's libjpeg interface, which can decode a part: columns by
 * jpeg_crop_scanline, rows by jpeg_skip_scanlines, and nothing after the last row that is needed.
 * Settings are the library's own (accurate DCT, smooth chroma), so pixels equal Pillow's.
 *
 * EXIF orientation is ignored, as torchvision's loader does. Data that ends early or whose codes
 * are broken is an error, not a grey area in the picture; but what lies below the last row needed
 * is never looked at. */
#include "stage/codec.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/margin.h"
#include "stage/scratch.h"

#include <string.h>

static bool jpeg_mine(const uint8_t *bytes, size_t size) {
    return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

#if LARDER_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>

#include "stage/jpeg_late.h"

#include <jerror.h>

#include "stage/jpeg_entropy.h"
#include "stage/jpeg_words.h"

#define ROWS_AT_ONCE 16
#define ASKEW 8 /* bytes: the library writes aligned rows past the caches */
#define AGAIN 1 /* to be decoded once more, by the library alone */

typedef struct jpeg_state {
    larder__entropy entropy; /* first: client_data leads to it */
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    JHUFF_TBL standard[2][2]; /* code tables of files that bring none: of DC and AC */
    size_t size;              /* of the file */
    int code;
} jpeg_state;

static void leave_with(j_common_ptr c, const char *how) {
    jpeg_state *j = c->client_data;
    char text[JMSG_LENGTH_MAX];
    j->err.format_message(c, text);
    j->code = LARDER_E_FORMAT;
    switch (j->err.msg_code) {
    case JERR_NO_BACKING_STORE: /* more than max_memory_to_use */
        larder__fail(LARDER_E_FORMAT, "jpeg: wants more memory than its pixels can explain");
        break;
    case JERR_OUT_OF_MEMORY:
        j->code = larder__fail(LARDER_E_NOMEM, "jpeg: out of memory");
        break;
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
        larder__fail(LARDER_E_FORMAT, "jpeg: ends at byte %zu, in row %u of %u", j->size,
                     (unsigned)j->d.output_scanline, (unsigned)j->d.output_height);
        break;
    default:
        larder__fail(LARDER_E_FORMAT, "jpeg: %s%s", how, text);
    }
    longjmp(j->leave, 1);
}

static void on_error(j_common_ptr c) { leave_with(c, ""); }
static void on_output(j_common_ptr c) { (void)c; }

static void on_message(j_common_ptr c, int level) {
    if (level >= 0)
        return;
    if (!larder__jpeg_harmless(c->err->msg_code))
        leave_with(c, "damaged: ");
    c->err->num_warnings++;
}

static void on_progress(j_common_ptr c) {
    jpeg_state *j = c->client_data;
    if (j->d.input_scan_number <= LARDER__JPEG_SCANS_MAX)
        return;
    j->code = larder__fail(LARDER_E_FORMAT, "jpeg: more than %d scans", LARDER__JPEG_SCANS_MAX);
    longjmp(j->leave, 1);
}

static void on_fault(larder__entropy *e) {
    jpeg_state *j = (jpeg_state *)(void *)e;
    j->code = AGAIN;
    longjmp(j->leave, 1);
}

/* From a writer, which knows them. */
static void learn_tables(jpeg_state *j) {
    struct jpeg_compress_struct c = {.err = &j->err, .client_data = j};
    jpeg_create_compress(&c);
    c.client_data = j;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    for (int i = 0; i < 2; i++) {
        j->standard[0][i] = *c.dc_huff_tbl_ptrs[i];
        j->standard[1][i] = *c.ac_huff_tbl_ptrs[i];
    }
    jpeg_destroy_compress(&c);
}

/* Whatever tables the last picture brought are not this one's. */
static void reset_tables(jpeg_state *j) {
    for (int i = 0; i < 2; i++) {
        JHUFF_TBL **dc = &j->d.dc_huff_tbl_ptrs[i], **ac = &j->d.ac_huff_tbl_ptrs[i];
        *dc = *dc ? *dc : jpeg_alloc_huff_table((j_common_ptr)&j->d);
        *ac = *ac ? *ac : jpeg_alloc_huff_table((j_common_ptr)&j->d);
        **dc = j->standard[0][i];
        **ac = j->standard[1][i];
    }
}

static jpeg_state *jpeg_open(larder__scratch *s) {
    if (s->jpeg)
        return s->jpeg;
    jpeg_state *j = larder__calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->d.err = jpeg_std_error(&j->err);
    j->d.client_data = j;
    j->err.error_exit = on_error;
    j->err.output_message = on_output;
    j->err.emit_message = on_message;
    j->progress.progress_monitor = on_progress;
    j->entropy.fault = on_fault;
    if (setjmp(j->leave)) {
        jpeg_destroy_decompress(&j->d);
        larder__free(j);
        return NULL;
    }
    jpeg_create_decompress(&j->d);
    j->d.client_data = j; /* create clears what it does not know */
    learn_tables(j);
    j->d.progress = &j->progress;
    return s->jpeg = j;
}

void larder__jpeg_close(larder__scratch *s) {
    jpeg_state *j = s->jpeg;
    if (!j)
        return;
    jpeg_destroy_decompress(&j->d);
    larder__free(j);
    s->jpeg = NULL;
}

static int jpeg_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    int rc = larder__jpeg_library();
    if (rc < 0)
        return rc;
    jpeg_state *j = jpeg_open(s);
    if (!j)
        return LARDER_E_NOMEM;
    jpeg_abort_decompress(&j->d); /* whatever the last sample left */
    j->size = size;
    if (setjmp(j->leave))
        return j->code;
    reset_tables(j);
    jpeg_mem_src(&j->d, bytes, (unsigned long)size);
    jpeg_read_header(&j->d, TRUE);
    *w = j->d.image_width;
    *h = j->d.image_height;
    j->d.mem->max_memory_to_use = 8 * (long)*w * (long)*h + LARDER__DECODE_CONSTANT;
    return larder__codec_limit("jpeg", *w, *h);
}

static int choose_colours(jpeg_state *j) {
    switch (j->d.jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_YCbCr:
    case JCS_RGB:
        j->d.out_color_space = JCS_EXT_RGBX;
        return 0;
    case JCS_CMYK:
    case JCS_YCCK:
        j->d.out_color_space = JCS_CMYK;
        return 0;
    default:
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "jpeg: %d channels that are neither grey, RGB nor CMYK",
                            j->d.num_components);
    }
}

/* Ink values come inverted, by Adobe's habit that every program follows: 255 is no ink. */
static void cmyk_to_rgb(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++, p += 4)
        for (int c = 0; c < 3; c++) {
            unsigned ink = (255u - p[c]) * p[3] + 128;
            p[c] = (uint8_t)(p[3] - (((ink >> 8) + ink) >> 8));
        }
}

/* Rows want.y0 .. want.y1-1 into `to`. Called under the setjmp of jpeg_pixels. */
static void read_rows(jpeg_state *j, uint8_t *to, size_t stride, larder__rect want) {
    size_t rows = (size_t)(want.y1 - want.y0), done = 0, got = 1;
    if (want.y0 > 0)
        jpeg_skip_scanlines(&j->d, (JDIMENSION)want.y0);
    for (; done < rows && got > 0; done += got) {
        JSAMPROW at[ROWS_AT_ONCE];
        size_t n = rows - done < ROWS_AT_ONCE ? rows - done : ROWS_AT_ONCE;
        for (size_t i = 0; i < n; i++)
            at[i] = to + (done + i) * stride;
        got = jpeg_read_scanlines(&j->d, at, (JDIMENSION)n);
    }
}

/* Narrows decoding to the columns of `want`, and a margin where colours are coarser than that; what
 * it became in x0, x1. */
static void narrow(jpeg_state *j, larder__rect *want) {
    const int64_t margin = j->d.max_h_samp_factor > 1 ? LARDER__JPEG_MARGIN : 0;
    JDIMENSION x0 = want->x0 > margin ? (JDIMENSION)(want->x0 - margin) : 0;
    JDIMENSION x1 = (JDIMENSION)(want->x1 + margin);
    x1 = x1 < j->d.output_width ? x1 : j->d.output_width;
    JDIMENSION n = x1 - x0;
    if (n < j->d.output_width)
        jpeg_crop_scanline(&j->d, &x0, &n);
    want->x0 = x0;
    want->x1 = (int64_t)x0 + n;
}

/* `alone`: the library decodes everything itself. */
static int decode(larder__scratch *s, uint32_t denominator, larder__rect want, bool alone,
                  larder__picture *out) {
    jpeg_state *j = s->jpeg;
    int rc = choose_colours(j);
    if (rc < 0)
        return rc;
    if (setjmp(j->leave))
        return j->code;
    j->d.scale_num = 8 / denominator;
    j->d.scale_denom = 8;
    jpeg_start_decompress(&j->d);
    if (!alone)
        larder__entropy_take(&j->entropy, &j->d);
    narrow(j, &want);
    size_t stride = ((size_t)(want.x1 - want.x0) * 4 + 63) / 64 * 64;
    size_t rows = (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, ASKEW + stride * rows + 64);
    if (!to)
        return LARDER_E_NOMEM;
    to += ASKEW;
    read_rows(j, to, stride, want);
    if (j->d.out_color_space == JCS_CMYK)
        cmyk_to_rgb(to, stride / 4 * rows);
    *out = (larder__picture){to, (ptrdiff_t)stride, 4, 1, want};
    return 0;
}

/* Follows jpeg_head, which has made these bytes the source. */
static int jpeg_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                       larder__rect want, larder__picture *out) {
    uint32_t w, h;
    int rc = decode(s, denominator, want, false, out);
    if (rc != AGAIN)
        return rc;
    rc = jpeg_head(s, bytes, size, &w, &h);
    return rc < 0 ? rc : decode(s, denominator, want, true, out);
}

#else

void larder__jpeg_close(larder__scratch *s) { (void)s; }

static int jpeg_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s, (void)bytes, (void)size, (void)w, (void)h;
    return larder__codec_missing("JPEG", "libjpeg-turbo", "libjpeg62-turbo-dev");
}
#define jpeg_pixels NULL

#endif

const larder__codec larder__codec_jpeg = {"jpeg", jpeg_mine, jpeg_head, jpeg_pixels, 8};
