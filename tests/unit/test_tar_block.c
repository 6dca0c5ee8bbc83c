/* The kept index of a shard: mapped where only its owner writes to it, the same when it is read;
 * one that is of another version, cut short, damaged or made up is refused, with the shard's name.
 */
#include "check.h"

#include "base/hash.h"
#include "base/mem.h"
#include "source/tar_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char shard[] = "/data/s.tar";
static const larder__stamp stamp = {.size = 1 << 20, .mtime_ns = 1, .ctime_ns = 2, .inode = 3};

/* ---- what is in it --------------------------------------------------------------------------- */

typedef struct member {
    const char *key, *ending;
    uint32_t block, bytes;
} member;

/* Keys as a scan would find them; a label is the number of its key. */
static larder__tar_keys keys_of(const member *m, size_t n) {
    larder__tar_keys k = {.labels = calloc(n, sizeof *k.labels),
                          .firsts = calloc(n + 1, sizeof *k.firsts),
                          .parts = calloc(n, sizeof *k.parts)};
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(m[i].key, m[i - 1].key) != 0) {
            check_ok(larder__names_add(&k.keys, m[i].key, strlen(m[i].key)));
            k.labels[k.keys.count - 1] = (int32_t)k.keys.count - 1;
        }
        k.parts[i] = (larder__tar_part){.block = m[i].block, .bytes = m[i].bytes};
        check_ok(larder__tar_ending(&k.endings, m[i].ending, &k.parts[i].ending));
        k.firsts[k.keys.count] = ++k.part_count;
    }
    return k;
}

static const member even[] = {
    {"a", "jpg", 1, 600}, {"a", "cls", 4, 1}, {"b", "jpg", 6, 9}, {"b", "cls", 8, 1}};
static const member uneven[] = {
    {"a", "jpg", 1, 600}, {"a", "cls", 4, 1}, {"README", "", 6, 9}, {"b", "jpg", 8, 1}};
enum { MEMBERS = 4 };

static larder__tar_block block_of(const member *m, size_t n) {
    larder__tar_block b;
    larder__tar_keys k = keys_of(m, n);
    check_ok(larder__tar_block_make(&b, &k, shard, &stamp));
    larder__tar_keys_free(&k);
    return b;
}

static void expect(const larder__tar_block *b, const member *m, size_t n) {
    uint64_t k = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(m[i].key, m[i - 1].key) != 0) {
            assert_int_equal(larder__tar_block_first(b, k + 1), i);
            k++;
        }
        assert_string_equal(larder__names_get(&b->keys, k), m[i].key);
        assert_int_equal(b->labels[k], k);
        assert_int_equal(larder__tar_block_first(b, k) <= at, 1);
        assert_int_equal(b->parts[at].block, m[i].block);
        assert_int_equal(b->parts[at].bytes, m[i].bytes);
        const char *ending = b->endings;
        for (uint32_t e = 0; e < b->parts[at].ending; e++)
            ending += strlen(ending) + 1;
        assert_string_equal(ending, m[i].ending);
        at++;
    }
    assert_int_equal(b->keys.count, k + 1);
    assert_int_equal(larder__tar_block_first(b, k + 1), n);
}

