/* A folder of values on disk of which one file is damaged by the input, then opened and used:
 * nothing it says may be believed further than it is true. */
#ifndef LARDER_FUZZ_DISK_H
#define LARDER_FUZZ_DISK_H

#include "fuzz_folder.h"

#include "disk/disk.h"
#include "disk/disk_form.h"

#include <sys/stat.h>

enum { DISK_KEYS = 64, DISK_BUDGET = 240 << 10, DISK_FILE_MOST = 512 << 10 };

static int disk_reserve(int fd, off_t bytes) { return posix_fallocate(fd, 0, bytes); }
static int disk_punch(int fd, off_t at, off_t bytes) { return (void)fd, (void)at, (void)bytes, 0; }
static int disk_sync(int fd) { return (void)fd, 0; }
static void disk_who(char out[LARDER__DISK_WHO]) {
    memset(out, 0, LARDER__DISK_WHO);
    out[0] = 'b';
}
static const larder__disk_io disk_io = {.read = pread,
                                        .write = pwrite,
                                        .reserve = disk_reserve,
                                        .resize = ftruncate,
                                        .punch = disk_punch,
                                        .sync = disk_sync,
                                        .boot = disk_who,
                                        .machine = disk_who};

static const larder__disk_conf disk_conf = {
    .budget = DISK_BUDGET, .identity = 5, .keys = DISK_KEYS, .name = "fuzz", .patience = 60};
static int disk_open(larder__disk **d) {
    larder__disk_conf conf = disk_conf;
    conf.folder = fuzz_path;
    return larder__disk_open(d, &conf);
}

static uint32_t disk_size(uint64_t key) { return (uint32_t)(key * 297 % 6000); }
static void disk_put(larder__disk *d, uint64_t key) {
    larder_buf *b = larder_buf_new(disk_size(key));
    if (!b)
        abort();
    memset(larder_buf_data(b), (int)key, disk_size(key));
    larder__disk_put(d, &(larder__value){.id = key, .form = 1, .held = 1}, b);
    larder_buf_unref(&b);
}

static bool disk_right(uint64_t key, larder_buf *b) {
    const unsigned char *p = larder_buf_data(b);
    for (uint32_t i = 0; i < disk_size(key); i++)
        if (p[i] != (unsigned char)key)
            return false;
    return larder_buf_size(b) == disk_size(key);
}

static void disk_read_all(larder__disk *d) {
    larder__disk_fetch *all[DISK_KEYS];
    for (uint64_t k = 0; k < DISK_KEYS; k++) {
        larder__value v = {.id = k, .form = 1, .held = LARDER__ANY_FORM};
        all[k] = larder__disk_fetch_new(&v);
        if (!all[k])
            abort();
    }
    larder__disk_send(d, all, DISK_KEYS);
    for (uint64_t k = 0; k < DISK_KEYS; k++) {
        larder_buf *b = larder__disk_receive(d, all[k]);
        if (b && !disk_right(k, b))
            abort();
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&all[k]);
    }
}

/* The folder as it was after some values, in memory. */
static char disk_index_name[32];
static const char *const disk_names[4] = {"head", "space", "data", disk_index_name};
static struct {
    unsigned char bytes[DISK_FILE_MOST];
    size_t size;
} disk_files[4];

static void disk_keep(void) {
    for (size_t i = 0; i < 4; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", fuzz_path, disk_names[i]);
        int fd = open(path, O_RDONLY);
        ssize_t n = fd >= 0 ? read(fd, disk_files[i].bytes, DISK_FILE_MOST) : -1;
        if (n < 0)
            abort();
        disk_files[i].size = (size_t)n;
        close(fd);
    }
}

static void disk_restore(void) {
    fuzz_folder();
    if (!disk_files[0].size) {
        larder__disk *d;
        snprintf(disk_index_name, sizeof disk_index_name, "%016llx.index",
                 (unsigned long long)larder__disk_id(disk_conf.identity, DISK_KEYS));
        larder__disk_io_use(&disk_io);
        if (disk_open(&d) < 0)
            abort();
        for (uint64_t k = 0; k < 20; k++)
            disk_put(d, k);
        if (!larder__disk_settle(d, 60))
            abort();
        larder__disk_close(&d);
        disk_keep();
    }
    for (size_t i = 0; i < 4; i++)
        fuzz_put(disk_names[i], disk_files[i].bytes, disk_files[i].size);
}

static void disk_ignore(void *arg, const larder__disk_set *s) { (void)arg, (void)s; }

static void disk_use(void) {
    larder__disk *d;
    larder__disk_figures f;
    larder__disk_list(fuzz_path, &f, disk_ignore, NULL);
    if (disk_open(&d) < 0)
        return;
    disk_read_all(d);
    for (uint64_t k = 0; k < 30; k++)
        disk_put(d, k);
    if (!larder__disk_settle(d, 60))
        abort();
    disk_read_all(d);
    larder__disk_close(&d);
}

/* Puts the input over file i: two bytes of place, in steps of 8, then what goes there. */
static inline size_t disk_damage(size_t i, unsigned char *copy, const uint8_t *data, size_t size) {
    size_t at = size >= 2 ? (size_t)(data[0] | data[1] << 8) * 8 % disk_files[i].size : 0;
    size_t n = size > 2 ? size - 2 : 0;
    if (n > disk_files[i].size - at)
        n = disk_files[i].size - at;
    memcpy(copy, disk_files[i].bytes, disk_files[i].size);
    if (n)
        memcpy(copy + at, data + 2, n);
    return disk_files[i].size;
}

#endif
