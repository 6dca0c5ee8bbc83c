#include "unix/rank_values.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

struct larder__kept_value {
    larder__kept_value *next;
    larder__value about;
    larder_buf *bytes;
};

static uint64_t hash_of(const larder__value *v) {
    return larder__mix64(v->id ^ larder__mix64(v->mark + v->form));
}

static bool same_name(const larder__value *a, const larder__value *b) {
    return a->id == b->id && a->mark == b->mark && a->form == b->form;
}

/* Where the value stands, or would. */
static larder__kept_value **place_of(const larder__unix_ranks_values *v,
                                     const larder__value *name) {
    larder__kept_value **at = &v->buckets[hash_of(name) & (v->bucket_count - 1)];
    while (*at && !same_name(&(*at)->about, name))
        at = &(*at)->next;
    return at;
}

/* Twice as many. Where there is no memory chains grow longer. */
static void more_buckets(larder__unix_ranks_values *v) {
    larder__unix_ranks_values wide = {.bucket_count = v->bucket_count * 2};
    wide.buckets = larder__calloc(wide.bucket_count, sizeof *wide.buckets);
    if (!wide.buckets)
        return;
    for (uint64_t i = 0; i < v->bucket_count; i++)
        for (larder__kept_value *k = v->buckets[i], *next; k; k = next) {
            next = k->next;
            k->next = NULL;
            *place_of(&wide, &k->about) = k;
        }
    larder__free(v->buckets);
    v->buckets = wide.buckets;
    v->bucket_count = wide.bucket_count;
}

/* ---- room ------------------------------------------------------------------------------------ */

static void give_block(void *arena, uint64_t block) {
    larder__arena_give(arena, (larder__arena_block)block);
}

larder_buf *larder__unix_ranks_values_room(larder__unix_ranks_values *v, uint32_t size) {
    larder__arena_block block = larder__arena_take(v->arena, size);
    if (block == LARDER__NO_BLOCK)
        return NULL;
    larder_buf *out =
        larder__buf_outside(larder__arena_at(v->arena, block), size, give_block, v->arena, block);
    if (!out)
        larder__arena_give(v->arena, block);
    return out;
}

uint64_t larder__unix_ranks_values_offset(const larder__unix_ranks_values *v, larder_buf *b) {
    return (uint64_t)((const unsigned char *)larder_buf_data(b) -
                      (const unsigned char *)larder__arena_base(v->arena));
}

/* ---- values ---------------------------------------------------------------------------------- */

int larder__unix_ranks_values_keep(larder__unix_ranks_values *v, const larder__value *name,
                                   larder_buf *bytes) {
    if (*place_of(v, name))
        return 0;
    larder__kept_value *k = larder__calloc(1, sizeof *k);
    if (!k)
        return LARDER_E_NOMEM;
    if (v->count >= v->bucket_count)
        more_buckets(v);
    *k = (larder__kept_value){.about = *name, .bytes = larder_buf_ref(bytes)};
    *place_of(v, name) = k;
    v->count++;
    v->bytes += name->size;
    return 0;
}

larder_buf *larder__unix_ranks_values_find(const larder__unix_ranks_values *v,
                                           const larder__value *name, larder__value *about) {
    const larder__kept_value *k = *place_of(v, name);
    if (!k)
        return NULL;
    *about = k->about;
    return k->bytes;
}

static void forget(larder__unix_ranks_values *v, larder__kept_value **at) {
    larder__kept_value *k = *at;
    *at = k->next;
    v->count--;
    v->bytes -= k->about.size;
    larder_buf_unref(&k->bytes);
    larder__free(k);
}

void larder__unix_ranks_values_drop(larder__unix_ranks_values *v, const larder__value *name) {
    larder__kept_value **at = place_of(v, name);
    if (*at)
        forget(v, at);
}

/* ---- opening and closing --------------------------------------------------------------------- */

int larder__unix_ranks_values_open(larder__unix_ranks_values *v, uint64_t bytes,
                                   larder__all_pages *all, bool strangers_write) {
    enum { BUCKETS = 1024 };
    *v = (larder__unix_ranks_values){.bucket_count = BUCKETS};
    v->buckets = larder__calloc(BUCKETS, sizeof *v->buckets);
    int rc =
        v->buckets ? larder__arena_open(&v->arena, bytes, all, strangers_write) : LARDER_E_NOMEM;
    if (rc < 0)
        larder__unix_ranks_values_close(v);
    return rc;
}

void larder__unix_ranks_values_close(larder__unix_ranks_values *v) {
    for (uint64_t i = 0; v->buckets && i < v->bucket_count; i++)
        while (v->buckets[i])
            forget(v, &v->buckets[i]);
    larder__free(v->buckets);
    larder__arena_close(&v->arena);
    *v = (larder__unix_ranks_values){0};
}
