#include "source/keep.h"

#include "base/err.h"
#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)4 << 30)

static int folder_path(char *out, size_t cap) {
    const char *own = getenv("LARDER_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = own && own[0]     ? snprintf(out, cap, "%s", own)
            : xdg && xdg[0]   ? snprintf(out, cap, "%s/larder", xdg)
            : home && home[0] ? snprintf(out, cap, "%s/.cache/larder", home)
                              : -1;
    if (n < 0 || (size_t)n >= cap)
        return larder__fail(LARDER_E_NOTFOUND,
                            "there is no cache folder: neither LARDER_CACHE_DIR nor "
                            "XDG_CACHE_HOME nor HOME is set, or it is too long");
    return 0;
}

int larder__keep_path(const char *name, char *out, size_t cap) {
    int rc = folder_path(out, cap);
    size_t n = rc == 0 ? strlen(out) : 0;
    if (rc == 0 && (size_t)snprintf(out + n, cap - n, "/%s", name) >= cap - n)
        rc = larder__fail(LARDER_E_ARGS, "the cache folder's path is too long");
    return rc;
}

int larder__keep_load(const char *name, unsigned char **bytes, size_t *size) {
    char path[PATH_MAX];
    *bytes = NULL;
    *size = 0;
    int rc = larder__keep_path(name, path, sizeof path);
    return rc < 0 ? rc : larder__file_read(path, MOST_BYTES, bytes, size);
}

int larder__keep_store(const char *name, const void *bytes, size_t size) {
    char folder[PATH_MAX], path[PATH_MAX];
    int rc = folder_path(folder, sizeof folder);
    if (rc == 0)
        rc = larder__keep_path(name, path, sizeof path);
    if (rc == 0)
        rc = larder__folder_make(folder, 0700); /* only the owner gets in */
    return rc < 0 ? rc : larder__file_write(path, bytes, size);
}
