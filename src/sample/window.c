#include "sample/window.h"

#include "base/mem.h"
#include "sample/permute.h"

enum { AT_ONCE = 4096 }; /* ids that come in besides one batch, or as many as two blocks have */

static bool has(const uint64_t *bits, uint64_t id) { return bits[id >> 6] >> (id & 63) & 1; }
static void set(uint64_t *bits, uint64_t id) { bits[id >> 6] |= (uint64_t)1 << (id & 63); }
static void clear(uint64_t *bits, uint64_t id) { bits[id >> 6] &= ~((uint64_t)1 << (id & 63)); }

static uint32_t size_of(const larder__window *w, uint64_t id) {
    return w->env->size_of ? w->env->size_of(w->env->file_arg, id) : 1;
}

static larder__sweep_window *of(larder__window *w, uint64_t sweep) { return &w->two[sweep & 1]; }

uint64_t larder__window_length(const larder__window *w) { return larder__shard_length(&w->shard); }

size_t larder__window_most(const larder__window *w) {
    size_t two = 2 * (size_t)w->longest, more = w->env->batch + (size_t)w->longest;
    size_t most = two > more ? two : more;
    return most > AT_ONCE ? most : AT_ONCE;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int file_of(const larder__window *w, uint64_t id, uint64_t *out) {
    *out = 0;
    return w->env->file_of ? w->env->file_of(w->env->file_arg, id, out) : 0;
}

static void note_block(larder__window *w, uint64_t end, uint64_t bytes) {
    uint32_t ids = (uint32_t)end - w->firsts[w->count - 1];
    w->longest = ids > w->longest ? ids : w->longest;
    w->largest = bytes > w->largest ? bytes : w->largest;
}

/* A block ends where it is long enough or its file ends; what is left of a file and shorter goes
 * with the block before it. */
static int find_blocks(larder__window *w, uint64_t block_bytes) {
    uint64_t n = w->env->n, bytes = 0, before = 0, file = 0, next = 0;
    for (uint64_t id = 0; id <= n; id++) {
        int rc = id < n ? file_of(w, id, &next) : 0;
        if (rc < 0)
            return rc;
        bool ends = id && (id == n || next != file);
        if (ends && before && bytes < block_bytes) {
            w->count--;
            bytes += before;
        }
        if (ends || (id && bytes >= block_bytes)) {
            note_block(w, id, bytes);
            before = ends ? 0 : bytes;
            bytes = 0;
        }
        if (id < n && bytes == 0)
            w->firsts[w->count++] = (uint32_t)id;
        file = next;
        bytes += id < n ? size_of(w, id) : 0;
    }
    w->firsts[w->count] = (uint32_t)n;
    return 0;
}

/* Less than two blocks is no window, unless all there is fits. */
static int check_room(const larder__window *w) {
    uint64_t all = 0, need = 2 * w->largest;
    for (uint64_t id = 0; id < w->env->n && all < need; id++)
        all += size_of(w, id);
    need = all < need ? all : need;
    return need <= w->cap
               ? 0
               : larder_fail(LARDER_E_ARGS,
                             "sampler blocks: a window of two blocks is %llu bytes and the cache "
                             "has %llu: give it more, or a smaller block=",
                             (unsigned long long)need, (unsigned long long)w->cap);
}

static uint64_t budget(const larder__window *w) {
    return w->env->slots ? w->env->slots->budget : UINT64_MAX;
}

int larder__window_open(larder__window *w, const larder_draw_env *env, uint64_t block_bytes) {
    *w = (larder__window){.env = env};
    larder__shard_init(&w->shard, env->n, env);
    w->cap = budget(w);
    uint64_t words = (env->n + 63) / 64 + 1, mine = larder__window_length(w) + 1;
    w->firsts = larder__malloc((env->n + 1) * sizeof *w->firsts);
    if (!w->firsts)
        return LARDER_E_NOMEM;
    int rc = find_blocks(w, block_bytes);
    uint32_t *fits = larder__realloc(w->firsts, (w->count + 1u) * sizeof *w->firsts);
    w->firsts = fits ? fits : w->firsts;
    for (int k = 0; rc == 0 && k < 2; k++) {
        larder__sweep_window *s = &w->two[k];
        s->order = larder__malloc((w->count + 1u) * sizeof *s->order);
        s->pool = larder__malloc(mine * sizeof *s->pool);
        s->in = larder__calloc(words, sizeof *s->in);
        rc = s->order && s->pool && s->in ? 0 : LARDER_E_NOMEM;
    }
    return rc < 0 ? rc : check_room(w);
}

void larder__window_close(larder__window *w) {
    larder__free(w->firsts);
    for (int k = 0; k < 2; k++) {
        larder__free(w->two[k].order);
        larder__free(w->two[k].pool);
        larder__free(w->two[k].in);
    }
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* Ids of the ranks before this one; a rank that has one more than there are begins anew. */
static uint64_t stretch(const larder__shard *s) {
    uint64_t behind = s->n / s->global * s->global;
    return s->tail && s->tail_at >= behind ? s->rank * s->full + s->tail_at - behind
                                           : s->rank * s->full;
}

/* Nothing of the sweep stands in the window. */
static void lay_out(larder__window *w, uint64_t sweep) {
    larder__sweep_window *s = of(w, sweep);
    uint64_t skip = w->env->n ? stretch(&w->shard) % w->env->n : 0;
    larder__permute(s->order, w->count, w->env->seed ^ 0xb10c, sweep);
    for (uint32_t i = 0; i < s->size; i++) {
        clear(s->in, s->pool[i]);
        w->held -= size_of(w, s->pool[i]);
    }
    s->size = s->at = 0;
    for (; s->at < w->count; s->at++) {
        uint32_t b = s->order[s->at], ids = w->firsts[b + 1] - w->firsts[b];
        if (skip < ids)
            break;
        skip -= ids;
    }
    s->skip = (uint32_t)skip;
    s->taken = s->told = (larder__reach){.left = larder__window_length(w)};
}

static void seed(larder__window *w) {
    larder_rng_seed(&w->rng, w->env->seed, 0x10ff0000u + w->sweep * w->env->world + w->env->rank);
}

void larder__window_begin(larder__window *w, uint64_t sweep) {
    bool follows = w->ahead && sweep == w->sweep + 1;
    if (w->begun && w->ahead && !follows)
        lay_out(w, w->sweep + 1);
    if (w->begun) /* whatever was not served of it */
        lay_out(w, w->sweep);
    w->sweep = sweep;
    w->begun = true;
    w->ahead = false;
    if (!follows)
        lay_out(w, sweep);
    w->before = of(w, sweep)->taken.block;
    w->cap = budget(w);
    w->at = 0;
    seed(w);
}

/* The block at `r`, as far as it is this rank's; false: there is none. */
static bool block_at(const larder__window *w, const larder__sweep_window *s, const larder__reach *r,
                     uint32_t *from, uint32_t *ids) {
    if (r->left == 0)
        return false;
    uint32_t b = s->order[(uint32_t)(((uint64_t)s->at + r->block) % w->count)];
    *from = w->firsts[b] + (r->block ? 0 : s->skip);
    *ids = w->firsts[b + 1] - *from;
    *ids = r->left < *ids ? (uint32_t)r->left : *ids;
    return true;
}

static void pass(larder__reach *r, uint32_t ids) {
    r->block++;
    r->left -= ids;
}

static void put_in(larder__window *w, larder__sweep_window *s, uint32_t from, uint32_t ids) {
    for (uint32_t i = 0; i < ids; i++) {
        s->pool[s->size++] = from + i;
        set(s->in, from + i);
        w->held += size_of(w, from + i);
    }
    pass(&s->taken, ids);
    w->fresh += ids;
}

/* Blocks of a sweep into its pool: as many as fit and as may be brought with one batch. */
static void take(larder__window *w, larder__sweep_window *s) {
    uint32_t from, ids;
    while (w->fresh + w->longest <= larder__window_most(w) &&
           block_at(w, s, &s->taken, &from, &ids)) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < ids; i++)
            bytes += size_of(w, from + i);
        if (w->held && w->held + bytes > w->cap)
            return;
        put_in(w, s, from, ids);
    }
}

