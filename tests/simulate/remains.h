/* What a power cut leaves of the made disk: sectors of its files reach it in any order, changes of
 * names in theirs. The disk itself (platter.c), which has what processes see, tells of all that is
 * written and asks what is left; files go by their numbers. */
#ifndef LARDER_SIMULATE_REMAINS_H
#define LARDER_SIMULATE_REMAINS_H

#include "platter.h"

enum {
    REMAINS_FILES = 32,
    REMAINS_FILE_MOST = 2 << 20, /* bytes of a file */
    REMAINS_NAMES = 24           /* in the folder */
};

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct folder_entry {
    char name[PLATTER_NAME];
    int file;
} folder_entry;
typedef struct folder {
    folder_entry of[REMAINS_NAMES];
    uint32_t count;
} folder;

folder_entry *folder_find(folder *, const char *name); /* NULL: there is none */

/* One goes, one comes or changes, in the folder that processes see; on the disk some time later.
 * Either name may be NULL. */
void remains_alter(folder *seen, const char *gone, const char *comes, int file);
void remains_settle_names(void); /* all changes are on the disk */
void remains_cut_names(folder *out);
bool remains_named(int file); /* may a cut leave a name of it? */

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct seen_file { /* as processes see it */
    unsigned char *now;
    size_t size, top; /* top: beyond it are zeros, there and on the disk */
} seen_file;

void remains_write_some(int file, const seen_file *); /* reaches the disk now, in any order */
void remains_write_all(int file, const seen_file *);
void remains_cut(int file, seen_file *); /* it is what was left of it */
void remains_wipe(int file, size_t top); /* another file begins there */

void remains_begin(void); /* no names; files are wiped one by one */

#endif
