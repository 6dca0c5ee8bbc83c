#include "source/tar_block.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>

/* The file: this, then where the name of every 16th key begins, `firsts` unless all keys have as
 * many parts, `labels`, parts, the shard's path, endings, names of keys. Texts have a zero behind
 * each. */
typedef struct head {
    char magic[8];
    uint64_t check; /* of all that follows */
    uint32_t order; /* of bytes in a number, as it was written */
    uint32_t endings;
    uint64_t each;                            /* parts of every key; 0: not the same */
    uint64_t size, mtime_ns, ctime_ns, inode; /* of the shard */
    uint64_t keys, parts, text_bytes, name_bytes;
} head;
static_assert(sizeof(head) == 96, "no gaps, and what follows is aligned");

static const char magic[8] = "LARDTAR4";
enum { ORDER = 0x01020304, CHECKED_FROM = offsetof(head, order) };

static uint64_t check_of(const larder__keep_file *k) {
    return larder__check_bytes(k->bytes + CHECKED_FROM, k->size - CHECKED_FROM);
}

static uint64_t start_count(uint64_t keys) {
    return (keys + LARDER__NAMES_BLOCK - 1) / LARDER__NAMES_BLOCK;
}

static uint64_t first_bytes(const head *h) {
    return h->each ? 0 : (h->keys + 1) * sizeof(uint32_t);
}

/* All bytes, by what the head says; 0: more than there can be. */
static uint64_t bytes_of(const head *h) {
    const uint64_t most = (uint64_t)1 << 48;
    if (h->keys >= UINT32_MAX || h->parts > UINT32_MAX || h->each > UINT32_MAX ||
        h->text_bytes > most || h->name_bytes > most)
        return 0;
    return sizeof *h + start_count(h->keys) * sizeof(uint64_t) + first_bytes(h) +
           h->keys * sizeof(int32_t) + h->parts * sizeof(larder__tar_part) + h->text_bytes +
           h->name_bytes;
}

/* Points into the block, which is as long as its head says; the shard's path comes first among the
 * texts. */
static const char *point(larder__tar_block *b) {
    unsigned char *at = b->kept.bytes;
    head h;
    memcpy(&h, at, sizeof h);
    b->keys = (larder__names){.starts = (uint64_t *)(void *)(at += sizeof h),
                              .count = h.keys,
                              .size = (size_t)h.name_bytes};
    at += start_count(h.keys) * sizeof(uint64_t);
    b->each = (uint32_t)h.each;
    b->firsts = (const uint32_t *)(const void *)at;
    at += first_bytes(&h);
    b->labels = (const int32_t *)(const void *)at;
    at += h.keys * sizeof *b->labels;
    b->parts = (const larder__tar_part *)(const void *)at;
    at += h.parts * sizeof *b->parts;
    b->keys.bytes = (char *)at + h.text_bytes;
    b->ending_count = h.endings;
    return (const char *)at;
}

/* ---- making ---------------------------------------------------------------------------------- */

static uint32_t parts_of_each(const larder__tar_keys *k) {
    uint64_t n = k->keys.count;
    uint32_t each = n ? k->firsts[1] : 0;
    for (uint64_t i = 0; i < n; i++)
        if (k->firsts[i + 1] - k->firsts[i] != each)
            return 0;
    return each;
}

int larder__tar_block_make(larder__tar_block *b, const larder__tar_keys *k, const char *path,
                           const larder__stamp *stamp) {
    size_t n = k->keys.count, path_bytes = strlen(path) + 1;
    head h = {.order = ORDER,
              .endings = (uint32_t)k->endings.count,
              .each = parts_of_each(k),
              .size = stamp->size,
              .mtime_ns = stamp->mtime_ns,
              .ctime_ns = stamp->ctime_ns,
              .inode = stamp->inode,
              .keys = n,
              .parts = k->part_count,
              .text_bytes = path_bytes + k->endings.size,
              .name_bytes = k->keys.size};
    *b = (larder__tar_block){.kept.size = (size_t)bytes_of(&h)};
    if (!b->kept.size)
        return larder__fail(LARDER_E_FORMAT, "%s: more members than can be told apart", path);
    if (!(b->kept.bytes = larder__malloc(b->kept.size)))
        return LARDER_E_NOMEM;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(b->kept.bytes, &h, sizeof h);
    char *text = (char *)(uintptr_t)point(b);
    static const uint32_t none;
    memcpy((void *)(uintptr_t)b->firsts, n ? k->firsts : &none, first_bytes(&h));
    memcpy(text, path, path_bytes);
    b->endings = text + path_bytes;
    if (n) {
        memcpy(b->keys.starts, k->keys.starts, start_count(n) * sizeof *k->keys.starts);
        memcpy((void *)(uintptr_t)b->labels, k->labels, n * sizeof *k->labels);
        memcpy((void *)(uintptr_t)b->parts, k->parts, k->part_count * sizeof *k->parts);
        memcpy(text + path_bytes, k->endings.bytes, k->endings.size);
        memcpy(b->keys.bytes, k->keys.bytes, k->keys.size);
    }
    h.check = check_of(&b->kept);
    memcpy(b->kept.bytes, &h, sizeof h);
    return 0;
}

