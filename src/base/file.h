/* Whole files: read into memory with a bound, written so that readers see all of it or nothing. */
#ifndef LARDER_BASE_FILE_H
#define LARDER_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What cannot be done with a file, and why not by errno: "path: cannot be read: …". For files that
 * include base/err.h. */
#define larder__fail_errno(path, what)                                                             \
    larder__fail(larder__code_of_errno(errno), "%s: %s: %s", path, what, strerror(errno))

/* Reads all of a regular file of at most `max` bytes; one zero byte is put behind it. Free with
 * larder__free. */
int larder__file_read(const char *path, size_t max, unsigned char **bytes, size_t *size);

/* As many bytes as there are, `n` at most, whatever signals come meanwhile; -1 and errno. */
ssize_t larder__read_some(int fd, void *to, size_t n);
/* Does a file begin with these, at most 16, bytes? Also false where it cannot be read. */
bool larder__file_begins(const char *path, const void *with, size_t n);

/* A path's own name: what follows its last slash. */
const char *larder__name_in(const char *path);

/* ---- writing --------------------------------------------------------------------------------- */

/* All that larder writes while it is not yet to be seen has such a name, in the folder it is meant
 * for: ".larder-", 16 digits that nobody can guess, ".tmp". Left behind by a process that was
 * killed alone; may be removed when nothing of larder writes there. */
enum { LARDER__TEMP_BYTES = 32 };
/* A new file of its own, open for writing, with permissions by the umask; -1 and errno. */
int larder__temp_open(int folder, char name[LARDER__TEMP_BYTES]);
bool larder__temp_is(const char *name);

/* A file that is there whole or not at all: written beside its path, synced and renamed by close,
 * which unlinks it instead when `rc` is negative. Owner, group and permissions of a file that it
 * replaces stay; a link is replaced, not followed. What is no plain file (a device, a pipe, what
 * standard output goes to) is written to as it is. */
typedef struct larder__fresh {
    FILE *to;
    const char *path;                /* the caller's */
    int folder;                      /* of the file beside, */
    char beside[LARDER__TEMP_BYTES]; /* "": written as it is */
    bool brief; /* put in place whole, but the disk may have it later: it is soon made again */
} larder__fresh;
int larder__fresh_open(larder__fresh *, const char *path);
int larder__fresh_close(larder__fresh *, int rc); /* rc, or why it could not be put in place */

/* A folder with all that lead to it, as mkdir -p makes them; `mode` of those that were not there.
 */
int larder__folder_make(const char *path, unsigned mode);

/* All of it into an open file; false: errno says why not. */
bool larder__write_all(int fd, const void *bytes, size_t size);

/* All of it at once. On failure nothing is left behind, and what was there stays. */
int larder__file_write(const char *path, const void *bytes, size_t size);

/* A file that grows where it is, for those who look on: opened with O_CREAT and these flags. A link
 * that somebody else has put there, or where one's own leads, is not followed. */
int larder__stream_open(int *fd, const char *path, int flags);

#endif
