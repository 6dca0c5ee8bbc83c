#include "profile/bench_machine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "stage/jpeg_encode.h"
#include "stage/pipeline.h"

#include <larder/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- decoding -------------------------------------------------------------------------------- */

/* Waves with a little noise: about as many bytes a pixel as a photograph. */
static void paint(uint8_t *pixels) {
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    for (int y = 0; y < LARDER__BENCH_H; y++)
        for (int x = 0; x < LARDER__BENCH_W; x++) {
            uint8_t *p = pixels + 4 * ((size_t)y * LARDER__BENCH_W + (size_t)x);
            for (int c = 0; c < 4; c++) {
                int wave = (x * (c + 3) + y * (5 - c)) % 256;
                wave = wave < 128 ? wave : 255 - wave;
                p[c] = (uint8_t)(wave + (int)larder_rng_below(&rng, 48) + 32);
            }
        }
}

static int make_picture(larder__scratch *scratch, unsigned char **out, size_t *size) {
    uint8_t *pixels = larder__malloc((size_t)4 * LARDER__BENCH_W * LARDER__BENCH_H + 64);
    const uint8_t *jpeg = NULL;
    if (!pixels)
        return LARDER_E_NOMEM;
    paint(pixels);
    larder__picture all = {.at = pixels,
                           .row = (ptrdiff_t)4 * LARDER__BENCH_W,
                           .pixel = 4,
                           .channel = 1,
                           .is = {0, 0, LARDER__BENCH_W, LARDER__BENCH_H}};
    larder__jpeg_conf conf = {.quality = 85, .limit = 1 << 20};
    int rc =
        larder__jpeg_encode(scratch, &all, LARDER__BENCH_W, LARDER__BENCH_H, &conf, &jpeg, size);
    if (rc == 0 && !(*out = larder__malloc(*size)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        memcpy(*out, jpeg, *size);
    larder__free(pixels);
    return rc;
}

static int decode_for(double seconds, larder__pipeline *pipe, larder__scratch *scratch,
                      const void *jpeg, size_t size, double *out) {
    void *row = larder__memalign(64, larder__pipeline_bytes(pipe) + 64);
    int rc = row ? 0 : LARDER_E_NOMEM;
    double begun = larder__now(), cpu = larder__thread_seconds();
    uint64_t made = 0;
    do
        if (rc == 0)
            rc = larder__pipeline_run(pipe, scratch, jpeg, size, made++, row);
    while (rc == 0 && larder__now() < begun + seconds);
    *out = (double)made / (larder__thread_seconds() - cpu + 1e-9);
    larder__free(row);
    return rc;
}

int larder__bench_decode(double seconds, double *out) {
    char spec[64];
    snprintf(spec, sizeof spec, "rrc:size=%d|flip", LARDER__BENCH_SIDE);
    larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_U8};
    larder__scratch *scratch = NULL;
    larder__pipeline *pipe = NULL;
    unsigned char *jpeg = NULL;
    size_t size = 0;
    int rc = larder__scratch_open(&scratch);
    if (rc == 0)
        rc = make_picture(scratch, &jpeg, &size);
    if (rc == 0)
        rc = larder__pipeline_open(&pipe, &conf);
    if (rc == 0)
        rc = decode_for(seconds, pipe, scratch, jpeg, size, out);
    larder__pipeline_close(&pipe);
    larder__scratch_close(&scratch);
    larder__free(jpeg);
    return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

int larder__bench_copy(double seconds, double *out) {
    enum { BYTES = 32 << 20 };
    unsigned char *from = larder__memalign(64, BYTES), *to = larder__memalign(64, BYTES);
    int rc = from && to ? 0 : LARDER_E_NOMEM;
    if (rc == 0) {
        memset(from, 1, BYTES);
        memset(to, 2, BYTES);
        volatile unsigned char seen = 0;
        uint64_t moved = 0;
        double begun = larder__now(), now;
        do {
            memcpy(to, from, BYTES);
            seen = to[moved % BYTES];
            moved += BYTES;
            now = larder__now();
        } while (now < begun + seconds);
        (void)seen;
        *out = (double)moved / (now - begun);
    }
    larder__free(from);
    larder__free(to);
    return rc;
}

/* ---- a disk ---------------------------------------------------------------------------------- */

enum { PIECE = 1 << 20, SMALL = 64 << 10, MOST = 64 << 20 };

static int io_failed(const char *folder, const char *what) {
    return larder__fail(larder__code_of_errno(errno), "%s: %s: %s", folder, what, strerror(errno));
}

static int write_all(int fd, const char *folder, unsigned char *piece, uint64_t size) {
    larder_rng rng;
    larder_rng_seed(&rng, 2, 0);
    for (uint64_t at = 0; at < size; at += PIECE) {
        for (size_t i = 0; i < PIECE; i += sizeof(uint64_t)) { /* no file system can press it */
            uint64_t word = larder_rng_next(&rng);
            memcpy(piece + i, &word, sizeof word);
        }
        for (size_t done = 0; done < PIECE;) {
            ssize_t n = write(fd, piece + done, PIECE - done);
            if (n < 0 && errno != EINTR)
                return io_failed(folder, "a file cannot be written");
            done += n > 0 ? (size_t)n : 0;
        }
    }
    return fsync(fd) == 0 ? 0 : io_failed(folder, "a file cannot be written");
}

/* Reads `count` bytes here and there, or one after the other, for a while: reads a second. */
static int read_for(int fd, const char *folder, unsigned char *into, size_t count, uint64_t size,
                    bool random, double seconds, double *out) {
    larder_rng rng;
    larder_rng_seed(&rng, 3, 0);
    uint64_t reads = 0, parts = size / count;
    double begun = larder__now(), now;
    do {
        uint64_t at = random ? larder_rng_below(&rng, (uint32_t)parts) : reads % parts;
        ssize_t n = pread(fd, into, count, (off_t)(at * count));
        if (n < 0 && errno != EINTR)
            return io_failed(folder, "a file cannot be read");
        reads += n > 0;
        now = larder__now();
    } while (now < begun + seconds);
    *out = (double)reads / (now - begun);
    return 0;
}

static int measure_file(int fd, const char *folder, uint64_t size, double seconds,
                        larder__disk_bench *out) {
    unsigned char *piece = larder__memalign(4096, PIECE);
    int rc = piece ? write_all(fd, folder, piece, size) : LARDER_E_NOMEM;
    double pieces = 0;
    if (rc == 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        out->direct = fcntl(fd, F_SETFL, O_DIRECT) == 0;
        rc = read_for(fd, folder, piece, PIECE, size, false, seconds / 2, &pieces);
    }
    if (rc == 0)
        rc = read_for(fd, folder, piece, SMALL, size, true, seconds / 2, &out->random);
    out->read = pieces * PIECE;
    larder__free(piece);
    return rc;
}

int larder__bench_disk(const char *folder, double seconds, larder__disk_bench *out) {
    char path[4096];
    struct statvfs v;
    *out = (larder__disk_bench){0};
    if (statvfs(folder, &v) != 0)
        return io_failed(folder, "it cannot be looked at");
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize / 16;
    uint64_t size = room < MOST ? room / PIECE * PIECE : MOST;
    if (size == 0)
        return larder__fail(LARDER_E_FULL, "%s: there is no room for a file to measure", folder);
    if (snprintf(path, sizeof path, "%s/.larder-doctor-XXXXXX", folder) >= (int)sizeof path)
        return larder__fail(LARDER_E_ARGS, "%.60s…: the name is too long", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return io_failed(folder, "no file can be made there");
    unlink(path);
    int rc = measure_file(fd, folder, size, seconds, out);
    close(fd);
    return rc;
}
