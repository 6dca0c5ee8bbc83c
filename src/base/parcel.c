#include "base/parcel.h"

#include "base/err.h"
#include "base/versions.h"

enum { START = 16, ENTRY = 24, ALIGN = 16 };
static const char magic[4] = "LRDP";

static uint64_t get(const unsigned char *at, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

static void put(unsigned char *at, uint64_t v, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static bool is_array(unsigned kind) {
    return kind == LARDER__FIELD_ARRAY || kind == LARDER__FIELD_TENSOR;
}

static size_t entry_bytes(uint32_t ndim, size_t name) { return up(ENTRY + ndim * 8 + name, 8); }

/* ---- reading --------------------------------------------------------------------------------- */

bool larder__parcel_is(const void *bytes, size_t size) {
    return size >= START && memcmp(bytes, magic, sizeof magic) == 0;
}

/* A field whose entry is in the head; returns what is wrong with it, or NULL. */
static const char *check_field(const unsigned char *e, const larder__parcel *p, size_t head,
                               size_t left) {
    unsigned kind = e[0], dtype = e[1], ndim = e[2];
    if (kind >= LARDER__FIELD_KINDS)
        return "is of no known kind";
    if (get(e + 4, 4) != 0 || ndim > LARDER_NDIM || (ndim && !is_array(kind)))
        return "has a head that cannot be";
    if (entry_bytes(ndim, e[3]) > left)
        return "does not end within the head";
    uint64_t offset = get(e + 8, 8), bytes = get(e + 16, 8), shape[LARDER_NDIM];
    if (offset % ALIGN != 0 || offset < head || offset > p->size || bytes > p->size - offset)
        return "does not lie within the parcel";
    if (memchr(e + ENTRY + ndim * 8, 0, e[3]))
        return "has a name with a zero byte";
    if (!is_array(kind))
        return kind == LARDER__FIELD_BOOL && (bytes != 1 || p->bytes[offset] > 1)
                   ? "is no truth value"
                   : NULL;
    size_t width = larder__dtype_bytes(dtype);
    for (unsigned d = 0; d < ndim; d++)
        shape[d] = get(e + ENTRY + d * 8, 8);
    uint64_t count = larder__shape_count(shape, ndim);
    if (!width)
        return "is an array of no known type";
    return count > UINT32_MAX || count * width != bytes ? "has more or less bytes than its shape"
                                                        : NULL;
}

int larder__parcel_open(larder__parcel *p, const void *bytes, size_t size) {
    *p = (larder__parcel){bytes, size, 0};
    if (!larder__parcel_is(bytes, size))
        return larder__fail(LARDER_E_FORMAT, "%zu bytes that are no parcel of fields", size);
    int rc = larder__version_check(LARDER__FORMAT_PARCEL, "a parcel of fields", p->bytes[4]);
    if (rc < 0)
        return rc;
    uint64_t count = get(p->bytes + 6, 2), head = get(p->bytes + 8, 4);
    if (p->bytes[5] || get(p->bytes + 12, 4) || head % ALIGN || head < START || head > size ||
        count > LARDER__PARCEL_FIELDS)
        return larder__fail(LARDER_E_FORMAT, "the head of a parcel cannot be read");
    size_t at = START;
    for (uint32_t i = 0; i < count; i++) {
        const char *why = "does not end within the head";
        if (head - at >= ENTRY)
            why = check_field(p->bytes + at, p, (size_t)head, (size_t)head - at);
        if (why)
            return larder__fail(LARDER_E_FORMAT, "field %u of a parcel %s", i, why);
        at += entry_bytes(p->bytes[at + 2], p->bytes[at + 3]);
    }
    p->count = (uint32_t)count;
    return 0;
}

bool larder__parcel_next(const larder__parcel *p, size_t *at, larder__field *out) {
    /* The upper half counts fields, so that an entry is never looked for past the last one. */
    uint32_t i = (uint32_t)(*at >> 32), from = (uint32_t)*at;
    if (i >= p->count)
        return false;
    const unsigned char *e = p->bytes + (from ? from : START);
    *out = (larder__field){.kind = (larder__field_kind)e[0],
                           .dtype = is_array(e[0]) ? (larder_dtype)e[1] : LARDER_U8,
                           .ndim = e[2],
                           .name = (const char *)e + ENTRY + e[2] * 8,
                           .name_bytes = e[3],
                           .data = p->bytes + get(e + 8, 8),
                           .bytes = (size_t)get(e + 16, 8)};
    for (unsigned d = 0; d < e[2]; d++)
        out->shape[d] = get(e + ENTRY + d * 8, 8);
    size_t next = (size_t)(e - p->bytes) + entry_bytes(e[2], e[3]);
    *at = (size_t)(i + 1) << 32 | next;
    return true;
}

bool larder__parcel_find(const larder__parcel *p, const char *name, larder__field *out) {
    size_t n = strlen(name);
    for (size_t at = 0; larder__parcel_next(p, &at, out);)
        if (out->name_bytes == n && memcmp(out->name, name, n) == 0)
            return true;
    return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t head_bytes(const larder__field *f, size_t n) {
    size_t head = START;
    for (size_t i = 0; i < n; i++)
        head += entry_bytes(f[i].ndim, f[i].name_bytes);
    return up(head, ALIGN);
}

static uint64_t refuse(const char *why) {
    larder__fail(LARDER_E_FORMAT, "these fields make no parcel: %s", why);
    return 0;
}

uint64_t larder__parcel_bytes(const larder__field *f, size_t n) {
    if (n > LARDER__PARCEL_FIELDS)
        return refuse("there are too many");
    for (size_t i = 0; i < n; i++) {
        uint64_t count = larder__shape_count(f[i].shape, f[i].ndim);
        if (f[i].ndim > LARDER_NDIM || f[i].name_bytes > LARDER__PARCEL_NAME ||
            memchr(f[i].name ? f[i].name : "", 0, f[i].name_bytes))
            return refuse("a name or a shape is too long");
        if (is_array(f[i].kind) &&
            (count > UINT32_MAX || f[i].bytes != count * larder__dtype_bytes(f[i].dtype)))
            return refuse("an array has more or less bytes than its shape");
    }
    uint64_t all = head_bytes(f, n);
    for (size_t i = 0; i < n; i++) {
        if (f[i].bytes >= UINT32_MAX ||
            (all = (all + ALIGN - 1) / ALIGN * ALIGN + f[i].bytes) >= UINT32_MAX)
            return refuse("4 GiB or more is no sample");
    }
    return all;
}

static size_t lay_entry(unsigned char *e, const larder__field *f, size_t offset) {
    size_t bytes = entry_bytes(f->ndim, f->name_bytes);
    memset(e, 0, bytes);
    e[0] = (unsigned char)f->kind;
    e[1] = (unsigned char)(is_array(f->kind) ? f->dtype : LARDER_U8);
    e[2] = (unsigned char)f->ndim;
    e[3] = (unsigned char)f->name_bytes;
    put(e + 8, offset, 8);
    put(e + 16, f->bytes, 8);
    for (uint32_t d = 0; d < f->ndim; d++)
        put(e + ENTRY + d * 8, f->shape[d], 8);
    if (f->name_bytes)
        memcpy(e + ENTRY + f->ndim * 8, f->name, f->name_bytes);
    return bytes;
}

void larder__parcel_lay(unsigned char *out, larder__field *f, size_t n) {
    size_t head = head_bytes(f, n), at = START, to = head;
    memset(out, 0, START);
    memcpy(out, magic, sizeof magic);
    out[4] = 1;
    put(out + 6, n, 2);
    put(out + 8, head, 4);
    for (size_t i = 0; i < n; i++) {
        size_t offset = up(to, ALIGN);
        memset(out + to, 0, offset - to);
        at += lay_entry(out + at, &f[i], offset);
        if (f[i].data && f[i].bytes)
            memcpy(out + offset, f[i].data, f[i].bytes);
        f[i].data = out + offset;
        to = offset + f[i].bytes;
    }
    memset(out + at, 0, head - at);
}

int larder__parcel_make(larder_buf **out, larder__field *f, size_t n) {
    uint64_t bytes = larder__parcel_bytes(f, n);
    *out = NULL;
    if (!bytes)
        return LARDER_E_FORMAT;
    if (!(*out = larder_buf_new((size_t)bytes)))
        return LARDER_E_NOMEM;
    larder__parcel_lay(larder_buf_data(*out), f, n);
    return 0;
}
