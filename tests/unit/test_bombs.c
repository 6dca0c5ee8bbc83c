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
        cmocka_unit_test(test_packed_sets),
#if LARDER_HAVE_LZMA && LARDER_HAVE_ZLIB
        cmocka_unit_test(test_xz_dictionary),
#endif
#if LARDER_HAVE_ZSTD
        cmocka_unit_test(test_zstd_trace),
#endif
        cmocka_unit_test(test_plain_files),
        cmocka_unit_test(test_ulimit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
