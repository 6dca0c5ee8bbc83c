#include "signal/graph_store.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"

#include <assert.h>

enum { HEAD_LEAST = 16 }; /* groups from which on a head is worth looking at first */

int larder__graph_store_open(larder__graph_store *s, uint64_t n, uint32_t dims, uint32_t head,
                             bool hides) {
    uint32_t groups = (dims + 3) / 4;
    *s = (larder__graph_store){.n = n,
                               .groups = groups,
                               .dims = groups * 4,
                               .head = groups < HEAD_LEAST ? 0 : groups * head / 8,
                               .hides = hides,
                               .spare = LARDER__NO_CHUNK};
    const size_t column = LARDER__CHUNK_ROWS * sizeof(int32_t);
    s->kept = (size_t)s->groups * 4 * LARDER__CHUNK_ROWS + 2 * column;
    s->stride = s->kept + (hides ? 2 : 1) * column;
    s->place = larder__malloc(n * sizeof *s->place);
    if (!s->place)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an index of %llu samples",
                            (unsigned long long)n);
    memset(s->place, 0xff, n * sizeof *s->place);
    return 0;
}

void larder__graph_store_close(larder__graph_store *s) {
    for (uint32_t i = 0; i < s->chunk_count; i++)
        larder__free(s->memory[i]);
    larder__free(s->memory);
    larder__free(s->chunks);
    larder__free(s->classes);
    larder__free(s->place);
    *s = (larder__graph_store){0};
}

size_t larder__graph_store_bytes(const larder__graph_store *s) {
    return s->n * sizeof *s->place + s->held * s->stride +
           s->chunk_room * (sizeof *s->chunks + sizeof *s->memory) +
           s->class_count * sizeof *s->classes;
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
    if (!grow((void **)&s->classes, count, sizeof *s->classes))
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u classes", count);
    for (uint32_t c = s->class_count; c < count; c++)
        s->classes[c] = (larder__graph_class){LARDER__NO_CHUNK, LARDER__NO_CHUNK, 0};
    s->class_count = count;
    return 0;
}

/* A chunk with memory: a dropped one again, or a new one. */
static int take_chunk(larder__graph_store *s, uint32_t *out) {
    uint32_t chunk = s->spare != LARDER__NO_CHUNK ? s->spare : s->chunk_count;
    bool room = chunk < s->chunk_room;
    if (!room) {
        uint32_t more = s->chunk_room + s->chunk_room / 8 + 16;
        room = grow((void **)&s->memory, more, sizeof *s->memory) &&
               grow((void **)&s->chunks, more, sizeof *s->chunks);
        s->chunk_room = room ? more : s->chunk_room;
    }
    unsigned char *memory = room ? larder__memalign(64, s->stride) : NULL;
    if (!memory)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for more than %u rows", s->rows);
    if (chunk == s->spare)
        s->spare = s->chunks[chunk].next;
    else
        s->chunk_count++;
    s->memory[chunk] = memory;
    s->held++;
    *out = chunk;
    return 0;
}

static void set_absent(larder__graph_store *s, uint32_t chunk, uint32_t lane) {
    larder__chunk_consts(s, chunk)[lane] = LARDER__ROW_ABSENT;
    larder__chunk_heads(s, chunk)[lane] = LARDER__ROW_ABSENT;
    larder__chunk_outer(s, chunk)[lane] = LARDER__ROW_ABSENT;
}

/* A fresh chunk at the end of a class. */
static int add_chunk(larder__graph_store *s, uint32_t class) {
    uint32_t chunk = 0;
    int rc = take_chunk(s, &chunk);
    if (rc < 0)
        return rc;
    memset(larder__chunk_codes(s, chunk), 0, s->stride);
    for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++)
        set_absent(s, chunk, i);
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
}

/* |u|^2 and sum(u) of what is behind the head. */
LARDER__CLONES
static void tail_moments(const uint8_t *codes, uint32_t from, uint32_t to, int32_t *square,
                         int32_t *sum) {
    int32_t squares = 0, all = 0; /* at most 4096 x 255^2 */
    for (uint32_t i = from; i < to; i++) {
        squares += codes[i] * codes[i];
        all += codes[i];
    }
    *square = squares;
    *sum = all;
}

