/* Blocks: found, given out, taken back, moved. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "disk/disk_folder.h"
#include "disk/disk_space.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t load(const _Atomic uint64_t *p) {
    return atomic_load_explicit(p, memory_order_relaxed);
}

uint64_t larder__disk_space_bytes(uint64_t budget) {
    uint64_t bytes = budget / LARDER__DISK_BLOCK / 8 + 1;
    return (bytes + LARDER__DISK_BLOCK - 1) / LARDER__DISK_BLOCK * LARDER__DISK_BLOCK;
}

uint64_t larder__disk_limit(uint64_t budget, uint64_t index_bytes) {
    /* The file system's own: a leaf of 340 extents takes a block, so a file of single blocks has
     * less than 1/256 of them. */
    uint64_t own = budget / 256 > 65536 ? budget / 256 : 65536;
    uint64_t fixed = LARDER__DISK_BLOCK + larder__disk_space_bytes(budget) + index_bytes + own;
    return budget > fixed ? (budget - fixed) / LARDER__DISK_BLOCK : 0;
}

bool larder__disk_is_spare(const larder__disk_folder *f, uint64_t word) {
    return larder__disk_era(word) != load(&f->head->era);
}

static uint64_t taken(larder__disk_folder *f, uint64_t place, uint32_t blocks) {
    larder__space_take(f->space, place, blocks);
    atomic_fetch_add_explicit(&f->head->used, blocks, memory_order_relaxed);
    f->head->next = place + blocks;
    return place;
}

uint64_t larder__disk_take(larder__disk_folder *f, uint32_t blocks) {
    larder__disk_head *h = f->head;
    uint64_t limit = load(&h->limit), longest = 0;
    if (blocks >= h->too_long)
        return LARDER__DISK_NOWHERE;
    uint64_t from = h->next < limit ? h->next : 0;
    uint64_t place = larder__space_find(f->space, from, limit, blocks, &longest);
    if (place == LARDER__DISK_NOWHERE)
        place = larder__space_find(f->space, 0, limit, blocks, &longest);
    if (place == LARDER__DISK_NOWHERE) {
        h->too_long = longest + 1;
        return place;
    }
    return taken(f, place, blocks);
}

void larder__disk_give(larder__disk_folder *f, uint64_t place, uint32_t blocks) {
    larder__disk_head *h = f->head;
    uint64_t limit = load(&h->limit);
    if (place + blocks > limit)
        return; /* nobody's any more: `data` is to end before */
    larder__space_give(f->space, place, blocks);
    uint64_t used = load(&h->used);
    atomic_store_explicit(&h->used, used > blocks ? used - blocks : 0, memory_order_relaxed);
    uint64_t first = larder__space_free_before(f->space, place, LARDER__DISK_LONGEST);
    uint64_t end = place + blocks + LARDER__DISK_LONGEST;
    end = larder__space_next_taken(f->space, place + blocks, end < limit ? end : limit);
    if (end - first >= h->too_long)
        h->too_long = end - first + 1;
}

bool larder__disk_drop(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word) {
    bool sound = larder__disk_word_fits(word, x->id, key, load(&f->head->limit));
    if (!word || !atomic_compare_exchange_strong(&x->words[key], &word, 0))
        return false;
    atomic_fetch_sub_explicit(&f->head->entries, 1, memory_order_relaxed);
    if (sound)
        larder__disk_give(f, larder__disk_place(word), larder__disk_blocks(word));
    return true;
}

/* ---- room for what comes --------------------------------------------------------------------- */

typedef struct sweep {
    uint32_t blocks;
    uint64_t place; /* NOWHERE: still looking */
} sweep;

/* Also looks whether the hole that a value leaves, with what is free beside it, is enough. */
static bool sweep_one(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                      void *arg) {
    sweep *s = arg;
    if (!larder__disk_is_spare(f, word) || !larder__disk_drop(f, x, key, word))
        return true;
    uint64_t place = larder__disk_place(word), limit = load(&f->head->limit);
    if (place + larder__disk_blocks(word) > limit)
        return true;
    uint64_t first = larder__space_free_before(f->space, place, s->blocks);
    uint64_t longest = 0, to = place + larder__disk_blocks(word) + s->blocks;
    s->place = larder__space_find(f->space, first, to < limit ? to : limit, s->blocks, &longest);
    return s->place == LARDER__DISK_NOWHERE;
}

