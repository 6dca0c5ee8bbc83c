#include "disk/disk_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SECTOR = 512 };

static int reserve(int fd, off_t bytes) { return posix_fallocate(fd, 0, bytes); }
static int punch(int fd, off_t at, off_t bytes) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes);
}

static void first_line(const char *path, char out[LARDER__DISK_WHO]) {
    FILE *f = fopen(path, "re");
    memset(out, 0, LARDER__DISK_WHO);
    if (f && fgets(out, LARDER__DISK_WHO, f)) {
        size_t n = strcspn(out, "\n");
        memset(out + n, 0, LARDER__DISK_WHO - n);
    }
    if (f)
        fclose(f);
}
static void boot(char out[LARDER__DISK_WHO]) { first_line("/proc/sys/kernel/random/boot_id", out); }
static void machine(char out[LARDER__DISK_WHO]) { first_line("/etc/machine-id", out); }

static const larder__disk_io real = {.read = pread,
                                     .write = pwrite,
                                     .reserve = reserve,
                                     .resize = ftruncate,
                                     .punch = punch,
                                     .sync = fsync,
                                     .boot = boot,
                                     .machine = machine};
static const larder__disk_io *io = &real;

const larder__disk_io *larder__disk_io_use(const larder__disk_io *other) {
    const larder__disk_io *before = io;
    io = other ? other : &real;
    return before;
}
const larder__disk_io *larder__disk_io_now(void) { return io; }
bool larder__disk_io_real(void) { return io->read == real.read; }

int larder__disk_read_at(int fd, void *into, size_t bytes, off_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = io->read(fd, (char *)into + done, bytes - done, at + (off_t)done);
        if (n == 0)
            return ENODATA;
        if (n < 0 && errno == EINVAL && done % SECTOR) /* past the page cache it cannot be asked */
            return ENODATA;                            /* what follows an end inside of a sector */
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int larder__disk_write_at(int fd, const void *from, size_t bytes, off_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = io->write(fd, (const char *)from + done, bytes - done, at + (off_t)done);
        if (n == 0)
            return EIO;
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int larder__disk_read_through(int fd, size_t bytes) {
    unsigned char piece[16 << 10];
    int err = 0;
    for (size_t done = 0; done < bytes && !err; done += sizeof piece) {
        size_t n = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        err = larder__disk_read_at(fd, piece, n, (off_t)done);
    }
    return err;
}
