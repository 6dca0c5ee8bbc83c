/* Small files that would become large: whoever decodes or unpacks them takes what the picture or
 * its limit explains, and no more. Each is read by a child that may have so much memory and not a
 * page beyond it. */
#include "base/clones.h"
#include "base/limit.h"
#include "base/mem.h"
#include "check.h"
#include "packed.h"
#include "pictures.h"
#include "sim/sim.h"
#include "source/source.h"
#include "stage/codec.h"
#include "stage/sound.h"
#include "tar_maker.h"
#include <larder/svm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if LARDER_HAVE_ZLIB
#include <zlib.h>
#endif
#if LARDER_HAVE_ZSTD
#include <zstd.h>
#endif

enum { MIB = 1 << 20 };

/* ---- the child ------------------------------------------------------------------------------- */

static uint64_t address_space(void) {
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu", &pages), 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

typedef int (*reader)(const void *arg);

/* What `fn` answers where there are `bytes` more than there are now; the sentence in `why`. */
static int within(uint64_t bytes, reader fn, const void *arg, char why[512]) {
    int ends[2], status;
    struct {
        int rc;
        char why[512];
    } said;
    memset(&said, 0, sizeof said);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit most = {address_space() + bytes, RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &most) != 0)
            _exit(2);
        said.rc = fn(arg);
        snprintf(said.why, sizeof said.why, "%s", larder_errmsg());
        _exit(write(ends[1], &said, sizeof said) != (ssize_t)sizeof said);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        fail_msg("the child ended with %d", status);
    assert_int_equal(read(ends[0], &said, sizeof said), sizeof said);
    close(ends[0]), close(ends[1]);
    memcpy(why, said.why, sizeof said.why);
    return said.rc;
}

/* ---- pictures -------------------------------------------------------------------------------- */

typedef struct picture {
    unsigned char *bytes;
    size_t size;
    const char *spec;
} picture;

static int decode(const void *arg) {
    const picture *p = arg;
    static uint8_t out[64 * 64 * 3];
    int rc = check_decode(p->bytes, p->size, p->spec, out);
    for (uint32_t y = 0; rc == 0 && y < 16; y++)
        for (uint32_t x = 0; x < 16; x++) {
            uint8_t want[3];
            check_png_pixel(x, y, 2, 8, want);
            if (p->bytes[0] == 0x89 && memcmp(want, out + (y * 16 + x) * 3, 3) != 0)
                return 1;
        }
    return rc;
}

#if LARDER_HAVE_ZLIB
static void put_u32(unsigned char *to, size_t v) {
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* A picture with a chunk after its header: these bytes, `times` times. */
static picture with_chunk(const char *type, const void *body, size_t n, size_t times) {
    picture p = {.spec = "centercrop:h=16,w=16"};
    size_t size;
    unsigned char *plain = check_png(16, 16, 2, 8, false, &size);
    if (!plain)
        return p;
    p.bytes = malloc(size + times * (n + 12));
    memcpy(p.bytes, plain, 33); /* signature and header */
    unsigned char *at = p.bytes + 33;
    for (size_t i = 0; i < times; i++, at += n + 12) {
        put_u32(at, n);
        memcpy(at + 4, type, 4);
        memcpy(at + 8, body, n);
        put_u32(at + 8 + n, crc32(0, at + 4, (unsigned)n + 4));
    }
    memcpy(at, plain + 33, size - 33);
    p.size = (size_t)(at - p.bytes) + size - 33;
    free(plain);
    return p;
}

/* `before` and then `mib` mebibytes of blanks, deflated. */
static unsigned char *deflated(const char *before, size_t lead, size_t mib, size_t *size) {
    unsigned char *blanks = malloc(MIB), *out = malloc(lead + mib * 2048 + 1024);
    z_stream z = {.next_out = out + lead, .avail_out = (unsigned)(mib * 2048 + 1024)};
    memset(blanks, 'x', MIB);
    memcpy(out, before, lead);
    assert_int_equal(deflateInit(&z, 9), Z_OK);
    for (size_t i = 0; i <= mib; i++) {
        z.next_in = blanks;
        z.avail_in = i < mib ? MIB : 0;
        int rc = deflate(&z, i < mib ? Z_NO_FLUSH : Z_FINISH);
        assert_int_equal(rc, i < mib ? Z_OK : Z_STREAM_END);
    }
    *size = lead + z.total_out;
    deflateEnd(&z);
    free(blanks);
    return out;
}

/* A picture of 16 x 16 needs next to nothing, whatever else its file says. */
static void test_png_chunks(void **st) {
    (void)st;
    static const struct {
        const char *type, *before;
        size_t lead;
    } packed[] = {{"zTXt", "key\0\0", 5}, {"iTXt", "key\0\1\0\0\0", 8}, {"iCCP", "icc\0\0", 5}};
    char why[512];
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        unsigned char *body = deflated(packed[i].before, packed[i].lead, 96, &n);
        assert_true(n < MIB);
        picture p = with_chunk(packed[i].type, body, n, 1);
        free(body);
        if (!p.bytes)
            skip();
        int rc = within(LARDER__DECODE_CONSTANT, decode, &p, why);
        if (rc != 0)
            fail_msg("%s: %s", packed[i].type, why);
        p.size = 33 + n / 2; /* and cut off within */
        assert_int_equal(within(LARDER__DECODE_CONSTANT, decode, &p, why), LARDER_E_FORMAT);
        assert_non_null(strstr(why, "png: ends at byte"));
        free(p.bytes);
    }
}

