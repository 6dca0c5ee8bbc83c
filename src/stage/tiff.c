/* The first picture of a TIFF through libtiff, whose own conversion to RGBA knows all that is
 * common: 1 to 16 bits, grey, palettes, RGB, CMYK, YCbCr, Lab, strips and tiles. Alpha is dropped,
 * and colours that were multiplied by it are divided again; it is turned as its head says.
 *
 * A strip or a tile is unpacked whole, so one must not be larger than the picture explains. */
#include "stage/codec.h"

#include "base/err.h"
#include "stage/scratch.h"

#include <string.h>

static bool tiff_mine(const uint8_t *bytes, size_t size) {
    static const char *const marks[] = {"II*\0", "MM\0*", "II+\0", "MM\0+"};
    for (size_t i = 0; size >= 8 && i < 4; i++)
        if (memcmp(bytes, marks[i], 4) == 0)
            return true;
    return false;
}

#if LARDER_HAVE_TIFF

#include "base/late.h"

#include <stdio.h>
#include <tiffio.h>

#define CALLS(X)                                                                                   \
    X(TIFFClientOpenExt)                                                                           \
    X(TIFFClose)                                                                                   \
    X(TIFFGetField)                                                                                \
    X(TIFFGetFieldDefaulted)                                                                       \
    X(TIFFIsTiled)                                                                                 \
    X(TIFFOpenOptionsAlloc)                                                                        \
    X(TIFFOpenOptionsFree)                                                                         \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                          \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                         \
    X(TIFFOpenOptionsSetWarningHandlerExtR)                                                        \
    X(TIFFRGBAImageBegin)                                                                          \
    X(TIFFRGBAImageEnd)                                                                            \
    X(TIFFRGBAImageGet) X(TIFFRGBAImageOK) X(TIFFSetField) X(TIFFStripSize64) X(TIFFTileSize64)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(tiff, LARDER_LATE_TIFF, CALLS)

typedef struct tiff {
    TIFF *tif;
    const uint8_t *bytes;
    uint64_t size, at;
    uint32_t w, h, block; /* sides as they lie there; rows that are unpacked together */
    uint16_t turned;      /* as the head says, 1 to 8 */
    bool multiplied;      /* by alpha */
    char why[160];        /* what the library said first */
} tiff;

/* ---- the library's file is memory ------------------------------------------------------------ */

static tmsize_t give(thandle_t h, void *to, tmsize_t n) {
    tiff *t = h;
    uint64_t left = t->at < t->size ? t->size - t->at : 0,
             some = (uint64_t)n < left ? (uint64_t)n : left;
    memcpy(to, t->bytes + t->at, some);
    t->at += some;
    return (tmsize_t)some;
}

static tmsize_t take_none(thandle_t h, void *from, tmsize_t n) {
    (void)h, (void)from, (void)n;
    return 0;
}

static toff_t seek(thandle_t h, toff_t to, int from) {
    tiff *t = h;
    t->at = from == SEEK_SET ? to : from == SEEK_CUR ? t->at + to : t->size + to;
    return t->at;
}

static int let_go(thandle_t h) {
    (void)h;
    return 0;
}

static toff_t size_of(thandle_t h) { return ((tiff *)h)->size; }

static int map(thandle_t h, void **base, toff_t *size) {
    tiff *t = h;
    *base = (void *)(uintptr_t)t->bytes;
    *size = t->size;
    return 1;
}

static void unmap(thandle_t h, void *base, toff_t size) { (void)h, (void)base, (void)size; }

static int on_error(TIFF *tif, void *arg, const char *where, const char *format, va_list list) {
    tiff *t = arg;
    (void)tif, (void)where;
    if (!t->why[0])
        vsnprintf(t->why, sizeof t->why, format, list);
    return 1;
}

static int on_warning(TIFF *tif, void *arg, const char *where, const char *format, va_list list) {
    /* A head that goes beyond the file is read without what is missing, say its colours. */
    return strstr(format, "IO error") ? on_error(tif, arg, where, format, list) : 1;
}

/* ---- the head -------------------------------------------------------------------------------- */

