#include "stage/recolour.h"

#include "base/clones.h"
#include "stage/canvas.h"

#include <math.h>

static size_t bytes_of(const larder_canvas *k) { return (size_t)k->w * k->h * k->step; }
static size_t words_of(const larder_canvas *k) { return (size_t)k->w * k->h; }

/* Only written down? */
static bool noted(const larder_canvas *k, larder__recolour op, double by) {
    larder__recolours *to = k->inside ? ((larder__canvas *)k->inside)->noted : NULL;
    if (!to)
        return false;
    if (to->count < LARDER__RECOLOURS_MOST) {
        to->each[to->count].op = (int32_t)op;
        to->each[to->count].by = (float)by;
    }
    to->count++;
    return true;
}

/* ---- blending -------------------------------------------------------------------------------- */

/* Pillow's: floats, cut off towards zero, and kept within 0..255. */
LARDER__INLINE int32_t blended(int32_t from, int32_t to, float alpha) {
    float v = (float)from + alpha * (float)(to - from);
    v = v < 0 ? 0 : v;
    return (int32_t)(v > 255 ? 255 : v);
}

LARDER__CLONES
static void blend_level(uint8_t *at, size_t n, int32_t level, float alpha) {
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)blended(level, at[i], alpha);
}

#define ENDS_FIRST (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/* A pixel as one number, its first channel lowest. */
LARDER__INLINE uint32_t word_at(const uint8_t *at, size_t i) {
    uint32_t v;
    memcpy(&v, at + i * 4, 4);
    return ENDS_FIRST ? __builtin_bswap32(v) : v;
}

LARDER__INLINE void put_word(uint8_t *at, size_t i, uint32_t v) {
    v = ENDS_FIRST ? __builtin_bswap32(v) : v;
    memcpy(at + i * 4, &v, 4);
}

LARDER__INLINE int32_t part(uint32_t word, int c) { return (int32_t)((word >> (8 * c)) & 255); }

/* The weights of ITU-R 601 in 16 bits. */
LARDER__INLINE int32_t grey_of(uint32_t v) {
    return (part(v, 0) * 19595 + part(v, 1) * 38470 + part(v, 2) * 7471 + 0x8000) >> 16;
}

LARDER__INLINE uint32_t joined(int32_t r, int32_t g, int32_t b, uint32_t was) {
    return (uint32_t)r | (uint32_t)g << 8 | (uint32_t)b << 16 | (was & 0xff000000u);
}

LARDER__CLONES
static void saturate_words(uint8_t *at, size_t n, float alpha) {
    for (size_t i = 0; i < n; i++) {
        uint32_t v = word_at(at, i);
        int32_t grey = grey_of(v);
        v = joined(blended(grey, part(v, 0), alpha), blended(grey, part(v, 1), alpha),
                   blended(grey, part(v, 2), alpha), v);
        put_word(at, i, v);
    }
}

LARDER__CLONES
static void grey_words(uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t v = word_at(at, i);
        int32_t grey = grey_of(v);
        v = joined(grey, grey, grey, v);
        put_word(at, i, v);
    }
}

LARDER__CLONES
static uint64_t sum_words(const uint8_t *at, size_t n) {
    uint64_t all = 0;
    for (size_t from = 0; from < n; from += 4096) { /* 32 bits do for so many */
        size_t to = from + 4096 < n ? from + 4096 : n;
        uint32_t sum = 0;
        for (size_t i = from; i < to; i++)
            sum += (uint32_t)grey_of(word_at(at, i));
        all += sum;
    }
    return all;
}

static uint64_t sum_bytes(const uint8_t *at, size_t n, size_t step) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += at[i * step];
    return sum;
}

void larder__brighten(const larder_canvas *k, double factor) {
    if (!noted(k, LARDER__BRIGHTEN, factor))
        blend_level(k->at, bytes_of(k), 0, (float)factor);
}

void larder__contrast(const larder_canvas *k, double factor) {
    size_t n = words_of(k);
    if (noted(k, LARDER__CONTRAST, factor))
        return;
    uint64_t sum = k->c >= 3 ? sum_words(k->at, n) : sum_bytes(k->at, n, k->step);
    blend_level(k->at, bytes_of(k), (int32_t)((double)sum / (double)n + 0.5), (float)factor);
}

void larder__saturate(const larder_canvas *k, double factor) {
    if (k->c >= 3 && !noted(k, LARDER__SATURATE, factor))
        saturate_words(k->at, words_of(k), (float)factor);
}

