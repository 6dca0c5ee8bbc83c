#include "stage/codec.h"

#include "base/err.h"

#include <string.h>

static const larder__codec *const codecs[] = {
    &larder__codec_jpeg, &larder__codec_png, &larder__codec_part, &larder__codec_webp,
    &larder__codec_tiff, &larder__codec_gif, &larder__codec_bmp,  &larder__codec_pnm};

/* What people really have in their folders besides pictures we decode. */
static const struct {
    const char *looks_like;
    size_t at, n;
    const char *bytes;
} known[] = {{"AVIF or HEIC", 4, 4, "ftyp"},
             {"JPEG 2000", 4, 4, "jP  "},
             {"HTML or XML", 0, 1, "<"},
             {"gzip", 0, 2, "\x1f\x8b"},
             {"xz", 0, 6,
              "\xfd"
              "7zXZ\0"},
             {"zip", 0, 4, "PK\3\4"},
             {"NumPy", 0, 6, "\x93NUMPY"}};

static const char *guess(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size >= known[i].at + known[i].n &&
            memcmp(bytes + known[i].at, known[i].bytes, known[i].n) == 0)
            return known[i].looks_like;
    for (size_t i = 0; i < size && i < 32; i++)
        if ((bytes[i] < ' ' && bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\t') ||
            bytes[i] > '~')
            return "something unknown";
    return "plain text";
}

const larder__codec *larder__codec_find(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i]->mine(bytes, size))
            return codecs[i];
    if (size == 0)
        larder__fail(LARDER_E_FORMAT, "empty: no bytes to decode");
    else
        larder__fail(LARDER_E_FORMAT,
                     "no picture larder knows: its %zu bytes look like %s (first bytes %02x %02x "
                     "%02x %02x)",
                     size, guess(bytes, size), bytes[0], size > 1 ? bytes[1] : 0,
                     size > 2 ? bytes[2] : 0, size > 3 ? bytes[3] : 0);
    return NULL;
}

int larder__codec_missing(const char *format, const char *library, const char *package) {
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build decodes no %s: %s was missing (apt install %s, then build "
                        "again)",
                        format, library, package);
}

int larder__codec_limit(const char *name, uint64_t w, uint64_t h) {
    if (w == 0 || h == 0)
        return larder__fail(LARDER_E_FORMAT, "%s: declares %llu x %llu pixels", name,
                            (unsigned long long)h, (unsigned long long)w);
    if (w > LARDER__DECODED_SIDE || h > LARDER__DECODED_SIDE || w * h > LARDER__MAX_PIXELS)
        return larder__fail(LARDER_E_RANGE,
                            "%s: declares %llu x %llu pixels, the limit is %u in all", name,
                            (unsigned long long)h, (unsigned long long)w, LARDER__MAX_PIXELS);
    return 0;
}
