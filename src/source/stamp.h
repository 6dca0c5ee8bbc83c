/* What tells one state of a file from another without reading it. The time of the last status
 * change is part of it, since tools that copy set the time of modification as they please. */
#ifndef LARDER_SOURCE_STAMP_H
#define LARDER_SOURCE_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct larder__stamp {
    uint64_t size, mtime_ns, ctime_ns, inode;
    bool linked; /* had a name; some file systems never count any */
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
    return then->size == s.size && then->mtime_ns == s.mtime_ns && then->inode == s.inode &&
           s.linked == then->linked;
}

#endif
