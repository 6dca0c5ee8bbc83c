#include "signal/graph_store.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"

#include <assert.h>

#define ABSENT UINT32_MAX

int larder__graph_store_open(larder__graph_store *s, uint64_t n, uint32_t dims, bool halves,
                             bool sums) {
    uint32_t groups = halves ? (dims + 7) / 8 : (dims + 3) / 4;
    *s = (larder__graph_store){.n = n,
                               .groups = groups,
                               .dims = groups * (halves ? 8 : 4),
                               .halves = halves,
                               .wants_sums = sums};
    s->stride = (size_t)s->groups * 4 * LARDER__CHUNK_ROWS + LARDER__CHUNK_ROWS * 8;
    s->place = larder__malloc(n * sizeof *s->place);
    if (!s->place)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an index of %llu samples",
                            (unsigned long long)n);
    memset(s->place, 0xff, n * sizeof *s->place);
    return 0;
}

void larder__graph_store_close(larder__graph_store *s) {
    for (uint32_t i = 0; s->slabs && i < s->chunk_room / LARDER__SLAB_CHUNKS; i++)
        larder__free(s->slabs[i]);
    larder__free(s->slabs);
    larder__free(s->chunks);
    larder__free(s->classes);
    larder__free(s->sums);
    larder__free(s->place);
    *s = (larder__graph_store){0};
}

size_t larder__graph_store_bytes(const larder__graph_store *s) {
    size_t sums = s->sums ? (size_t)s->class_count * s->dims * 4 : 0;
    return s->n * sizeof *s->place + s->chunk_room * (s->stride + sizeof *s->chunks) +
           s->class_count * sizeof *s->classes + sums;
}

static bool grow(void **array, size_t count, size_t size) {
    void *grown = larder__realloc(*array, count * size);
    if (grown)
        *array = grown;
    return grown != NULL;
}

int larder__graph_store_classes(larder__graph_store *s, uint32_t count) {
    if (count <= s->class_count)
        return 0;
    size_t dims = s->dims;
    if (!grow((void **)&s->classes, count, sizeof *s->classes) ||
        (s->wants_sums && !grow((void **)&s->sums, count * dims, sizeof *s->sums)))
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u classes", count);
    for (uint32_t c = s->class_count; c < count; c++)
        s->classes[c] = (larder__graph_class){LARDER__NO_CHUNK, LARDER__NO_CHUNK, 0};
    if (s->sums)
        memset(s->sums + s->class_count * dims, 0, (count - s->class_count) * dims * 4);
    s->class_count = count;
    return 0;
}

static int add_slab(larder__graph_store *s) {
    uint32_t slabs = s->chunk_room / LARDER__SLAB_CHUNKS, room = s->chunk_room;
    unsigned char *slab = NULL;
    if (grow((void **)&s->slabs, slabs + 1, sizeof *s->slabs) &&
        grow((void **)&s->chunks, room + LARDER__SLAB_CHUNKS, sizeof *s->chunks))
        slab = larder__memalign(64, LARDER__SLAB_CHUNKS * s->stride);
    if (!slab)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for more than %u rows", s->rows);
    s->slabs[slabs] = slab;
    s->chunk_room += LARDER__SLAB_CHUNKS;
    return 0;
}

/* A fresh chunk at the end of a class. */
static int add_chunk(larder__graph_store *s, uint32_t class) {
    if (s->chunk_count == s->chunk_room) {
        int rc = add_slab(s);
        if (rc < 0)
            return rc;
    }
    uint32_t chunk = s->chunk_count++;
    memset(larder__chunk_codes(s, chunk), 0, s->stride);
    for (int i = 0; i < LARDER__CHUNK_ROWS; i++)
        larder__chunk_consts(s, chunk)[i] = LARDER__ROW_ABSENT;
    s->chunks[chunk] = (larder__graph_chunk){LARDER__NO_CHUNK, class};
    larder__graph_class *c = &s->classes[class];
    if (c->last != LARDER__NO_CHUNK)
        s->chunks[c->last].next = chunk;
    else
        c->first = chunk;
    c->last = chunk;
    return 0;
}

void larder__chunk_get(const larder__graph_store *s, uint32_t chunk, uint32_t lane,
                       uint8_t *codes) {
    const uint8_t *from = larder__chunk_codes(s, chunk) + (size_t)lane * 4;
    for (uint32_t g = 0; g < s->groups; g++)
        memcpy(codes + (size_t)g * 4, from + (size_t)g * 4 * LARDER__CHUNK_ROWS, 4);
    for (uint32_t i = 0; s->halves && i < s->groups * 4; i++) {
        codes[s->groups * 4 + i] = codes[i] >> 4;
        codes[i] &= 15;
    }
}

void larder__chunk_set(larder__graph_store *s, uint32_t chunk, uint32_t lane, const uint8_t *codes,
                       int32_t row_const) {
    uint8_t *to = larder__chunk_codes(s, chunk) + (size_t)lane * 4;
    const uint8_t *upper = codes + (size_t)s->groups * 4;
    for (uint32_t g = 0; g < s->groups; g++, to += 4 * LARDER__CHUNK_ROWS)
        for (uint32_t k = 0; k < 4; k++)
            to[k] = (uint8_t)(codes[g * 4 + k] | (s->halves ? upper[g * 4 + k] << 4 : 0));
    larder__chunk_consts(s, chunk)[lane] = row_const;
}

