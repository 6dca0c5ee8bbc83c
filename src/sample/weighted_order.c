#include "sample/weighted_order.h"

#include "base/clones.h"
#include "base/mem.h"
#include "sample/weights.h"

int larder__weighted_order_open(larder__weighted_order *o, uint64_t n) {
    *o = (larder__weighted_order){.n = n};
    o->a = larder__malloc((n + !n) * sizeof *o->a);
    o->b = larder__malloc((n + !n) * sizeof *o->b);
    if (o->a && o->b)
        return 0;
    larder__weighted_order_close(o);
    return LARDER_E_NOMEM;
}

void larder__weighted_order_close(larder__weighted_order *o) {
    larder__free(o->a);
    larder__free(o->b);
    *o = (larder__weighted_order){0};
}

/* ---- times ----------------------------------------------------------------------------------- */

enum { BLOCK = 256 };

/* A number u uniform in (0,1) as mantissa / 2^power. The power is how many coins in a row fall
 * heads, so there are 52 bits of precision wherever u lies. The mantissa is taken from [1/sqrt 2,
 * sqrt 2], around the one where logarithms are easy. */
static void draw_uniform(larder_rng *rng, uint64_t *mantissa, double *power) {
    const uint64_t one = 0x3ff0000000000000u, root_of_two = 0x3ff6a09e667f3bcdu;
    uint64_t x = larder_rng_next(rng), coins = x >> 52, m = (x & 0xfffffffffffffu) | one;
    uint64_t halve = m > root_of_two;
    int heads = 1;
    for (; coins == 0 && heads < 130; heads += 12)
        coins = larder_rng_next(rng) >> 52;
    *mantissa = m - (halve << 52);
    *power = heads + (coins ? __builtin_clzll(coins) - 52 : 0) - (int)halve;
}

/* -log(u) / weight as an integer that orders alike. Our own logarithm: it vectorises, and the C
 * library's may differ in the last bit from machine to machine, which would make orders differ.
 * log m = 2 atanh t, whose first term left out is below 1e-13. Times lie within 2^-190 .. 2^190 for
 * all weights there are: nine bits of exponent and 23 of mantissa. Of weight zero: anything. */
LARDER__CLONES static void times_of(const uint64_t *mantissa, const double *power, const float *w,
                                    uint64_t *out) {
    const uint64_t least = 0x3410000000000000u; /* the bits of 2^-190 */
    for (int i = 0; i < BLOCK; i++) {
        double m, time;
        memcpy(&m, &mantissa[i], sizeof m);
        double t = (m - 1) / (m + 1), q = t * t;
        double s = 1.0 / 13 + q * (1.0 / 15);
        s = 1.0 / 9 + q * (1.0 / 11 + q * s);
        s = 1.0 / 5 + q * (1.0 / 7 + q * s);
        s = 1 + q * (1.0 / 3 + q * s);
        time = (power[i] * 0.6931471805599453 - 2 * t * s) / (double)w[i];
        uint64_t bits;
        memcpy(&bits, &time, sizeof bits);
        out[i] = (bits - least) >> 29;
    }
}

/* ---- sorting by them ------------------------------------------------------------------------- */

/* Eight bits at a time: 256 places being written to stay in the processor's first cache, which more
 * than makes up for the fourth pass. */
enum { DIGIT = 8, VALUES = 1 << DIGIT, PASSES = 4 };

static uint32_t digit(uint64_t item, int pass) {
    return (uint32_t)(item >> (32 + DIGIT * pass)) & (VALUES - 1);
}

/* Writes time << 32 | id for all ids and counts digits. */
static void make_items(uint64_t *items, const float *w, uint64_t n, larder_rng *rng,
                       uint32_t counts[PASSES][VALUES]) {
    uint64_t mantissa[BLOCK] = {0}, times[BLOCK];
    double power[BLOCK] = {0};
    float weights[BLOCK] = {0};
    for (uint64_t from = 0; from < n; from += BLOCK) {
        uint64_t m = n - from < BLOCK ? n - from : BLOCK;
        memcpy(weights, w + from, m * sizeof *w);
        for (uint64_t i = 0; i < m; i++)
            draw_uniform(rng, &mantissa[i], &power[i]);
        times_of(mantissa, power, weights, times);
        for (uint64_t i = 0; i < m; i++) {
            uint64_t time = weights[i] > 0 ? times[i] : UINT32_MAX; /* never: they come last */
            uint64_t item = items[from + i] = time << 32 | (from + i);
            for (int p = 0; p < PASSES; p++)
                counts[p][digit(item, p)]++;
        }
    }
}

/* From the lowest digit to the highest, each pass stable. An even number of passes: back in o->a.
 */
static void sort_items(larder__weighted_order *o, uint32_t counts[PASSES][VALUES]) {
    uint64_t *from = o->a, *to = o->b;
    for (int p = 0; p < PASSES; p++) {
        uint32_t *at = counts[p], sum = 0;
        for (int v = 0; v < VALUES; v++) {
            uint32_t count = at[v];
            at[v] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < o->n; i++)
            to[at[digit(from[i], p)]++] = from[i];
        uint64_t *t = from;
        from = to;
        to = t;
    }
}

/* Times that agree in all 32 bits would be told apart by further bits, which are as good as coins:
 * such a run is shuffled. Without it small ids would come first, visibly so past 10 million. */
static void write_order(const uint64_t *items, uint64_t n, larder_rng *rng, uint32_t *out) {
    for (uint64_t i = 0, end; i < n; i = end) {
        uint64_t time = items[i] >> 32;
        out[i] = (uint32_t)items[i];
        for (end = i + 1; end < n && items[end] >> 32 == time; end++) {
            uint64_t j = i + larder_rng_below(rng, (uint32_t)(end - i + 1));
            out[end] = out[j];
            out[j] = (uint32_t)items[end];
        }
    }
}

int larder__weighted_order_make(larder__weighted_order *o, const float *weights, larder_rng *rng,
                                uint32_t *out) {
    larder__weights_sum sum;
    int rc = larder__weights_check(weights, o->n, &sum);
    if (rc < 0)
        return rc;
    uint32_t counts[PASSES][VALUES] = {{0}};
    make_items(o->a, weights, o->n, rng, counts);
    sort_items(o, counts);
    write_order(o->a, o->n, rng, out);
    return 0;
}
