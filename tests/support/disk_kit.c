#include "disk_kit.h"

#include "base/hash.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned char byte_at(uint64_t seed, uint64_t i) {
    return (unsigned char)(larder__mix64(seed + i / 8) >> 8 * (i % 8));
}
static uint64_t seed_of(uint64_t identity, uint64_t key, uint32_t size) {
    return larder__mix64(larder__mix64(identity ^ key << 20) + size);
}

static void fill(uint64_t seed, unsigned char *to, uint32_t size) {
    for (uint32_t i = 0; i + 8 <= size; i += 8) {
        uint64_t w = larder__mix64(seed + i / 8);
        memcpy(to + i, &w, 8);
    }
    for (uint32_t i = size / 8 * 8; i < size; i++)
        to[i] = byte_at(seed, i);
}

larder_buf *disk_bytes(uint64_t identity, uint64_t key, uint32_t size) {
    larder_buf *b = larder_buf_new(size);
    if (!b)
        abort();
    fill(seed_of(identity, key, size), larder_buf_data(b), size);
    return b;
}

bool disk_same(uint64_t identity, uint64_t key, uint32_t size, larder_buf *b) {
    if (larder_buf_size(b) != size)
        return false;
    larder_buf *right = disk_bytes(identity, key, size);
    bool same = size == 0 || memcmp(larder_buf_data(right), larder_buf_data(b), size) == 0;
    larder_buf_unref(&right);
    return same;
}

void disk_put(larder__disk *d, uint64_t identity, uint64_t key, uint32_t size) {
    larder_buf *b = disk_bytes(identity, key, size);
    larder__value v = {.id = key, .size = size, .form = DISK_FORM, .held = DISK_FORM};
    larder__disk_put(d, &v, b);
    larder_buf_unref(&b);
}

larder_buf *disk_get(larder__disk *d, uint64_t key) {
    larder__value v = {.id = key, .form = DISK_FORM, .held = LARDER__ANY_FORM};
    larder__disk_fetch *f = larder__disk_fetch_new(&v);
    if (!f)
        abort();
    larder__disk_send(d, &f, 1);
    larder_buf *b = larder__disk_receive(d, f);
    if (b && larder__disk_fetch_held(f) != DISK_FORM)
        abort();
    larder__disk_fetch_unref(&f);
    return b;
}

uint64_t disk_usage(const char *folder) {
    uint64_t sum = 0;
    DIR *d = opendir(folder);
    struct stat st;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return sum;
}

larder__disk_conf disk_conf(const char *folder, uint64_t budget, uint64_t identity, uint64_t keys) {
    return (larder__disk_conf){.folder = folder,
                               .budget = budget,
                               .identity = identity,
                               .keys = keys,
                               .name = "a set",
                               .patience = 30};
}

larder__disk_figures disk_figures(larder__disk *d) {
    larder__disk_figures f;
    larder__disk_read_figures(d, &f);
    return f;
}
