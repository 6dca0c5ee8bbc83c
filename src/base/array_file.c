#include "base/array_file.h"

#include "base/err.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef LARDER_HAVE_ZLIB
#define LARDER_HAVE_ZLIB 0
#endif
#if LARDER_HAVE_ZLIB
#include "base/zlib_late.h"
#endif

/* ---- .npy ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    larder_dtype dtype;
} types[] = {{"|u1", LARDER_U8},  {"|i1", LARDER_I8},  {"|b1", LARDER_BOOL}, {"<f2", LARDER_F16},
             {"<f4", LARDER_F32}, {"<f8", LARDER_F64}, {"<i2", LARDER_I16},  {"<i4", LARDER_I32},
             {"<i8", LARDER_I64}, {"<u2", LARDER_U16}, {"<u4", LARDER_U32},  {"<u8", LARDER_U64},
             {"<c8", LARDER_C64}};

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

/* "()", "(3,)" or "(3, 4)" */
static int parse_shape(larder__field *out, const char *at) {
    if (*at++ != '(')
        return -1;
    for (out->ndim = 0;;) {
        at += strspn(at, " ,");
        if (*at == ')')
            return 0;
        if (*at < '0' || *at > '9' || out->ndim == LARDER_NDIM)
            return -1;
        char *end;
        out->shape[out->ndim++] = strtoull(at, &end, 10);
        at = end;
    }
}

static int parse_header(larder__field *out, const char *header) {
    const char *type = value_of(header, "descr"), *shape = value_of(header, "shape");
    const char *order = value_of(header, "fortran_order");
    if (!type || !shape || !order)
        return larder__fail(LARDER_E_FORMAT, "its NumPy header cannot be read");
    if (strncmp(order, "False", 5) != 0)
        return larder__fail(LARDER_E_FORMAT, "a NumPy array in Fortran order: save it in C order");
    size_t i = 0, all = sizeof types / sizeof *types;
    while (i < all &&
           !(type[0] == '\'' && strncmp(type + 1, types[i].name, 3) == 0 && type[4] == '\''))
        i++;
    if (i == all)
        return larder__fail(LARDER_E_FORMAT,
                            "a NumPy array of %.8s; little-endian numbers and bool are known",
                            type);
    out->dtype = types[i].dtype;
    if (parse_shape(out, shape) < 0)
        return larder__fail(LARDER_E_FORMAT, "the shape of its NumPy array cannot be read");
    return 0;
}

int larder__npy_look(larder__field *out, size_t *head, const unsigned char *bytes, size_t there,
                     uint64_t size) {
    *out = (larder__field){.kind = LARDER__FIELD_ARRAY};
    if (there < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3)
        return larder__fail(LARDER_E_FORMAT, "this is no NumPy array");
    size_t start = bytes[6] == 1 ? 10 : 12, length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    char header[4096];
    if (length >= sizeof header || length > there - start)
        return larder__fail(LARDER_E_FORMAT, "the header of its NumPy array is too long");
    memcpy(header, bytes + start, length);
    header[length] = 0;
    int rc = parse_header(out, header);
    if (rc < 0)
        return rc;
    uint64_t count = larder__shape_count(out->shape, out->ndim);
    size_t width = larder__dtype_bytes(out->dtype);
    *head = start + length;
    if (*head > size || count == UINT64_MAX || count * width > size - *head)
        return larder__fail(LARDER_E_FORMAT, "its NumPy array is cut off");
    out->bytes = (size_t)(count * width);
    return 0;
}

int larder__npy_view(larder__field *out, const unsigned char *bytes, size_t size) {
    size_t head;
    int rc = larder__npy_look(out, &head, bytes, size, size);
    if (rc == 0)
        out->data = bytes + head;
    return rc;
}

/* ---- .npz ------------------------------------------------------------------------------------ */

static uint32_t get2(const unsigned char *p) { return (uint32_t)(p[0] | p[1] << 8); }
static uint32_t get4(const unsigned char *p) { return get2(p) | get2(p + 2) << 16; }

enum { END = 22, CENTRAL = 46, LOCAL = 30 };

static int no_zip(void) {
    return larder__fail(LARDER_E_FORMAT, "this is no .npz file, or cut off");
}

static bool named(const char *want, const unsigned char *name, size_t n) {
    size_t m = strlen(want);
    if (!m)
        return n > 4 && memcmp(name + n - 4, ".npy", 4) == 0;
    return (n == m || (n == m + 4 && memcmp(name + m, ".npy", 4) == 0)) &&
           memcmp(name, want, m) == 0;
}

/* Where its bytes begin stands behind a head of its own. */
static int locate(larder__zip_member *m, const unsigned char *bytes, size_t size) {
    if (m->offset > size || size - m->offset < LOCAL || memcmp(bytes + m->offset, "PK\3\4", 4) != 0)
        return no_zip();
    const unsigned char *l = bytes + m->offset;
    m->offset += LOCAL + get2(l + 26) + get2(l + 28);
    if (m->offset > size || m->packed > size - m->offset || (m->stored && m->packed != m->size))
        return no_zip();
    return 0;
}

int larder__zip_find(larder__zip_member *out, const char *name, const unsigned char *bytes,
                     size_t size) {
    size_t end = size;
    /* From behind: a comment of up to 64 KiB may follow. */
    for (size_t back = END; back <= size && back <= END + UINT16_MAX && end == size; back++)
        if (memcmp(bytes + size - back, "PK\5\6", 4) == 0)
            end = size - back;
    if (end == size)
        return no_zip();
    uint32_t count = get2(bytes + end + 10);
    uint64_t at = get4(bytes + end + 16);
    for (uint32_t i = 0; i < count; i++) {
        if (at > end || end - at < CENTRAL || memcmp(bytes + at, "PK\1\2", 4) != 0)
            return no_zip();
        const unsigned char *c = bytes + at;
        uint64_t n = get2(c + 28), whole = CENTRAL + n + get2(c + 30) + get2(c + 32);
        if (whole > end - at)
            return no_zip();
        if (named(name, c + CENTRAL, (size_t)n)) {
            uint32_t method = get2(c + 10);
            if ((method != 0 && method != 8) || get2(c + 8) & 1)
                return larder__fail(LARDER_E_UNSUPPORTED,
                                    "its .npz member is packed in a way that NumPy does not");
            *out = (larder__zip_member){get4(c + 42), get4(c + 20), get4(c + 24), method == 0};
            return locate(out, bytes, size);
        }
        at += whole;
    }
    return larder__fail(LARDER_E_NOTFOUND, "its .npz has no array \"%.100s\"", name);
}

int larder__zip_unpack(const larder__zip_member *m, const unsigned char *bytes, void *out) {
    if (m->stored) {
        memcpy(out, bytes + m->offset, (size_t)m->size);
        return 0;
    }
#if LARDER_HAVE_ZLIB
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)(bytes + m->offset),
                  .avail_in = (uInt)m->packed,
                  .next_out = out,
                  .avail_out = (uInt)m->size};
    int rc = larder__zlib_open();
    if (rc < 0)
        return rc;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return larder__fail(LARDER_E_NOMEM, "out of memory");
    int done = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return done == Z_STREAM_END && z.avail_out == 0
               ? 0
               : larder__fail(LARDER_E_FORMAT, "its .npz member is damaged");
#else
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build cannot unpack an .npz member: zlib was left out");
#endif
}
