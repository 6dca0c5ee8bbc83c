#include "packed.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

#if LARDER_HAVE_ZLIB
#include <zlib.h>
#endif
#if LARDER_HAVE_LZMA
#include <lzma.h>
#endif

static bool write_gz(const char *path, const void *bytes, size_t size) {
#if LARDER_HAVE_ZLIB
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(size ? gzwrite(f, bytes, (unsigned)size) : 0, size);
    assert_int_equal(gzclose(f), Z_OK);
    return true;
#else
    (void)path, (void)bytes, (void)size;
    return false;
#endif
}

static bool write_xz(const char *path, const void *bytes, size_t size) {
#if LARDER_HAVE_LZMA
    size_t cap = lzma_stream_buffer_bound(size), used = 0;
    uint8_t *out = malloc(cap);
    assert_non_null(out);
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, bytes, size, out, &used, cap),
                     LZMA_OK);
    check_write(path, out, used);
    free(out);
    return true;
#else
    (void)path, (void)bytes, (void)size;
    return false;
#endif
}

bool packed_write(const char *path, const void *bytes, size_t size) {
    size_t n = strlen(path);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
        return write_gz(path, bytes, size);
    if (n > 3 && strcmp(path + n - 3, ".xz") == 0)
        return write_xz(path, bytes, size);
    check_write(path, bytes, size);
    return true;
}