/* With r for what is behind the head: dot(u_r, v_r - 128) is at most (|u_r|^2 + |v_r|^2)/2 - 128
 * sum(u_r), as |u_r - v_r|^2 is no less than 0. The row's part of that goes into the constant of
 * its head, the query's into the bound, both rounded to the side of counting. Sums stay below 2^30,
 * see LARDER__BOUND_LIMIT and LARDER__DIM_MAX. */
static void set_consts(larder__graph_store *s, uint32_t chunk, uint32_t lane, const uint8_t *codes,
                       int32_t row_const) {
    int32_t square, sum;
    tail_moments(codes, s->head * 4, s->dims, &square, &sum);
    larder__chunk_consts(s, chunk)[lane] = row_const;
    larder__chunk_outer(s, chunk)[lane] = row_const;
    larder__chunk_heads(s, chunk)[lane] = row_const - (square + 1) / 2 + 128 * sum;
}

int32_t larder__graph_store_head_bound(const larder__graph_store *s, const uint8_t *codes,
                                       int32_t bound) {
    int32_t square, sum;
    tail_moments(codes, s->head * 4, s->dims, &square, &sum);
    return bound - (square + 1) / 2;
}

void larder__chunk_set(larder__graph_store *s, uint32_t chunk, uint32_t lane, const uint8_t *codes,
                       int32_t row_const) {
    uint8_t *to = larder__chunk_codes(s, chunk) + (size_t)lane * 4;
    for (uint32_t g = 0; g < s->groups; g++)
        memcpy(to + (size_t)g * 4 * LARDER__CHUNK_ROWS, codes + (size_t)g * 4, 4);
    set_consts(s, chunk, lane, codes, row_const);
}

static void release_chunk(larder__graph_store *s, uint32_t chunk) {
    larder__free(s->memory[chunk]);
    s->memory[chunk] = NULL;
    s->held--;
    s->chunks[chunk].next = s->spare;
    s->spare = chunk;
}

void larder__graph_store_drop(larder__graph_store *s, uint32_t class) {
    larder__graph_class *c = &s->classes[class];
    for (uint32_t chunk = c->first, next; chunk != LARDER__NO_CHUNK; chunk = next) {
        next = s->chunks[chunk].next;
        for (uint32_t i = 0; i < larder__chunk_used(s, chunk); i++)
            s->place[larder__chunk_ids(s, chunk)[i]] = LARDER__NO_PLACE;
        release_chunk(s, chunk);
    }
    s->rows -= c->rows;
    *c = (larder__graph_class){LARDER__NO_CHUNK, LARDER__NO_CHUNK, 0};
}

/* The last chunk of a class, which is empty. */
static void drop_last(larder__graph_store *s, larder__graph_class *c) {
    uint32_t before = LARDER__NO_CHUNK;
    for (uint32_t chunk = c->first; chunk != c->last; chunk = s->chunks[chunk].next)
        before = chunk;
    release_chunk(s, c->last);
    c->last = before;
    if (before == LARDER__NO_CHUNK)
        c->first = LARDER__NO_CHUNK;
    else
        s->chunks[before].next = LARDER__NO_CHUNK;
}

void larder__graph_store_remove(larder__graph_store *s, uint32_t id) {
    if (!larder__graph_store_holds(s, id))
        return;
    uint32_t chunk = s->place[id] / LARDER__CHUNK_ROWS, lane = s->place[id] % LARDER__CHUNK_ROWS;
    larder__graph_class *c = &s->classes[s->chunks[chunk].class];
    uint32_t last = (c->rows - 1) % LARDER__CHUNK_ROWS;
    uint8_t codes[LARDER__DIM_MAX] = {0};
    if (chunk != c->last || lane != last) { /* the last row of the class moves here */
        uint32_t moved = larder__chunk_ids(s, c->last)[last];
        larder__chunk_get(s, c->last, last, codes);
        larder__chunk_set(s, chunk, lane, codes, larder__chunk_consts(s, c->last)[last]);
        larder__chunk_outer(s, chunk)[lane] = larder__chunk_outer(s, c->last)[last];
        larder__chunk_ids(s, chunk)[lane] = moved;
        s->place[moved] = chunk * LARDER__CHUNK_ROWS + lane;
        memset(codes, 0, s->dims);
    }
    larder__chunk_set(s, c->last, last, codes, 0);
    set_absent(s, c->last, last);
    larder__chunk_ids(s, c->last)[last] = 0;
    s->place[id] = LARDER__NO_PLACE;
    c->rows--;
    s->rows--;
    if (last == 0)
        drop_last(s, c);
}

