/* Stands in for libFuzzer where a fuzz target only replays stored inputs: every file of the folders
 * named, once, in any order, and the empty input first. Each is then changed in a byte or cut some
 * times, as chance that follows from its bytes has it: a tree always replays the same. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t draw(uint64_t *chance) {
    *chance = *chance * 6364136223846793005u + 1442695040888963407u;
    return *chance >> 33;
}

/* Mostly near the beginning, where heads are. The target aborts on what must not be. */
static int change(uint8_t *data, size_t size) {
    enum { TIMES = 16, HEAD = 96 };
    static const uint8_t odd[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff};
    uint64_t chance = size;
    int rc = 0;
    for (size_t i = 0; i < size; i++)
        chance = chance * 31 + data[i];
    for (int n = 0; rc == 0 && size > 0 && n < TIMES; n++) {
        size_t most = draw(&chance) % 2 && size > HEAD ? HEAD : size, at = draw(&chance) % most;
        uint64_t how = draw(&chance) % 10;
        uint8_t was = data[at];
        if (how == 9) { /* cut off there */
            uint8_t *part = malloc(at + !at);
            if (part)
                memcpy(part, data, at);
            rc = part ? LLVMFuzzerTestOneInput(part, at) : -1;
            free(part);
            continue;
        }
        uint64_t now = how < sizeof odd ? odd[how]
                       : how == 7       ? was + 1u
                                        : was ^ 1u << draw(&chance) % 8;
        data[at] = (uint8_t)now;
        rc = LLVMFuzzerTestOneInput(data, size);
        data[at] = was;
    }
    return rc;
}

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
        if (rc == 0)
            rc = change(data, size);
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
