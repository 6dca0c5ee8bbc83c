/* The inside of an open folder as one data set sees it: shared by disk.c (opening, what is there),
 * disk_put.c (writing) and disk_fetch.c (reading). */
#ifndef LARDER_DISK_DISK_INSIDE_H
#define LARDER_DISK_DISK_INSIDE_H

#include "disk/disk.h"
#include "disk/disk_folder.h"
#include "disk/disk_read.h"
#include "disk/disk_span.h"

typedef struct larder__disk_queue larder__disk_queue; /* of what is to be written */

struct larder__disk {
    larder__disk_folder *folder;
    larder__disk_index *own;
    larder__disk_reader *reader;
    larder__disk_pool *pool;
    larder__disk_queue *queue;
    double wear, patience;
    larder__stats *stats;
    _Atomic uint64_t reads, read_bytes, writes, written_bytes, refused, damaged;
    _Atomic double no_reads_until, no_writes_until; /* larder__world_now; 0: it works */
    _Atomic bool said_gone;
    pthread_mutex_t note_lock;
    char note[512];
};

int larder__disk_queue_open(larder__disk *);
/* false: the disk hangs in a write; the thread has what it uses, for good. */
bool larder__disk_queue_close(larder__disk *);
void larder__disk_queue_spare(larder__disk *, uint64_t key);
/* Blocks without an entry, to be given back by the thread that may wait for it. */
void larder__disk_queue_return(larder__disk *, uint64_t place, uint32_t blocks);

enum { LARDER__DISK_REST = 30 }; /* seconds that a disk is left alone */
bool larder__disk_resting(const _Atomic double *until);
__attribute__((format(printf, 3, 4))) void larder__disk_rest(larder__disk *, _Atomic double *until,
                                                             const char *format, ...);
/* Is the folder gone? Then that is said, once. */
bool larder__disk_lost(larder__disk *);
/* Gives an entry the current era, if it is this one still. */
void larder__disk_touch(larder__disk *, uint64_t key, uint64_t word);
uint32_t larder__disk_blocks_of(uint64_t payload); /* 0: too many */
int larder__disk_show(larder__disk *);             /* disk_shown.c: among the stats */

#endif