uint64_t larder__disk_take_spare(larder__disk_folder *f, uint32_t blocks) {
    larder__disk_head *h = f->head;
    for (int round = 0; round < 2 && blocks <= load(&h->limit); round++) {
        uint64_t spared = load(&h->spared);
        if (h->barren != spared) {
            sweep s = {.blocks = blocks, .place = LARDER__DISK_NOWHERE};
            larder__disk_each(f, sweep_one, &s);
            if (s.place != LARDER__DISK_NOWHERE)
                return taken(f, s.place, blocks);
            h->barren = spared; /* a whole round, and nothing is left that is spare */
        }
        if (load(&h->touched) < load(&h->used) * LARDER__DISK_BLOCK)
            break;
        larder__disk_begin_era(f);
    }
    return LARDER__DISK_NOWHERE;
}

/* ---- eras ------------------------------------------------------------------------------------ */

/* Entries from sixteen eras ago are not to look new. */
static bool forget_era(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                       void *arg) {
    (void)f;
    if (larder__disk_era(word) == *(uint64_t *)arg)
        atomic_compare_exchange_strong(&x->words[key], &word, larder__disk_in_era(word, 0));
    return true;
}

void larder__disk_begin_era(larder__disk_folder *f) {
    uint64_t era = load(&f->head->era) % LARDER__DISK_ERAS + 1;
    larder__disk_each(f, forget_era, &era);
    atomic_store(&f->head->era, era);
    atomic_store(&f->head->touched, 0);
    atomic_fetch_add(&f->head->spared, 1);
}

/* ---- all bits anew --------------------------------------------------------------------------- */

typedef struct recount {
    uint64_t *twice; /* blocks that two entries claim */
    uint64_t entries;
    bool last;
} recount;

static bool claim(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                  void *arg) {
    recount *r = arg;
    uint64_t place = larder__disk_place(word), end = place + larder__disk_blocks(word);
    if (!larder__disk_word_fits(word, x->id, key, load(&f->head->limit))) {
        /* Beyond the limit it may be moved yet, but not if it goes across. */
        bool beyond = place >= load(&f->head->limit) &&
                      larder__disk_word_fits(word, x->id, key, LARDER__DISK_MOST_BLOCKS);
        r->entries += beyond && r->last;
        if (!beyond)
            atomic_store(&x->words[key], 0);
        return true;
    }
    if (r->last && larder__space_any(r->twice, place, end - place)) {
        atomic_store(&x->words[key], 0);
        return true;
    }
    r->entries += r->last;
    if (!r->last && larder__space_any(f->space, place, end - place))
        for (uint64_t b = place; b < end; b++)
            if (larder__space_any(f->space, b, 1))
                larder__space_take(r->twice, b, 1);
    larder__space_take(f->space, place, end - place);
    return true;
}

int larder__disk_count_anew(larder__disk_folder *f) {
    recount r = {.twice = larder__calloc(1, f->space_bytes)};
    if (!r.twice)
        return LARDER_E_NOMEM;
    for (int pass = 0; pass < 2; pass++) {
        memset(f->space, 0, f->space_bytes);
        r.last = pass == 1;
        larder__disk_each(f, claim, &r);
    }
    larder__free(r.twice);
    larder__disk_head *h = f->head;
    atomic_store(&h->used, larder__space_count(f->space, load(&h->limit)));
    atomic_store(&h->entries, r.entries);
    h->too_long = UINT64_MAX;
    return 0;
}

/* ---- less room ------------------------------------------------------------------------------- */

static bool drop_across(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                        void *arg) {
    uint64_t limit = *(uint64_t *)arg, place = larder__disk_place(word);
    if (place < limit && place + larder__disk_blocks(word) > limit)
        larder__disk_drop(f, x, key, word);
    return true;
}

enum { PIECE = 256 }; /* blocks that are copied at once */

