/* What tells one state of a file from another without reading it. The time of the last status
 * change is part of it, since tools that copy set the time of modification as they please. */
#ifndef LARDER_SOURCE_STAMP_H
#define LARDER_SOURCE_STAMP_H

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

typedef struct larder__stamp {
    uint64_t size, mtime_ns, ctime_ns;
    uint64_t inode;  /* 0: the file system's numbers do not last */
    uint64_t volume; /* the file system's own number, where it has one and was asked; else 0 */
    bool linked;     /* had a name; some file systems never count any */
} larder__stamp;

static inline larder__stamp larder__stamp_of(const struct stat *st) {
    return (larder__stamp){
        .size = (uint64_t)st->st_size,
        .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
        .ctime_ns = (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec,
        .inode = (uint64_t)st->st_ino,
        .linked = st->st_nlink > 0};
}

static inline bool larder__stamp_same(const larder__stamp *a, const larder__stamp *b) {
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
           a->inode == b->inode;
}

/* Is the content still what it was? A status change alone (a new mode, one more link) is not a
 * reason to stop a run; a file that lost its last name was replaced or removed. */
static inline bool larder__stamp_holds(const larder__stamp *then, const struct stat *now) {
    larder__stamp s = larder__stamp_of(now);
    return then->size == s.size && then->mtime_ns == s.mtime_ns &&
           (then->inode == 0 || then->inode == s.inode) && s.linked == then->linked;
}

/* Does a file keep its number? File systems in user space may give it another one as soon as they
 * have forgotten it, so that nothing can be told by it. */
static inline bool larder__inodes_last(int fd) {
    enum { FUSE_MAGIC = 0x65735546 }; /* the kernel's headers are not everywhere */
    struct statfs fs;
    return fstatfs(fd, &fs) != 0 || (uint64_t)fs.f_type != FUSE_MAGIC;
}

/* Inodes and times may be the same on two file systems: images are made so. Most have a number that
 * goes with them wherever they are mounted. */
static inline uint64_t larder__volume_of(int fd) {
    struct statfs fs;
    uint64_t number = 0;
    if (fstatfs(fd, &fs) == 0)
        memcpy(&number, &fs.f_fsid,
               sizeof fs.f_fsid < sizeof number ? sizeof fs.f_fsid : sizeof number);
    return number;
}

/* Of an open file; false: errno says why not. */
static inline bool larder__stamp_fd(int fd, struct stat *st, larder__stamp *out) {
    if (fstat(fd, st) != 0)
        return false;
    *out = larder__stamp_of(st);
    if (!larder__inodes_last(fd))
        out->inode = 0;
    out->volume = larder__volume_of(fd);
    return true;
}

/* For the identity of a data set: another after any change, of the status alone too. */
static inline uint64_t larder__stamp_hash(uint64_t h, const larder__stamp *s) {
    const uint64_t all[] = {s->size, s->mtime_ns, s->ctime_ns, s->inode, s->volume};
    return larder__hash_bytes(h, all, sizeof all);
}

/* What larder__stamp_holds compares, short enough to be kept for ten million files. */
static inline uint32_t larder__stamp_key(const larder__stamp *s) {
    const uint64_t held[] = {s->size, s->mtime_ns, s->inode};
    return (uint32_t)larder__hash_bytes(0x57a3, held, sizeof held);
}

#endif
