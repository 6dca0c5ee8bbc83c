#include "source/pack_index.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/versions.h"
#include "source/pread_full.h"

#include <stdio.h>

static const char magic[8] = {'L', 'A', 'R', 'D', 'E', 'R', 'I', 'X'};
enum { BLOCK = 1 << 16, CLASSES_MAX = 1 << 20 };
static const uint64_t summed_from = 0x6c61726465727061u;

const char *larder__pack_kind(uint8_t kind) {
    switch (kind) {
#define XX(name, number, text)                                                                     \
    case number:                                                                                   \
        return text;
        LARDER__PACK_KINDS(XX)
#undef XX
    default:
        return NULL;
    }
}

/* In blocks, so that a reader never needs all of a section at once. */
static uint64_t sum_on(uint64_t h, const unsigned char *bytes, size_t size) {
    for (size_t at = 0; at < size; at += BLOCK)
        h = larder__hash_bytes(h, bytes + at, size - at < BLOCK ? size - at : BLOCK);
    return h;
}

uint64_t larder__pack_sum(const void *bytes, size_t size) {
    return sum_on(summed_from, bytes, size);
}

/* ---- writing --------------------------------------------------------------------------------- */

int larder__pack_index_add(larder__pack_index *x, larder__pack_entry *e, uint64_t sum,
                           const uint16_t *lengths, const char *name) {
    uint32_t n = e->data_at ? larder__grid_segments(&e->grid) : 0;
    if (x->lengths_count + n > UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "more than 4 billion segments in one shard");
    int rc = larder__grow(&x->entries, &x->cap, x->count + 1, sizeof *x->entries);
    if (rc == 0)
        rc = larder__grow(&x->sums, &x->sums_cap, x->count + 1, sizeof *x->sums);
    if (rc == 0)
        rc = larder__grow(&x->lengths, &x->lengths_cap, x->lengths_count + n, sizeof *x->lengths);
    if (rc == 0)
        rc = larder__names_add(&x->names, name, strlen(name));
    if (rc < 0)
        return rc;
    e->table = n ? (uint32_t)x->lengths_count : 0;
    if (n)
        memcpy(x->lengths + x->lengths_count, lengths, n * sizeof *lengths);
    x->lengths_count += n;
    x->sums[x->count] = sum;
    x->entries[x->count++] = *e;
    return 0;
}

static void write_u16(larder_writer *w, uint16_t v) {
    unsigned char two[2] = {(unsigned char)(v & 255), (unsigned char)(v >> 8)};
    larder_write_bytes(w, two, 2);
}

static void write_entry(larder_writer *w, const larder__pack_entry *e) {
    const larder__grid *g = &e->grid;
    unsigned char last[6] = {(unsigned char)(g->mcu_w / 8 | g->mcu_h / 8 << 4), e->kind, e->jfif};
    larder_write_u64(w, e->offset);
    larder_write_u32(w, e->bytes);
    larder_write_u32(w, (uint32_t)e->label);
    larder_write_u32(w, e->table);
    larder_write_u32(w, e->head_at);
    larder_write_u32(w, e->data_at);
    write_u16(w, g->w);
    write_u16(w, g->h);
    write_u16(w, g->step);
    larder_write_bytes(w, last, sizeof last);
}

/* Ends of all texts, then the texts. */
static void write_texts(larder_writer *w, const larder__names *names) {
    uint32_t end = 0;
    for (uint64_t i = 0; i < names->count; i++) {
        end += (uint32_t)strlen(larder__names_get(names, i));
        larder_write_u32(w, end);
    }
    for (uint64_t i = 0; i < names->count; i++) {
        const char *text = larder__names_get(names, i);
        larder_write_bytes(w, text, strlen(text));
    }
}

static void write_section(const larder__pack_index *x, int which, larder_writer *w) {
    switch (which) {
    case LARDER__PACK_ENTRIES:
        for (size_t i = 0; i < x->count; i++)
            write_entry(w, &x->entries[i]);
        break;
    case LARDER__PACK_SUMS:
        for (size_t i = 0; i < x->count; i++)
            larder_write_u64(w, x->sums[i]);
        break;
    case LARDER__PACK_LENGTHS:
        for (size_t i = 0; i < x->lengths_count; i++)
            write_u16(w, x->lengths[i]);
        break;
    case LARDER__PACK_NAMES:
        write_texts(w, &x->names);
        break;
    default:
        write_texts(w, &x->classes);
    }
}