static void test_as_found(void **state) {
    (void)state;
    larder__tar_block b = block_of(even, MEMBERS);
    expect(&b, even, MEMBERS);
    assert_int_equal(b.each, 2);
    size_t with_each = b.kept.size;
    larder__tar_block_free(&b);
    b = block_of(uneven, MEMBERS);
    expect(&b, uneven, MEMBERS);
    assert_int_equal(b.each, 0);
    assert_true(b.kept.size > with_each); /* the same but for what has to be said of each key */
    larder__tar_block_free(&b);
    b = block_of(NULL, 0);
    assert_int_equal(b.keys.count, 0);
    larder__tar_block_free(&b);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Head: magic, checksum, order and endings, parts of each, size and times of the shard, keys,
 * parts, bytes of texts and names. */
enum {
    CHECK = 8,
    ORDER = 16,
    ENDINGS = 20,
    EACH = 24,
    SIZE = 32,
    KEYS = 64,
    PARTS = 72,
    HEAD = 96
};

static void mend_check(larder__keep_file *f) {
    uint64_t sum = larder__check_bytes(f->bytes + ORDER, f->size - ORDER);
    memcpy(f->bytes + CHECK, &sum, sizeof sum);
}

static larder__keep_file copy_of(const larder__tar_block *b, size_t size) {
    larder__keep_file f = {.bytes = larder__malloc(size + 1), .size = size};
    assert_non_null(f.bytes);
    memset(f.bytes, 0, size);
    memcpy(f.bytes, b->kept.bytes, size < b->kept.size ? size : b->kept.size);
    return f;
}

static void refused(larder__keep_file f, int code, const char *words) {
    larder__tar_block out;
    int rc = larder__tar_block_read(&out, &f, shard, &stamp);
    if (rc != code || !strstr(larder_errmsg(), words) || !strstr(larder_errmsg(), shard))
        fail_msg("%d, \"%s\"; expected %d, \"%s\"", rc, larder_errmsg(), code, words);
    assert_null(f.bytes);
    assert_null(out.kept.bytes);
}

static void test_refused_by_name(void **state) {
    (void)state;
    larder__tar_block b = block_of(even, MEMBERS);
    larder__keep_file f = copy_of(&b, b.kept.size);
    f.bytes[7] = '3';
    refused(f, LARDER_E_FORMAT, "is of another version of larder");
    f = copy_of(&b, b.kept.size);
    f.bytes[0] = 'X';
    refused(f, LARDER_E_FORMAT, "is no index of a tar file");
    f = copy_of(&b, b.kept.size);
    f.bytes[ORDER] ^= 5;
    refused(f, LARDER_E_FORMAT, "another sort of machine");
    f = copy_of(&b, b.kept.size);
    f.bytes[SIZE]++;
    mend_check(&f);
    refused(f, LARDER_E_CHANGED, "changed since it was indexed");
    for (size_t size = 0; size < b.kept.size; size++) {
        f = copy_of(&b, size);
        refused(f, LARDER_E_FORMAT, "is cut short");
    }
    refused(copy_of(&b, b.kept.size + 1), LARDER_E_FORMAT, "left over");
    for (size_t i = CHECK; i < b.kept.size; i++) { /* any byte */
        if ((i >= ORDER && i < ENDINGS) || (i >= EACH && i < SIZE) || (i >= KEYS && i < HEAD))
            continue; /* which say how long it is, or are told above */
        f = copy_of(&b, b.kept.size);
        f.bytes[i] ^= 0x10;
        refused(f, LARDER_E_FORMAT, "is damaged");
    }
    larder__tar_block_free(&b);
}

static void put_u64(larder__keep_file *f, size_t at, uint64_t v) { memcpy(f->bytes + at, &v, 8); }
static void put_u32(larder__keep_file *f, size_t at, uint32_t v) { memcpy(f->bytes + at, &v, 4); }

/* A right checksum over wrong numbers: somebody wrote it on purpose. */
static void test_made_up(void **state) {
    (void)state;
    larder__tar_block e = block_of(even, MEMBERS), u = block_of(uneven, MEMBERS);
    size_t firsts = HEAD + 8, labels = firsts + 4 * 4, parts = labels + 3 * 4;
    const struct {
        size_t at, bytes;
        uint64_t value;
        const char *words;
    } wrong[] = {
        {KEYS, 8, UINT64_MAX, "is cut short"},
        {KEYS, 8, (uint64_t)1 << 61, "is cut short"},
        {PARTS, 8, UINT64_MAX / 12, "is cut short"},
        {PARTS + 8, 8, UINT64_MAX - 100, "is cut short"},
        {PARTS + 16, 8, UINT64_MAX - 100, "is cut short"},
        {EACH, 8, UINT64_MAX, "is cut short"},
        {ENDINGS, 4, 257, "more endings than there can be"},
        {ENDINGS, 4, 9, "fewer endings"},
        {ENDINGS, 4, 1, "more endings than it says"},
        {HEAD, 8, 1, "names elsewhere"},
        {HEAD, 8, UINT64_MAX, "names elsewhere"},
        {firsts, 4, 1, "members of no key"},
        {firsts + 4, 4, UINT32_MAX, "members of no key"},
        {firsts + 12, 4, 3, "members of no key"},
        {labels, 4, UINT32_MAX - 1, "label out of range"},
        {parts, 4, UINT32_MAX, "member outside"},
        {parts + 4, 4, UINT32_MAX, "member outside"},
        {parts + 8, 4, 4, "no known ending"},
        {u.kept.size - 4, 4, 0x41414141, "name without end"},
        {u.kept.size - 4, 4, 0, "more names than keys"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder__keep_file f = copy_of(&u, u.kept.size);
        if (wrong[i].bytes == 8)
            put_u64(&f, wrong[i].at, wrong[i].value);
        else
            put_u32(&f, wrong[i].at, (uint32_t)wrong[i].value);
        mend_check(&f);
        refused(f, LARDER_E_FORMAT, wrong[i].words);
    }
    larder__keep_file f = copy_of(&e, e.kept.size);
    put_u64(&f, EACH, 3);
    mend_check(&f);
    refused(f, LARDER_E_FORMAT, "members of no key");
    larder__tar_block_free(&e);
    larder__tar_block_free(&u);
}

/* ---- where it lies --------------------------------------------------------------------------- */

static void test_mapped(void **state) {
    (void)state;
    char folder[256], path[400];
    check_folder(folder);
    setenv("LARDER_CACHE_DIR", folder, 1);
    snprintf(path, sizeof path, "%s/name", folder);
    larder__tar_block b = block_of(uneven, MEMBERS), again;
    assert_false(b.kept.mapped);
    mode_t usual = umask(002); /* as many have it whose group is theirs alone */
    larder__tar_block_keep(&b, "name", shard, &stamp);
    umask(usual);
    assert_true(b.kept.mapped); /* and no copy is left in memory */
    assert_false(larder__keep_lost(&b.kept));
    expect(&b, uneven, MEMBERS);
    const mode_t open_ones[] = {0666, 0664, 0646}; /* now others could have written it */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(chmod(path, open_ones[i]), 0);
        assert_false(larder__tar_block_load(&again, "name", shard, &stamp));
    }
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_false(larder__tar_block_load(&again, "name", shard, &stamp));
    assert_int_equal(chmod(folder, 0700), 0);
    assert_true(larder__tar_block_load(&again, "name", shard, &stamp));
    expect(&again, uneven, MEMBERS);
    larder__tar_block_free(&again);
    again = block_of(even, MEMBERS);
    larder__tar_block_keep(&again, "name", shard, &stamp); /* another takes its name */
    expect(&b, uneven, MEMBERS);
    expect(&again, even, MEMBERS);
    larder__tar_block_free(&again);
    larder__tar_block_free(&b);
    assert_int_equal(unlink(path), 0);
    assert_false(larder__tar_block_load(&again, "name", shard, &stamp));
    check_folder_remove(folder);
}

/* A file of another user's and one in another user's folder are not believed, whatever their modes
 * say; root's are. */
static void test_whose_it_is(void **state) {
    (void)state;
    enum { NOBODY = 65534 };
    char folder[256], path[400];
    larder__tar_block again;
    root_or_skip();
    larder__tar_block b = block_of(uneven, MEMBERS);
    setenv("LARDER_CACHE_DIR", check_folder(folder), 1);
    snprintf(path, sizeof path, "%s/name", folder);
    larder__tar_block_keep(&b, "name", shard, &stamp);
    larder__tar_block_free(&b);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    for (int i = 0; i < 4; i++) { /* bit 0: the file, bit 1: the folder is another's */
        assert_int_equal(chown(path, i & 1 ? NOBODY : 0, (gid_t)-1), 0);
        assert_int_equal(chown(folder, i & 2 ? NOBODY : 0, (gid_t)-1), 0);
        bool believed = larder__tar_block_load(&again, "name", shard, &stamp);
        assert_int_equal(believed, i == 0);
        if (believed)
            larder__tar_block_free(&again);
    }
    for (int i = 0; i < 2; i++) { /* root's, and then one's own */
        assert_int_equal(chown(path, i ? NOBODY : 0, (gid_t)-1), 0);
        assert_int_equal(chown(folder, i ? NOBODY : 0, (gid_t)-1), 0);
        assert_int_equal(seteuid(NOBODY), 0);
        bool believed = larder__tar_block_load(&again, "name", shard, &stamp);
        assert_int_equal(seteuid(0), 0);
        assert_true(believed);
        larder__tar_block_free(&again);
    }
    check_folder_remove(folder);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void test_hash_in_pieces(void **state) {
    (void)state;
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)larder__mix64(i);
    for (size_t n = 0; n <= sizeof bytes; n = n * 3 / 2 + 1)
        for (size_t piece = 1; piece < 1400; piece = piece * 2 + 1) {
            larder__hashing h;
            larder__hashing_begin(&h, 7, n);
            for (size_t at = 0; at < n; at += piece)
                larder__hashing_add(&h, bytes + at, n - at < piece ? n - at : piece);
            assert_int_equal(larder__hashing_end(&h), larder__hash_bytes(7, bytes, n));
        }
}

static void test_check_sees_every_bit(void **state) {
    (void)state;
    unsigned char bytes[77] = {0};
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint64_t sum = larder__check_bytes(bytes, n);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_not_equal(larder__check_bytes(bytes, n), sum);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        if (n > 0)
            assert_int_not_equal(larder__check_bytes(bytes, n - 1), sum);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_found),
        cmocka_unit_test(test_refused_by_name),
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_whose_it_is),
        cmocka_unit_test(test_hash_in_pieces),
        cmocka_unit_test(test_check_sees_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
