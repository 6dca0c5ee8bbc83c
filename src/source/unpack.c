#include "source/unpack.h"

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "source/pread_full.h"
#include "source/split.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#if LARDER_HAVE_ZLIB
#include "base/zlib_late.h"
#endif
#if LARDER_HAVE_LZMA
#include "base/late.h"

#include <lzma.h>

#define CALLS(X) X(lzma_code) X(lzma_end) X(lzma_stream_decoder)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(lzma, LARDER_LATE_LZMA, CALLS)
#endif

typedef enum { PLAIN, GZ, XZ } packing;
enum { CHUNK = 1 << 16 };
/* What an .xz header may ask for as its dictionary; xz -9 needs 65 MiB. */
#define XZ_MEMORY ((uint64_t)128 << 20)

struct larder__unpack {
    char *path;
    int fd;
    larder__stamp stamp; /* when it was opened */
    packing packed;
    uint64_t given; /* bytes handed out so far, unpacked */
    bool eof;       /* the packed file is read to its end */
    bool finished;  /* no more unpacked bytes */
    size_t in_size;
    unsigned char *in, *in_at;
#if LARDER_HAVE_ZLIB
    z_stream gz;
    bool gz_ready;
#endif
#if LARDER_HAVE_LZMA
    lzma_stream xz;
    lzma_allocator xz_memory; /* liblzma keeps a pointer to it */
    bool xz_ready;
#endif
};

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

static int fill(larder__unpack *u, void *out, size_t want, size_t *got) {
    ssize_t n;
    do
        n = read(u->fd, out, want);
    while (n < 0 && errno == EINTR);
    *got = n > 0 ? (size_t)n : 0;
    if (n < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", u->path, strerror(errno));
    return 0;
}

#if LARDER_HAVE_ZLIB || LARDER_HAVE_LZMA
static int refill(larder__unpack *u) {
    if (u->in_size > 0 || u->eof)
        return 0;
    int rc = fill(u, u->in, CHUNK, &u->in_size);
    u->in_at = u->in;
    u->eof = rc == 0 && u->in_size == 0;
    return rc;
}

static int cut_short(const larder__unpack *u) {
    return larder__fail(LARDER_E_FORMAT,
                        "%s: the packed file is cut short, after %llu bytes unpacked", u->path,
                        (unsigned long long)u->given);
}

static int broken(const larder__unpack *u, const char *why) {
    return larder__fail(LARDER_E_FORMAT, "%s: %s, after %llu bytes unpacked", u->path, why,
                        (unsigned long long)u->given);
}

static void packed_free(void *arg, void *p) {
    (void)arg;
    larder__free(p);
}
#endif

/* ---- gzip ------------------------------------------------------------------------------------ */

#if LARDER_HAVE_ZLIB
static void *gz_alloc(void *arg, unsigned count, unsigned size) {
    (void)arg;
    return larder__calloc(count, size);
}
static int gz_open(larder__unpack *u) {
    int rc = larder__zlib_open();
    if (rc < 0)
        return larder__fail_in(rc, "%s", u->path);
    u->gz.zalloc = gz_alloc;
    u->gz.zfree = packed_free;
    if (inflateInit2(&u->gz, 15 + 16) != Z_OK) /* 16: gzip, not zlib's own header */
        return larder__fail(LARDER_E_NOMEM, "%s: out of memory for unpacking", u->path);
    u->gz_ready = true;
    return 0;
}

/* A .gz may be several, one after the other. */
static int gz_read(larder__unpack *u, unsigned char *out, size_t want, size_t *got) {
    *got = 0;
    while (*got < want && !u->finished) {
        int rc = refill(u);
        if (rc < 0)
            return rc;
        size_t room = want - *got < CHUNK ? want - *got : CHUNK;
        u->gz.next_in = u->in_at;
        u->gz.avail_in = (unsigned)u->in_size;
        u->gz.next_out = out + *got;
        u->gz.avail_out = (unsigned)room;
        int z = inflate(&u->gz, Z_NO_FLUSH);
        u->in_at = u->gz.next_in;
        u->in_size = u->gz.avail_in;
        *got += room - u->gz.avail_out;
        if (z == Z_STREAM_END) {
            rc = refill(u);
            if (rc < 0)
                return rc;
            u->finished = u->eof;
            z = inflateReset(&u->gz);
        }
        if (z == Z_BUF_ERROR && u->eof)
            return cut_short(u);
        if (z == Z_MEM_ERROR)
            return larder__fail(LARDER_E_NOMEM, "%s: out of memory for unpacking", u->path);
        if (z != Z_OK && z != Z_BUF_ERROR)
            return broken(u, "the gzip data are damaged");
    }
    return 0;
}
#else
static int gz_open(larder__unpack *u) {
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s: this build has no zlib (apt install zlib1g-dev); unpack it first",
                        u->path);
}
static int gz_read(larder__unpack *u, unsigned char *out, size_t want, size_t *got) {
    (void)out, (void)want, (void)got;
    return gz_open(u);
}
#endif

