/* What lies below a folder of a site: by S3's lists or by the pages a server makes of folders.
 * Folders are asked for many at a time. */
#ifndef LARDER_SOURCE_WEB_WALK_H
#define LARDER_SOURCE_WEB_WALK_H

#include "source/web/web_objects.h"

typedef struct larder__web_found {
    size_t name; /* where its text begins, below the folder */
    uint64_t bytes, tag;
} larder__web_found;

typedef struct larder__web_walk { /* zeroed is empty */
    larder__web *web;
    char *root; /* "" or ends with '/'; owned */
    char *text; /* names, each with its zero byte */
    size_t text_size, text_cap;
    larder__web_found *files;
    size_t files_used, files_cap;
    size_t *folders; /* names, with their '/' at the end; asked for in this order */
    size_t folders_used, folders_cap;
    size_t asked; /* of them */
} larder__web_walk;

/* Lists the folder itself, or the part of it that `split` means (then `root` is that folder). */
int larder__web_walk_begin(larder__web_walk *, larder__web *, const char *root, const char *split,
                           bool *parted);
/* All that lies below the folders that are known. */
int larder__web_walk_below(larder__web_walk *);
void larder__web_walk_free(larder__web_walk *);

#endif
