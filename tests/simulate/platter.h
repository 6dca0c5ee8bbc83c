/* A made disk with one folder: files as all processes see them (the page cache). Mapped files are
 * the bytes themselves. What a power cut leaves is in remains.h, who has which file open in
 * open_files.h. */
#ifndef LARDER_SIMULATE_PLATTER_H
#define LARDER_SIMULATE_PLATTER_H

#include "actors.h"
#include "disk/disk_io.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define PLATTER_FOLDER "/made/disk"
enum { PLATTER_NAME = 40, PLATTER_BLOCK = 4096, PLATTER_SECTOR = 512 };

typedef struct platter_weather { /* how the disk is now */
    int full;           /* errno of whatever needs a block: ENOSPC, EDQUOT; 0: there is room */
    uint64_t failing;   /* one read, write or sync in so many fails; 0: none */
    uint64_t shortened; /* one in so many is interrupted or does a part; 0: none */
    uint64_t slow_in;   /* one in so many takes up to `slow` seconds; 0: none */
    double slow;
    bool read_only;
    enum { DIRECT_NO, DIRECT_NOT_READ, DIRECT_YES } direct; /* does it know O_DIRECT? */
    bool apart; /* a sync of a file does not bring its name to the disk */
} platter_weather;
extern platter_weather platter_now;
extern const larder__disk_io platter_io;

void platter_begin(void);
void platter_cut(void);        /* the power is gone; all processes are, already */
void platter_sync(void);       /* everything is safe */
void platter_hasten(void);     /* what is slow is done soon */
uint64_t platter_faults(void); /* so many times something went wrong */

/* What others do to the folder, and see. */
uint64_t platter_bytes(void); /* of all files, as the file system counts them */
unsigned char *platter_file(const char *name, size_t *size); /* NULL: there is none */
bool platter_locked(const char *name, off_t byte);
uint32_t platter_names(char out[][PLATTER_NAME], uint32_t most);
void platter_remove(const char *name);
void platter_resize(const char *name, size_t bytes);
void platter_spoil(const char *name, size_t at, uint64_t with); /* eight bytes */

/* As the system's; -1 and errno. */
bool platter_is_below(const char *path);
int platter_mkdir(void);
int platter_open(const char *name, int flags); /* NULL: the folder itself */
int platter_lock(int fd, const struct flock *);
int platter_stat(int fd, struct stat *);
int platter_stat_name(const char *name, struct stat *);
int platter_link(const char *from, const char *to, bool move);
int platter_unlink(const char *name);
ssize_t platter_read(int fd, void *, size_t, off_t);
void *platter_map(int fd, size_t bytes); /* NULL: not so many */
bool platter_unmap(const void *at);      /* false: it is none of these */

#endif
