/* BMP in all its ways of writing: one picture by each is the same pixels; heads that are none are
 * refused. */
#include "check.h"
#include "pictures.h"

#include <larder/plugin.h>

#include <stdio.h>
#include <string.h>

enum { W = 8, H = 3, MOST = 4096 };
#define CROP "centercrop:h=3,w=8"

typedef struct file {
    unsigned char bytes[MOST];
    size_t size;
} file;

static void put(file *f, uint32_t v, int bytes) {
    for (; bytes > 0; bytes--, v >>= 8)
        f->bytes[f->size++] = (unsigned char)v;
}

static unsigned index_of(int x, int y) { return (unsigned)(x < 4 ? y : x * 3 + y * 5) % 16; }
static unsigned colour(unsigned index, int channel) { return index * 16 + (unsigned)channel * 3; }

/* Up to the pixels. `head` is 12 or 40; `height` is negative where the first line is on top. */
static void begin(file *f, uint32_t head, int height, uint32_t bits, uint32_t coding) {
    uint32_t colours = bits <= 8 ? 1u << bits : 0, each = head == 12 ? 3 : 4;
    uint32_t masks = coding == 3 || coding == 6 ? 12 : 0;
    memset(f, 0, sizeof *f);
    put(f, 'B' | 'M' << 8, 2);
    put(f, 0, 8);
    put(f, 14 + head + masks + colours * each, 4);
    put(f, head, 4);
    put(f, W, head == 12 ? 2 : 4);
    put(f, (uint32_t)height, head == 12 ? 2 : 4);
    put(f, 1, 2);
    put(f, bits, 2);
    if (head == 40) {
        put(f, coding, 4);
        f->size = 14 + 40; /* what else it could say is 0 */
    }
    for (uint32_t i = 0; i < colours; i++)
        for (int c = 2; c >= 2 - (int)each + 1; c--)
            put(f, c < 0 ? 0 : colour(i, c), 1);
}

static void same_as(const file *f, const uint8_t want[W * H * 3], const char *how) {
    uint8_t got[W * H * 3];
    int rc = check_decode(f->bytes, f->size, CROP, got);
    if (rc < 0)
        fail_msg("%s: %s", how, larder_errmsg());
    if (memcmp(got, want, sizeof got) != 0)
        fail_msg("%s: other pixels", how);
}

static void expected(uint8_t out[W * H * 3]) {
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                out[(y * W + x) * 3 + c] = (uint8_t)colour(index_of(x, y), c);
}

/* Lines from below, or from above. */
static void plain(file *f, uint32_t bits, bool downwards) {
    for (int i = 0; i < H; i++) {
        int y = downwards ? i : H - 1 - i;
        for (int x = 0; x < W; x += bits == 4 ? 2 : 1) {
            if (bits == 4)
                put(f, index_of(x, y) << 4 | index_of(x + 1, y), 1);
            else if (bits == 8)
                put(f, index_of(x, y), 1);
            else
                for (int c = 2; c > 2 - (int)bits / 8; c--)
                    put(f, c < 0 ? 0 : colour(index_of(x, y), c), 1);
        }
    }
}

/* The first four pixels of a line are a run, the rest is said as it is; the line in the middle
 * begins with a step to where it goes on. */
static void runs(file *f, bool four) {
    for (int i = 0; i < H; i++) {
        int y = H - 1 - i;
        put(f, 4, 1);
        put(f, four ? index_of(0, y) * 17 : index_of(0, y), 1);
        put(f, 4 << 8, 2);
        for (int x = 4; x < W; x += four ? 2 : 1)
            put(f, four ? index_of(x, y) << 4 | index_of(x + 1, y) : index_of(x, y), 1);
        put(f, 0, 2); /* the line ends */
    }
    put(f, 1 << 8, 2); /* the picture ends */
}

static void test_ways(void **state) {
    (void)state;
    static const uint32_t widths[] = {4, 8, 24, 32};
    uint8_t want[W * H * 3];
    file f;
    expected(want);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int down = 0; down < 2; down++) {
            begin(&f, 40, down ? -H : H, widths[i], 0);
            plain(&f, widths[i], down);
            same_as(&f, want, down ? "from above" : "from below");
        }
    begin(&f, 12, H, 8, 0);
    plain(&f, 8, false);
    same_as(&f, want, "a head of 12 bytes");
    for (int four = 0; four < 2; four++) {
        begin(&f, 40, H, four ? 4 : 8, four ? 2 : 1);
        runs(&f, four);
        same_as(&f, want, four ? "runs of 4 bits" : "runs of 8 bits");
    }
    for (uint32_t coding = 3; coding <= 6; coding += 3) { /* masks; with one for opacity */
        begin(&f, 40, H, 32, coding);
        put(&f, 0xff0000, 4);
        put(&f, 0xff00, 4);
        put(&f, 0xff, 4);
        plain(&f, 32, false);
        same_as(&f, want, "masks");
    }
}

/* Runs that lead out of the picture, or end in the middle: what was said is there. */
static void test_wild_runs(void **state) {
    (void)state;
    static const unsigned char wild[][8] = {
        {200, 0x21, 200, 0x43, 200, 0x65, 0, 1},
        {0, 2, 250, 250, 4, 0x11, 0, 1},
        {0, 9, 1, 2},
        {0, 2, 1},
        {4},
        {0, 200, 1},
    };
    for (int four = 0; four < 2; four++)
        for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
            for (size_t n = 0; n <= sizeof wild[i]; n++) {
                uint8_t first[W * H * 3], again[W * H * 3];
                file f;
                begin(&f, 40, H, four ? 4 : 8, four ? 2 : 1);
                memcpy(f.bytes + f.size, wild[i], n);
                f.size += n;
                int rc = check_decode(f.bytes, f.size, CROP, first);
                if (rc < 0)
                    assert_true(larder_errmsg()[0]);
                assert_int_equal(check_decode(f.bytes, f.size, CROP, again), rc);
                if (rc == 0)
                    assert_memory_equal(first, again, sizeof first);
            }
}

static void refused(file *f, int code, const char *why) {
    uint8_t out[W * H * 3];
    assert_int_equal(check_decode(f->bytes, f->size, CROP, out), code);
    if (!strstr(larder_errmsg(), why))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), why);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t bits, coding;
    } odd[] = {{8, 2}, {4, 1}, {24, 3}, {24, 6}, {3, 0}, {8, 3}, {16, 1}, {4, 4}, {8, 5}};
    file f;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        begin(&f, 40, H, odd[i].bits == 3 ? 4 : odd[i].bits, odd[i].coding);
        f.bytes[28] = (unsigned char)odd[i].bits;
        plain(&f, 8, false);
        refused(&f, LARDER_E_UNSUPPORTED, "are not known");
    }
    static const unsigned char heads[] = {0, 13, 39, 125, 255};
    for (size_t i = 0; i < sizeof heads; i++) {
        begin(&f, 40, H, 8, 0);
        plain(&f, 8, false);
        f.bytes[14] = heads[i];
        refused(&f, LARDER_E_FORMAT, "which is no kind known");
    }
    begin(&f, 40, H, 32, 3);
    f.size = 54 + 5;
    refused(&f, LARDER_E_FORMAT, "in its head");
    f.size = 30;
    refused(&f, LARDER_E_FORMAT, "in its head");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_wild_runs),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
