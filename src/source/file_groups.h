/* Files that share a stem are one sample: 7.jpg, 7.json and 7.seg.png, read as a parcel of fields.
 */
#ifndef LARDER_SOURCE_FILE_GROUPS_H
#define LARDER_SOURCE_FILE_GROUPS_H

#include "base/parcel.h"
#include "source/file_set.h"

enum { LARDER__GROUP_FIELDS = 64 };

typedef struct larder__file_groups {
    char *wanted[LARDER__GROUP_FIELDS]; /* endings: "jpg|png" */
    size_t wanted_count;                /* 0: each file is a sample, as it is */
    uint64_t *firsts;                   /* the first file of each sample; the next one's follows */
    uint8_t *which;                     /* of each file: which field it is */
    size_t firsts_cap, which_cap;
    uint64_t count;                /* samples */
    struct larder__grouped *files; /* of the folder at hand */
    size_t files_used, files_cap;
    char *text; /* their paths */
    size_t text_used, text_cap;
} larder__file_groups;

int larder__file_groups_want(larder__file_groups *, const char *const *names, size_t n);
/* Is a file of this name part of a sample? */
bool larder__file_groups_take(const larder__file_groups *, const char *name);
/* A file of the folder at hand: its path and where it is in the caller's list. */
int larder__file_groups_add(larder__file_groups *, const char *path, size_t number);
/* All of them are there: `put` adds each file of a sample to the owner's set, in turn. */
typedef int (*larder__file_groups_put)(void *arg, size_t number);
int larder__file_groups_end(larder__file_groups *, larder__file_groups_put, void *arg);
void larder__file_groups_free(larder__file_groups *);

uint64_t larder__file_groups_bytes(const larder__file_groups *, const larder__file_set *,
                                   uint64_t id);
/* As larder__file_set_read, of samples. */
int larder__file_groups_read(const larder__file_groups *, void *set, larder__file_path,
                             const uint64_t *ids, size_t n, larder_read *out);

#endif
