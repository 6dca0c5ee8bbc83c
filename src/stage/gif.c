/* The first picture of a GIF through giflib, on its canvas. Transparency is dropped: such pixels
 * have the colour of their index, and so has what the picture does not cover. */
#include "stage/codec.h"

#include "base/err.h"
#include "stage/scratch.h"

#include <string.h>

static bool gif_mine(const uint8_t *bytes, size_t size) {
    return size >= 6 && (memcmp(bytes, "GIF87a", 6) == 0 || memcmp(bytes, "GIF89a", 6) == 0);
}

#if LARDER_HAVE_GIF

#include "base/late.h"

#include <gif_lib.h>

#define CALLS(X)                                                                                   \
    X(DGifCloseFile)                                                                               \
    X(DGifGetExtension)                                                                            \
    X(DGifGetExtensionNext)                                                                        \
    X(DGifGetImageDesc) X(DGifGetLine) X(DGifGetRecordType) X(DGifOpen) X(GifErrorString)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(gif, LARDER_LATE_GIF, CALLS)

typedef struct gif_bytes {
    const uint8_t *at;
    size_t left;
    bool ended; /* more was asked for than there is */
} gif_bytes;

static int give(GifFileType *g, GifByteType *to, int n) {
    gif_bytes *b = g->UserData;
    size_t some = (size_t)n < b->left ? (size_t)n : b->left;
    b->ended |= some < (size_t)n;
    memcpy(to, b->at, some);
    b->at += some;
    b->left -= some;
    return (int)some;
}

static int gif_fail(const gif_bytes *b, size_t size, int code) {
    if (b->ended)
        return larder__fail(LARDER_E_FORMAT, "gif: ends at byte %zu", size);
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return larder__fail(LARDER_E_NOMEM, "gif: out of memory");
    const char *why = GifErrorString(code);
    return larder__fail(LARDER_E_FORMAT, "gif: damaged: %s", why ? why : "no picture in it");
}

/* Extensions up to the first picture; of all they say only the transparent index is used. */
static bool pass_extension(GifFileType *g, int *clear) {
    int code = 0;
    GifByteType *block = NULL;
    if (DGifGetExtension(g, &code, &block) != GIF_OK)
        return false;
    while (block) {
        if (code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4)
            *clear = block[1] & 1 ? block[4] : -1;
        if (DGifGetExtensionNext(g, &block) != GIF_OK)
            return false;
    }
    return true;
}

static bool find_picture(GifFileType *g, int *clear) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    *clear = -1;
    while (DGifGetRecordType(g, &kind) == GIF_OK && kind != TERMINATE_RECORD_TYPE) {
        if (kind == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(g) == GIF_OK;
        if (!pass_extension(g, clear))
            return false;
    }
    return false;
}

/* A picture may go beyond the canvas, which grows then. */
static uint32_t width_of(const GifFileType *g) {
    uint32_t far = (uint32_t)(g->Image.Left + g->Image.Width);
    return (uint32_t)g->SWidth > far ? (uint32_t)g->SWidth : far;
}

static uint32_t height_of(const GifFileType *g) {
    uint32_t far = (uint32_t)(g->Image.Top + g->Image.Height);
    return (uint32_t)g->SHeight > far ? (uint32_t)g->SHeight : far;
}

/* Open, up to where the first picture's pixels begin; NULL with a sentence. */
static GifFileType *gif_open(gif_bytes *b, size_t size, int *clear) {
    int code = 0;
    GifFileType *g = DGifOpen(b, give, &code);
    if (!g) {
        gif_fail(b, size, code);
        return NULL;
    }
    if (find_picture(g, clear))
        return g;
    gif_fail(b, size, g->Error);
    DGifCloseFile(g, NULL);
    return NULL;
}