static int tiff_fail(const tiff *t) {
    return larder__fail(LARDER_E_FORMAT, "tiff: damaged or cut off at byte %llu: %s",
                        (unsigned long long)t->size, t->why[0] ? t->why : "no picture in it");
}

static void tiff_close(tiff *t) {
    if (t->tif)
        TIFFClose(t->tif);
    t->tif = NULL;
}

static int open_file(tiff *t) {
    int rc = larder__late_open(&tiff_late);
    if (rc < 0)
        return rc;
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
    if (!o)
        return larder__fail(LARDER_E_NOMEM, "tiff: out of memory");
    TIFFOpenOptionsSetMaxSingleMemAlloc(o,
                                        8 * (tmsize_t)LARDER__MAX_PIXELS + LARDER__DECODE_CONSTANT);
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, t);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, t);
    t->tif =
        TIFFClientOpenExt("tiff", "r", t, give, take_none, seek, let_go, size_of, map, unmap, o);
    TIFFOpenOptionsFree(o);
    return t->tif && !t->why[0] ? 0 : tiff_fail(t);
}

/* Colours are wanted as they lie there: the library would multiply those that were not. */
static void leave_alpha(tiff *t) {
    uint16_t n = 0, *kinds = NULL, all[8];
    if (!TIFFGetField(t->tif, TIFFTAG_EXTRASAMPLES, &n, &kinds) || n == 0 || n > 8)
        return;
    t->multiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
    memcpy(all, kinds, n * sizeof *all);
    if (all[0] == EXTRASAMPLE_UNASSALPHA) {
        all[0] = EXTRASAMPLE_ASSOCALPHA;
        TIFFSetField(t->tif, TIFFTAG_EXTRASAMPLES, n, all);
    }
}

static int check_block(tiff *t) {
    bool tiles = TIFFIsTiled(t->tif);
    uint64_t bytes = tiles ? TIFFTileSize64(t->tif) : TIFFStripSize64(t->tif);
    t->block = t->h;
    TIFFGetFieldDefaulted(t->tif, tiles ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &t->block);
    if (bytes == 0 || t->block == 0)
        return tiff_fail(t);
    if (bytes > 8 * (uint64_t)t->w * t->h + LARDER__DECODE_CONSTANT)
        return larder__fail(LARDER_E_RANGE,
                            "tiff: a strip of %llu bytes in a picture of %u x %u pixels",
                            (unsigned long long)bytes, t->h, t->w);
    return 0;
}

static int tiff_open(tiff *t, const uint8_t *bytes, size_t size) {
    *t = (tiff){.bytes = bytes, .size = size, .turned = ORIENTATION_TOPLEFT};
    int rc = open_file(t);
    if (rc < 0) {
        tiff_close(t);
        return rc;
    }
    TIFFGetField(t->tif, TIFFTAG_IMAGEWIDTH, &t->w);
    TIFFGetField(t->tif, TIFFTAG_IMAGELENGTH, &t->h);
    TIFFGetFieldDefaulted(t->tif, TIFFTAG_ORIENTATION, &t->turned);
    if (t->turned < ORIENTATION_TOPLEFT || t->turned > ORIENTATION_LEFTBOT)
        t->turned = ORIENTATION_TOPLEFT;
    rc = larder__codec_limit("tiff", t->w, t->h);
    if (rc == 0)
        rc = check_block(t);
    if (rc == 0)
        leave_alpha(t);
    if (rc < 0)
        tiff_close(t);
    return rc;
}

static bool on_its_side(const tiff *t) { return t->turned >= ORIENTATION_LEFTTOP; }

static int tiff_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s;
    tiff t;
    int rc = tiff_open(&t, bytes, size);
    tiff_close(&t);
    *w = on_its_side(&t) ? t.h : t.w;
    *h = on_its_side(&t) ? t.w : t.h;
    return rc;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Rows from..to-1 as they lie there, whole. */