static void test_png_many_chunks(void **st) {
    (void)st;
    char why[512];
    static const char *const types[] = {"tEXt", "sPLT", "eXIf", "quRk"};
    for (size_t i = 0; i < 4; i++) {
        picture p = with_chunk(types[i], "key\0MM\0\0*", 8, 400000);
        if (!p.bytes)
            skip();
        int rc = within(LARDER__DECODE_CONSTANT, decode, &p, why);
        if (rc != 0)
            fail_msg("%s: %s", types[i], why);
        free(p.bytes);
    }
}

static void test_png_wide(void **st) {
    (void)st;
    char why[512];
    picture p = {.spec = "centercrop:h=2,w=16"};
    p.bytes = check_png(16, 16, 6, 16, false, &p.size);
    if (!p.bytes)
        skip();
    put_u32(p.bytes + 16, LARDER__MAX_PIXELS / 2); /* one row of it is 256 MiB */
    put_u32(p.bytes + 20, 2);
    put_u32(p.bytes + 29, crc32(0, p.bytes + 12, 17));
    assert_int_equal(within(LARDER__DECODE_CONSTANT, decode, &p, why), LARDER_E_RANGE);
    assert_non_null(strstr(why, "a side of more than 1048576 pixels"));
    put_u32(p.bytes + 16, LARDER__DECODED_SIDE);
    put_u32(p.bytes + 29, crc32(0, p.bytes + 12, 17));
    assert_int_equal(within(8 * MIB + LARDER__DECODE_CONSTANT, decode, &p, why), LARDER_E_FORMAT);
    free(p.bytes);
}
#endif

/* A few hundred bytes that declare 16 million pixels, in one scan and in several. */
static void test_jpeg_declared(void **st) {
    (void)st;
    enum { SIDE = 4096 };
    char why[512];
    for (int i = 0; i < 4; i++) {
        check_jpeg_conf conf = {.w = 64,
                                .h = 64,
                                .channels = i / 2 ? 4 : 3,
                                .h_samp = 1,
                                .v_samp = 1,
                                .progressive = i % 2};
        picture p = {.spec = "centercrop:h=16,w=16"};
        p.bytes = check_jpeg(&conf, &p.size);
        if (!p.bytes)
            skip();
        size_t at = 2;
        while (p.bytes[at + 1] < 0xc0 || p.bytes[at + 1] > 0xc2)
            at += 2u + (size_t)p.bytes[at + 2] * 256 + p.bytes[at + 3];
        p.bytes[at + 5] = p.bytes[at + 7] = SIDE >> 8;
        p.bytes[at + 6] = p.bytes[at + 8] = SIDE & 255;
        uint64_t most = (i % 2 ? 12 : 4) * (uint64_t)SIDE * SIDE + LARDER__DECODE_CONSTANT;
        int rc = within(most, decode, &p, why);
        if (rc != LARDER_E_FORMAT || strstr(why, "memory"))
            fail_msg("%d: %d, %s", i, rc, why);
        free(p.bytes);
    }
}

