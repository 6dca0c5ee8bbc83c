/* An open folder: its files, mapped, and the locks of those who share it. Below disk.h; also what
 * `larder disk` opens, without a data set.
 *
 * Locks are of the file `head` and belong to an open file, so the system takes them back from who
 * dies and two handles in one process keep each other out. In this order:
 *
 *     DOOR     while a folder is opened or left
 *     ATTACHED shared as long as it is open; who gets it for itself is alone
 *     WRITING  shared while blocks are written and entered; for itself where `data` gets shorter
 *     GIVING   while blocks are given out or taken back; the mutex here keeps threads apart
 *
 * Who dies while giving only leaves blocks behind that nobody owns: bits are set before an entry
 * names them and cleared after none does. They come back when the folder is next opened by somebody
 * who is alone. */
#ifndef LARDER_DISK_DISK_FOLDER_H
#define LARDER_DISK_DISK_FOLDER_H

#include "disk/disk_form.h"

#include <larder/larder.h>
#include <pthread.h>

typedef struct larder__disk_index { /* one data set's words */
    larder__disk_index_head *head;
    _Atomic uint64_t *words;
    uint64_t id, keys, file_bytes;
} larder__disk_index;

typedef struct larder__disk_folder {
    char *path;
    int dir, head_file, space_file, data_file;
    bool alone;        /* while it is opened: nobody else is attached */
    bool joined;       /* counted in head->attached */
    _Atomic bool lost; /* blocks could not be given back: the next one is to count */
    _Atomic bool gone; /* a page of a table cannot be had any more: see larder__disk_gone */
    larder__disk_head *head;
    uint64_t *space;
    size_t space_bytes;
    pthread_mutex_t lock; /* of what follows and of GIVING */
    larder__disk_index **indices;
    size_t index_count;
    uint64_t sets_seen; /* head->sets when they were looked for */
} larder__disk_folder;

typedef struct larder__disk_ask { /* what a folder is opened for */
    uint64_t budget;              /* 0: as found */
    bool make;                    /* where there is none */
    bool begin_era;               /* if alone */
    uint64_t identity, keys;      /* of a data set to be found or added; keys 0: none */
    const char *name;
} larder__disk_ask;

int larder__disk_folder_open(larder__disk_folder **out, const char *path, const larder__disk_ask *);
void larder__disk_folder_close(larder__disk_folder **);
larder__disk_index *larder__disk_folder_find(larder__disk_folder *, uint64_t id);
/* A file of it, read once before, so that a disk that cannot says so at once. */
int larder__disk_map(larder__disk_folder *, const char *name, int file, size_t bytes, void **out);
/* A table was cut off or its disk has failed since it was mapped. What tables say is then zero, for
 * this handle and for good; whoever has taken blocks by them asks before writing there. */
static inline bool larder__disk_gone(const larder__disk_folder *f) {
    return atomic_load_explicit(&f->gone, memory_order_acquire);
}
int larder__disk_whole(const larder__disk_folder *); /* E_IO: it is gone */

/* E_STATE: whoever has it does not go on. */
typedef enum larder__disk_lock {
    DISK_DOOR,
    DISK_ATTACHED,
    DISK_WRITING,
    DISK_GIVING
} larder__disk_lock;
int larder__disk_lock_take(larder__disk_folder *, larder__disk_lock, bool shared, double patience);
void larder__disk_lock_drop(larder__disk_folder *, larder__disk_lock);
int larder__disk_giving(larder__disk_folder *, double patience);
void larder__disk_given(larder__disk_folder *);

/* ---- indices (disk_index.c); under DOOR and alone, or while giving --------------------------- */

/* Maps those that are not yet mapped. `alone`: unlinks what is no index of ours, and those but
 * `keep` that have no entry. */
int larder__disk_indices_look(larder__disk_folder *, bool alone, uint64_t keep);
int larder__disk_index_add(larder__disk_folder *, const larder__disk_ask *);
void larder__disk_indices_close(larder__disk_folder *);
/* Calls `each` for every word that is not 0, from the hand on if `hand`; until it answers false. */
typedef bool (*larder__disk_each_fn)(larder__disk_folder *, larder__disk_index *, uint64_t key,
                                     uint64_t word, void *arg);
void larder__disk_each(larder__disk_folder *, larder__disk_each_fn, void *arg);

/* ---- blocks (disk_room.c); while giving ------------------------------------------------------ */

/* What `data` may have, with so many bytes of indices; 0: the budget is too small. */
uint64_t larder__disk_limit(uint64_t budget, uint64_t index_bytes);
uint64_t larder__disk_space_bytes(uint64_t budget);
/* A run of free blocks, taken; NOWHERE: there is none. */
uint64_t larder__disk_take(larder__disk_folder *, uint32_t blocks);
/* The same, for which spare values go. */
uint64_t larder__disk_take_spare(larder__disk_folder *, uint32_t blocks);
void larder__disk_give(larder__disk_folder *, uint64_t place, uint32_t blocks);
/* Takes an entry out if it still is this one; its blocks are given back. */
bool larder__disk_drop(larder__disk_folder *, larder__disk_index *, uint64_t key, uint64_t word);
bool larder__disk_is_spare(const larder__disk_folder *, uint64_t word);
void larder__disk_begin_era(larder__disk_folder *);
/* Makes the bits anew from the indices; entries that overlap or do not fit are dropped. */
int larder__disk_count_anew(larder__disk_folder *);
/* `data` gets so short: what lies beyond moves or goes. */
int larder__disk_shorten(larder__disk_folder *, uint64_t limit);
void larder__disk_punch(larder__disk_folder *); /* free blocks go back to the file system */

#endif