static int gif_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    (void)s;
    gif_bytes b = {bytes, size, false};
    int clear, rc = larder__late_open(&gif_late);
    if (rc < 0)
        return rc;
    GifFileType *g = gif_open(&b, size, &clear);
    if (!g)
        return LARDER_E_FORMAT;
    *w = width_of(g);
    *h = height_of(g);
    DGifCloseFile(g, NULL);
    return larder__codec_limit("gif", *w, *h);
}

/* Indices without a colour are greys, as Pillow has it; and so are all where they are wanted. */
static void read_colours(const GifFileType *g, bool plain, uint8_t colours[256][4]) {
    const ColorMapObject *map = g->Image.ColorMap ? g->Image.ColorMap : g->SColorMap;
    for (int i = 0; i < 256; i++) {
        memset(colours[i], i, 4);
        if (!plain && map && i < map->ColorCount) {
            colours[i][0] = map->Colors[i].Red;
            colours[i][1] = map->Colors[i].Green;
            colours[i][2] = map->Colors[i].Blue;
        }
    }
}

typedef struct canvas {
    uint8_t *to, *line;
    uint8_t colours[256][4];
    larder__rect want;
} canvas;

static bool read_line(GifFileType *g, canvas *c, int row) {
    if (DGifGetLine(g, c->line, g->Image.Width) != GIF_OK)
        return false;
    int64_t y = g->Image.Top + row, x0 = g->Image.Left, x1 = x0 + g->Image.Width;
    if (y < c->want.y0 || y >= c->want.y1)
        return true;
    uint8_t *to = c->to + (size_t)((y - c->want.y0) * (c->want.x1 - c->want.x0)) * 4;
    for (int64_t x = c->want.x0 > x0 ? c->want.x0 : x0; x < x1 && x < c->want.x1; x++)
        memcpy(to + (x - c->want.x0) * 4, c->colours[c->line[x - x0]], 4);
    return true;
}

static bool read_lines(GifFileType *g, canvas *c) {
    static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    bool woven = g->Image.Interlace;
    for (int pass = 0; pass < (woven ? 4 : 1); pass++)
        for (int y = woven ? first[pass] : 0; y < g->Image.Height; y += woven ? step[pass] : 1) {
            if (!woven && g->Image.Top + y >= c->want.y1)
                return true;
            if (!read_line(g, c, y))
                return false;
        }
    return true;
}

static int gif_pixels(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t denominator,
                      larder__rect want, larder__picture *out) {
    (void)denominator;
    gif_bytes b = {bytes, size, false};
    canvas c = {.want = want};
    int clear, rc = 0;
    GifFileType *g = gif_open(&b, size, &clear);
    if (!g)
        return LARDER_E_FORMAT;
    size_t n = (size_t)(want.x1 - want.x0) * (size_t)(want.y1 - want.y0);
    c.to = larder__scratch_take(s, LARDER__BLOCK_DECODED, n * 4 + 64);
    c.line = larder__scratch_take(s, LARDER__BLOCK_LINE, (size_t)g->Image.Width + 1);
    if (!c.to || !c.line)
        rc = LARDER_E_NOMEM;
    read_colours(g, s->indices, c.colours);
    for (size_t i = 0; rc == 0 && i < n; i++)
        memcpy(c.to + i * 4, c.colours[clear < 0 ? 0 : clear], 4);
    if (rc == 0 && !read_lines(g, &c))
        rc = gif_fail(&b, size, g->Error);
    DGifCloseFile(g, NULL);
    *out = (larder__picture){c.to, (ptrdiff_t)(want.x1 - want.x0) * 4, 4, 1, want};
    return rc;
}

#else

static int gif_head(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t *w,
                    uint32_t *h) {
    (void)s, (void)bytes, (void)size, (void)w, (void)h;
    return larder__codec_missing("GIF", "giflib", "libgif-dev");
}
#define gif_pixels NULL

#endif

const larder__codec larder__codec_gif = {"gif", gif_mine, gif_head, gif_pixels, 1};
