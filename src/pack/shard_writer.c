#include "pack/shard_writer.h"

#include "base/err.h"
#include "base/mem.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, TAR_END = 2 * BLOCK };

int larder__shard_begin(larder__shard_writer *w, const char *path, uint64_t plan, uint64_t first) {
    *w = (larder__shard_writer){.index = {.plan = plan, .first = first}};
    int n = snprintf(w->path, sizeof w->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof w->path)
        return larder__fail(LARDER_E_ARGS, "the path is too long: %.200s", path);
    int rc = larder__fresh_open(&w->tar, w->path);
    w->open = rc == 0;
    return rc;
}

/* ---- tar ------------------------------------------------------------------------------------- */

/* A ustar header without anything that changes from run to run: no times, no owners. */
static void make_header(unsigned char *block, const char *name, uint64_t bytes) {
    memset(block, 0, BLOCK);
    memcpy(block, name, strlen(name) + 1);
    memcpy(block + 100, "0000644", 8);
    memcpy(block + 108, "0000000", 8);
    memcpy(block + 116, "0000000", 8);
    snprintf((char *)block + 124, 12, "%011llo", (unsigned long long)bytes);
    memcpy(block + 136, "00000000000", 12);
    memset(block + 148, ' ', 8);
    block[156] = '0';
    memcpy(block + 257, "ustar", 6);
    block[263] = block[264] = '0';
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum); /* a zero byte and the blank follow */
}

static int put(larder__shard_writer *w, const void *bytes, size_t n) {
    if (n && fwrite(bytes, 1, n, w->tar.to) != n)
        return larder__fail_errno(w->path, "cannot be written");
    w->at += n;
    return 0;
}

static int put_member(larder__shard_writer *w, const char *name, const void *bytes, size_t n,
                      uint64_t *offset) {
    static const unsigned char zeros[BLOCK];
    unsigned char header[BLOCK];
    make_header(header, name, n);
    int rc = put(w, header, BLOCK);
    *offset = w->at;
    if (rc == 0)
        rc = put(w, bytes, n);
    return rc < 0 ? rc : put(w, zeros, (BLOCK - n % BLOCK) % BLOCK);
}

/* What the file is by its first bytes, else by its name, as other tools will look at it. */
static void ending_of(char out[12], const larder__transcoded *t, const char *name) {
    static const unsigned char png[4] = {0x89, 'P', 'N', 'G'};
    const char *dot = strrchr(name, '.');
    size_t n = 0;
    if (t->size >= 3 && t->bytes[0] == 0xff && t->bytes[1] == 0xd8 && t->bytes[2] == 0xff)
        dot = ".jpg";
    else if (t->size >= 4 && memcmp(t->bytes, png, 4) == 0)
        dot = ".png";
    for (; dot && n < 8 && isalnum((unsigned char)dot[n + 1]); n++)
        out[n] = (char)tolower((unsigned char)dot[n + 1]);
    out[n] = 0;
    /* No letters, more than eight, or the one that means a label. */
    if (n == 0 || (dot && dot[n + 1]) || strcmp(out, "cls") == 0)
        memcpy(out, "bin", 4);
}

int larder__shard_add(larder__shard_writer *w, const larder__transcoded *t, int32_t label,
                      const char *name) {
    char ending[12], member[48], text[16];
    uint64_t id = w->index.first + w->index.count, unused;
    larder__pack_entry e = {.bytes = (uint32_t)t->size,
                            .label = label,
                            .head_at = t->head_at,
                            .data_at = t->data_at,
                            .grid = t->grid,
                            .kind = t->kind,
                            .jfif = t->jfif};
    if (t->size >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "%.200s: 4 GiB or more is no sample", name);
    ending_of(ending, t, name);
    snprintf(member, sizeof member, "%09llu.%s", (unsigned long long)id, ending);
    int rc = put_member(w, member, t->bytes, t->size, &e.offset);
    if (rc == 0 && label >= 0) {
        int n = snprintf(text, sizeof text, "%d", label);
        snprintf(member, sizeof member, "%09llu.cls", (unsigned long long)id);
        rc = put_member(w, member, text, (size_t)n, &unused);
    }
    return rc < 0 ? rc
                  : larder__pack_index_add(&w->index, &e, larder__pack_sum(t->bytes, t->size),
                                           t->lengths, name);
}

/* ---- the end --------------------------------------------------------------------------------- */

static int write_index(larder__shard_writer *w) {
    char path[sizeof w->path + 8];
    larder_writer bytes = {0};
    w->index.shard_bytes = w->at;
    int rc = larder__pack_path(path, sizeof path, w->path);
    if (rc == 0)
        rc = larder__pack_index_write(&w->index, &bytes);
    if (rc == 0)
        rc = larder__file_write(path, bytes.bytes, bytes.size);
    larder__writer_free(&bytes);
    return rc;
}

int larder__shard_end(larder__shard_writer *w, int rc) {
    static const unsigned char zeros[TAR_END];
    if (w->open && rc == 0)
        rc = put(w, zeros, TAR_END);
    if (w->open)
        rc = larder__fresh_close(&w->tar, rc);
    w->open = false;
    if (rc == 0)
        rc = write_index(w);
    larder__pack_index_free(&w->index);
    return rc;
}