#if LARDER_HAVE_GIF || LARDER_HAVE_WEBP || LARDER_HAVE_TIFF
/* A library is opened at its first use: before the child, which has no room for it. */
static void expect_picture(const picture *p, uint64_t most, int code, const char *says) {
    char why[512];
    check_decode(p->bytes, 16, p->spec, (uint8_t[16 * 16 * 3]){0});
    int rc = within(most, decode, p, why);
    if (rc != code || (code < 0 && !strstr(why, says)))
        fail_msg("%.4s: %d, %s", (const char *)p->bytes, rc, why);
}
#endif

#if LARDER_HAVE_GIF
/* A few bytes whose canvas, or whose picture, would be 256 MiB. */
static void test_gif_declared(void **st) {
    (void)st;
    enum { SIDE = 8192 };
    unsigned char bytes[] = {'G', 'I', 'F', '8', '9', 'a',  0, SIDE >> 8, 0,  SIDE >> 8,
                             0,   0,   0,   ',', 0,   0,    0, 0,         1,  0,
                             1,   0,   0,   2,   2,   0x4c, 1, 0,         ';'};
    picture p = {bytes, sizeof bytes, "centercrop:h=16,w=16"};
    expect_picture(&p, LARDER__DECODE_CONSTANT, 0, "");
    bytes[18] = bytes[20] = 0; /* the picture too */
    bytes[19] = bytes[21] = SIDE >> 8;
    expect_picture(&p, LARDER__DECODE_CONSTANT, LARDER_E_FORMAT, "gif: ");
    bytes[7] = bytes[9] = 0xff; /* and a canvas beyond any limit */
    expect_picture(&p, LARDER__DECODE_CONSTANT, LARDER_E_RANGE, "gif: ");
}
#endif

#if LARDER_HAVE_WEBP
/* A lossless picture in which every code has one symbol, so that a pixel takes no bits: a few
 * bytes are all of it, however large. */
static void test_webp_declared(void **st) {
    (void)st;
    enum { SIDE = 4096, CODES = 5, HEAD_BITS = 32 + 3 };
    unsigned char bytes[36] = "RIFF\x1c\0\0\0WEBPVP8L\x10\0\0\0\x2f";
    uint32_t sides = (SIDE - 1) | (uint32_t)(SIDE - 1) << 14;
    memcpy(bytes + 21, &sides, 4); /* 14 bits each, then no alpha, version 0 */
    for (int i = 0; i < CODES; i++) {
        int bit = HEAD_BITS + 4 * i; /* a simple code, of one symbol, of one bit, which is 0 */
        bytes[21 + bit / 8] |= (unsigned char)(1 << bit % 8);
    }
    picture p = {bytes, sizeof bytes, "centercrop:h=16,w=16"};
    expect_picture(&p, 12 * (uint64_t)SIDE * SIDE + LARDER__DECODE_CONSTANT, 0, "");
    sides |= 0x3fff | 0x3fff << 14;
    memcpy(bytes + 21, &sides, 4);
    expect_picture(&p, LARDER__DECODE_CONSTANT, LARDER_E_RANGE, "webp: ");
}
#endif

#if LARDER_HAVE_TIFF
typedef struct tiff_tag {
    uint16_t tag, type;
    uint32_t count, value;
} tiff_tag;
_Static_assert(sizeof(tiff_tag) == 12, "as in the file");

