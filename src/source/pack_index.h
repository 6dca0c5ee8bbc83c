/* The index of one packed shard, a file beside its tar: where each sample lies, what it is, and
 * where its segments begin. docs/guide/pack.md specifies it byte by byte. Nothing in it is trusted;
 * the parts that are needed at open are held by checksums, and tables are checked when they are
 * used.
 *
 * In memory a sample takes 40 bytes: tables and names stay on disk until they are asked for. */
#ifndef LARDER_SOURCE_PACK_INDEX_H
#define LARDER_SOURCE_PACK_INDEX_H

#include "base/segments.h"
#include "base/state.h"
#include "source/names.h"

#define LARDER__PACK_SUFFIX ".larder"
enum { LARDER__PACK_HEAD = 192, LARDER__PACK_ENTRY = 40, LARDER__PACK_NAME = 4096 };

/* What became of a sample. The numbers are part of the format. */
#define LARDER__PACK_KINDS(XX)                                                                     \
    XX(BASELINE, 1, "baseline JPEG, cut into segments")                                            \
    XX(PROGRESSIVE, 2, "progressive JPEG, made sequential")                                        \
    XX(ARITHMETIC, 3, "arithmetic-coded JPEG, made Huffman-coded")                                 \
    XX(REENCODED, 4, "encoded again, as asked")                                                    \
    XX(NOT_JPEG, 16, "not JPEG: as it was")                                                        \
    XX(DAMAGED, 17, "damaged or cut short: as it was")                                             \
    XX(UNUSUAL, 18, "a JPEG that cannot be cut: as it was")                                        \
    XX(DIFFERS, 19, "pixels would differ: as it was")
enum {
#define XX(name, number, text) LARDER__PACK_##name = number,
    LARDER__PACK_KINDS(XX)
#undef XX
        LARDER__PACK_KIND_END = 32
};
const char *larder__pack_kind(uint8_t kind); /* NULL: no such kind */

typedef struct larder__pack_entry {
    uint64_t offset; /* in the shard */
    uint32_t bytes;
    int32_t label;
    uint32_t table;   /* its first length among those of the shard */
    uint32_t head_at; /* in the sample: where the JPEG's own head begins … */
    uint32_t data_at; /* … and where the first segment does; both 0: no segments */
    larder__grid grid;
    uint8_t kind;
    uint8_t jfif;
} larder__pack_entry;

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct larder__pack_index {
    uint64_t plan;        /* of which packing this shard is a part */
    uint64_t first;       /* id of its first sample there */
    uint64_t shard_bytes; /* of the tar file */
    larder__pack_entry *entries;
    uint64_t *sums; /* of each sample's bytes */
    size_t count, cap, sums_cap;
    uint16_t *lengths;
    size_t lengths_count, lengths_cap;
    larder__names names, classes;
} larder__pack_index;

uint64_t larder__pack_sum(const void *bytes, size_t size);
/* `lengths` has one for each segment of e's grid; e->table is set here. */
int larder__pack_index_add(larder__pack_index *, larder__pack_entry *e, uint64_t sum,
                           const uint16_t *lengths, const char *name);
int larder__pack_index_write(const larder__pack_index *, larder_writer *);
void larder__pack_index_free(larder__pack_index *);

/* ---- reading --------------------------------------------------------------------------------- */

enum { /* sections, in the order in which they lie */
       LARDER__PACK_ENTRIES,
       LARDER__PACK_SUMS,
       LARDER__PACK_LENGTHS,
       LARDER__PACK_NAMES,
       LARDER__PACK_CLASSES,
       LARDER__PACK_SECTIONS
};

typedef struct larder__pack_file { /* an open index whose head is sound */
    const char *label;             /* for sentences; borrowed */
    uint64_t plan, first, shard_bytes, count, lengths;
    uint32_t classes;
    uint64_t at[LARDER__PACK_SECTIONS + 1]; /* where sections begin; the last one: the file's end */
    uint64_t sum[LARDER__PACK_SECTIONS];
    uint64_t own_sum; /* of the head: tells one index from another */
} larder__pack_file;

/* "x.tar" to "x.larder". */
int larder__pack_path(char *out, size_t cap, const char *shard);
/* Reads and checks the head; `fd` stays the caller's and comes again with each call below. */
int larder__pack_file_begin(larder__pack_file *, const char *label, int fd);
/* All entries, checked; `out` has room for `count`. */
int larder__pack_file_entries(const larder__pack_file *, int fd, larder__pack_entry *out);
int larder__pack_file_sums(const larder__pack_file *, int fd, uint64_t *out);
/* The lengths of one sample's segments; they make up its bytes. */
int larder__pack_file_lengths(const larder__pack_file *, int fd, const larder__pack_entry *,
                              uint16_t *out);
int larder__pack_file_name(const larder__pack_file *, int fd, uint64_t i, char *out, size_t cap);
int larder__pack_file_classes(const larder__pack_file *, int fd, larder__names *out);
/* Reads the whole file and compares every checksum. */
int larder__pack_file_check(const larder__pack_file *, int fd);

#endif
