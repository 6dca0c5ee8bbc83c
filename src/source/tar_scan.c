#include "source/tar_scan.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/pread_full.h"

#include <stdlib.h>

enum { BLOCK = 512, MOST_EXTRA = 1 << 20 }; /* bytes of one pax header or long name */

void larder__tar_begin_fd(larder__tar *t, const char *label, int fd, uint64_t size) {
    *t = (larder__tar){.label = label, .fd = fd, .size = size};
}

void larder__tar_begin_mem(larder__tar *t, const char *label, const void *bytes, uint64_t size) {
    *t = (larder__tar){.label = label, .fd = -1, .mem = bytes, .size = size};
}

void larder__tar_begin_fetch(larder__tar *t, const char *label, larder__tar_fetch_fn fetch,
                             void *arg, uint64_t size) {
    *t = (larder__tar){.label = label, .fd = -1, .fetch = fetch, .fetch_arg = arg, .size = size};
}

static int fetch(larder__tar *t, void *out, size_t n, uint64_t at) {
    return t->fetch ? t->fetch(t->fetch_arg, out, n, at)
                    : larder__pread_full(t->fd, t->label, out, n, at);
}

static int wrong(const larder__tar *t, uint64_t at, const char *what) {
    return larder__fail(LARDER_E_FORMAT, "%s: %s at byte %llu", t->label, what,
                        (unsigned long long)at);
}

int larder__tar_bytes(larder__tar *t, uint64_t at, size_t want, const unsigned char **out) {
    if (at > t->size || want > t->size - at)
        return larder__fail(
            LARDER_E_FORMAT,
            "%s: is cut short: it ends at byte %llu, and %zu bytes should lie at %llu", t->label,
            (unsigned long long)t->size, want, (unsigned long long)at);
    if (t->mem) {
        *out = t->mem + at;
        return 0;
    }
    if (at < t->window_at || at + want > t->window_at + t->window_size) {
        uint64_t left = t->size - at;
        t->window_size = 0; /* so that nothing stale stays after a failure */
        size_t n = left < LARDER__TAR_WINDOW ? (size_t)left : LARDER__TAR_WINDOW;
        int rc = fetch(t, t->window, n, at);
        if (rc < 0)
            return rc;
        t->window_at = at;
        t->window_size = n;
    }
    *out = t->window + (at - t->window_at);
    return 0;
}

/* ---- one header ------------------------------------------------------------------------------ */

typedef struct header {
    char type;
    uint64_t size;
    char path[256 + 2];
} header;

/* Octal text, or GNU's base-256 with the top bit set. */
static bool parse_number(const unsigned char *field, size_t n, uint64_t *out) {
    uint64_t v = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        v = field[0] & 0x7f;
        for (i = 1; i < n; i++) {
            if (v >> 54)
                return false;
            v = v << 8 | field[i];
        }
        *out = v;
        return !(field[0] & 0x40); /* negative */
    }
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');
    *out = v;
    return i == n || field[i] == 0 || field[i] == ' ';
}

static bool checksum_right(const unsigned char *block) {
    uint64_t told;
    int64_t sum = 0, odd = 0; /* some old writers summed signed characters */
    for (size_t i = 0; i < BLOCK; i++) {
        unsigned char c = i >= 148 && i < 156 ? ' ' : block[i];
        sum += c;
        odd += (signed char)c;
    }
    return parse_number(block + 148, 8, &told) && ((int64_t)told == sum || (int64_t)told == odd);
}

static size_t field_length(const unsigned char *field, size_t n) {
    const unsigned char *end = memchr(field, 0, n);
    return end ? (size_t)(end - field) : n;
}

static int parse_header(const larder__tar *t, const unsigned char *block, header *h) {
    if (!checksum_right(block))
        return wrong(t, t->at, "no tar header (its checksum is wrong)");
    if (!parse_number(block + 124, 12, &h->size))
        return wrong(t, t->at, "a tar header whose size is no number");
    h->type = (char)block[156];
    size_t prefix = 0, name = field_length(block, 100);
    if (memcmp(block + 257, "ustar\0", 6) == 0) /* GNU's "ustar  " keeps other things there */
        prefix = field_length(block + 345, 155);
    memcpy(h->path, block + 345, prefix);
    if (prefix)
        h->path[prefix++] = '/';
    memcpy(h->path + prefix, block, name);
    h->path[prefix + name] = 0;
    return 0;
}