static void write_head(const larder__pack_index *x, const uint64_t *at, const uint64_t *sums,
                       larder_writer *w) {
    size_t begun = w->size;
    larder_write_bytes(w, magic, sizeof magic);
    larder_write_u32(w, LARDER__PACK_VERSION);
    larder_write_u32(w, (uint32_t)x->classes.count);
    larder_write_u64(w, x->plan);
    larder_write_u64(w, x->first);
    larder_write_u64(w, x->count);
    larder_write_u64(w, x->lengths_count);
    larder_write_u64(w, x->shard_bytes);
    for (int i = 0; i <= LARDER__PACK_SECTIONS; i++)
        larder_write_u64(w, at[i]);
    for (int i = 0; i < LARDER__PACK_SECTIONS; i++)
        larder_write_u64(w, sums[i]);
    while (w->code == 0 && w->size < begun + LARDER__PACK_HEAD - 8)
        larder_write_u32(w, 0);
    if (w->code == 0)
        larder_write_u64(w, larder__pack_sum(w->bytes + begun, LARDER__PACK_HEAD - 8));
}

int larder__pack_index_write(const larder__pack_index *x, larder_writer *w) {
    larder_writer body = {0};
    uint64_t at[LARDER__PACK_SECTIONS + 1], sums[LARDER__PACK_SECTIONS];
    for (int i = 0; i < LARDER__PACK_SECTIONS; i++) {
        size_t begun = body.size;
        at[i] = LARDER__PACK_HEAD + begun;
        write_section(x, i, &body);
        sums[i] = body.code == 0 && body.size
                      ? larder__pack_sum(body.bytes + begun, body.size - begun)
                      : summed_from;
    }
    at[LARDER__PACK_SECTIONS] = LARDER__PACK_HEAD + body.size;
    write_head(x, at, sums, w);
    if (body.size)
        larder_write_bytes(w, body.bytes, body.size);
    int rc = body.code < 0 ? body.code : w->code;
    larder__writer_free(&body);
    return rc;
}

void larder__pack_index_free(larder__pack_index *x) {
    larder__free(x->entries);
    larder__free(x->sums);
    larder__free(x->lengths);
    larder__names_free(&x->names);
    larder__names_free(&x->classes);
    *x = (larder__pack_index){0};
}

/* ---- the head -------------------------------------------------------------------------------- */

int larder__pack_path(char *out, size_t cap, const char *shard) {
    size_t n = strlen(shard);
    n = n > 4 && strcmp(shard + n - 4, ".tar") == 0 ? n - 4 : n;
    int wrote = snprintf(out, cap, "%.*s" LARDER__PACK_SUFFIX, (int)n, shard);
    return wrote > 0 && (size_t)wrote < cap
               ? 0
               : larder__fail(LARDER_E_ARGS, "the path is too long: %.200s", shard);
}

static int wrong(const larder__pack_file *f, const char *what) {
    return larder__fail(LARDER_E_FORMAT, "%s: %s", f->label, what);
}

/* Sections lie one after the other, and those whose size follows from a count have it. */
static bool sections_fit(const larder__pack_file *f, uint64_t size) {
    const uint64_t *at = f->at;
    for (int i = 0; i < LARDER__PACK_SECTIONS; i++)
        if (at[i + 1] < at[i])
            return false;
    if (at[0] != LARDER__PACK_HEAD || at[LARDER__PACK_SECTIONS] != size)
        return false;
    uint64_t room = size / 4; /* of at least 4 bytes each; keeps the products below from wrapping */
    return f->count <= room && f->lengths <= size && f->classes <= room &&
           f->classes <= CLASSES_MAX && at[1] - at[0] == f->count * LARDER__PACK_ENTRY &&
           at[2] - at[1] == f->count * 8 && at[3] - at[2] == f->lengths * 2 &&
           at[4] - at[3] >= f->count * 4 && at[5] - at[4] >= (uint64_t)f->classes * 4;
}