/* ---- xz -------------------------------------------------------------------------------------- */

#if LARDER_HAVE_LZMA
static void *xz_alloc(void *arg, size_t count, size_t size) {
    (void)arg;
    return larder__calloc(count, size);
}

static int xz_open(larder__unpack *u) {
    int rc = larder__late_open(&lzma_late);
    if (rc < 0)
        return larder__fail_in(rc, "%s", u->path);
    u->xz_memory = (lzma_allocator){.alloc = xz_alloc, .free = packed_free};
    u->xz = (lzma_stream)LZMA_STREAM_INIT;
    u->xz.allocator = &u->xz_memory;
    if (lzma_stream_decoder(&u->xz, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return larder__fail(LARDER_E_NOMEM, "%s: out of memory for unpacking", u->path);
    u->xz_ready = true;
    return 0;
}

static int xz_read(larder__unpack *u, unsigned char *out, size_t want, size_t *got) {
    *got = 0;
    while (*got < want && !u->finished) {
        int rc = refill(u);
        if (rc < 0)
            return rc;
        u->xz.next_in = u->in_at;
        u->xz.avail_in = u->in_size;
        u->xz.next_out = out + *got;
        u->xz.avail_out = want - *got;
        lzma_ret z = lzma_code(&u->xz, u->eof ? LZMA_FINISH : LZMA_RUN);
        u->in_at += u->in_size - u->xz.avail_in;
        u->in_size = u->xz.avail_in;
        *got = want - u->xz.avail_out;
        u->finished = z == LZMA_STREAM_END;
        if (z == LZMA_MEM_ERROR)
            return larder__fail(LARDER_E_NOMEM, "%s: out of memory for unpacking", u->path);
        if (z == LZMA_MEMLIMIT_ERROR)
            return broken(u, "the xz data ask for more than 128 MiB of working memory");
        if (z == LZMA_BUF_ERROR)
            return cut_short(u);
        if (z != LZMA_OK && z != LZMA_STREAM_END)
            return broken(u, "the xz data are damaged");
    }
    return 0;
}
#else
static int xz_open(larder__unpack *u) {
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s: this build has no liblzma (apt install liblzma-dev); unpack it first",
                        u->path);
}
static int xz_read(larder__unpack *u, unsigned char *out, size_t want, size_t *got) {
    (void)out, (void)want, (void)got;
    return xz_open(u);
}
#endif

/* ---- all alike ------------------------------------------------------------------------------- */

static int plain_read(larder__unpack *u, unsigned char *out, size_t want, size_t *got) {
    size_t n = 1;
    int rc = 0;
    for (*got = 0; rc == 0 && *got < want && n > 0; *got += n)
        rc = fill(u, out + *got, want - *got, &n);
    return rc;
}

int larder__unpack_open(larder__unpack **out, const char *path) {
    *out = NULL;
    larder__unpack *u = larder__calloc(1, sizeof *u);
    if (!u)
        return LARDER_E_NOMEM;
    u->fd = -1;
    u->packed = ends_with(path, ".gz") ? GZ : ends_with(path, ".xz") ? XZ : PLAIN;
    u->path = larder__strdup(path);
    struct stat st;
    int rc = u->path ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && u->packed != PLAIN && !(u->in = larder__malloc(CHUNK)))
        rc = LARDER_E_NOMEM;
    if (rc == 0 && ((u->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0 ||
                    !larder__stamp_fd(u->fd, &st, &u->stamp)))
        rc = larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (rc == 0 && u->packed != PLAIN)
        rc = u->packed == GZ ? gz_open(u) : xz_open(u);
    if (rc < 0) {
        larder__unpack_close(&u);
        return rc;
    }
    *out = u;
    return 0;
}

void larder__unpack_close(larder__unpack **pu) {
    larder__unpack *u = *pu;
    *pu = NULL;
    if (!u)
        return;
#if LARDER_HAVE_ZLIB
    if (u->gz_ready)
        inflateEnd(&u->gz);
#endif
#if LARDER_HAVE_LZMA
    if (u->xz_ready)
        lzma_end(&u->xz);
#endif
    if (u->fd >= 0)
        close(u->fd);
    larder__free(u->in);
    larder__free(u->path);
    larder__free(u);
}

bool larder__unpack_is_plain(const larder__unpack *u) { return u->packed == PLAIN; }

int larder__unpack_stamp(const larder__unpack *u, larder__stamp *out) {
    *out = u->stamp;
    return larder__fd_unchanged(u->fd, u->path, &u->stamp);
}

int larder__unpack_read(larder__unpack *u, void *out, size_t want, size_t *got) {
    int rc = u->packed == GZ   ? gz_read(u, out, want, got)
             : u->packed == XZ ? xz_read(u, out, want, got)
                               : plain_read(u, out, want, got);
    if (rc == 0)
        u->given += *got;
    return rc;
}

int larder__unpack_exact(larder__unpack *u, void *out, size_t want) {
    size_t got;
    int rc = larder__unpack_read(u, out, want, &got);
    if (rc < 0 || got == want)
        return rc;
    return larder__fail(LARDER_E_FORMAT, "%s: ends at byte %llu, %zu bytes too soon", u->path,
                        (unsigned long long)u->given, want - got);
}

int larder__unpack_end(larder__unpack *u) {
    unsigned char one;
    size_t got;
    uint64_t at = u->given;
    int rc = larder__unpack_read(u, &one, 1, &got);
    if (rc < 0 || got == 0)
        return rc;
    return larder__fail(LARDER_E_FORMAT, "%s: should end at byte %llu and goes on", u->path,
                        (unsigned long long)at);
}

int larder__unpack_all(larder__unpack *u, uint64_t want, unsigned char **out) {
    enum { FIRST = 1 << 20 };
    *out = NULL;
    uint64_t have = 0, cap = want < FIRST ? want : FIRST;
    unsigned char *bytes = larder__malloc(cap);
    int rc = bytes ? larder__unpack_exact(u, bytes, cap) : LARDER_E_NOMEM;
    while (rc == 0 && cap < want) {
        have = cap;
        cap = cap < want / 2 ? cap * 2 : want;
        unsigned char *grown = larder__memory_allows(cap) == 0 ? larder__realloc(bytes, cap) : NULL;
        if (grown)
            bytes = grown;
        rc = grown ? larder__unpack_exact(u, bytes + have, cap - have)
                   : larder__fail_in(LARDER_E_NOMEM,
                                     "%s: unpacked; as a plain file it stays on disk", u->path);
    }
    if (rc < 0) {
        larder__free(bytes);
        bytes = NULL;
    }
    *out = bytes;
    return rc;
}

bool larder__unpack_find(const char *folder, const char *name, char *out, size_t cap) {
    static const char *const endings[] = {"", ".gz", ".xz"};
    for (size_t i = 0; i < 3; i++) {
        int n = snprintf(out, cap, "%s/%s%s", folder, name, endings[i]);
        if (n > 0 && (size_t)n < cap && larder__is_file(out))
            return true;
    }
    return false;
}