static int read_rows(tiff *t, uint32_t from, uint32_t to, void *out) {
    TIFFRGBAImage image;
    char why[1024] = "";
    if (!TIFFRGBAImageOK(t->tif, why) || !TIFFRGBAImageBegin(&image, t->tif, 1, why))
        return larder__fail(LARDER_E_UNSUPPORTED, "tiff: %.160s", why[0] ? why : t->why);
    image.req_orientation = image.orientation;
    image.row_offset = (int)from;
    int got = TIFFRGBAImageGet(&image, out, t->w, to - from);
    TIFFRGBAImageEnd(&image);
    return got ? 0 : tiff_fail(t);
}

static void divide_by_alpha(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++, p += 4)
        for (int c = 0; c < 3 && p[3]; c++) {
            unsigned v = 255u * p[c] / p[3];
            p[c] = (uint8_t)(v < 255 ? v : 255);
        }
}

/* Where pixel (x, y) of the picture lies in the file. */
static size_t place_of(const tiff *t, int64_t x, int64_t y) {
    bool side = on_its_side(t);
    int64_t u = side ? y : x, v = side ? x : y;
    bool right = t->turned == ORIENTATION_TOPRIGHT || t->turned == ORIENTATION_BOTRIGHT ||
                 t->turned == ORIENTATION_RIGHTBOT || t->turned == ORIENTATION_LEFTBOT;
    bool bottom = t->turned == ORIENTATION_BOTRIGHT || t->turned == ORIENTATION_BOTLEFT ||
                  t->turned == ORIENTATION_RIGHTTOP || t->turned == ORIENTATION_RIGHTBOT;
    u = right ? (int64_t)t->w - 1 - u : u;
    v = bottom ? (int64_t)t->h - 1 - v : v;
    return (size_t)v * t->w + (size_t)u;
}

static int read_turned(tiff *t, larder__scratch *s, larder__rect want, larder__picture *out) {
    size_t n = (size_t)t->w * t->h, row = (size_t)(want.x1 - want.x0) * 4;
    uint8_t *all = larder__scratch_take(s, LARDER__BLOCK_REPACKED, n * 4);
    uint8_t *to =
        larder__scratch_take(s, LARDER__BLOCK_DECODED, row * (size_t)(want.y1 - want.y0) + 64);
    if (!all || !to)
        return LARDER_E_NOMEM;
    int rc = read_rows(t, 0, t->h, all);
    if (rc < 0)
        return rc;
    if (t->multiplied)
        divide_by_alpha(all, n);
    *out = (larder__picture){to, (ptrdiff_t)row, 4, 1, want};
    for (int64_t y = want.y0; y < want.y1; y++)
        for (int64_t x = want.x0; x < want.x1; x++, to += 4)
            memcpy(to, all + place_of(t, x, y) * 4, 4);
    return 0;
}

static int read_upright(tiff *t, larder__scratch *s, larder__rect want, larder__picture *out) {
    want.x0 = 0;
    want.x1 = t->w;
    want.y0 -= want.y0 % t->block;
    size_t n = (size_t)t->w * (size_t)(want.y1 - want.y0);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_DECODED, n * 4 + 64);
    if (!to)
        return LARDER_E_NOMEM;
    int rc = read_rows(t, (uint32_t)want.y0, (uint32_t)want.y1, to);
    if (rc == 0 && t->multiplied)
        divide_by_alpha(to, n);
    *out = (larder__picture){to, (ptrdiff_t)t->w * 4, 4, 1, want};
    return rc;
}

static int tiff_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                       larder__rect want, larder__picture *out) {
    (void)denominator;
    tiff t;
    int rc = tiff_open(&t, bytes, size);
    if (rc < 0)
        return rc;
    rc = t.turned == ORIENTATION_TOPLEFT ? read_upright(&t, s, want, out)
                                         : read_turned(&t, s, want, out);
    tiff_close(&t);
    return rc;
}

#else

static int tiff_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                     uint32_t *h) {
    (void)s, (void)bytes, (void)size, (void)w, (void)h;
    return larder__codec_missing("TIFF", "libtiff 4.5 or later", "libtiff-dev");
}
#define tiff_pixels NULL

#endif

const larder__codec larder__codec_tiff = {"tiff", tiff_mine, tiff_head, tiff_pixels, 1};