/* For the batches that follow. The last epoch of a run has none behind it. */
static void take_more(larder__window *w) {
    const larder_slots *slots = w->env->slots;
    larder__sweep_window *s = of(w, w->sweep);
    take(w, s);
    if (s->taken.left == 0 && !(slots && slots->epochs && w->sweep + 1 >= slots->epochs)) {
        if (!w->ahead)
            lay_out(w, w->sweep + 1);
        w->ahead = true;
        take(w, of(w, w->sweep + 1));
    }
    w->fresh = 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* The next `want` ids; out NULL: nobody asks, they were drawn before. */
static size_t draw(larder__window *w, larder_pick *out, size_t want) {
    larder__sweep_window *s = of(w, w->sweep);
    const larder__sweep_window *next = of(w, w->sweep + 1);
    size_t n = 0;
    for (; n < want; n++) {
        if (s->size == 0)
            take(w, s);
        if (s->size == 0)
            break;
        uint32_t j = larder_rng_below(&w->rng, s->size), id = s->pool[j];
        s->pool[j] = s->pool[--s->size];
        clear(s->in, id);
        w->held -= size_of(w, id);
        if (!out)
            continue;
        out[n].id = id;
        out[n].tag = w->ahead && has(next->in, id) ? LARDER_TAG_KEEP : 0;
    }
    w->at += n;
    take_more(w);
    return n;
}

size_t larder__window_draw(larder__window *w, larder_pick *out, size_t want) {
    uint64_t left = larder__window_length(w) - w->at;
    return left ? draw(w, out, want < left ? want : (size_t)left) : 0;
}

static size_t tell(larder__window *w, larder__sweep_window *s, uint64_t *ids, size_t n) {
    uint32_t from, count;
    while (s->told.block < s->taken.block && n + w->longest <= larder__window_most(w) &&
           block_at(w, s, &s->told, &from, &count)) {
        for (uint32_t i = 0; i < count; i++)
            if (has(s->in, from + i))
                ids[n++] = from + i;
        pass(&s->told, count);
    }
    return n;
}

size_t larder__window_bring(larder__window *w, uint64_t *ids) {
    if (!w->begun)
        return 0;
    size_t n = tell(w, of(w, w->sweep), ids, 0);
    return w->ahead ? tell(w, of(w, w->sweep + 1), ids, n) : n;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__window_save(const larder__window *w, larder_writer *out) {
    larder_write_u32(out, w->begun);
    larder_write_u32(out, w->before);
    larder_write_u64(out, w->sweep);
    larder_write_u64(out, w->cap);
    larder_write_u64(out, w->at);
}

/* The sweep once more up to where it was. What stands in the window then is brought again, as its
 * bytes are gone. */
static bool go_through(larder__window *w, uint64_t at) {
    larder__sweep_window *s = of(w, w->sweep);
    uint32_t from, ids;
    for (uint32_t i = 0; i < w->before; i++) {
        if (!block_at(w, s, &s->taken, &from, &ids))
            return false;
        put_in(w, s, from, ids);
    }
    w->fresh = 0;
    while (w->at < at) {
        uint64_t left = at - w->at;
        size_t want = w->env->batch < left ? w->env->batch : (size_t)left;
        if (draw(w, NULL, want) != want)
            return false;
    }
    return true;
}

int larder__window_load(larder__window *w, larder_reader *in) {
    if (w->begun)
        larder__window_begin(w, w->sweep + 2); /* empties it */
    w->begun = larder_read_u32(in) != 0;
    w->before = larder_read_u32(in);
    w->sweep = larder_read_u64(in);
    w->cap = larder_read_u64(in);
    uint64_t at = larder_read_u64(in), length = larder__window_length(w);
    lay_out(w, w->sweep);
    w->at = 0;
    w->ahead = false;
    seed(w);
    bool fits = larder_read_status(in) == 0 && at <= length && (w->begun || !(at | w->before)) &&
                (at == length || at % w->env->batch == 0) && w->cap >= w->largest;
    if (larder_read_status(in) == 0 && !(fits && go_through(w, at)))
        return larder_read_reject(in, "its window does not fit this data set");
    return larder_read_status(in);
}