static int parse_head(larder__pack_file *f, const unsigned char *bytes, uint64_t size) {
    larder_reader r = {bytes, bytes + LARDER__PACK_HEAD, 0};
    larder_reader last = {bytes + LARDER__PACK_HEAD - 8, bytes + LARDER__PACK_HEAD, 0};
    char start[sizeof magic];
    larder_read_bytes(&r, start, sizeof start);
    if (memcmp(start, magic, sizeof magic) != 0)
        return wrong(f, "this is no index of a packed shard");
    uint32_t version = larder_read_u32(&r);
    int rc = larder__version_check(LARDER__FORMAT_PACK, f->label, version);
    if (rc < 0)
        return rc;
    f->classes = larder_read_u32(&r);
    f->plan = larder_read_u64(&r);
    f->first = larder_read_u64(&r);
    f->count = larder_read_u64(&r);
    f->lengths = larder_read_u64(&r);
    f->shard_bytes = larder_read_u64(&r);
    for (int i = 0; i <= LARDER__PACK_SECTIONS; i++)
        f->at[i] = larder_read_u64(&r);
    for (int i = 0; i < LARDER__PACK_SECTIONS; i++)
        f->sum[i] = larder_read_u64(&r);
    f->own_sum = larder_read_u64(&last);
    if (f->own_sum != larder__pack_sum(bytes, LARDER__PACK_HEAD - 8))
        return wrong(f, "the index is damaged: its head has another checksum");
    return sections_fit(f, size) ? 0 : wrong(f, "the index contradicts itself");
}

int larder__pack_file_begin(larder__pack_file *f, const char *label, int fd) {
    unsigned char bytes[LARDER__PACK_HEAD];
    struct stat st;
    *f = (larder__pack_file){.label = label};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return wrong(f, "is not a regular file");
    if ((uint64_t)st.st_size < sizeof bytes)
        return wrong(f, "is cut short: it has no whole head");
    int rc = larder__pread_full(fd, label, bytes, sizeof bytes, 0);
    return rc < 0 ? rc : parse_head(f, bytes, (uint64_t)st.st_size);
}

/* ---- sections -------------------------------------------------------------------------------- */

typedef int (*take_fn)(void *arg, const unsigned char *bytes, size_t size);

/* A section block by block to `take` (may be NULL), then its checksum is compared. Blocks hold
 * whole entries: `each` divides what is handed over. */
static int read_section(const larder__pack_file *f, int fd, int which, size_t each, take_fn take,
                        void *arg) {
    static const char *const names[] = {"entries", "checksums", "lengths", "names", "classes"};
    uint64_t at = f->at[which], end = f->at[which + 1], sum = summed_from;
    size_t kept = 0; /* the beginning of an entry whose end lies in the next block */
    int rc = 0;
    unsigned char *block = larder__malloc(BLOCK + each);
    if (!block)
        return LARDER_E_NOMEM;
    while (rc == 0 && at < end) {
        size_t n = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
        rc = larder__pread_full(fd, f->label, block + kept, n, at);
        if (rc < 0)
            break;
        sum = larder__hash_bytes(sum, block + kept, n);
        at += n;
        size_t whole = (kept + n) / each * each;
        rc = take ? take(arg, block, whole) : 0;
        kept = kept + n - whole;
        memmove(block, block + whole, kept);
    }
    larder__free(block);
    if (rc == 0 && sum != f->sum[which])
        rc = larder__fail(LARDER_E_FORMAT, "%s: the index is damaged: its %s have another checksum",
                          f->label, names[which]);
    return rc;
}

typedef struct reading {
    const larder__pack_file *f;
    larder__pack_entry *to;
    uint64_t *sums;
    uint64_t done;
} reading;

static bool entry_fits(const larder__pack_file *f, const larder__pack_entry *e) {
    if (e->offset > f->shard_bytes || e->bytes > f->shard_bytes - e->offset || e->label < -1 ||
        !larder__pack_kind(e->kind) || e->jfif > 1)
        return false;
    if (e->data_at == 0)
        return e->head_at == 0;
    if (e->head_at >= e->data_at || e->data_at >= e->bytes || !larder__grid_valid(&e->grid))
        return false;
    return e->table <= f->lengths && larder__grid_segments(&e->grid) <= f->lengths - e->table;
}

static void parse_entry(larder__pack_entry *e, const unsigned char *bytes) {
    larder_reader r = {bytes, bytes + LARDER__PACK_ENTRY, 0};
    unsigned char last[12];
    *e = (larder__pack_entry){.offset = larder_read_u64(&r)};
    e->bytes = larder_read_u32(&r);
    e->label = (int32_t)larder_read_u32(&r);
    e->table = larder_read_u32(&r);
    e->head_at = larder_read_u32(&r);
    e->data_at = larder_read_u32(&r);
    larder_read_bytes(&r, last, sizeof last);
    e->grid = (larder__grid){.w = (uint16_t)(last[0] | last[1] << 8),
                             .h = (uint16_t)(last[2] | last[3] << 8),
                             .step = (uint16_t)(last[4] | last[5] << 8),
                             .mcu_w = (uint8_t)((last[6] & 15) * 8),
                             .mcu_h = (uint8_t)((last[6] >> 4) * 8)};
    e->kind = last[7];
    e->jfif = last[8];
}

