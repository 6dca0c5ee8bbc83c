#include "unix/arena.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <string.h>

/* Free pieces are kept in bins by size: a power of two, cut into 16. */
#define LARGEST ((uint64_t)255 << 30)
enum { GRAIN_BITS = 6, STEPS_BITS = 4, STEPS = 1 << STEPS_BITS, POWERS = 32 };

typedef struct note { /* one block; lengths and places in grains */
    uint32_t at, length;
    uint32_t before, after;  /* neighbours in memory, LARDER__NO_BLOCK at the ends */
    uint32_t previous, next; /* in its bin; `next` also chains the spare notes */
    bool taken;
} note;

struct larder__arena {
    larder__pages *pages;
    bool vacant;           /* nobody reads there any more */
    uint64_t known, taken; /* bytes: cut into blocks so far, and of those blocks that are taken */
    uint32_t last;         /* of the blocks, in memory */
    note *notes;
    size_t cap;
    uint32_t count, spare;
    uint32_t powers;        /* bit p: some bin of power p is filled */
    uint32_t steps[POWERS]; /* bit s: bin (p, s) is filled */
    uint32_t bins[POWERS][STEPS];
};

/* ---- bins ------------------------------------------------------------------------------------ */

typedef struct bin {
    unsigned power, step;
} bin;

/* The bin in which a piece of that many grains lies. */
static bin bin_of(uint32_t grains) {
    if (grains < STEPS)
        return (bin){0, grains};
    unsigned log = 31u - (unsigned)__builtin_clz(grains);
    return (bin){log - STEPS_BITS + 1, (grains >> (log - STEPS_BITS)) & (STEPS - 1)};
}

static void bin_add(larder__arena *a, uint32_t i) {
    bin b = bin_of(a->notes[i].length);
    uint32_t head = a->bins[b.power][b.step];
    a->notes[i].previous = LARDER__NO_BLOCK;
    a->notes[i].next = head;
    if (head != LARDER__NO_BLOCK)
        a->notes[head].previous = i;
    a->bins[b.power][b.step] = i;
    a->powers |= 1u << b.power;
    a->steps[b.power] |= 1u << b.step;
}

static void bin_remove(larder__arena *a, uint32_t i) {
    const note *n = &a->notes[i];
    bin b = bin_of(n->length);
    if (n->next != LARDER__NO_BLOCK)
        a->notes[n->next].previous = n->previous;
    if (n->previous != LARDER__NO_BLOCK) {
        a->notes[n->previous].next = n->next;
        return;
    }
    a->bins[b.power][b.step] = n->next;
    if (n->next != LARDER__NO_BLOCK)
        return;
    a->steps[b.power] &= ~(1u << b.step);
    if (a->steps[b.power] == 0)
        a->powers &= ~(1u << b.power);
}

/* A free piece of at least that many grains: the first of the smallest bin in which every piece is
 * large enough. */
static uint32_t bin_find(const larder__arena *a, uint32_t grains) {
    uint32_t up = grains;
    if (grains >= STEPS) {
        uint32_t round = (1u << (31u - (unsigned)__builtin_clz(grains) - STEPS_BITS)) - 1;
        if (up > UINT32_MAX - round)
            return LARDER__NO_BLOCK;
        up += round;
    }
    bin b = bin_of(up);
    uint32_t steps = a->steps[b.power] & (UINT32_MAX << b.step);
    if (!steps) {
        uint32_t powers = b.power + 1 < POWERS ? a->powers & (UINT32_MAX << (b.power + 1)) : 0;
        if (!powers)
            return LARDER__NO_BLOCK;
        b.power = (unsigned)__builtin_ctz(powers);
        steps = a->steps[b.power];
    }
    return a->bins[b.power][__builtin_ctz(steps)];
}

/* ---- notes ----------------------------------------------------------------------------------- */

static bool notes_reserve(larder__arena *a) {
    return a->spare != LARDER__NO_BLOCK ||
           larder__grow(&a->notes, &a->cap, a->count + 1, sizeof *a->notes) == 0;
}

static uint32_t note_new(larder__arena *a) {
    uint32_t i = a->spare;
    if (i == LARDER__NO_BLOCK)
        return a->count++;
    a->spare = a->notes[i].next;
    return i;
}

static void note_free(larder__arena *a, uint32_t i) {
    a->notes[i] = (note){.next = a->spare};
    a->spare = i;
}

/* ---- taking and giving ----------------------------------------------------------------------- */

/* What has been reserved since becomes free, and a piece is reserved if that is nothing. False:
 * there is no more to be had now. */
static bool extend(larder__arena *a) {
    if (larder__pages_ready(a->pages) == a->known && larder__pages_reserve(a->pages) < 0)
        return false;
    uint64_t more = larder__pages_ready(a->pages) - a->known;
    if (more == 0 || !notes_reserve(a))
        return false;
    if (a->last != LARDER__NO_BLOCK && !a->notes[a->last].taken)
        bin_remove(a, a->last);
    else {
        uint32_t i = note_new(a);
        a->notes[i] = (note){
            .at = (uint32_t)(a->known >> GRAIN_BITS), .before = a->last, .after = LARDER__NO_BLOCK};
        if (a->last != LARDER__NO_BLOCK)
            a->notes[a->last].after = i;
        a->last = i;
    }
    a->notes[a->last].length += (uint32_t)(more >> GRAIN_BITS);
    a->known += more;
    bin_add(a, a->last);
    return true;
}

