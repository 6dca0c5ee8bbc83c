/* Values on a local disk: a folder that all processes of one machine share, below memory and above
 * storage. It decides nothing about training: whoever owns a cache says what it wants kept (put,
 * want) and what no longer (spare), and finds what lies there from earlier runs or other jobs
 * (has).
 *
 *     FOLDER/head          version, machine, budget, who is attached; mapped by all
 *     FOLDER/space         one bit a block of `data`; mapped, and made anew from the indices
 *     FOLDER/data          blocks of 4 KiB: each value is a head (shared/value.h), then its payload
 *     FOLDER/ID.index      of one data set in one form: 8 bytes a key, mapped; 0: it is not there
 *
 * An index only hints at a place. What lies there says by itself which value it is and carries a
 * checksum, so a reader takes no lock: whatever was overwritten, torn or lost by a power cut is not
 * there. Only blocks are given out under a lock (of the file, so the system takes it back from who
 * dies). Nothing waits for the disk but who has asked for bytes; writing is done by a thread.
 *
 * An entry is wanted while its era is the current one (put, want, or a read of it); others are
 * spare and make room for what comes. The era changes when a process opens the folder and nobody
 * else has it, and when nothing is spare although all that lies there could have been read once
 * since. */
#ifndef LARDER_DISK_DISK_H
#define LARDER_DISK_DISK_H

#include "base/stat.h"
#include "shared/value_name.h"

#include <larder/larder.h>

typedef struct larder__disk larder__disk;             /* an open folder, seen by one data set */
typedef struct larder__disk_fetch larder__disk_fetch; /* one value on its way here */

typedef struct larder__disk_conf {
    const char *folder;
    uint64_t budget; /* bytes of all files below it, as the file system counts them; 0: as found */
    uint64_t identity; /* of the bytes and how they are made */
    uint64_t keys;
    const char *name;     /* of the data set, for people; without secrets */
    double wear;          /* bytes a second that this process writes at most; 0: no bound */
    double patience;      /* seconds a read may take until the disk is left alone for a while */
    larder__stats *stats; /* NULL: none */
} larder__disk_conf;

/* E_ARGS, E_IO, E_FULL, E_STATE (another machine has it, another version wrote it) with a sentence
 * that names the folder and says what to do. */
int larder__disk_open(larder__disk **out, const larder__disk_conf *);
void larder__disk_close(larder__disk **); /* writes what is left, for a moment */
/* Bytes that values can come to, each rounded up by larder__disk_value_bytes. */
uint64_t larder__disk_room(const larder__disk *);
uint64_t larder__disk_value_bytes(uint64_t payload);

/* Without a lock or a system call. `has` is a hint: a fetch may come back empty. */
bool larder__disk_has(larder__disk *, uint64_t key);
void larder__disk_want(larder__disk *, uint64_t key);
void larder__disk_spare(larder__disk *, uint64_t key);  /* also stops it from being written */
void larder__disk_forget(larder__disk *, uint64_t key); /* it is to have other bytes */

/* Writes in the background. Not at all: what lies there already, what the disk refuses, what is
 * spare again before its turn, what is above `wear` or would displace wanted values. */
void larder__disk_put(larder__disk *, const larder__value *, larder_buf *);
/* Bytes of it that are still to be written; NULL: none are. Asked for as with a fetch. */
larder_buf *larder__disk_queued(larder__disk *, const larder__value *);
/* Until what was put so far is written or given up; false: it takes longer than that. */
bool larder__disk_settle(larder__disk *, double seconds);

/* A value to ask for (id and form; size and held where known, else 0 and LARDER__ANY_FORM: told by
 * what comes). NULL: no memory. */
larder__disk_fetch *larder__disk_fetch_new(const larder__value *);
void larder__disk_fetch_unref(larder__disk_fetch **);
/* Sends for all of them at once; does not wait. */
void larder__disk_send(larder__disk *, larder__disk_fetch *const *, size_t n);
/* Which of these, all of them sent and not yet received, can be received without waiting: a number
 * below n. Waits for one where none can. */
size_t larder__disk_any(larder__disk *, larder__disk_fetch *const *, size_t n);
/* Waits for one. NULL: it is not to be had, and no longer said to be there. */
larder_buf *larder__disk_receive(larder__disk *, larder__disk_fetch *);
uint8_t larder__disk_fetch_held(const larder__disk_fetch *);

typedef struct larder__disk_figures { /* of this process, but for the last three */
    uint64_t reads, read_bytes, writes, written_bytes;
    uint64_t refused;                     /* puts that were not written */
    uint64_t damaged;                     /* values that did not pass */
    uint64_t entries, used_bytes, budget; /* of the folder */
} larder__disk_figures;
void larder__disk_read_figures(larder__disk *, larder__disk_figures *);
/* Why the disk was last left alone or refused something; "": it never did. */
void larder__disk_note(larder__disk *, char *out, size_t cap);

/* ---- for `larder disk` ----------------------------------------------------------------------- */

typedef struct larder__disk_set {
    uint64_t identity, keys, entries, bytes; /* bytes: of blocks */
    char name[200];
    int64_t used_at; /* seconds since 1970 */
} larder__disk_set;
/* Calls `each`, unless it is NULL, for all data sets there. Does not change anything. */
int larder__disk_list(const char *folder, larder__disk_figures *,
                      void (*each)(void *arg, const larder__disk_set *), void *arg);
/* Reads every value; those that do not pass are taken out and counted. `progress` may end it. */
int larder__disk_check(const char *folder, uint64_t *sound, uint64_t *damaged,
                       bool (*progress)(void *arg, uint64_t done, uint64_t all), void *arg);
/* Makes it so small, spare values first; 0: takes out what is spare. E_STATE where jobs use it and
 * it would have to shrink. */
int larder__disk_trim(const char *folder, uint64_t budget, uint64_t *freed);
int larder__disk_remove(const char *folder); /* all of its files; E_STATE where jobs use it */

#endif
