/* Stands in for libFuzzer where a fuzz target only replays stored inputs: every file of the folders
 * named, once, in any order, and the empty input first. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return -1;
    }
    /* Exactly as large as the input, so that a sanitizer sees the first byte read behind it. */
    size_t size = 0;
    uint8_t *data = NULL;
    int rc = -1;
    if (fseek(f, 0, SEEK_END) == 0) {
        long end = ftell(f);
        size = end > 0 ? (size_t)end : 0;
        rewind(f);
        data = malloc(size ? size : 1);
        if (data && fread(data, 1, size, f) == size)
            rc = LLVMFuzzerTestOneInput(data, size);
    }
    if (rc < 0)
        fprintf(stderr, "%s: could not be replayed\n", path);
    free(data);
    fclose(f);
    return rc;
}

static int replay_folder(const char *folder, unsigned *count) {
    DIR *d = opendir(folder);
    if (!d) {
        perror(folder);
        return -1;
    }
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] == '.')
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        rc = n > 0 && (size_t)n < sizeof path ? replay_file(path) : -1;
        *count += 1;
    }
    closedir(d);
    return rc;
}

int main(int argc, char **argv) {
    unsigned count = 0;
    int rc = LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; rc == 0 && i < argc; i++)
        rc = replay_folder(argv[i], &count);
    printf("%u inputs replayed\n", count);
    return rc == 0 && count > 0 ? 0 : 1;
}
