/* Any bytes as the index of a packed shard. When the first byte is odd the head gets its right
 * checksum, and each section too, or hardly an input would get past them. */
#include "source/pack_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SECTIONS_AT = 56, SUMS_AT = SECTIONS_AT + (LARDER__PACK_SECTIONS + 1) * 8 };

static uint64_t get(const uint8_t *at) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | at[i];
    return v;
}

static void put(uint8_t *at, uint64_t v) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static void make_right(uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < LARDER__PACK_SECTIONS; i++) {
        uint64_t from = get(bytes + SECTIONS_AT + i * 8), to = get(bytes + SECTIONS_AT + 8 + i * 8);
        if (from <= to && to <= n)
            put(bytes + SUMS_AT + i * 8, larder__pack_sum(bytes + from, to - from));
    }
    put(bytes + LARDER__PACK_HEAD - 8, larder__pack_sum(bytes, LARDER__PACK_HEAD - 8));
}

static void look_at_samples(const larder__pack_file *f, int fd) {
    larder__pack_entry *e = malloc(f->count * sizeof *e + 1);
    uint64_t *sums = malloc(f->count * sizeof *sums + 1);
    if (e && sums && larder__pack_file_entries(f, fd, e) == 0)
        for (uint64_t i = 0; i < f->count && i < 100; i++) {
            char name[LARDER__PACK_NAME];
            uint32_t n = e[i].data_at ? larder__grid_segments(&e[i].grid) : 0;
            if (e[i].offset > f->shard_bytes || e[i].bytes > f->shard_bytes - e[i].offset)
                abort();
            uint16_t *lengths = malloc(n * sizeof *lengths + 1);
            if (n && lengths && larder__pack_file_lengths(f, fd, &e[i], lengths) == 0) {
                uint64_t sum = 0;
                for (uint32_t k = 0; k < n; k++)
                    sum += lengths[k];
                if (sum != e[i].bytes - e[i].data_at)
                    abort();
            }
            free(lengths);
            larder__pack_file_name(f, fd, i, name, sizeof name);
        }
    if (sums)
        larder__pack_file_sums(f, fd, sums);
    free(e);
    free(sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    size_t n = size - 1;
    uint8_t *bytes = malloc(n + 1);
    int fd = memfd_create("index", MFD_CLOEXEC);
    if (bytes && fd >= 0) {
        memcpy(bytes, data + 1, n);
        if ((data[0] & 1) && n >= LARDER__PACK_HEAD)
            make_right(bytes, n);
        larder__pack_file f;
        if (write(fd, bytes, n) == (ssize_t)n && larder__pack_file_begin(&f, "x.larder", fd) == 0) {
            larder__names classes = {0};
            look_at_samples(&f, fd);
            larder__pack_file_classes(&f, fd, &classes);
            larder__pack_file_check(&f, fd);
            larder__names_free(&classes);
        }
    }
    if (fd >= 0)
        close(fd);
    free(bytes);
    return 0;
}
