#include "pack_kit.h"

#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const check_jpeg_conf pictures[] = {
    {200, 150, 3, 2, 2, false, 0, 1, false},  {201, 149, 3, 2, 2, false, 0, 2, false},
    {97, 131, 3, 2, 1, false, 0, 3, false},   {130, 98, 3, 1, 2, false, 0, 4, false},
    {120, 90, 3, 1, 1, false, 0, 5, false},   {77, 93, 1, 1, 1, false, 0, 6, false},
    {160, 120, 4, 1, 1, false, 0, 7, false},  {151, 113, 3, 2, 2, true, 0, 8, false},
    {90, 160, 1, 1, 1, true, 0, 9, false},    {143, 57, 3, 4, 1, false, 0, 10, false},
    {16, 16, 3, 2, 2, false, 0, 11, false},   {1, 1, 3, 2, 2, false, 0, 12, false},
    {9, 300, 3, 2, 2, false, 0, 13, false},   {300, 9, 3, 1, 1, false, 0, 14, false},
    {181, 182, 3, 2, 2, false, 5, 15, false}, {250, 187, 3, 2, 2, false, 0, 16, false},
    {174, 121, 3, 2, 2, false, 0, 17, true},  {83, 140, 1, 1, 1, true, 0, 18, true},
};
enum { PICTURES = sizeof pictures / sizeof *pictures };

static void put(const char *folder, size_t i, const char *ending, const void *bytes, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%c", folder, "ab"[i % 2]);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%c/%03zu.%s", folder, "ab"[i % 2], i, ending);
    check_write(path, bytes, size);
}

size_t kit_pictures(const char *folder) {
    for (size_t i = 0; i < PICTURES; i++) {
        size_t size;
        unsigned char *bytes = check_jpeg(&pictures[i], &size);
        if (!bytes)
            return 0;
        put(folder, i, "jpg", bytes, size);
        free(bytes);
    }
    return PICTURES;
}

size_t kit_oddities(const char *folder) {
    size_t size, i = PICTURES;
    unsigned char *bytes = check_jpeg(&pictures[0], &size);
    assert_non_null(bytes);
    put(folder, i++, "jpg", bytes, size / 2);
    free(bytes);
    put(folder, i++, "jpg", "this is no picture at all", 25);
    put(folder, i++, "png", "\x89PNG\r\n\x1a\n....", 12);
    put(folder, i++, "jpg", "", 0);
    return i - PICTURES;
}

larder__pack_conf kit_pack_conf(const char *source, const char *folder) {
    return (larder__pack_conf){.source = source, .folder = folder, .shard_bytes = 20000, .jobs = 2};
}

unsigned char *kit_read(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s cannot be read", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}