int larder__tar_block_scan(larder__tar_block *b, larder__tar *t, const char *path,
                           const larder__stamp *stamp) {
    larder__tar_keys keys = {0};
    int rc = larder__tar_keys_scan(&keys, t);
    if (rc == 0)
        rc = larder__tar_block_make(b, &keys, path, stamp);
    larder__tar_keys_free(&keys);
    return rc;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* What is wrong with it; NULL: nothing. Without branches where that is quicker, as there may be a
 * hundred million of each. */
static const char *wrong_parts(const larder__tar_block *b, uint64_t parts, uint64_t shard_bytes) {
    bool outside = false, unknown = false;
    for (uint64_t i = 0; i < parts; i++) {
        const larder__tar_part *p = &b->parts[i];
        outside |= (uint64_t)p->block * LARDER__TAR_BLOCK + p->bytes > shard_bytes;
        unknown |= p->ending >= b->ending_count;
    }
    return outside   ? "has a member outside of it"
           : unknown ? "has a member of no known ending"
                     : NULL;
}

static const char *wrong_keys(const larder__tar_block *b, uint64_t parts) {
    uint64_t n = b->keys.count;
    bool order = b->each ? b->each * n != parts : b->firsts[0] != 0 || b->firsts[n] != parts;
    bool label = false;
    for (uint64_t k = 0; !b->each && k < n; k++)
        order |= b->firsts[k] > b->firsts[k + 1];
    for (uint64_t k = 0; k < n; k++)
        label |= b->labels[k] < -1;
    return order ? "has members of no key" : label ? "has a label out of range" : NULL;
}

static const char *wrong_names(const larder__names *names) {
    const char *at = names->bytes, *end = at + names->size;
    if (names->count && (names->size == 0 || end[-1] != 0))
        return "has a name without end";
    for (uint64_t k = 0; k < names->count; k++) {
        if (at == end || (k % LARDER__NAMES_BLOCK == 0 &&
                          names->starts[k / LARDER__NAMES_BLOCK] != (uint64_t)(at - names->bytes)))
            return "has names elsewhere than it says";
        at += strlen(at) + 1;
    }
    return at == end ? NULL : "has more names than keys";
}

/* The shard's path, then the endings. */
static const char *wrong_texts(larder__tar_block *b, const char *text, uint64_t bytes) {
    const char *at = text, *end = text + bytes;
    if (b->ending_count > LARDER__TAR_ENDINGS)
        return "has more endings than there can be";
    if (bytes == 0 || end[-1] != 0)
        return "has a text without end";
    at += strlen(at) + 1;
    b->endings = at;
    for (uint32_t i = 0; i < b->ending_count; i++) {
        if (at == end)
            return "has fewer endings than it says";
        at += strlen(at) + 1;
    }
    return at == end ? NULL : "has more endings than it says";
}

static const char *wrong_head(const larder__keep_file *k, head *h) {
    if (k->size < sizeof *h)
        return "is cut short";
    memcpy(h, k->bytes, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return memcmp(h->magic, magic, sizeof magic - 1) == 0 ? "is of another version of larder"
                                                              : "is no index of a tar file";
    if (h->order != ORDER)
        return "was written by another sort of machine";
    if (bytes_of(h) != k->size)
        return "is cut short or has bytes left over";
    return check_of(k) == h->check ? NULL : "is damaged";
}

static int check(larder__tar_block *b, const char *path, const larder__stamp *stamp) {
    head h;
    const char *wrong = wrong_head(&b->kept, &h), *text = wrong ? NULL : point(b);
    if (!wrong)
        wrong = wrong_texts(b, text, h.text_bytes);
    const larder__stamp then = {h.size, h.mtime_ns, h.ctime_ns, h.inode, 0, false};
    if (!wrong && (strcmp(text, path) != 0 || !larder__stamp_same(&then, stamp)))
        return larder__fail(LARDER_E_CHANGED, "%s changed since it was indexed", path);
    if (!wrong)
        wrong = wrong_keys(b, h.parts);
    if (!wrong)
        wrong = wrong_parts(b, h.parts, stamp->size);
    if (!wrong)
        wrong = wrong_names(&b->keys);
    return wrong ? larder__fail(LARDER_E_FORMAT, "the kept index of %s %s", path, wrong) : 0;
}

int larder__tar_block_read(larder__tar_block *b, larder__keep_file *kept, const char *path,
                           const larder__stamp *stamp) {
    *b = (larder__tar_block){.kept = *kept};
    *kept = (larder__keep_file){0};
    int rc = check(b, path, stamp);
    if (rc < 0)
        larder__tar_block_free(b);
    return rc;
}

void larder__tar_block_free(larder__tar_block *b) {
    larder__keep_free(&b->kept);
    *b = (larder__tar_block){0};
}

/* ---- kept for the next run ------------------------------------------------------------------- */

void larder__tar_block_name(const char *path, char out[LARDER__TAR_KEPT]) {
    snprintf(out, LARDER__TAR_KEPT, "tar-%016llx",
             (unsigned long long)larder__hash_bytes(1, path, strlen(path)));
}

bool larder__tar_block_load(larder__tar_block *b, const char *name, const char *path,
                            const larder__stamp *stamp) {
    larder__keep_file kept;
    return larder__keep_map(name, &kept) == 0 && larder__tar_block_read(b, &kept, path, stamp) == 0;
}

void larder__tar_block_keep(larder__tar_block *b, const char *name, const char *path,
                            const larder__stamp *stamp) {
    larder__tar_block there;
    if (larder__keep_store(name, b->kept.bytes, b->kept.size) < 0 ||
        !larder__tar_block_load(&there, name, path, stamp))
        return;
    larder__tar_block_free(b);
    *b = there;
}
