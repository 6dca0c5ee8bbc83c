#include "base/npy.h"

#include "base/err.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    char type;
    size_t width;
} types[] = {{"|u1", 'u', 1}, {"|i1", 'i', 1}, {"<f2", 'e', 2}, {"<f4", 'f', 4}};

/* The value after 'key': in the header, which is a Python dict written by NumPy. */
static const char *value_of(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

/* "50000,)" or "50000, 28, 28)": what follows the first bracket. */
static int parse_shape(larder__npy *out, const char *at, const char *path) {
    out->cols = 1;
    for (;; out->dims++) {
        char *end;
        at += strspn(at, " ");
        if (*at == ')' && out->dims)
            break;
        if (out->dims == LARDER__NPY_DIMS)
            return larder__fail(LARDER_E_FORMAT, "%s: more than %d dimensions", path,
                                LARDER__NPY_DIMS);
        uint64_t side = strtoull(at, &end, 10);
        bool last = *end == ')' && out->dims;
        if (end == at || *at == '-' || !(last || *end == ','))
            return larder__fail(LARDER_E_FORMAT, "%s: its shape cannot be read", path);
        if (out->dims && side && out->cols > UINT64_MAX / side)
            return larder__fail(LARDER_E_FORMAT, "%s: more elements than there can be", path);
        out->shape[out->dims] = side;
        out->cols *= out->dims ? side : 1;
        at = last ? end : end + 1;
    }
    out->rows = out->shape[0];
    return 0;
}

static int parse_header(larder__npy *out, const char *header, const char *path) {
    const char *type = value_of(header, "descr"), *shape = value_of(header, "shape");
    const char *order = value_of(header, "fortran_order");
    if (!type || !shape || *shape != '(' || !order || strncmp(order, "False", 5) != 0)
        return larder__fail(LARDER_E_FORMAT, "%s: not an array in C order", path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (type[0] == '\'' && strncmp(type + 1, types[i].name, 3) == 0 && type[4] == '\'') {
            out->type = types[i].type;
            out->width = types[i].width;
        }
    if (!out->type)
        return larder__fail(LARDER_E_FORMAT, "%s: elements are none of u1, i1, f2, f4", path);
    return parse_shape(out, shape + 1, path);
}

int larder__npy_head(larder__npy *out, const unsigned char *bytes, size_t size, const char *path) {
    *out = (larder__npy){0};
    if (size < 10 || memcmp(bytes, "\x93NUMPY\x01", 7) != 0)
        return larder__fail(LARDER_E_FORMAT, "%s: not a NumPy array file (version 1)", path);
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    char header[LARDER__NPY_HEAD - 10];
    if (length >= sizeof header || length > size - 10)
        return larder__fail(LARDER_E_FORMAT, "%s: its header is too long", path);
    memcpy(header, bytes + 10, length);
    header[length] = 0;
    int rc = parse_header(out, header, path);
    if (rc < 0)
        return rc;
    out->head = 10 + length;
    uint64_t left = (size - out->head) / out->width;
    if (out->rows > left || out->cols > left || (out->cols && out->rows > left / out->cols))
        return larder__fail(LARDER_E_FORMAT, "%s: %llu x %llu elements do not fit in the file",
                            path, (unsigned long long)out->rows, (unsigned long long)out->cols);
    return 0;
}

int larder__npy_parse(larder__npy *out, unsigned char *bytes, size_t size, const char *path) {
    int rc = larder__npy_head(out, bytes, size, path);
    out->data = rc < 0 ? NULL : bytes + out->head;
    return rc;
}

int larder__npy_read(larder__npy *out, const char *path) {
    *out = (larder__npy){0};
    unsigned char *bytes = NULL;
    size_t size;
    int rc = larder__file_read(path, (size_t)1 << 34, &bytes, &size);
    if (rc == 0)
        rc = larder__npy_parse(out, bytes, size, path);
    if (rc < 0)
        larder__free(bytes);
    else
        out->file = bytes;
    return rc;
}

void larder__npy_free(larder__npy *a) {
    larder__free(a->file);
    *a = (larder__npy){0};
}

float larder__npy_float(const larder__npy *a, uint64_t row, uint64_t col) {
    const unsigned char *at = a->data + (row * a->cols + col) * a->width;
    float f;
    switch (a->type) {
    case 'u':
        return *at;
    case 'i':
        return (float)(signed char)*at;
    case 'e':
        return larder__float_of_f16((uint16_t)(at[0] | at[1] << 8));
    default:
        memcpy(&f, at, sizeof f);
        return f;
    }
}
