/* Reads of one file that are under way, all of a batch sent at once: by io_uring, or by a few
 * threads where there is none or a test has put its own reads in place. A job and its memory belong
 * to the reader until it calls `done`, however long that takes: nobody frees what the system may
 * still write to. */
#ifndef LARDER_DISK_DISK_READ_H
#define LARDER_DISK_DISK_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct larder__disk_job {
    void *into;
    size_t bytes;
    off_t at;
    void (*done)(struct larder__disk_job *); /* the reader's last touch */
    ssize_t got;                             /* bytes, perhaps fewer, or a negative errno */
    bool over;
    struct larder__disk_job *next;
} larder__disk_job;

typedef struct larder__disk_reader larder__disk_reader;

int larder__disk_reader_open(larder__disk_reader **, int file);
/* Waits so long for what is under way; then it is left behind, with its memory. Not for a forked
 * child, which has none of the threads. */
void larder__disk_reader_close(larder__disk_reader **, double patience);
void larder__disk_reader_send(larder__disk_reader *, larder__disk_job *const *, size_t n);
/* false: it is not done by then (larder__world_now). */
bool larder__disk_reader_wait(larder__disk_reader *, larder__disk_job *, double until);
/* The first of these that is done, when one is; n: none is by then. */
size_t larder__disk_reader_wait_any(larder__disk_reader *, larder__disk_job *const *, size_t n,
                                    double until);

#endif
