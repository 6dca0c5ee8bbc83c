/* nvJPEG without a GPU, for faults and for larder's own code around it: planes come from libjpeg,
 * as they are before colour is widened. FAKE_NVJPEG says what goes wrong: "engine" (there is none),
 * "refuse" (every third file), "fail" (a batch with more than one file), "full" (no memory), "lies"
 * (of every other file it says another size), "whole" (parts of a picture are not supported),
 * "parts" (they are, and decoding them fails). While fake_nvjpeg_held is set no decode comes to its
 * end. Signatures are nvJPEG's, as src/gpu/gpu_jpeg.c has them. */
#include "pieces.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if LARDER_HAVE_JPEG
#include <jpeglib.h>
#endif

typedef struct planes {
    unsigned char *channel[4];
    size_t pitch[4];
} planes;

enum { OK, BAD_JPEG = 3, NO_MEMORY = 5, FAILED = 6, OTHER_CARD = 7, NOT_HERE = 9 };

static int is(const char *fault) {
    const char *asked = getenv("FAKE_NVJPEG");
    return asked && strcmp(asked, fault) == 0;
}

typedef struct parsed { /* of a stream */
    size_t size;
    const unsigned char *bytes;
} parsed;

static int something(void **out) { return (*out = take(sizeof(parsed))) ? OK : NO_MEMORY; }
static int nothing(void *at) { return give(at), OK; }

int nvjpegCreateEx(int backend, void *a, void *b, unsigned flags, void **out);
int nvjpegCreateEx(int backend, void *a, void *b, unsigned flags, void **out) {
    (void)a, (void)b, (void)flags;
    return backend == 3 && is("engine") ? OTHER_CARD : something(out);
}
int nvjpegDestroy(void *h);
int nvjpegDestroy(void *h) { return nothing(h); }
int nvjpegJpegStateCreate(void *h, void **out);
int nvjpegJpegStateCreate(void *h, void **out) { return (void)h, something(out); }
int nvjpegJpegStateDestroy(void *s);
int nvjpegJpegStateDestroy(void *s) { return nothing(s); }
int nvjpegJpegStreamCreate(void *h, void **out);
int nvjpegJpegStreamCreate(void *h, void **out) { return (void)h, something(out); }
int nvjpegJpegStreamDestroy(void *s);
int nvjpegJpegStreamDestroy(void *s) { return nothing(s); }
int nvjpegJpegStreamParseHeader(void *h, const unsigned char *bytes, size_t n, void *stream);
int nvjpegJpegStreamParseHeader(void *h, const unsigned char *bytes, size_t n, void *stream) {
    (void)h;
    *(parsed *)stream = (parsed){n, bytes};
    return OK;
}
#if LARDER_HAVE_JPEG
static int sides(const parsed *p, unsigned c, unsigned *w, unsigned *h) {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
    d.err = jpeg_std_error(&err);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, p->bytes, (unsigned long)p->size);
    jpeg_read_header(&d, TRUE);
    unsigned across = 1, down = 1;
    for (int i = 0; i < d.num_components; i++) {
        across = d.comp_info[i].h_samp_factor > (int)across ? (unsigned)d.comp_info[i].h_samp_factor
                                                            : across;
        down = d.comp_info[i].v_samp_factor > (int)down ? (unsigned)d.comp_info[i].v_samp_factor
                                                        : down;
    }
    *w = (d.image_width * (unsigned)d.comp_info[c].h_samp_factor + across - 1) / across;
    *h = (d.image_height * (unsigned)d.comp_info[c].v_samp_factor + down - 1) / down;
    jpeg_destroy_decompress(&d);
    return OK;
}
#else
static int sides(const parsed *p, unsigned c, unsigned *w, unsigned *h) {
    return (void)p, (void)c, (void)w, (void)h, BAD_JPEG;
}
#endif
int nvjpegJpegStreamGetComponentDimensions(void *stream, unsigned c, unsigned *w, unsigned *h);
int nvjpegJpegStreamGetComponentDimensions(void *stream, unsigned c, unsigned *w, unsigned *h) {
    int rc = sides(stream, c, w, h);
    *w += is("lies") && ((parsed *)stream)->size % 2;
    return rc;
}
int nvjpegDecodeBatchedSupported(void *h, void *stream, int *out);
int nvjpegDecodeBatchedSupported(void *h, void *stream, int *out) {
    (void)h;
    *out = is("refuse") && ((parsed *)stream)->size % 3 == 0;
    return OK;
}

typedef struct part {
    int x, y, w, h;
} part;

int nvjpegDecodeParamsCreate(void *h, void **out);
int nvjpegDecodeParamsCreate(void *h, void **out) {
    (void)h;
    return (*out = take(sizeof(part))) ? OK : NO_MEMORY;
}
int nvjpegDecodeParamsDestroy(void *p);
int nvjpegDecodeParamsDestroy(void *p) { return nothing(p); }
int nvjpegDecodeParamsSetROI(void *p, int x, int y, int w, int h);
int nvjpegDecodeParamsSetROI(void *p, int x, int y, int w, int h) {
    *(part *)p = (part){x, y, w, h};
    return OK;
}
int nvjpegDecodeBatchedSupportedEx(void *h, void *stream, void *p, int *out);
int nvjpegDecodeBatchedSupportedEx(void *h, void *stream, void *p, int *out) {
    const part *of = p;
    unsigned w = 0, high = 0;
    int rc = nvjpegDecodeBatchedSupported(h, stream, out);
    rc = rc ? rc : sides(stream, 0, &w, &high);
    if (of->x < 0 || of->y < 0 || of->w < 1 || of->h < 1 || of->x + of->w > (int)w ||
        of->y + of->h > (int)high)
        abort(); /* what nvJPEG would do with it is not said */
    *out |= is("whole");
    return rc;
}