larder__arena_block larder__arena_take(larder__arena *a, uint64_t bytes) {
    uint64_t grains = bytes / LARDER__ARENA_GRAIN + (bytes % LARDER__ARENA_GRAIN != 0);
    grains += grains == 0;
    if (grains > larder__arena_bytes(a) >> GRAIN_BITS)
        return LARDER__NO_BLOCK;
    uint32_t i;
    while ((i = bin_find(a, (uint32_t)grains)) == LARDER__NO_BLOCK && extend(a)) {
    }
    if (i == LARDER__NO_BLOCK || !notes_reserve(a))
        return LARDER__NO_BLOCK;
    bin_remove(a, i);
    if (a->notes[i].length > grains) { /* the rest stays free */
        uint32_t rest = note_new(a);
        note *n = &a->notes[i];
        a->notes[rest] = (note){.at = n->at + (uint32_t)grains,
                                .length = n->length - (uint32_t)grains,
                                .before = i,
                                .after = n->after};
        if (n->after != LARDER__NO_BLOCK)
            a->notes[n->after].before = rest;
        else
            a->last = rest;
        n->after = rest;
        n->length = (uint32_t)grains;
        bin_add(a, rest);
    }
    a->notes[i].taken = true;
    a->taken += (uint64_t)a->notes[i].length << GRAIN_BITS;
    return i;
}

/* `right` becomes part of `left`, which lies before it. */
static void join(larder__arena *a, uint32_t left, uint32_t right) {
    a->notes[left].length += a->notes[right].length;
    a->notes[left].after = a->notes[right].after;
    if (a->notes[right].after != LARDER__NO_BLOCK)
        a->notes[a->notes[right].after].before = left;
    else
        a->last = left;
    note_free(a, right);
}

void larder__arena_give(larder__arena *a, larder__arena_block i) {
    uint32_t before = a->notes[i].before, after = a->notes[i].after;
    a->notes[i].taken = false;
    a->taken -= (uint64_t)a->notes[i].length << GRAIN_BITS;
    if (after != LARDER__NO_BLOCK && !a->notes[after].taken) {
        bin_remove(a, after);
        join(a, i, after);
    }
    if (before != LARDER__NO_BLOCK && !a->notes[before].taken) {
        bin_remove(a, before);
        join(a, before, i);
        i = before;
    }
    bin_add(a, i);
}

/* ---- opening and closing --------------------------------------------------------------------- */

int larder__arena_open(larder__arena **out, uint64_t bytes, larder__all_pages *all,
                       bool strangers_write) {
    *out = NULL;
    if (bytes == 0 || bytes > LARGEST)
        return larder__fail(LARDER_E_RANGE, "shared memory of %llu bytes: up to 255 GiB",
                            (unsigned long long)bytes);
    larder__arena *a = larder__calloc(1, sizeof *a);
    if (!a)
        return LARDER_E_NOMEM;
    a->spare = a->last = LARDER__NO_BLOCK;
    memset(a->bins, 0xff, sizeof a->bins);
    int rc = larder__pages_open(&a->pages, bytes, all, strangers_write);
    if (rc == 0 && !extend(a))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        larder__arena_close(&a);
    *out = a;
    return rc;
}

void larder__arena_close(larder__arena **pa) {
    larder__arena *a = *pa;
    *pa = NULL;
    if (!a)
        return;
    larder__pages_close(&a->pages, a->vacant);
    larder__free(a->notes);
    larder__free(a);
}

void larder__arena_vacate(larder__arena *a) { a->vacant = true; }

/* ---- looking in ------------------------------------------------------------------------------ */

uint64_t larder__arena_offset(const larder__arena *a, larder__arena_block b) {
    return (uint64_t)a->notes[b].at << GRAIN_BITS;
}
uint64_t larder__arena_length(const larder__arena *a, larder__arena_block b) {
    return (uint64_t)a->notes[b].length << GRAIN_BITS;
}
void *larder__arena_base(const larder__arena *a) { return larder__pages_base(a->pages); }
void *larder__arena_at(const larder__arena *a, larder__arena_block b) {
    return larder__pages_base(a->pages) + larder__arena_offset(a, b);
}
int larder__arena_fd(const larder__arena *a) { return larder__pages_fd(a->pages); }
uint64_t larder__arena_bytes(const larder__arena *a) { return larder__pages_bytes(a->pages); }
uint64_t larder__arena_taken(const larder__arena *a) { return a->taken; }
bool larder__arena_huge(const larder__arena *a) { return larder__pages_huge(a->pages); }

static uint32_t binned(const larder__arena *a) {
    uint32_t n = 0;
    for (unsigned p = 0; p < POWERS; p++)
        for (unsigned s = 0; s < STEPS; s++)
            for (uint32_t i = a->bins[p][s]; i != LARDER__NO_BLOCK; i = a->notes[i].next, n++) {
                bin b = bin_of(a->notes[i].length);
                if (a->notes[i].taken || b.power != p || b.step != s || n > a->count)
                    return UINT32_MAX;
            }
    return n;
}

bool larder__arena_sound(const larder__arena *a) {
    uint64_t at = 0, taken = 0;
    uint32_t pieces = 0, before = LARDER__NO_BLOCK, i = LARDER__NO_BLOCK;
    for (uint32_t k = 0; k < a->count; k++)
        if (a->notes[k].length && a->notes[k].before == LARDER__NO_BLOCK)
            i = k;
    for (; i != LARDER__NO_BLOCK; before = i, i = a->notes[i].after) {
        const note *n = &a->notes[i];
        bool joined = before == LARDER__NO_BLOCK || n->taken || a->notes[before].taken;
        if (n->at != at || n->before != before || n->length == 0 || !joined)
            return false;
        at += n->length;
        taken += n->taken ? n->length : 0;
        pieces += !n->taken;
    }
    return at << GRAIN_BITS == a->known && before == a->last && taken << GRAIN_BITS == a->taken &&
           binned(a) == pieces;
}