static bool all_zero(const unsigned char *block) {
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* ---- headers that speak about the next one --------------------------------------------------- */

typedef struct extra {
    bool has_size;
    uint64_t size;
    size_t path_size; /* 0: none */
    char path[LARDER__TAR_PATH];
} extra;

static int set_path(const larder__tar *t, uint64_t at, extra *x, const unsigned char *text,
                    size_t n) {
    n = field_length(text, n);
    if (n == 0 || n >= LARDER__TAR_PATH)
        return wrong(t, at, n ? "a name of 4096 characters or more" : "an empty name");
    memcpy(x->path, text, n);
    x->path[n] = 0;
    x->path_size = n;
    return 0;
}

static bool key_is(const unsigned char *key, size_t n, const char *name) {
    return strlen(name) == n && memcmp(key, name, n) == 0;
}

/* One record "LENGTH key=value\n" at text[0..]; returns its length or a negative code. */
static int64_t pax_record(const larder__tar *t, uint64_t at, extra *x, const unsigned char *text,
                          size_t left) {
    const unsigned char *space = memchr(text, ' ', left < 20 ? left : 20);
    uint64_t length;
    if (!space || !larder__parse_digits((const char *)text, (size_t)(space - text), &length) ||
        length > left || length < (size_t)(space - text) + 3 || text[length - 1] != '\n')
        return wrong(t, at, "a malformed pax header");
    const unsigned char *key = space + 1, *end = text + length - 1;
    const unsigned char *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals)
        return wrong(t, at, "a malformed pax header");
    size_t key_size = (size_t)(equals - key), value_size = (size_t)(end - equals - 1);
    if (key_is(key, key_size, "path")) {
        int rc = set_path(t, at, x, equals + 1, value_size);
        if (rc < 0)
            return rc;
    } else if (key_is(key, key_size, "size")) {
        x->has_size = larder__parse_digits((const char *)equals + 1, value_size, &x->size);
        if (!x->has_size)
            return wrong(t, at, "a pax header whose size is no number");
    } else if (key_size > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        return wrong(t, at, "a sparse file, which larder does not read,");
    }
    return (int64_t)length;
}

static int pax_parse(const larder__tar *t, uint64_t at, extra *x, const unsigned char *text,
                     size_t n) {
    for (size_t i = 0; i < n;) {
        int64_t length = pax_record(t, at, x, text + i, n - i);
        if (length < 0)
            return (int)length;
        i += (size_t)length;
    }
    return 0;
}

/* The data of a pax header or long name, whole. */
static int read_extra(larder__tar *t, const header *h, extra *x) {
    uint64_t at = t->at;
    if (h->size > MOST_EXTRA)
        return wrong(t, at, "a pax header or long name of more than 1 MiB");
    if (h->size > t->size || t->at + BLOCK > t->size - h->size)
        return wrong(t, t->size, "is cut short inside a header: it ends");
    size_t n = (size_t)h->size;
    unsigned char *text = larder__malloc(n);
    if (!text)
        return LARDER_E_NOMEM;
    int rc = 0;
    if (t->mem)
        memcpy(text, t->mem + at + BLOCK, n);
    else
        rc = fetch(t, text, n, at + BLOCK);
    if (rc == 0)
        rc = h->type == 'L' ? set_path(t, at, x, text, n) : pax_parse(t, at, x, text, n);
    larder__free(text);
    return rc;
}

/* ---- members --------------------------------------------------------------------------------- */

static uint64_t padded(uint64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

static bool has_data(char type) { return type < '1' || type > '6'; }
/* Speaks of other members itself, so what was said about the next one is not about it. */
static bool is_aside(char type) { return type == 'g' || type == 'K'; }
static bool is_file(char type) { return type == '0' || type == 0 || type == '7'; }

static int finish(const larder__tar *t, const header *h, const extra *x, larder__tar_member *out) {
    out->header = t->at;
    out->offset = t->at + BLOCK;
    out->bytes = x->has_size && !is_aside(h->type) ? x->size : h->size;
    memcpy(out->path, x->path_size ? x->path : h->path,
           x->path_size ? x->path_size + 1 : strlen(h->path) + 1);
    if (!has_data(h->type))
        out->bytes = 0;
    if (h->type == 'S')
        return wrong(t, t->at, "a sparse file, which larder does not read,");
    if (out->bytes <= t->size && out->offset <= t->size - out->bytes)
        return 0;
    return larder__fail(
        LARDER_E_FORMAT,
        "%s: is cut short: it ends at byte %llu, inside %.200s, which has %llu bytes "
        "from %llu on",
        t->label, (unsigned long long)t->size, out->path, (unsigned long long)out->bytes,
        (unsigned long long)out->offset);
}

int larder__tar_next(larder__tar *t, larder__tar_member *out) {
    extra x = {0};
    for (;;) {
        const unsigned char *block;
        header h;
        if (t->at == t->size)
            return larder__fail(
                LARDER_E_FORMAT,
                "%s: is cut short: it ends at byte %llu without an end-of-archive block", t->label,
                (unsigned long long)t->size);
        int rc = larder__tar_bytes(t, t->at, BLOCK, &block);
        if (rc < 0)
            return rc;
        if (all_zero(block))
            return 0;
        rc = parse_header(t, block, &h);
        if (rc < 0)
            return rc;
        if (h.type == 'x' || h.type == 'L') {
            rc = read_extra(t, &h, &x);
            if (rc < 0)
                return rc;
            t->at += BLOCK + padded(h.size);
            continue;
        }
        rc = finish(t, &h, &x, out);
        if (rc < 0)
            return rc;
        t->at = out->offset + padded(out->bytes);
        if (t->at > t->size) /* the last member may lack its padding; nothing can follow */
            t->at = t->size;
        if (is_file(h.type))
            return 1;
        if (!is_aside(h.type))
            x = (extra){0};
    }
}
