/* What src/disk asks of the system about its files, and which machine this is. One struct of
 * functions, the real ones unless a test puts others in their place: faults, a slow disk, a power
 * cut. Mapped memory is not in it; a test changes the files themselves. */
#ifndef LARDER_DISK_DISK_IO_H
#define LARDER_DISK_DISK_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LARDER__DISK_WHO = 40 }; /* bytes of a name of a machine or of its boot, 0 behind it */

typedef struct larder__disk_io {
    ssize_t (*read)(int fd, void *, size_t, off_t);
    ssize_t (*write)(int fd, const void *, size_t, off_t);
    int (*reserve)(int fd, off_t bytes); /* as posix_fallocate from 0: 0 or an errno */
    int (*resize)(int fd, off_t bytes);
    int (*punch)(int fd, off_t at, off_t bytes); /* gives blocks back to the file system */
    int (*sync)(int fd);
    void (*boot)(char out[LARDER__DISK_WHO]); /* changes whenever the system starts */
    void (*machine)(char out[LARDER__DISK_WHO]);
} larder__disk_io;

/* From now on; NULL: the real one. The one before. Not while a folder is open. */
const larder__disk_io *larder__disk_io_use(const larder__disk_io *);
const larder__disk_io *larder__disk_io_now(void);
bool larder__disk_io_real(void); /* then reads may also go round it, by io_uring */

/* All bytes, whatever the pieces: 0, or an errno; ENODATA: the file ends before. */
int larder__disk_read_at(int fd, void *, size_t, off_t);
int larder__disk_write_at(int fd, const void *, size_t, off_t);
int larder__disk_read_through(int fd, size_t bytes); /* for nothing but its answer, as read_at's */

#endif