/* Grey, one bit a pixel unless `bits` says more; the pixels are a few bytes of PackBits. */
static size_t put_tiff(unsigned char out[256], uint32_t side, uint32_t bits, uint32_t rows,
                       uint32_t tile) {
    enum { IFD = 8, BYTES = 8 };
    tiff_tag tags[] = {{256, 4, 1, side},
                       {257, 4, 1, side},
                       {258, 3, 1, bits},
                       {259, 3, 1, 32773},
                       {262, 3, 1, 1},
                       {tile ? 322 : 273, 4, 1, tile ? tile : 200},
                       {tile ? 323 : 278, 4, 1, tile ? tile : rows},
                       {tile ? 324 : 279, 4, 1, tile ? 200 : BYTES},
                       {325, 4, 1, BYTES}};
    uint16_t n = tile ? 9 : 8;
    memset(out, 0, 256);
    memcpy(out, "II*\0\10\0\0\0", 8);
    memcpy(out + IFD, &n, 2);
    memcpy(out + IFD + 2, tags, n * sizeof *tags);
    memset(out + 200, 0x81, BYTES); /* 128 times the next byte */
    return 200 + BYTES;
}

static void test_tiff_declared(void **st) {
    (void)st;
    enum { SIDE = 4096 };
    unsigned char bytes[256];
    picture p = {bytes, 0, "centercrop:h=16,w=16"};
    if (*(const unsigned char *)&(uint32_t){1} != 1)
        skip_since("the file is of the usual byte order");
    p.size = put_tiff(bytes, SIDE, 8, SIDE, 0);
    expect_picture(&p, 12 * (uint64_t)SIDE * SIDE + LARDER__DECODE_CONSTANT, LARDER_E_FORMAT,
                   "tiff: ");
    p.size = put_tiff(bytes, 16, 8, 0, 1 << 15); /* a tile of a gigabyte in a picture of 16 x 16 */
    expect_picture(&p, LARDER__DECODE_CONSTANT, LARDER_E_RANGE, "tiff: a strip of");
    p.size = put_tiff(bytes, 1 << 16, 8, 1, 0);
    expect_picture(&p, LARDER__DECODE_CONSTANT, LARDER_E_RANGE, "tiff: ");
}
#endif

/* ---- recordings ------------------------------------------------------------------------------ */

#if LARDER_HAVE_SNDFILE
static int hear(const void *arg) {
    const picture *p = arg;
    static float out[4000];
    larder__scratch *s = NULL;
    int rc = larder__scratch_open(&s);
    if (rc == 0)
        rc = larder__sound_window(&(larder__sound){8000, 1, 4000}, s, p->bytes, p->size, 0.5, out);
    larder__scratch_close(&s);
    return rc;
}

static void expect_sound(unsigned char *bytes, size_t size, int code) {
    const picture p = {bytes, size, NULL};
    char why[512];
    hear(&(picture){bytes, 4, NULL}); /* its library */
    int rc = within(32 * MIB, hear, &p, why);
    if (rc != code || (code < 0 && !strstr(why, "sound: ")))
        fail_msg("%.4s: %d, %s", (const char *)bytes, rc, why);
}

/* Heads alone, which promise hours: a WAV of 4 GiB, a FLAC of 2^36 - 1 frames in 8 channels. */
static void test_sounds_declared(void **st) {
    (void)st;
    unsigned char wav[] = "RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0"
                          "\2\0\x10\0data\xff\xff\xff\xff";
    unsigned char flac[4 + 4 + 34] = "fLaC\x80\0\0\x22\xff\xff\xff\xff\0\0\0\0\0\0"
                                     "\x01\xf4\x0e\xff\xff\xff\xff\xff";
    expect_sound(wav, sizeof wav - 1, 0); /* it is as long as its file, and then silence */
    expect_sound(flac, sizeof flac, LARDER_E_FORMAT);
}
#endif

/* ---- packed files ---------------------------------------------------------------------------- */

static int open_data(const void *uri) {
    larder__data *d;
    int rc = larder__data_open(&d, uri);
    larder__data_close(&d);
    return rc;
}

static void ends_with_a_sentence(uint64_t bytes, reader fn, const char *arg, const char *says) {
    char why[512];
    int rc = within(bytes, fn, arg, why);
    if (rc != LARDER_E_NOMEM || !strstr(why, says))
        fail_msg("%s: %d, %s", arg, rc, why);
}

