/* The members of a tar file, one after the other, without their bytes: ustar with prefix, GNU long
 * names and base-256 sizes, pax headers with path and size. Nothing in the file is trusted. Reads
 * headers only, a few KiB each, so scanning a shard costs little of what reading it would. */
#ifndef LARDER_SOURCE_TAR_SCAN_H
#define LARDER_SOURCE_TAR_SCAN_H

#include <larder/plugin.h>

enum { LARDER__TAR_PATH = 4096, LARDER__TAR_WINDOW = 4096, LARDER__TAR_BLOCK = 512 };

/* Bytes at an offset that are inside the file, all of them, or a negative code. */
typedef int (*larder__tar_fetch_fn)(void *arg, void *out, size_t n, uint64_t at);

typedef struct larder__tar {
    const char *label;          /* for sentences; borrowed */
    larder__tar_fetch_fn fetch; /* where the bytes come from */
    void *fetch_arg;
    int fd;        /* of larder__tar_begin_fd */
    uint64_t size; /* of the file */
    uint64_t at;   /* next header */
    uint64_t window_at;
    size_t window_size;
    unsigned char window[LARDER__TAR_WINDOW];
} larder__tar;

typedef struct larder__tar_member {
    uint64_t header;        /* where its own header begins */
    uint64_t offset, bytes; /* of its data; inside the file, that was checked */
    char path[LARDER__TAR_PATH];
} larder__tar_member;

/* It stays where it is from here on. */
void larder__tar_begin_fd(larder__tar *, const char *label, int fd, uint64_t size);
void larder__tar_begin_fetch(larder__tar *, const char *label, larder__tar_fetch_fn, void *arg,
                             uint64_t size);
/* 1: a regular file; 0: the end of the archive; negative: malformed, with shard and byte. */
int larder__tar_next(larder__tar *, larder__tar_member *out);
/* `want` bytes (at most 512) at an offset that is inside the file. */
int larder__tar_bytes(larder__tar *, uint64_t at, size_t want, const unsigned char **out);

#endif
