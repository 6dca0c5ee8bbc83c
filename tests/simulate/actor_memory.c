/* The heap of a process, which goes when the process does, whatever it still held: a region of its
 * own, cut into blocks of powers of two. */
#include "actors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

enum { HEAD = 16, LEAST = 6, CLASSES = 26, JUNK = 256 };
#define REGION ((size_t)256 << 20)

typedef struct block { /* in front of what is given out */
    uint64_t size;
    uint32_t power, heap;
} block;
_Static_assert(sizeof(block) == HEAD, "data stay aligned");

struct actor_heap {
    size_t top, used;
    void *unused[CLASSES];
};

static unsigned char *all; /* the regions of all heaps */
static actor_heap heaps[ACTOR_PROCESSES];

static block *block_of(const void *p) { return (block *)((uintptr_t)p - HEAD); }

actor_heap *actor_heap_of(uint32_t number) {
    if (!all) {
        all = mmap(NULL, REGION * ACTOR_PROCESSES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED)
            abort();
    }
    return &heaps[number];
}

void actor_heap_reset(actor_heap *h) { *h = (actor_heap){0}; }
size_t actor_heap_used(const actor_heap *h) { return h->used; }
size_t actor_size(const void *p) { return block_of(p)->size; }

bool actor_owns(const void *p) {
    return all && (uintptr_t)p >= (uintptr_t)all &&
           (uintptr_t)p < (uintptr_t)all + REGION * ACTOR_PROCESSES;
}

void *actor_alloc(actor_heap *h, size_t bytes) {
    uint32_t power = LEAST;
    while (((size_t)1 << power) < bytes + HEAD)
        power++;
    if (power >= CLASSES)
        return NULL;
    unsigned char *base = all + (size_t)(h - heaps) * REGION;
    void *p = h->unused[power];
    if (p) {
        ASAN_UNPOISON_MEMORY_REGION(p, ((size_t)1 << power) - HEAD);
        memcpy(&h->unused[power], p, sizeof p);
    } else {
        size_t step = (size_t)1 << power;
        if (h->top + step + 64 > REGION)
            return NULL;
        p = base + h->top + 64; /* whatever is large is aligned to 64, as head and block are */
        h->top += step;
        ASAN_UNPOISON_MEMORY_REGION((char *)p - HEAD, step);
    }
    *block_of(p) = (block){bytes, power, (uint32_t)(h - heaps)};
    memset(p, 0xa5, bytes < JUNK ? bytes : JUNK); /* not what was there before: seeds repeat */
    ASAN_POISON_MEMORY_REGION((char *)p + bytes, ((size_t)1 << power) - HEAD - bytes);
    h->used++;
    return p;
}

void actor_release(void *p) {
    block *b = block_of(p);
    actor_heap *h = &heaps[b->heap];
    ASAN_UNPOISON_MEMORY_REGION(p, ((size_t)1 << b->power) - HEAD);
    b->size = UINT64_MAX;
    memcpy(p, &h->unused[b->power], sizeof p);
    h->unused[b->power] = p;
    ASAN_POISON_MEMORY_REGION(p, ((size_t)1 << b->power) - HEAD);
    h->used--;
}

void actor_heap_tell(const actor_heap *h) {
    unsigned char *base = all + (size_t)(h - heaps) * REGION;
    for (size_t at = 0; at < h->top;) {
        const block *b = block_of(base + at + 64);
        if (b->size != UINT64_MAX)
            actors_log("a block of %llu bytes is left", (unsigned long long)b->size);
        at += (size_t)1 << b->power;
    }
}