/* 100 MB of pixels in a tenth of a megabyte, where there are 48: what IDX and CIFAR keep. */
static void test_packed_sets(void **st) {
    (void)st;
    enum { COUNT = 64, SIDE = 1000, RECORD = 3073 };
    static const unsigned char head[16] = {
        0, 0, 8,         3,          0, 0, COUNT >> 8, COUNT & 255,
        0, 0, SIDE >> 8, SIDE & 255, 0, 0, SIDE >> 8,  SIDE & 255};
    static const char *const endings[] = {"gz", "xz"};
    size_t size = 16 + (size_t)COUNT * SIDE * SIDE;
    unsigned char *bytes = calloc(size, 1);
    for (int i = 0; i < 2; i++) {
        char folder[256], path[400], uri[300];
        check_folder(folder);
        memcpy(bytes, head, 16);
        snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.%s", folder, endings[i]);
        if (!packed_write(path, bytes, size)) {
            check_folder_remove(folder);
            continue;
        }
        snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
        check_write(path, "\0\0\10\1\0\0\0\100", 8);
        snprintf(uri, sizeof uri, "idx:%s", folder);
        ends_with_a_sentence(48 * MIB, open_data, uri, "train-images");
        memset(bytes, 0, 16);
        snprintf(path, sizeof path, "%s/test_batch.bin.%s", folder, endings[i]);
        assert_true(packed_write(path, bytes, size / RECORD * RECORD));
        snprintf(uri, sizeof uri, "cifar10:%s?split=test", folder);
        ends_with_a_sentence(48 * MIB, open_data, uri, "memory");
        check_folder_remove(folder);
    }
    free(bytes);
}

#if LARDER_HAVE_LZMA && LARDER_HAVE_ZLIB
/* The header of an .xz asks for a dictionary of 1 GiB. */
static void test_xz_dictionary(void **st) {
    (void)st;
    char folder[256], path[300], why[512];
    unsigned char bytes[256];
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.xz", check_folder(folder));
    assert_true(packed_write(path, "0123456789abcdef", 16));
    FILE *f = fopen(path, "r+b");
    size_t n = fread(bytes, 1, sizeof bytes, f), header = ((size_t)bytes[12] + 1) * 4;
    unsigned char *lzma2 = memmem(bytes + 12, header, "\x21\x01", 2); /* a byte of properties */
    assert_non_null(lzma2);
    lzma2[2] = 36;
    uint32_t crc = (uint32_t)crc32(0, bytes + 12, (unsigned)header - 4);
    for (size_t i = 0; i < 4; i++)
        bytes[12 + header - 4 + i] = (unsigned char)(crc >> 8 * i);
    rewind(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    char uri[300];
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    check_write(path, "\0\0\10\1\0\0\0\1\0", 9);
    snprintf(uri, sizeof uri, "idx:%s", folder);
    assert_int_equal(within(64 * MIB, open_data, uri, why), LARDER_E_FORMAT);
    assert_non_null(strstr(why, "more than 128 MiB of working memory"));
    check_folder_remove(folder);
}
#endif

#if LARDER_HAVE_ZSTD
static int read_trace(const void *path) {
    uint32_t *ids;
    uint64_t count;
    int rc = larder__replay_read(path, &ids, &count);
    larder__free(ids);
    return rc;
}

static void test_zstd_trace(void **st) {
    (void)st;
    enum { SIZE = 100 * MIB };
    char folder[256], path[300];
    void *zeros = calloc(SIZE, 1), *packed = malloc(ZSTD_compressBound(SIZE));
    size_t n = ZSTD_compress(packed, ZSTD_compressBound(SIZE), zeros, SIZE, 1);
    assert_false(ZSTD_isError(n));
    snprintf(path, sizeof path, "%s/trace.zst", check_folder(folder));
    check_write(path, packed, n);
    free(zeros), free(packed);
    ends_with_a_sentence(48 * MIB, read_trace, path, "trace.zst");
    check_folder_remove(folder);
}
#endif

/* Members, names and rows that would be gigabytes, in files that are none and in one with holes. */
static void test_promised(void **st) {
    (void)st;
    static const struct {
        char type;
        const char *size;
        off_t bytes; /* of the file, most of them a hole */
    } members[] = {{'0', "77777777777", 0},
                   {'L', "77777777777", 0},
                   {'x', "77777777777", 0},
                   {'0', "\x80\0\0\0\0\x3f\xff\xff\xff\xff\xff\xff", 0},
                   {'L', "40000000000", (off_t)8 << 30},
                   {'x', "40000000000", (off_t)8 << 30}};
    char folder[256], path[300], uri[320], why[512];
    snprintf(path, sizeof path, "%s/s.tar", check_folder(folder));
    setenv("LARDER_CACHE_DIR", folder, 1);
    snprintf(uri, sizeof uri, "tar:%s", path);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char field[12];
        memcpy(field, members[i].size, sizeof field);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        tar_put_header(f, members[i].type, "a.jpg", "", field);
        assert_int_equal(fclose(f), 0);
        if (members[i].bytes)
            assert_int_equal(truncate(path, members[i].bytes), 0);
        int rc = within(48 * MIB, open_data, uri, why);
        if (rc != LARDER_E_FORMAT || !strstr(why, "s.tar"))
            fail_msg("%zu: %d, %s", i, rc, why);
    }
    static const char npy[] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, "
                              "'shape': (1000000000, 1000), }";
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, npy, sizeof npy - 1);
    head[127] = '\n';
    snprintf(path, sizeof path, "%s/x.npy", folder);
    check_write(path, head, sizeof head);
    snprintf(uri, sizeof uri, "npy:%s", path);
    int rc = within(48 * MIB, open_data, uri, why);
    if (rc != LARDER_E_FORMAT || !strstr(why, "x.npy"))
        fail_msg("%d, %s", rc, why);
    check_folder_remove(folder);
    unsetenv("LARDER_CACHE_DIR");
}

