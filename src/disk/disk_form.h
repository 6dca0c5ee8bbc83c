/* How the files of a folder look: head, index and the words in an index. What a disk gives back is
 * judged here, so that nothing else has to be careful with it. Native byte order: a folder stays on
 * its machine, and another order reads as another version. */
#ifndef LARDER_DISK_DISK_FORM_H
#define LARDER_DISK_DISK_FORM_H

#include "base/versions.h"
#include "disk/disk_io.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    LARDER__DISK_BLOCK = 4096,
    LARDER__DISK_ERAS = 15,       /* 1 to 15, round and round; 0: spare in any era */
    LARDER__DISK_NAME = 200,      /* bytes of a data set's name, 0 behind it */
    LARDER__DISK_LONGEST = 65535, /* blocks of a value */
};
#define LARDER__DISK_MOST_BLOCKS ((uint64_t)1 << 34)

/* FOLDER/head, mapped. Above `seal`: changed while nobody else is attached alone; a sector. */
typedef struct larder__disk_head {
    char magic[8];
    uint32_t version, clean; /* clean: all who were attached have left */
    uint64_t budget;
    char boot[LARDER__DISK_WHO], machine[LARDER__DISK_WHO];
    uint64_t seal;
    uint64_t unused[50];
    /* Changed by those who give out blocks, read by all. */
    _Atomic uint64_t limit;    /* blocks of `data` */
    _Atomic uint64_t used;     /* of these; with what nobody owns after a kill */
    _Atomic uint64_t entries;  /* in all indices */
    _Atomic uint64_t era;      /* 1 to LARDER__DISK_ERAS */
    _Atomic uint64_t touched;  /* bytes read since the era began */
    _Atomic uint64_t spared;   /* counts up whenever something became spare */
    _Atomic uint64_t sets;     /* counts up with every new index */
    _Atomic uint64_t attached; /* handles; of those killed too, so the last one sees them */
    _Atomic uint64_t dirty;    /* somebody gives out blocks, or died of it */
    /* Used while giving out blocks alone. */
    uint64_t next;     /* where to look for free blocks first */
    uint64_t too_long; /* no run of free blocks has so many */
    uint64_t barren;   /* `spared` when a whole round found nothing spare */
    uint64_t hand_set, hand_key;
} larder__disk_head;

typedef enum larder__disk_verdict {
    LARDER__DISK_FINE,
    LARDER__DISK_FOREIGN, /* nothing of larder's */
    LARDER__DISK_OTHER,   /* of another version */
    LARDER__DISK_TORN,
} larder__disk_verdict;

void larder__disk_head_seal(larder__disk_head *);
larder__disk_verdict larder__disk_head_judge(const void *bytes, size_t size);

/* The first block of FOLDER/ID.index; words follow, one a key. */
typedef struct larder__disk_index_head {
    char magic[8];
    uint32_t version, unused;
    uint64_t id, identity, keys; /* id: of the file, of identity and keys */
    char name[LARDER__DISK_NAME];
    uint64_t seal;
    _Atomic int64_t used_at; /* seconds since 1970; not sealed */
} larder__disk_index_head;

uint64_t larder__disk_id(uint64_t identity, uint64_t keys);
uint64_t larder__disk_index_bytes(uint64_t keys); /* of the file */
void larder__disk_index_seal(larder__disk_index_head *);
larder__disk_verdict larder__disk_index_judge(const void *bytes, size_t head_bytes,
                                              uint64_t file_bytes);

/* A word: place 34 bits, blocks 16, era 4, check 10. */
static inline uint64_t larder__disk_place(uint64_t word) {
    return word & (LARDER__DISK_MOST_BLOCKS - 1);
}
static inline uint32_t larder__disk_blocks(uint64_t word) {
    return (uint32_t)(word >> 34) & 0xffff;
}
static inline uint64_t larder__disk_era(uint64_t word) { return word >> 50 & 15; }
static inline uint64_t larder__disk_in_era(uint64_t word, uint64_t era) {
    return (word & ~((uint64_t)15 << 50)) | era << 50;
}
uint64_t larder__disk_word(uint64_t id, uint64_t key, uint64_t place, uint32_t blocks,
                           uint64_t era);
/* May it be believed? Not 0, and its blocks are below `limit`. */
bool larder__disk_word_fits(uint64_t word, uint64_t id, uint64_t key, uint64_t limit);

#endif
