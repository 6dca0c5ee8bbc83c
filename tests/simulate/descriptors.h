/* The numbers by which processes of the made world have what they opened: connections, what waits
 * for several of them, memory, a lock. They are numbers of this world alone, the lowest that is
 * free, and each is one process's. What a number stands for begins with `opened`; its kind knows
 * the rest. */
#ifndef LARDER_SIMULATE_DESCRIPTORS_H
#define LARDER_SIMULATE_DESCRIPTORS_H

#include "actors.h"

typedef struct opened opened;

typedef struct opened_kind { /* NULL: nothing of that ever happens to it */
    /* This descriptor of it is closed, and is not one of `refs` any more. `lost`: by a crash, and
     * what is still under way goes with it. */
    void (*closed)(opened *, int fd, const actor_process *of, bool lost);
    double (*readable_at)(const opened *); /* ACTOR_NEVER: nothing is on its way */
    bool (*writable)(const opened *);
    void (*end)(opened *); /* gives back what it has beside itself */
} opened_kind;

struct opened {
    const opened_kind *kind;
    uint32_t refs;       /* descriptors, and whoever else has it */
    const void *watcher; /* whoever waits for this among others waits on that; NULL: nobody does */
    opened *next;        /* was made after it */
};

/* Zeros behind its beginning. Stays until the schedule ends: somebody may wait on it. */
void *opened_new(const opened_kind *, size_t bytes);
opened *opened_first(void);         /* of all that were made in this schedule, in their order */
void opened_wake(opened *, double); /* whoever waits for it, alone or among others, at that time */

int descriptor_new(opened *, bool only_read);       /* of the process that is at work */
bool descriptor_is(int fd);                         /* a number of this world? */
opened *descriptor_at(int fd);                      /* NULL: it is not open */
opened *descriptor_of(int fd, const opened_kind *); /* NULL and EBADF: it is none of these */
bool descriptor_only_reads(int fd);                 /* one that is open */
const actor_process *descriptor_owner(int fd);
int descriptor_next(int fd); /* that is open, after this one or -1; -1: that was the last */
/* Another of the same; -1 and errno. */
int descriptor_again(int fd, bool only_read);
int descriptor_close(int fd);

void descriptors_crash(const actor_process *);
uint32_t descriptors_open_of(const actor_process *); /* that it has not closed */
void descriptors_end(void);                          /* of the schedule: nothing is open */

#endif
