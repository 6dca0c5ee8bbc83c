/* What this build can do; optional parts are decided at configure time. */
#include <larder/larder.h>

const char *larder_version(void) { return LARDER_VERSION; }

/* "jpeg " where LARDER_HAVE_JPEG is 1, "-jpeg " where it is not defined: a 1 becomes a comma, which
 * makes "" the second argument, and anything else leaves the "-" there. */
#define COMMA_1 ,
#define SECOND(first, second, ...) second
#define SIGN_OF(mark) SECOND(mark "", "-", )
#define SIGN(have) SIGN_OF(COMMA_##have)
#define PART(have, name) SIGN(have) name " "

const char *larder_features(void) {
    return PART(LARDER_HAVE_JPEG, "jpeg") PART(LARDER_HAVE_SPNG, "png")
        PART(LARDER_HAVE_WEBP, "webp") PART(LARDER_HAVE_TIFF, "tiff") PART(LARDER_HAVE_GIF, "gif")
            PART(LARDER_HAVE_LMDB, "lmdb") PART(LARDER_HAVE_HDF5, "hdf5")
                PART(LARDER_HAVE_SNDFILE, "sound") PART(LARDER_HAVE_ZLIB, "zlib")
                    PART(LARDER_HAVE_LZMA, "xz") PART(LARDER_HAVE_ZSTD, "zstd")
                        PART(LARDER_HAVE_CBLAS, "cblas") PART(LARDER_HAVE_URING, "uring")
                            PART(LARDER_HAVE_CURL, "curl") PART(LARDER_HAVE_HIREDIS, "redis")
                                PART(LARDER_HAVE_OPENSSL, "tls");
}