/* A file with holes that is larger than memory; a line without an end. */
static int read_rows(const void *path) {
    larder_svm_data *d;
    int rc = larder_svm_read(&d, path, 0);
    larder_svm_data_close(&d);
    return rc;
}

static void test_plain_files(void **st) {
    (void)st;
    char folder[256], path[300];
    snprintf(path, sizeof path, "%s/trace", check_folder(folder));
    check_write(path, "x", 1);
    assert_int_equal(truncate(path, (off_t)8 << 30), 0);
#if LARDER_HAVE_ZSTD
    ends_with_a_sentence(48 * MIB, read_trace, path, "8192 MiB are wanted");
#endif
    ends_with_a_sentence(48 * MIB, read_rows, path, "line");
    check_folder_remove(folder);
}

static int limit_of(const void *most) {
    return larder__memory_limit() > *(const uint64_t *)most || larder__memory_limit() < MIB;
}

static void test_ulimit_counts(void **st) {
    (void)st;
    char why[512];
    uint64_t most = address_space() + 100 * MIB;
    assert_int_equal(within(64 * MIB, limit_of, &most, why), 0);
}

int main(void) {
#if LARDER__SANITIZED
    print_message("skipped: a sanitizer has its own address space\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
#if LARDER_HAVE_ZLIB
        cmocka_unit_test(test_png_chunks),
        cmocka_unit_test(test_png_many_chunks),
        cmocka_unit_test(test_png_wide),
#endif
        cmocka_unit_test(test_jpeg_declared),
#if LARDER_HAVE_GIF
        cmocka_unit_test(test_gif_declared),
#endif
#if LARDER_HAVE_WEBP
        cmocka_unit_test(test_webp_declared),
#endif
#if LARDER_HAVE_TIFF
        cmocka_unit_test(test_tiff_declared),
#endif
#if LARDER_HAVE_SNDFILE
        cmocka_unit_test(test_sounds_declared),
#endif
        cmocka_unit_test(test_packed_sets),
#if LARDER_HAVE_LZMA && LARDER_HAVE_ZLIB
        cmocka_unit_test(test_xz_dictionary),
#endif
#if LARDER_HAVE_ZSTD
        cmocka_unit_test(test_zstd_trace),
#endif
        cmocka_unit_test(test_promised),
        cmocka_unit_test(test_plain_files),
        cmocka_unit_test(test_ulimit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
