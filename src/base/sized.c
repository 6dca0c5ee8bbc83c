#include "base/sized.h"

#include "base/err.h"

#include <string.h>

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

int larder__sized_check(const void *given, const char *what) {
    enum { MOST = 1 << 16 }; /* what was never set is likely to be more */
    if (!given)
        return larder__fail(LARDER_E_ARGS, "no %s given", what);
    size_t size = size_of(given);
    if (size < sizeof size || size > MOST)
        return larder__fail(LARDER_E_ARGS, "the size of a %s has to be its sizeof, not %zu", what,
                            size);
    return 0;
}

int larder__sized_in(void *own, size_t known, const void *given, const char *what) {
    int rc = larder__sized_check(given, what);
    if (rc < 0)
        return rc;
    const unsigned char *bytes = given;
    size_t size = size_of(given);
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return larder__fail(LARDER_E_UNSUPPORTED,
                                "the %s asks for something that larder " LARDER_VERSION
                                " does not know; a newer library does",
                                what);
    memcpy(own, given, size < known ? size : known);
    memcpy(own, &known, sizeof known);
    return 0;
}

int larder__sized_out(void *to, const void *own, size_t known, const char *what) {
    int rc = larder__sized_check(to, what);
    if (rc < 0)
        return rc;
    size_t size = size_of(to), shared = size < known ? size : known;
    memcpy((char *)to + sizeof size, (const char *)own + sizeof size, shared - sizeof size);
    memset((char *)to + shared, 0, size - shared);
    return 0;
}
