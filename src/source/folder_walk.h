/* The images of one class folder, in the order of torchvision's ImageFolder: every folder below it
 * by its path, the files of each by name, both in byte order (which for UTF-8 is Python's order);
 * links are followed. */
#ifndef LARDER_SOURCE_FOLDER_WALK_H
#define LARDER_SOURCE_FOLDER_WALK_H

#include "source/file_groups.h"
#include "source/found.h"
#include "source/names.h"
#include "source/stamp.h"

#include <larder/plugin.h>

/* Size of a file that is none: a dangling link, a pipe, or 4 GiB and more. Reading it says so. */
#define LARDER__NO_SIZE UINT32_MAX

typedef struct larder__walk { /* working memory, used again for each class */
    char *text;               /* folder and file names, each with its zero byte */
    size_t text_used, text_cap;
    struct larder__walk_folder *folders;
    size_t folders_used, folders_cap;
    struct larder__walk_file *files;
    size_t files_used, files_cap;
    larder__found found;               /* in all classes so far: what is no image */
    const larder__file_groups *groups; /* files of these fields instead of images; NULL: images */
    bool all;                          /* or all files but hidden ones */
} larder__walk;

/* Lists the images below `root`/`name`; they are then taken one by one, in order. */
int larder__walk_class(larder__walk *, const char *root, const char *name);
/* Writes image i's path below the class folder, and returns its length. */
int larder__walk_path(const larder__walk *, size_t i, char *out, size_t cap);
uint32_t larder__walk_bytes(const larder__walk *, size_t i);
larder__stamp larder__walk_stamp(const larder__walk *, size_t i); /* zero: it has no size either */
void larder__walk_free(larder__walk *);

/* Does ImageFolder take a file of this name? */
bool larder__is_image_name(const char *name);

#endif
