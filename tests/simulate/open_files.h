/* Who has which file of the made disk open or mapped, by numbers: of files, which are the disk's
 * (platter.c), and descriptors of this world alone. Locks belong to what was opened, and go with
 * whoever dies. */
#ifndef LARDER_SIMULATE_OPEN_FILES_H
#define LARDER_SIMULATE_OPEN_FILES_H

#include "actors.h"

#include <fcntl.h>

typedef struct open_file { /* what was opened once: one descriptor of it, or several */
    int file, refs;        /* file -1: the folder */
    bool direct, writes;
} open_file;

/* As the system's, of the process that is at work; -1 and errno. */
int open_file_new(int file, int flags);
int open_file_again(int fd);
int open_file_close(int fd);
int open_file_lock(int fd, const struct flock *);

bool open_file_is(int fd);             /* a number of this world? */
const open_file *open_file_at(int fd); /* NULL, with a complaint: it is not open */
void open_file_map(int file);
bool open_file_unmap(int file); /* false: that process has not mapped it */

bool open_files_have(int file); /* has anybody? */
bool open_files_locked(int file, off_t byte);
void open_files_crash(const actor_process *);
uint32_t open_files_of(const actor_process *); /* descriptors and mappings */
void open_files_end(void);                     /* nobody has any */

#endif