static bool copy(larder__disk_folder *f, uint64_t from, uint64_t to, uint32_t blocks, void *piece) {
    for (uint32_t done = 0; done < blocks; done += PIECE) {
        size_t bytes = (size_t)(blocks - done < PIECE ? blocks - done : PIECE) * LARDER__DISK_BLOCK;
        if (larder__disk_read_at(f->data_file, piece, bytes,
                                 (off_t)((from + done) * LARDER__DISK_BLOCK)) ||
            larder__disk_write_at(f->data_file, piece, bytes,
                                  (off_t)((to + done) * LARDER__DISK_BLOCK)))
            return false;
    }
    return true;
}

typedef struct moving {
    void *piece;
    uint64_t end; /* blocks that `data` had: beyond is nothing to be moved, whatever a word says */
} moving;

static bool move_here(larder__disk_folder *f, larder__disk_index *x, uint64_t key, uint64_t word,
                      void *arg) {
    const moving *m = arg;
    if (larder__disk_place(word) < load(&f->head->limit))
        return true;
    if (!larder__disk_word_fits(word, x->id, key, m->end)) {
        larder__disk_drop(f, x, key, word);
        return true;
    }
    uint32_t blocks = larder__disk_blocks(word);
    uint64_t place = larder__disk_take(f, blocks);
    if (place == LARDER__DISK_NOWHERE && !larder__disk_is_spare(f, word))
        place = larder__disk_take_spare(f, blocks);
    if (larder__disk_gone(f))
        return false; /* the place may be another's */
    if (place == LARDER__DISK_NOWHERE) {
        larder__disk_drop(f, x, key, word);
        return true;
    }
    uint64_t moved = larder__disk_word(x->id, key, place, blocks, larder__disk_era(word));
    uint64_t now = atomic_load(&x->words[key]); /* its era may have changed meanwhile */
    bool same = larder__disk_in_era(now, 0) == larder__disk_in_era(word, 0);
    if (!same || !copy(f, larder__disk_place(word), place, blocks, m->piece) ||
        !atomic_compare_exchange_strong(&x->words[key], &now, moved)) {
        larder__disk_give(f, place, blocks);
        larder__disk_drop(f, x, key, atomic_load(&x->words[key]));
    }
    return true;
}

int larder__disk_shorten(larder__disk_folder *f, uint64_t limit) {
    larder__disk_head *h = f->head;
    uint64_t before = load(&h->limit);
    struct stat st;
    if (fstat(f->data_file, &st) != 0)
        return larder__fail_errno(f->path, "data cannot be looked at");
    moving m = {.piece = larder__memalign(LARDER__DISK_BLOCK, (size_t)PIECE * LARDER__DISK_BLOCK),
                .end = (uint64_t)st.st_size / LARDER__DISK_BLOCK};
    if (!m.piece)
        return LARDER_E_NOMEM;
    larder__disk_each(f, drop_across, &limit);
    if (before > limit)
        larder__space_give(f->space, limit, before - limit);
    atomic_store(&h->limit, limit);
    atomic_store(&h->used, larder__space_count(f->space, limit));
    h->too_long = UINT64_MAX;
    larder__disk_each(f, move_here, &m);
    larder__free(m.piece);
    int rc = larder__disk_whole(f);
    if (rc < 0)
        return rc;
    if (larder__disk_io_now()->resize(f->data_file, (off_t)(limit * LARDER__DISK_BLOCK)) != 0)
        return larder__fail_errno(f->path, "the file data cannot be made shorter");
    return 0;
}

void larder__disk_punch(larder__disk_folder *f) {
    uint64_t limit = load(&f->head->limit);
    for (uint64_t at = 0; at < limit;) {
        at = larder__space_next_free(f->space, at, limit);
        uint64_t end = larder__space_next_taken(f->space, at, limit);
        if (larder__disk_gone(f))
            return; /* what looks free may be another's */
        if (end > at)
            larder__disk_io_now()->punch(f->data_file, (off_t)(at * LARDER__DISK_BLOCK),
                                         (off_t)((end - at) * LARDER__DISK_BLOCK));
        at = end;
    }
}
