#include "unix/pinned_blocks.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "unix/lent_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    FEW = 64,
    LOOKS = 1 << 20 /* for one batch: some 60 ms */
};

int larder__pinned_open(larder__pinned *l, larder__arena *arena,
                        _Atomic larder__block_place *places, uint32_t jobs) {
    *l = (larder__pinned){
        .arena = arena, .places = places, .job_count = jobs, .enough = FEW, .looks = LOOKS};
    l->jobs = larder__calloc(jobs, sizeof *l->jobs);
    for (uint32_t j = 0; l->jobs && j < jobs; j++)
        l->jobs[j].fd = -1;
    return l->jobs ? 0 : LARDER_E_NOMEM;
}

void larder__pinned_close(larder__pinned *l) {
    for (uint32_t j = 0; l->jobs && j < l->job_count; j++)
        larder__pinned_leave(l, j);
    larder__pinned_sweep(l);
    larder__free(l->jobs);
    larder__free(l->waiting);
    larder__free(l->pinned);
    *l = (larder__pinned){0};
}

/* ---- pins ------------------------------------------------------------------------------------ */

static uint32_t used(const larder__pinned *l, uint32_t job) {
    uint32_t n = l->jobs[job].pins ? atomic_load(&l->jobs[job].pins->used) : 0;
    return n < LARDER__PINS ? n : LARDER__PINS; /* whatever the client says */
}

static int room_for(larder__pinned *l) {
    size_t need = LARDER__PINS;
    for (uint32_t j = 0; j < l->job_count; j++)
        need += l->jobs[j].pins ? LARDER__PINS : 0;
    return larder__room(&l->pinned, &l->pinned_cap, need, sizeof *l->pinned);
}

int larder__pinned_join(larder__pinned *l, uint32_t job, int *out) {
    *out = -1;
    void *at;
    int fd = room_for(l);
    if (fd < 0 || (fd = larder__lent_new("larder-pins", sizeof(larder__pins), PROT_READ, &at)) < 0)
        return fd;
    l->jobs[job].pins = at;
    l->jobs[job].fd = *out = fd;
    return 0;
}

void larder__pinned_leave(larder__pinned *l, uint32_t job) {
    if (!l->jobs[job].pins)
        return;
    larder__lent_free(l->jobs[job].fd, (void *)(uintptr_t)l->jobs[job].pins, sizeof(larder__pins));
    l->jobs[job].pins = NULL;
    l->jobs[job].fd = -1;
    larder__pinned_sweep(l);
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void look(larder__pinned *l, uint64_t n) { l->looks -= n < l->looks ? n : l->looks; }

/* All pins now, in order. *seen: so many places for them. */
static size_t look_at_pins(larder__pinned *l, uint32_t *seen) {
    size_t n = 0;
    *seen = 0;
    for (uint32_t j = 0; j < l->job_count; j++) {
        uint32_t most = used(l, j);
        look(l, most);
        *seen += most;
        for (uint32_t i = 0; i < most; i++) {
            uint32_t pin = atomic_load_explicit(&l->jobs[j].pins->at[i], memory_order_acquire);
            if (pin)
                l->pinned[n++] = pin;
        }
    }
    if (n > 1)
        qsort(l->pinned, n, sizeof *l->pinned, by_number);
    return n;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void larder__pinned_begin(larder__pinned *l) { l->looks = LOOKS; }

larder__arena_block larder__pinned_take(larder__pinned *l, uint64_t bytes) {
    if (larder__grow(&l->waiting, &l->cap, l->out + 1, sizeof *l->waiting) < 0)
        return LARDER__NO_BLOCK;
    larder__arena_block b = larder__arena_take(l->arena, bytes);
    if (b == LARDER__NO_BLOCK && l->looks > 0 && larder__pinned_sweep(l))
        b = larder__arena_take(l->arena, bytes);
    l->out += b != LARDER__NO_BLOCK;
    return b;
}

void larder__pinned_publish(larder__pinned *l, uint64_t key, uint64_t offset, uint8_t held,
                            uint32_t size) {
    if (size < LARDER__PLACE_MOST)
        atomic_store_explicit(&l->places[key], larder__block_place_of(offset, held, size),
                              memory_order_release);
}

static void free_block(larder__pinned *l, larder__arena_block b) {
    larder__arena_give(l->arena, b);
    l->out--;
}

uint32_t larder__pinned_sweep(larder__pinned *l) {
    uint32_t left = 0, before = l->count;
    if (before == 0)
        return 0;
    atomic_thread_fence(memory_order_seq_cst); /* places are struck out: now who has pinned them? */
    uint32_t seen;
    size_t n = look_at_pins(l, &seen);
    look(l, before);
    for (uint32_t i = 0; i < before; i++) {
        uint32_t pin =
            (uint32_t)(larder__arena_offset(l->arena, l->waiting[i]) / LARDER__ARENA_GRAIN) + 1;
        if (n && bsearch(&pin, l->pinned, n, sizeof pin, by_number))
            l->waiting[left++] = l->waiting[i];
        else
            free_block(l, l->waiting[i]);
    }
    l->count = left;
    /* Pins are looked at once for as many blocks as there are places for pins, so each costs the
     * same, with nothing in those places too. */
    l->enough = left + (seen > FEW ? seen : FEW);
    return before - left;
}

static bool anybody_pins(const larder__pinned *l) {
    for (uint32_t j = 0; j < l->job_count; j++)
        if (used(l, j))
            return true;
    return false;
}

void larder__pinned_give(larder__pinned *l, larder__arena_block b, uint64_t key) {
    uint64_t pin = larder__arena_offset(l->arena, b) / LARDER__ARENA_GRAIN + 1;
    if (larder__block_place_pin(atomic_load_explicit(&l->places[key], memory_order_relaxed)) == pin)
        atomic_store_explicit(&l->places[key], 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (l->count == 0 && !anybody_pins(l)) {
        free_block(l, b);
        return;
    }
    l->waiting[l->count++] = b;
    if (l->count >= l->enough)
        larder__pinned_sweep(l);
}