void larder__graph_store_hide(larder__graph_store *s, uint32_t id) {
    assert(s->hides && larder__graph_store_holds(s, id));
    uint32_t place = s->place[id];
    larder__chunk_outer(s, place / LARDER__CHUNK_ROWS)[place % LARDER__CHUNK_ROWS] =
        LARDER__ROW_ABSENT;
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
    int rc = larder__graph_store_holds(s, id) ? 0 : append(s, id, class);
    if (rc < 0)
        return rc;
    uint32_t chunk = s->place[id] / LARDER__CHUNK_ROWS, lane = s->place[id] % LARDER__CHUNK_ROWS;
    larder__chunk_set(s, chunk, lane, codes, row_const);
    return 0;
}

void larder__graph_store_rewrite_class(larder__graph_store *s, uint32_t class,
                                       larder__graph_map_fn map, const void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    uint32_t chunk = s->classes[class].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = s->chunks[chunk].next)
        for (uint32_t lane = 0; lane < larder__chunk_used(s, chunk); lane++) {
            int32_t row_const = larder__chunk_consts(s, chunk)[lane];
            larder__chunk_get(s, chunk, lane, codes);
            bool hidden = larder__chunk_outer(s, chunk)[lane] == LARDER__ROW_ABSENT;
            map(arg, codes, &row_const);
            larder__chunk_set(s, chunk, lane, codes, row_const);
            if (hidden)
                larder__chunk_outer(s, chunk)[lane] = LARDER__ROW_ABSENT;
        }
}

void larder__graph_store_rewrite(larder__graph_store *s, larder__graph_map_fn map,
                                 const void *arg) {
    for (uint32_t class = 0; class < s->class_count; class ++)
        larder__graph_store_rewrite_class(s, class, map, arg);
}

/* ---- saved state: bit for bit, class by class ------------------------------------------------ */

void larder__graph_store_save(const larder__graph_store *s, larder_writer *w) {
    larder_write_u32(w, s->dims);
    larder_write_u32(w, s->class_count);
    larder_write_u32(w, s->held);
    for (uint32_t class = 0; class < s->class_count; class ++) {
        uint32_t chunk = s->classes[class].first;
        for (; chunk != LARDER__NO_CHUNK; chunk = s->chunks[chunk].next) {
            larder_write_u32(w, class);
            larder_write_u32(w, larder__chunk_used(s, chunk));
            larder_write_bytes(w, larder__chunk_codes(s, chunk), s->kept);
        }
    }
}

/* The rows of one chunk, checked: each sample once, constants in bounds, empty places absent. */
static int load_rows(larder__graph_store *s, uint32_t chunk, uint32_t used, larder_reader *r) {
    const int32_t *consts = larder__chunk_consts(s, chunk);
    const uint32_t *ids = larder__chunk_ids(s, chunk);
    uint8_t codes[LARDER__DIM_MAX];
    for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) {
        if (i >= used) {
            set_absent(s, chunk, i);
            continue;
        }
        if (ids[i] >= s->n || larder__graph_store_holds(s, ids[i]))
            return larder_read_reject(r, "a sample of its index is out of range or there twice");
        if (consts[i] >= LARDER__BOUND_LIMIT || consts[i] <= -LARDER__BOUND_LIMIT)
            return larder_read_reject(r, "a row of its index has an impossible length");
        s->place[ids[i]] = chunk * LARDER__CHUNK_ROWS + i;
        larder__chunk_get(s, chunk, i, codes);
        set_consts(s, chunk, i, codes, consts[i]);
    }
    s->classes[s->chunks[chunk].class].rows += used;
    s->rows += used;
    return 0;
}

int larder__graph_store_load(larder__graph_store *s, larder_reader *r) {
    uint32_t dims = larder_read_u32(r), classes = larder_read_u32(r), n = larder_read_u32(r);
    if (dims != s->dims || classes > LARDER__CLASSES_MAX || n > larder__read_left(r) / s->kept)
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
            larder_read_bytes(r, larder__chunk_codes(s, i), s->kept);
            rc = load_rows(s, i, used, r);
        }
    }
    return rc < 0 ? rc : larder_read_status(r);
}
