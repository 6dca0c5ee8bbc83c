#include "base/state.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

/* Makes room for n more bytes; NULL: none, or none left to write since an earlier failure. */
static unsigned char *extend(larder_writer *w, size_t n) {
    if (w->code)
        return NULL;
    if (n > w->cap - w->size) {
        size_t cap = w->cap ? w->cap * 2 : 256;
        while (cap - w->size < n)
            cap *= 2;
        unsigned char *grown = larder__realloc(w->bytes, cap);
        if (!grown) {
            w->code = LARDER_E_NOMEM;
            return NULL;
        }
        w->bytes = grown;
        w->cap = cap;
    }
    w->size += n;
    return w->bytes + w->size - n;
}

void larder_write_bytes(larder_writer *w, const void *bytes, size_t n) {
    unsigned char *at = n ? extend(w, n) : NULL;
    if (at)
        memcpy(at, bytes, n);
}

void larder__write_space(larder_writer *w, size_t n) {
    unsigned char *at = n ? extend(w, n) : NULL;
    if (at)
        memset(at, 0, n);
}

static void write_le(larder_writer *w, uint64_t v, size_t n) {
    unsigned char b[8];
    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    larder_write_bytes(w, b, n);
}

void larder_write_u32(larder_writer *w, uint32_t v) { write_le(w, v, 4); }
void larder_write_u64(larder_writer *w, uint64_t v) { write_le(w, v, 8); }

void larder_write_f64(larder_writer *w, double v) {
    uint64_t bits;
    memcpy(&bits, &v, 8);
    write_le(w, bits, 8);
}

void larder__write_text(larder_writer *w, const char *s) {
    size_t n = s ? strlen(s) : 0;
    larder_write_u32(w, (uint32_t)n);
    larder_write_bytes(w, s, n);
}

void larder__writer_free(larder_writer *w) {
    larder__free(w->bytes);
    *w = (larder_writer){0};
}

int larder_read_reject(larder_reader *r, const char *why) {
    if (!r->code)
        r->code = larder__fail(LARDER_E_FORMAT, "saved state: %s", why);
    return r->code;
}

int larder_read_status(const larder_reader *r) { return r->code; }
size_t larder__read_left(const larder_reader *r) { return r->code ? 0 : (size_t)(r->end - r->at); }

void larder_read_bytes(larder_reader *r, void *out, size_t n) {
    if (larder__read_left(r) < n) {
        larder_read_reject(r, "it ends too early");
        if (n)
            memset(out, 0, n);
        return;
    }
    if (n)
        memcpy(out, r->at, n);
    r->at += n;
}

static uint64_t read_le(larder_reader *r, size_t n) {
    unsigned char b[8] = {0};
    larder_read_bytes(r, b, n);
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)b[i] << (8 * i);
    return v;
}

uint32_t larder_read_u32(larder_reader *r) { return (uint32_t)read_le(r, 4); }
uint64_t larder_read_u64(larder_reader *r) { return read_le(r, 8); }

double larder_read_f64(larder_reader *r) {
    uint64_t bits = read_le(r, 8);
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

uint32_t larder_read_index(larder_reader *r, uint64_t limit, bool none) {
    uint32_t v = larder_read_u32(r);
    if (!r->code && v >= limit && !(none && v == UINT32_MAX))
        larder_read_reject(r, "an index is out of range");
    return r->code ? 0 : v;
}

void larder__read_text(larder_reader *r, char *out, size_t cap) {
    uint32_t n = larder_read_u32(r);
    out[0] = 0;
    if (n >= cap) {
        larder_read_reject(r, "a name is too long");
        return;
    }
    larder_read_bytes(r, out, n);
    out[r->code ? 0 : n] = 0;
}
