#include "unix/arena.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "unix/lent_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Free pieces are kept in bins by size: a power of two, cut into 16. */
enum { GRAIN_BITS = 6, STEPS_BITS = 4, STEPS = 1 << STEPS_BITS, POWERS = 32 };

typedef struct note { /* one block; lengths and places in grains */
    uint32_t at, length;
    uint32_t before, after;  /* neighbours in memory, LARDER__NO_BLOCK at the ends */
    uint32_t previous, next; /* in its bin; `next` also chains the spare notes */
    bool taken;
} note;

struct larder__arena {
    int fd;
    bool huge, paid;
    bool vacant; /* nobody reads there any more */
    unsigned char *bytes;
    uint64_t size, taken;
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

larder__arena_block larder__arena_take(larder__arena *a, uint64_t bytes) {
    uint64_t grains = bytes / LARDER__ARENA_GRAIN + (bytes % LARDER__ARENA_GRAIN != 0);
    grains += grains == 0;
    if (grains > UINT32_MAX || !notes_reserve(a))
        return LARDER__NO_BLOCK;
    uint32_t i = bin_find(a, (uint32_t)grains);
    if (i == LARDER__NO_BLOCK)
        return i;
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

static int map(larder__arena *a) {
    if (!(a->paid = larder__mem_take(a->size)))
        return larder__fail(LARDER_E_FULL, "shared memory of %llu bytes is more than there may be",
                            (unsigned long long)a->size);
    a->fd = memfd_create("larder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (a->fd < 0)
        return larder__fail(larder__code_of_errno(errno), "shared memory: %s", strerror(errno));
    if (ftruncate(a->fd, (off_t)a->size) < 0 || fallocate(a->fd, 0, 0, (off_t)a->size) < 0) {
        int err = errno;
        return larder__fail(larder__code_of_errno(err),
                            "shared memory of %llu bytes: %s; give the daemon a smaller --cache or "
                            "its cgroup more memory",
                            (unsigned long long)a->size, strerror(err));
    }
    /* No client can pull the ground away under the others. */
    if (fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return larder__fail(LARDER_E_IO, "sealing shared memory: %s", strerror(errno));
    a->bytes = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (a->bytes == MAP_FAILED) {
        a->bytes = NULL;
        return larder__fail(LARDER_E_NOMEM, "mapping %llu bytes: %s", (unsigned long long)a->size,
                            strerror(errno));
    }
    a->huge = madvise(a->bytes, a->size, MADV_HUGEPAGE) == 0;
    return 0;
}

int larder__arena_open(larder__arena **out, uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *out = NULL;
    if (bytes == 0 || bytes >> GRAIN_BITS >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "shared memory of %llu bytes: up to 255 GiB",
                            (unsigned long long)bytes);
    larder__arena *a = larder__calloc(1, sizeof *a);
    if (!a)
        return LARDER_E_NOMEM;
    a->fd = -1;
    a->spare = LARDER__NO_BLOCK;
    a->size = (bytes + page - 1) / page * page;
    memset(a->bins, 0xff, sizeof a->bins);
    int rc = notes_reserve(a) ? map(a) : LARDER_E_NOMEM;
    if (rc < 0) {
        larder__arena_close(&a);
        return rc;
    }
    uint32_t all = note_new(a);
    a->notes[all] = (note){.length = (uint32_t)(a->size >> GRAIN_BITS),
                           .before = LARDER__NO_BLOCK,
                           .after = LARDER__NO_BLOCK};
    bin_add(a, all);
    *out = a;
    return 0;
}

void larder__arena_close(larder__arena **pa) {
    larder__arena *a = *pa;
    *pa = NULL;
    if (!a)
        return;
    if (a->bytes)
        munmap(a->bytes, a->size);
    if (a->vacant && a->fd >= 0)
        larder__lent_empty(a->fd, a->size);
    if (a->fd >= 0)
        close(a->fd);
    if (a->paid)
        larder__mem_give(a->size);
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
void *larder__arena_base(const larder__arena *a) { return a->bytes; }
void *larder__arena_at(const larder__arena *a, larder__arena_block b) {
    return a->bytes + larder__arena_offset(a, b);
}
int larder__arena_fd(const larder__arena *a) { return a->fd; }
uint64_t larder__arena_bytes(const larder__arena *a) { return a->size; }
uint64_t larder__arena_taken(const larder__arena *a) { return a->taken; }
bool larder__arena_huge(const larder__arena *a) { return a->huge; }

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
    return at << GRAIN_BITS == a->size && taken << GRAIN_BITS == a->taken && binned(a) == pieces;
}
