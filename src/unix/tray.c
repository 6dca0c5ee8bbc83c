#include "unix/tray.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LINE = 64 }; /* entries begin at whole lines */

static uint32_t lines(uint32_t n) { return (n + LINE - 1) / LINE * LINE; }

/* From a place in the tray to its end, at most n bytes. */
static uint32_t run(uint32_t place, uint32_t n) {
    uint32_t left = LARDER__TRAY_BYTES - place % LARDER__TRAY_BYTES;
    return n < left ? n : left;
}

/* To whole lines, past the caches: they lie in that of the daemon's processor, which has just read
 * them, and fetching 110 KB from there before they are overwritten takes 20 us, writing them 6. */
static void copy_past(unsigned char *to, const unsigned char *from, uint32_t n) {
    uint32_t at = 0;
#if defined(__SSE2__)
    for (; n - at >= LINE; at += LINE)
        for (uint32_t i = at; i < at + LINE; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#endif
    memcpy(to + at, from + at, n - at);
}

bool larder__tray_lay(larder__tray *t, uint32_t *laid, const void *from, uint32_t n) {
    uint32_t used = *laid - atomic_load_explicit(&t->taken, memory_order_acquire);
    if (used > LARDER__TRAY_BYTES || n > LARDER__TRAY_BYTES - used)
        return false;
    uint32_t first = run(*laid, n);
    copy_past(t->bytes + *laid % LARDER__TRAY_BYTES, from, first);
    copy_past(t->bytes, (const unsigned char *)from + first, n - first);
    *laid += lines(n);
    return true;
}

void larder__tray_take(larder__tray *t, uint32_t *taken, void *to, uint32_t n) {
    uint32_t first = run(*taken, n);
    if (to) {
        memcpy(to, t->bytes + *taken % LARDER__TRAY_BYTES, first);
        memcpy((char *)to + first, t->bytes, n - first);
    }
    *taken += lines(n);
    atomic_store_explicit(&t->taken, *taken, memory_order_release);
}