static int take_entries(void *arg, const unsigned char *bytes, size_t size) {
    reading *r = arg;
    for (size_t at = 0; at < size; at += LARDER__PACK_ENTRY) {
        larder__pack_entry *e = &r->to[r->done];
        parse_entry(e, bytes + at);
        if (!entry_fits(r->f, e))
            return larder__fail(LARDER_E_FORMAT, "%s: what it says of sample %llu cannot be",
                                r->f->label, (unsigned long long)(r->f->first + r->done));
        r->done++;
    }
    return 0;
}

int larder__pack_file_entries(const larder__pack_file *f, int fd, larder__pack_entry *out) {
    reading r = {.f = f, .to = out};
    return read_section(f, fd, LARDER__PACK_ENTRIES, LARDER__PACK_ENTRY, take_entries, &r);
}

static int take_sums(void *arg, const unsigned char *bytes, size_t size) {
    reading *r = arg;
    larder_reader in = {bytes, bytes + size, 0};
    for (size_t at = 0; at < size; at += 8)
        r->sums[r->done++] = larder_read_u64(&in);
    return 0;
}

int larder__pack_file_sums(const larder__pack_file *f, int fd, uint64_t *out) {
    reading r = {.f = f, .sums = out};
    return read_section(f, fd, LARDER__PACK_SUMS, 8, take_sums, &r);
}

int larder__pack_file_check(const larder__pack_file *f, int fd) {
    int rc = 0;
    for (int i = 0; rc == 0 && i < LARDER__PACK_SECTIONS; i++)
        rc = read_section(f, fd, i, 1, NULL, NULL);
    return rc;
}

/* ---- one sample ------------------------------------------------------------------------------ */

int larder__pack_file_lengths(const larder__pack_file *f, int fd, const larder__pack_entry *e,
                              uint16_t *out) {
    uint32_t n = larder__grid_segments(&e->grid);
    uint64_t sum = 0;
    int rc = larder__pread_full(fd, f->label, out, (size_t)n * 2,
                                f->at[LARDER__PACK_LENGTHS] + (uint64_t)e->table * 2);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        const unsigned char *two = (const unsigned char *)&out[i];
        out[i] = (uint16_t)(two[0] | two[1] << 8);
        sum += out[i];
        if (out[i] < 2) /* there is at least the marker that ends it */
            rc = wrong(f, "a segment has less than two bytes");
    }
    if (rc == 0 && sum != e->bytes - e->data_at)
        rc = wrong(f, "the segments of a sample do not make up its bytes");
    return rc;
}

/* Text i of a section that begins with the ends of all `count` texts. */
static int read_text(const larder__pack_file *f, int fd, int which, uint64_t count, uint64_t i,
                     char *out, size_t cap) {
    unsigned char ends[8] = {0};
    uint64_t at = f->at[which], texts = at + count * 4;
    int rc =
        larder__pread_full(fd, f->label, i ? ends : ends + 4, i ? 8 : 4, at + (i ? i - 1 : 0) * 4);
    if (rc < 0)
        return rc;
    larder_reader r = {ends, ends + 8, 0};
    uint32_t from = larder_read_u32(&r), to = larder_read_u32(&r);
    if (to < from || to > f->at[which + 1] - texts || to - from >= LARDER__PACK_NAME)
        return wrong(f, "a name lies outside its section");
    size_t n = to - from < cap ? to - from : cap - 1;
    rc = larder__pread_full(fd, f->label, out, n, texts + from);
    out[rc == 0 ? n : 0] = 0;
    return rc == 0 && strlen(out) != n ? wrong(f, "a name has a zero byte in it") : rc;
}

int larder__pack_file_name(const larder__pack_file *f, int fd, uint64_t i, char *out, size_t cap) {
    return read_text(f, fd, LARDER__PACK_NAMES, f->count, i, out, cap);
}

int larder__pack_file_classes(const larder__pack_file *f, int fd, larder__names *out) {
    char text[LARDER__PACK_NAME];
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < f->classes; i++) {
        rc = read_text(f, fd, LARDER__PACK_CLASSES, f->classes, i, text, sizeof text);
        if (rc == 0)
            rc = larder__names_add(out, text, strlen(text));
    }
    return rc;
}
