/* What this build can do; optional parts are decided at configure time. */
#include <larder/larder.h>

#define PART_ON(name) name " "
#define PART_OFF(name) "-" name " "

const char *larder_version(void) { return LARDER_VERSION; }

const char *larder_features(void) {
    return
#if LARDER_HAVE_JPEG
        PART_ON("jpeg")
#else
        PART_OFF("jpeg")
#endif
#if LARDER_HAVE_SPNG
            PART_ON("png")
#else
            PART_OFF("png")
#endif
#if LARDER_HAVE_ZLIB
                PART_ON("zlib")
#else
                PART_OFF("zlib")
#endif
#if LARDER_HAVE_LZMA
                    PART_ON("xz")
#else
                    PART_OFF("xz")
#endif
#if LARDER_HAVE_ZSTD
                        PART_ON("zstd")
#else
                        PART_OFF("zstd")
#endif
#if LARDER_HAVE_CBLAS
                            PART_ON("cblas")
#else
                            PART_OFF("cblas")
#endif
#if LARDER_HAVE_URING
                                PART_ON("uring")
#else
                                PART_OFF("uring")
#endif
#if LARDER_HAVE_CURL
                                    PART_ON("curl")
#else
                                    PART_OFF("curl")
#endif
#if LARDER_HAVE_HNSW
                                        PART_ON("hnsw")
#else
                                        PART_OFF("hnsw")
#endif
#if LARDER_HAVE_HIREDIS
                                            PART_ON("redis")
#else
                                            PART_OFF("redis")
#endif
#if LARDER_HAVE_OPENSSL
                                                PART_ON("tls");
#else
                                                PART_OFF("tls");
#endif
}