/* Adds a row to the sum of its class, or takes it out; wraps round as unsigned numbers do, so what
 * went in comes out. */
static void sum_row(larder__graph_store *s, uint32_t chunk, uint32_t lane, bool out) {
    if (!s->sums)
        return;
    uint32_t *sum = s->sums + (size_t)s->chunks[chunk].class * s->dims;
    uint8_t codes[LARDER__DIM_MAX];
    memset(codes, 0, s->dims); /* all of them are set; an analyser does not see it */
    larder__chunk_get(s, chunk, lane, codes);
    for (uint32_t k = 0; k < s->dims; k++)
        sum[k] += out ? -(uint32_t)codes[k] : codes[k];
}

static int append(larder__graph_store *s, uint32_t id, uint32_t class) {
    larder__graph_class *c = &s->classes[class];
    uint32_t lane = c->rows % LARDER__CHUNK_ROWS;
    if (lane == 0) {
        int rc = add_chunk(s, class);
        if (rc < 0)
            return rc;
    }
    s->place[id] = c->last * LARDER__CHUNK_ROWS + lane;
    larder__chunk_ids(s, c->last)[lane] = id;
    c->rows++;
    s->rows++;
    return 0;
}

int larder__graph_store_put(larder__graph_store *s, uint32_t id, uint32_t class,
                            const uint8_t *codes, int32_t row_const) {
    assert(id < s->n && class < s->class_count);
    bool fresh = s->place[id] == ABSENT;
    int rc = fresh ? append(s, id, class) : 0;
    if (rc < 0)
        return rc;
    uint32_t chunk = s->place[id] / LARDER__CHUNK_ROWS, lane = s->place[id] % LARDER__CHUNK_ROWS;
    if (!fresh)
        sum_row(s, chunk, lane, true);
    larder__chunk_set(s, chunk, lane, codes, row_const);
    sum_row(s, chunk, lane, false);
    return 0;
}

void larder__graph_store_rewrite(larder__graph_store *s, larder__graph_map_fn map,
                                 const void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    for (uint32_t chunk = 0; chunk < s->chunk_count; chunk++)
        for (uint32_t lane = 0; lane < larder__chunk_used(s, chunk); lane++) {
            int32_t row_const = larder__chunk_consts(s, chunk)[lane];
            sum_row(s, chunk, lane, true);
            larder__chunk_get(s, chunk, lane, codes);
            map(arg, codes, &row_const);
            larder__chunk_set(s, chunk, lane, codes, row_const);
            sum_row(s, chunk, lane, false);
        }
}

/* ---- saved state: bit for bit, chunk by chunk ------------------------------------------------ */

void larder__graph_store_save(const larder__graph_store *s, larder_writer *w) {
    larder_write_u32(w, s->dims);
    larder_write_u32(w, s->class_count);
    larder_write_u32(w, s->chunk_count);
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        larder_write_u32(w, s->chunks[i].class);
        larder_write_u32(w, larder__chunk_used(s, i));
        larder_write_bytes(w, larder__chunk_codes(s, i), s->stride);
    }
}

/* The rows of one chunk, checked: each sample once, constants in bounds, empty places absent. */
static int load_rows(larder__graph_store *s, uint32_t chunk, uint32_t used, larder_reader *r) {
    int32_t *consts = larder__chunk_consts(s, chunk);
    const uint32_t *ids = larder__chunk_ids(s, chunk);
    for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) {
        if (i >= used) {
            consts[i] = LARDER__ROW_ABSENT;
            continue;
        }
        if (ids[i] >= s->n || s->place[ids[i]] != ABSENT)
            return larder_read_reject(r, "a sample of its index is out of range or there twice");
        if (consts[i] >= LARDER__BOUND_LIMIT || consts[i] <= -LARDER__BOUND_LIMIT)
            return larder_read_reject(r, "a row of its index has an impossible length");
        s->place[ids[i]] = chunk * LARDER__CHUNK_ROWS + i;
        sum_row(s, chunk, i, false);
    }
    s->classes[s->chunks[chunk].class].rows += used;
    s->rows += used;
    return 0;
}

int larder__graph_store_load(larder__graph_store *s, larder_reader *r) {
    uint32_t dims = larder_read_u32(r), classes = larder_read_u32(r), n = larder_read_u32(r);
    if (dims != s->dims || classes > LARDER__CLASSES_MAX || n > larder__read_left(r) / s->stride)
        return larder_read_reject(r, "its index is of another shape");
    int rc = larder__graph_store_classes(s, classes);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint32_t class = larder_read_index(r, classes, false), used = larder_read_u32(r);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (used == 0 || used > LARDER__CHUNK_ROWS ||
            s->classes[class].rows % LARDER__CHUNK_ROWS != 0)
            return larder_read_reject(r, "a chunk of its index is filled wrongly");
        rc = add_chunk(s, class);
        if (rc == 0) {
            larder_read_bytes(r, larder__chunk_codes(s, i), s->stride);
            rc = load_rows(s, i, used, r);
        }
    }
    return rc < 0 ? rc : larder_read_status(r);
}
