#include "check.h"

#include "base/clones.h"

#include <ftw.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *check_folder(char out[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(out, 256, "%s/larder-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(out));
    return out;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void check_folder_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

void check_write(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#ifndef LARDER_HAVE_JPEG
#define LARDER_HAVE_JPEG 0
#endif
#ifndef LARDER_HAVE_LZMA
#define LARDER_HAVE_LZMA 0
#endif

const char *check_shared(const char *name, char out[512]) {
    const char *base = getenv("LARDER_SHARED");
    if (strncmp(name, "jpeg", 4) == 0 ? !LARDER_HAVE_JPEG : !LARDER_HAVE_LZMA) /* .xz */
        return NULL;
    snprintf(out, 512, "%s/%s", base ? base : "../shared/data", name);
    return access(out, R_OK) == 0 ? out : NULL;
}

size_t check_heap(void) {
#if defined(__GLIBC__) && !LARDER__SANITIZED
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}