void larder__grey(const larder_canvas *k) {
    if (k->c >= 3 && !noted(k, LARDER__TO_GREY, 0))
        grey_words(k->at, words_of(k));
}

/* ---- hue ------------------------------------------------------------------------------------- */

/* Without a branch, or the loops below would be no vector code. */
LARDER__INLINE int32_t chosen(int32_t yes, int32_t a, int32_t b) { return b ^ ((a ^ b) & -yes); }

/* To hue, saturation and value of 8 bits each, the hue turned, and back. The hue is rounded in
 * doubles as Pillow rounds it: one step of it can be six levels of a colour. Some pixels at a time,
 * in three passes. */
enum { AT_ONCE = 256 };
typedef struct colours {
    int32_t most[AT_ONCE], range[AT_ONCE]; /* largest part, and how far the smallest is below it */
    /* In which third of the circle it lies, 0, 2 or 4, and how far the other two parts are below
     * the largest. */
    int32_t base[AT_ONCE], first[AT_ONCE], then[AT_ONCE];
    int32_t hue[AT_ONCE], saturation[AT_ONCE];
} colours;

LARDER__INLINE void take_colours(colours *restrict o, const uint8_t *restrict at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t v = word_at(at, i);
        int32_t r = part(v, 0), g = part(v, 1), b = part(v, 2);
        int32_t most = r > g ? r : g, least = r < g ? r : g;
        most = most > b ? most : b;
        least = least < b ? least : b;
        o->most[i] = most;
        o->range[i] = most - least;
        o->base[i] = chosen(r == most, 0, chosen(g == most, 2, 4));
        o->first[i] = most - chosen(r == most, b, chosen(g == most, r, g));
        o->then[i] = most - chosen(r == most, g, chosen(g == most, b, r));
    }
}

LARDER__INLINE void find_hues(colours *o, size_t n, int32_t turn) {
    float first[AT_ONCE], then[AT_ONCE], full[AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        float range = (float)(o->range[i] | (o->range[i] == 0)); /* 0 is as good as 1 */
        first[i] = (float)o->first[i] / range;
        then[i] = (float)o->then[i] / range;
        full[i] = (float)o->range[i] / (float)(o->most[i] | (o->most[i] == 0));
    }
    for (size_t i = 0; i < n; i++) {
        float h = (float)((double)o->base[i] + (double)first[i] - (double)then[i]);
        double around = (double)h / 6.0 + 1.0;
        float share = (float)(around - (double)(int32_t)around);
        o->hue[i] = ((int32_t)((double)share * 255.0) + turn) & 255;
        o->saturation[i] = (int32_t)((double)full[i] * 255.0);
    }
}

LARDER__INLINE void give_colours(const colours *restrict o, uint8_t *restrict at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t most = o->most[i], hue = o->hue[i], grey = o->saturation[i] == 0;
        int32_t sector = (hue * 2 * 772) >> 16; /* hue * 6 / 255 */
        float f = (float)(hue * 6 - sector * 255) * (1.0f / 255), value = (float)most;
        float s = (float)o->saturation[i] * (1.0f / 255);
        int32_t p = (int32_t)(value * (1 - s) + 0.5f), q = (int32_t)(value * (1 - s * f) + 0.5f);
        int32_t t = (int32_t)(value * (1 - s * (1 - f)) + 0.5f);
        sector = chosen(sector == 6, 0, sector);
        /* Red is v q p p t v in the six sectors, green t v v q p p, blue p p t v v q. */
        int32_t red = chosen(sector == 1, q, p), green = chosen(sector == 0, t, p);
        int32_t blue = chosen(sector == 2, t, p);
        red = chosen(sector == 4, t, red);
        red = chosen((sector == 0) | (sector == 5) | grey, most, red);
        green = chosen(sector == 3, q, green);
        green = chosen((sector == 1) | (sector == 2) | grey, most, green);
        blue = chosen(sector == 5, q, blue);
        blue = chosen((sector == 3) | (sector == 4) | grey, most, blue);
        put_word(at, i, joined(red, green, blue, word_at(at, i)));
    }
}

LARDER__CLONES
static void turn_words(uint8_t *at, size_t n, int32_t turn) {
    colours o;
    for (size_t some; n > 0; n -= some, at += some * 4) {
        some = n < AT_ONCE ? n : AT_ONCE;
        take_colours(&o, at, some);
        find_hues(&o, some, turn);
        give_colours(&o, at, some);
    }
}