int nvjpegDecodeBatchedInitialize(void *h, void *state, int n, int threads, int format);
int nvjpegDecodeBatchedInitialize(void *h, void *state, int n, int threads, int format) {
    (void)h, (void)threads;
    *(long *)state = format == 5 ? -n : n; /* negative: as RGB */
    return format == 1 || format == 5 ? OK : FAILED;
}

#if LARDER_HAVE_JPEG
static jmp_buf leave;
static void on_error(j_common_ptr c) {
    (void)c;
    longjmp(leave, 1);
}

static void read_planes(struct jpeg_decompress_struct *d, const planes *to) {
    enum { ROWS = 16, WIDE = 65536 };
    static unsigned char spare[3][ROWS][WIDE];
    JSAMPROW rows[3][ROWS];
    JSAMPARRAY parts[3] = {rows[0], rows[1], rows[2]};
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < ROWS; r++)
            rows[c][r] = spare[c][r];
    unsigned at = 0;
    while (at < d->output_height) {
        unsigned lines = (unsigned)d->max_v_samp_factor * 8;
        jpeg_read_raw_data(d, parts, lines);
        for (int c = 0; c < d->num_components; c++) {
            const jpeg_component_info *p = &d->comp_info[c];
            unsigned n = (unsigned)p->v_samp_factor * 8,
                     first = at * (unsigned)p->v_samp_factor / (unsigned)d->max_v_samp_factor;
            for (unsigned r = 0; r < n && first + r < p->downsampled_height; r++)
                memcpy(to->channel[c] + (first + r) * to->pitch[c], spare[c][r],
                       p->downsampled_width);
        }
        at += lines;
    }
}

/* Lines of RGB, of the part alone. */
static void read_rgb(struct jpeg_decompress_struct *d, const planes *to, const part *p) {
    unsigned char line[3 * 4096];
    JSAMPROW row = line;
    while (d->output_scanline < d->output_height) {
        int y = (int)d->output_scanline - p->y;
        jpeg_read_scanlines(d, &row, 1);
        if (y >= 0 && y < p->h)
            memcpy(to->channel[0] + (size_t)y * to->pitch[0], line + 3 * p->x, 3 * (size_t)p->w);
    }
}

static int decode_one(const unsigned char *bytes, size_t n, const planes *to, int rgb,
                      const part *p) {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
    d.err = jpeg_std_error(&err);
    err.error_exit = on_error;
    jpeg_create_decompress(&d);
    if (setjmp(leave)) {
        jpeg_destroy_decompress(&d);
        return BAD_JPEG;
    }
    jpeg_mem_src(&d, bytes, (unsigned long)n);
    jpeg_read_header(&d, TRUE);
    d.raw_data_out = !rgb;
    d.out_color_space = rgb ? JCS_RGB : d.out_color_space;
    jpeg_start_decompress(&d);
    if (!rgb)
        read_planes(&d, to);
    else
        read_rgb(&d, to, p ? p : &(part){0, 0, (int)d.output_width, (int)d.output_height});
    jpeg_destroy_decompress(&d);
    return OK;
}
#else
static int decode_one(const unsigned char *bytes, size_t n, const planes *to, int rgb,
                      const part *p) {
    (void)rgb, (void)p;
    return (void)bytes, (void)n, (void)to, BAD_JPEG;
}
#endif

__attribute__((visibility("default"))) _Atomic int fake_nvjpeg_held;

static int decode(const void *state, const unsigned char *const *bytes, const size_t *sizes,
                  const planes *to, void *const *parts) {
    static int busy;
    int rgb = *(const long *)state < 0;
    long n = rgb ? -*(const long *)state : *(const long *)state;
    int rc = OK;
    while (fake_nvjpeg_held)
        usleep(1000);
    if (is("full"))
        return NO_MEMORY;
    if (is("fail") && n > 1)
        return FAILED;
    while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) /* one jump buffer for all */
        ;
    for (long i = 0; i < n && rc == OK; i++)
        rc = decode_one(bytes[i], sizes[i], &to[i], rgb, parts ? parts[i] : NULL);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return rc;
}

int nvjpegDecodeBatched(void *h, void *state, const unsigned char *const *bytes,
                        const size_t *sizes, planes *to, void *stream);
int nvjpegDecodeBatched(void *h, void *state, const unsigned char *const *bytes,
                        const size_t *sizes, planes *to, void *stream) {
    (void)h, (void)stream;
    return decode(state, bytes, sizes, to, NULL);
}
int nvjpegDecodeBatchedEx(void *h, void *state, const unsigned char *const *bytes,
                          const size_t *sizes, planes *to, void **parts, void *stream);
int nvjpegDecodeBatchedEx(void *h, void *state, const unsigned char *const *bytes,
                          const size_t *sizes, planes *to, void **parts, void *stream) {
    (void)h, (void)stream;
    return is("parts") ? NOT_HERE : decode(state, bytes, sizes, to, parts);
}
