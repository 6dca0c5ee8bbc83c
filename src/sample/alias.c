#include "sample/alias.h"

#include "base/mem.h"
#include "sample/weights.h"

int larder__alias_open(larder__alias *a, uint64_t n) {
    *a = (larder__alias){.n = (uint32_t)n};
    a->cells = larder__malloc((n + !n) * sizeof *a->cells);
    a->order = larder__malloc((n + !n) * sizeof *a->order);
    if (a->cells && a->order)
        return 0;
    larder__alias_close(a);
    return LARDER_E_NOMEM;
}

void larder__alias_close(larder__alias *a) {
    larder__free(a->cells);
    larder__free(a->order);
    *a = (larder__alias){0};
}

/* The share of a cell as a threshold for 32 random bits. */
static uint32_t threshold(double share) {
    double keep = share * 4294967296.0;
    return keep >= 4294967295.0 ? UINT32_MAX : keep > 0 ? (uint32_t)(int64_t)keep : 0;
}

/* Light ids fit a cell, heavy ones do not. Both writes are made, one of them counts: which it is
 * cannot be foreseen, so a branch would cost more. */
static uint64_t part_by_weight(larder__alias *a, const float *w, double scale) {
    uint64_t light = 0, n = a->n, back = n - 1;
    for (uint64_t i = 0; i < n; i++) {
        bool fits = (double)w[i] * scale <= 1;
        a->order[light] = (uint32_t)i;
        a->order[back] = (uint32_t)i;
        light += fits;
        back -= !fits;
    }
    return light;
}

/* The heavy id at hand fills up the light ones' cells until what is left of it fits its own, which
 * then is filled up by the next heavy one. One cell is settled a step, in the order of memory. */
int larder__alias_build(larder__alias *a, const float *w) {
    larder__weights_sum sum;
    int rc = larder__weights_check(w, a->n, &sum);
    if (rc < 0)
        return rc;
    double scale = (double)a->n / sum.total;
    uint64_t lights = part_by_weight(a, w, scale), light = 0, heavy = a->n - 1;
    double left = (double)w[a->order[heavy]] * scale; /* of the heavy one */
    while (light < lights && heavy > lights) {
        bool fill = left > 1;
        uint32_t at_light = a->order[light], at_heavy = a->order[heavy];
        uint32_t next_heavy = a->order[heavy - 1], more = fill ? at_light : next_heavy;
        double share = (double)w[more] * scale, own = fill ? share : left;
        a->cells[fill ? at_light : at_heavy] =
            (larder__alias_cell){threshold(own), fill ? at_heavy : next_heavy};
        left += share - 1;
        light += fill;
        heavy -= !fill;
    }
    for (; heavy > lights; heavy--) { /* no light one left: the heavy ones fill each other up */
        uint32_t next = a->order[heavy - 1];
        a->cells[a->order[heavy]] = (larder__alias_cell){threshold(left), next};
        left += (double)w[next] * scale - 1;
    }
    /* What is left fills its cell but for rounding. Weight zero must not be drawn even so. */
    uint32_t last = lights < a->n ? a->order[lights] : (uint32_t)sum.largest;
    if (lights < a->n)
        a->cells[last] = (larder__alias_cell){UINT32_MAX, last};
    for (; light < lights; light++) {
        uint32_t at = a->order[light];
        a->cells[at] = (larder__alias_cell){threshold((double)w[at] * scale), last};
    }
    return 0;
}

/* One random number gives cell and coin: the whole and the fractional part of n times it. Cells lie
 * anywhere in a table larger than the processor's caches, so a block of them is asked for ahead. */
void larder__alias_draw(const larder__alias *a, larder_rng *rng, uint32_t *out, size_t count) {
    enum { BLOCK = 64 };
    uint64_t places[BLOCK];
    for (size_t from = 0; from < count; from += BLOCK) {
        size_t n = count - from < BLOCK ? count - from : BLOCK;
        for (size_t i = 0; i < n; i++) {
            uint64_t x = larder_rng_next(rng);
            places[i] = (x >> 32) * a->n + (((x & 0xffffffffu) * a->n) >> 32);
            __builtin_prefetch(&a->cells[places[i] >> 32]);
        }
        for (size_t i = 0; i < n; i++) {
            uint32_t at = (uint32_t)(places[i] >> 32);
            larder__alias_cell c = a->cells[at];
            uint32_t kept = 0u - (uint32_t)((uint32_t)places[i] < c.keep); /* all ones or none */
            out[from + i] = c.other ^ ((at ^ c.other) & kept);
        }
    }
}