void larder__turn_hue(const larder_canvas *k, double turn) {
    int32_t by = (int32_t)(turn * 255) & 255;
    if (k->c >= 3 && !noted(k, LARDER__HUE, by))
        turn_words(k->at, words_of(k), by);
}

/* ---- levels ---------------------------------------------------------------------------------- */

LARDER__CLONES
static void invert_bytes(uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)(255 - at[i]);
}

LARDER__CLONES
static void mask_bytes(uint8_t *at, size_t n, uint8_t keep) {
    for (size_t i = 0; i < n; i++)
        at[i] = at[i] & keep;
}

LARDER__CLONES
static void solarize_bytes(uint8_t *at, size_t n, uint8_t below) {
    for (size_t i = 0; i < n; i++)
        at[i] = at[i] <= below ? at[i] : (uint8_t)(255 - at[i]);
}

void larder__invert(const larder_canvas *k) {
    if (!noted(k, LARDER__INVERT, 0))
        invert_bytes(k->at, bytes_of(k));
}

void larder__posterize(const larder_canvas *k, unsigned bits) {
    uint8_t keep = (uint8_t)(0xff00u >> (bits < 8 ? bits : 8));
    if (!noted(k, LARDER__MASK, keep))
        mask_bytes(k->at, bytes_of(k), keep);
}

void larder__solarize(const larder_canvas *k, double threshold) {
    if (threshold <= 0)
        larder__invert(k);
    else if (threshold <= 255 && /* levels below it stay */
             !noted(k, LARDER__SOLARIZE, ceil(threshold) - 1))
        solarize_bytes(k->at, bytes_of(k), (uint8_t)(ceil(threshold) - 1));
}

/* ---- by how often levels occur --------------------------------------------------------------- */

typedef uint32_t histogram[LARDER_CHANNELS_MAX][256];

static void count_levels(const larder_canvas *k, histogram out) {
    static const size_t per = 2; /* two at a time: equal neighbours would wait for each other */
    histogram odd = {{0}};
    memset(out, 0, sizeof(histogram));
    size_t n = words_of(k), i = 0;
    const uint8_t *at = k->at;
    for (; i + per <= n; i += per, at += per * k->step)
        for (uint32_t c = 0; c < k->c; c++) {
            out[c][at[c]]++;
            odd[c][at[k->step + c]]++;
        }
    for (uint32_t c = 0; c < k->c; c++) {
        if (i < n)
            out[c][at[c]]++;
        for (size_t level = 0; level < 256; level++)
            out[c][level] += odd[c][level];
    }
}

static void same_levels(uint8_t table[256]) {
    for (size_t i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
}

static void equal_levels(const uint32_t count[256], size_t n, uint8_t table[256]) {
    size_t last = 255;
    while (last > 0 && count[last] == 0)
        last--;
    size_t step = (n - count[last]) / 255;
    if (step == 0) {
        same_levels(table);
        return;
    }
    size_t sum = step / 2;
    for (size_t i = 0; i < 256; i++) {
        size_t level = sum / step;
        table[i] = (uint8_t)(level < 255 ? level : 255);
        sum += count[i];
    }
}

static void stretched_levels(const uint32_t count[256], uint8_t table[256]) {
    size_t low = 0, high = 255;
    while (low < 255 && count[low] == 0)
        low++;
    while (high > 0 && count[high] == 0)
        high--;
    same_levels(table);
    if (high <= low)
        return;
    double scale = 255.0 / (double)(high - low), offset = -(double)low * scale;
    for (size_t i = 0; i < 256; i++) {
        double v = (double)i * scale + offset;
        table[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

void larder__equalize(const larder_canvas *k) {
    histogram count;
    uint8_t table[LARDER_CHANNELS_MAX][256] = {{0}};
    count_levels(k, count);
    for (uint32_t c = 0; c < k->c; c++)
        equal_levels(count[c], words_of(k), table[c]);
    larder__canvas_look_up(k, table);
}

void larder__autocontrast(const larder_canvas *k) {
    histogram count;
    uint8_t table[LARDER_CHANNELS_MAX][256] = {{0}};
    count_levels(k, count);
    for (uint32_t c = 0; c < k->c; c++)
        stretched_levels(count[c], table[c]);
    larder__canvas_look_up(k, table);
}
