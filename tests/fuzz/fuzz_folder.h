/* A folder in memory for targets whose parser wants files by name; removed at exit. */
#ifndef LARDER_FUZZ_FOLDER_H
#define LARDER_FUZZ_FOLDER_H

#include "source/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fuzz_path[64];

static void fuzz_folder_empty(void) {
    DIR *d = opendir(fuzz_path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static void fuzz_folder_remove(void) {
    fuzz_folder_empty();
    rmdir(fuzz_path);
}

/* The folder, empty. */
static const char *fuzz_folder(void) {
    if (fuzz_path[0]) {
        fuzz_folder_empty();
        return fuzz_path;
    }
    snprintf(fuzz_path, sizeof fuzz_path, "%s/larder-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(fuzz_path))
        abort();
    atexit(fuzz_folder_remove);
    return fuzz_path;
}

static void fuzz_put(const char *name, const void *bytes, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* Opens a data set and reads some of it; what opens must read. `labelled`: every sample is. */
static void fuzz_uri(const char *uri, bool labelled) {
    char name[256];
    larder__data *d = NULL;
    if (larder__data_open(&d, uri) < 0) {
        if (d)
            abort();
        return;
    }
    const larder_dataset *about = larder__data_about(d);
    for (uint64_t i = 0; i < about->count; i += about->count / 4 + 1) {
        larder_sample s;
        larder_read out;
        if (larder__data_stat(d, i, &s) < 0 || larder__data_name(d, i, name, sizeof name) < 0 ||
            (labelled && (s.label < 0 || (uint32_t)s.label >= about->classes)))
            abort();
        if (larder__data_read(d, &i, 1, &out) < 0 || out.code < 0 ||
            larder_buf_size(out.buf) != s.bytes)
            abort();
        larder_buf_unref(&out.buf);
    }
    larder__data_close(&d);
}

/* All that the folder holds, as one source. */
static inline void fuzz_open(const char *source) {
    char uri[256];
    snprintf(uri, sizeof uri, "%s:%s", source, fuzz_path);
    fuzz_uri(uri, true);
}

/* A file of the folder, by its name in a URI: "csv:%s/name". */
static inline void fuzz_file(const char *format) {
    char uri[512];
    snprintf(uri, sizeof uri, format, fuzz_path, fuzz_path);
    fuzz_uri(uri, false);
}

#endif
