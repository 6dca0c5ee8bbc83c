/* Small .npy files for tests. */
#ifndef LARDER_TEST_ARRAY_KIT_H
#define LARDER_TEST_ARRAY_KIT_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 128 bytes of head, then `bytes` of data: those given, or 0, 1, 2 … */
static inline void kit_npy_of(const char *path, const char *type, const char *shape,
                              const void *data, size_t bytes) {
    unsigned char *file = malloc(128 + bytes);
    char head[119];
    assert_non_null(file);
    int n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                     type, shape);
    memcpy(file, "\x93NUMPY\x01\0\x76\0", 10);
    memset(file + 10, ' ', 117);
    memcpy(file + 10, head, (size_t)n);
    file[127] = '\n';
    for (size_t i = 0; i < bytes; i++)
        file[128 + i] = data ? ((const unsigned char *)data)[i] : (unsigned char)i;
    check_write(path, file, 128 + bytes);
    free(file);
}

static inline void kit_npy(const char *path, const char *type, const char *shape, size_t bytes) {
    kit_npy_of(path, type, shape, NULL, bytes);
}

#endif
