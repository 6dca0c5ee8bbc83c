#include "svm/svm_text.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool larder__line_more(larder__line *l) {
    while (l->at < l->end && is_blank(*l->at))
        l->at++;
    return l->at < l->end;
}

/* ---- what was found instead ------------------------------------------------------------------ */

static void describe(char out[48], const char *at, const char *end) {
    size_t n = 0;
    if (at >= end || (*at == '\r' && at + 1 == end)) {
        snprintf(out, 48, "the end of the line");
        return;
    }
    unsigned char first = (unsigned char)*at;
    if (first < 0x20 || first >= 0x7f) {
        snprintf(out, 48, "byte 0x%02x", first);
        return;
    }
    out[n++] = '\'';
    while (at < end && n < 28 && *at > 0x20 && *at < 0x7f)
        out[n++] = *at++;
    if (n == 1) /* a blank */
        out[n++] = ' ';
    snprintf(out + n, 48 - n, at < end && n == 28 ? "...'" : "'");
}

int larder__line_fail(const larder__line *l, const char *at, const char *expected) {
    char found[48];
    describe(found, at, l->end);
    return larder__fail(LARDER_E_FORMAT, "%s: line %zu, column %zu: expected %s, found %s", l->name,
                        l->number, (size_t)(at - l->begin) + 1, expected, found);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct scan {
    const char *at, *end;
    uint64_t digits; /* up to 19 of them */
    int count, power;
} scan;

static void scan_digits(scan *s, int step) {
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (s->count < 19) {
            s->digits = s->digits * 10 + (uint64_t)(*s->at - '0');
            s->count += s->digits != 0;
            s->power -= step;
        } else {
            s->count++; /* too many: strtod decides */
        }
    }
}

static bool scan_exponent(scan *s) {
    if (s->at == s->end || (*s->at != 'e' && *s->at != 'E'))
        return true;
    const char *p = s->at + 1;
    bool minus = p < s->end && *p == '-';
    p += p < s->end && (*p == '-' || *p == '+');
    int e = 0;
    const char *first = p;
    for (; p < s->end && *p >= '0' && *p <= '9'; p++)
        e = e < 10000 ? e * 10 + (*p - '0') : e;
    if (p == first)
        return false;
    s->power += minus ? -e : e;
    s->at = p;
    return true;
}

/* Digits beyond what a double multiplies exactly: the C library rounds them right. The token was
 * seen to be a decimal number, so neither hex nor "inf" gets here. */
static double slow_number(const char *from, const char *to) {
    char text[512];
    size_t n = (size_t)(to - from);
    if (n < sizeof text) {
        memcpy(text, from, n);
        text[n] = '\0';
        return strtod(text, NULL);
    }
    return NAN; /* no writer makes such a number */
}

/* Is `p` where a decimal number ended? *out is set; else NULL is returned. */
static const char *decimal(const char *p, const char *end, double *out) {
    const char *from = p;
    bool minus = p < end && *p == '-';
    scan s = {.at = p + (p < end && (*p == '-' || *p == '+')), .end = end};
    const char *whole = s.at;
    scan_digits(&s, 0);
    size_t seen = (size_t)(s.at - whole);
    if (s.at < end && *s.at == '.') {
        const char *fraction = ++s.at;
        scan_digits(&s, 1);
        seen += (size_t)(s.at - fraction);
    }
    if (seen == 0 || !scan_exponent(&s))
        return NULL;
    double x = (double)s.digits;
    if (s.count > 19 || s.digits > (UINT64_C(1) << 53) || s.power < -22 || s.power > 22)
        x = s.digits == 0 ? 0 : fabs(slow_number(from, s.at));
    else
        x = s.power < 0 ? x / tens[-s.power] : x * tens[s.power];
    *out = minus ? -x : x;
    return s.at;
}

/* Digits, perhaps a point among them, and a blank: what nearly all numbers of a file are. The same
 * value as decimal's, which has the other cases; NULL: one of those. */
static const char *plain_decimal(const char *p, const char *end, double *out) {
    bool minus = p < end && *p == '-';
    p += minus;
    const char *from = p, *point = NULL;
    uint64_t digits = 0;
    for (; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (digit < 10)
            digits = digits * 10 + digit;
        else if (*p == '.' && !point)
            point = p;
        else
            break;
    }
    size_t count = (size_t)(p - from) - (point != NULL);
    if (count - 1 >= 15 || (p < end && !is_blank(*p))) /* none is as bad as too many */
        return NULL;
    double x = (double)digits;
    if (point)
        x /= tens[p - point - 1];
    *out = minus ? -x : x;
    return p;
}

int larder__line_number(larder__line *l, double *out, const char *what) {
    const char *plain = plain_decimal(l->at, l->end, out);
    if (plain) {
        l->at = plain;
        return 0;
    }
    const char *end = decimal(l->at, l->end, out);
    if (!end || (end < l->end && !is_blank(*end) && *end != ','))
        return larder__line_fail(l, l->at, what);
    if (!isfinite(*out))
        return larder__line_fail(l, l->at, "a number that fits a double");
    l->at = end;
    return 0;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

int larder__line_pair(larder__line *l, int64_t last, uint32_t first, uint32_t *index,
                      double *value) {
    const char *p = l->at;
    uint64_t i = 0;
    for (; p < l->end && *p >= '0' && *p <= '9' && i <= INT32_MAX; p++)
        i = i * 10 + (uint64_t)(*p - '0');
    if (p == l->at)
        return larder__line_fail(l, p, "index:value with a whole number as index");
    if (i > INT32_MAX)
        return larder__line_fail(l, l->at, "an index of at most 2147483647");
    if (i < first)
        return larder__line_fail(l, l->at,
                                 "an index of 1 or more (0 is for precomputed kernels, -t 4)");
    if ((int64_t)i <= last) {
        char what[80];
        snprintf(what, sizeof what, "an index above %lld (indices ascend, each once)",
                 (long long)last);
        return larder__line_fail(l, l->at, what);
    }
    if (p == l->end || *p != ':')
        return larder__line_fail(l, p, "':' after the index");
    l->at = p + 1;
    *index = (uint32_t)i;
    int rc = larder__line_number(l, value, "a number after the ':'");
    if (rc == 0 && l->at < l->end && *l->at == ',')
        return larder__line_fail(l, l->at, "a blank after the value");
    return rc;
}

/* ---- plain pairs, eight digits at a time ----------------------------------------------------- */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { PLAIN_READS = 48 }; /* the most bytes that a plain pair is looked at with */

static const uint64_t whole_tens[] = {
    1,           10,           100,           1000,           10000,
    100000,      1000000,      10000000,      100000000,      1000000000,
    10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000};

/* How many of the next eight bytes are digits before another one comes, and their value. */
static inline unsigned eight_digits(const char *p, uint64_t *value) {
    uint64_t x, tops = UINT64_C(0x8080808080808080);
    memcpy(&x, p, sizeof x);
    x ^= UINT64_C(0x3030303030303030); /* digits are 0 to 9 now */
    uint64_t others = ((x + UINT64_C(0x7676767676767676)) | x) & tops;
    unsigned n = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
    if (n == 0)
        return 0;
    x <<= 8 * (8 - n); /* zeros before the first digit */
    x = (x * 10 + (x >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x * 100 + (x >> 16)) & UINT64_C(0x0000ffff0000ffff);
    *value = (x * 10000 + (x >> 32)) & UINT64_C(0xffffffff);
    return n;
}

/* As plain_decimal; up to seven digits, and up to fifteen with those after the point. */
static inline const char *plain_number(const char *p, double *out) {
    uint64_t whole, part = 0;
    bool minus = *p == '-';
    p += minus;
    unsigned n = eight_digits(p, &whole), m = 0;
    if (n == 0 || n == 8)
        return NULL;
    p += n;
    double x = (double)whole;
    if (*p == '.') {
        m = eight_digits(++p, &part);
        if (m == 8) {
            uint64_t more = 0;
            unsigned k = eight_digits(p + 8, &more);
            if (k > 6) /* fifteen digits and more, whatever stands before the point */
                return NULL;
            part = part * whole_tens[k] + more;
            m += k;
        }
        if (n + m > 15)
            return NULL;
        p += m;
        x = (double)(whole * whole_tens[m] + part) / tens[m]; /* both exact: rounded once */
    }
    if (!is_blank(*p) && *p != '\n')
        return NULL;
    *out = minus ? -x : x;
    return p;
}

size_t larder__line_plain_pairs(larder__line *l, int64_t *last, uint32_t first, uint32_t *index,
                                double *value, size_t room) {
    size_t n = 0;
    const char *p = l->at;
    int64_t before = *last >= (int64_t)first ? *last : (int64_t)first - 1;
    while (n < room && l->stop && l->stop - p >= PLAIN_READS) {
        const char *from = p;
        uint64_t i;
        while (*from == ' ' && l->stop - from > PLAIN_READS)
            from++;
        unsigned digits = eight_digits(from, &i);
        if (digits == 0 || digits == 8 || from[digits] != ':' || (int64_t)i <= before)
            break;
        if (!(from = plain_number(from + digits + 1, &value[n])))
            break;
        before = *last = (int64_t)i;
        index[n++] = (uint32_t)i;
        p = from;
    }
    l->at = p;
    return n;
}
#else
size_t larder__line_plain_pairs(larder__line *l, int64_t *last, uint32_t first, uint32_t *index,
                                double *value, size_t room) {
    (void)l, (void)last, (void)first, (void)index, (void)value, (void)room;
    return 0;
}
#endif

/* ---- writing --------------------------------------------------------------------------------- */

/* Digits are those of the nearest whole number to x times a power of ten. The product is off by
 * 1e-8 at most, so unless it lies that near to a half, rounding it is rounding x. */
size_t larder__text_short(char out[24], double x) {
    double size = fabs(x);
    int e = -4; /* of the first digit */
    if (!(size >= 1.1e-4 && size < 9e7))
        return 0;
    while (size >= (e < -1 ? 1 / tens[-1 - e] : tens[e + 1]))
        e++;
    double scaled = size * tens[7 - e], below = floor(scaled);
    if (fabs(scaled - below - 0.5) < 1e-6)
        return 0;
    uint64_t n = (uint64_t)below + (scaled - below > 0.5);
    if (n < 10000000 || n > 99999999)
        return 0;
    int decimals = 7 - e;
    for (; decimals > 0 && n % 10 == 0; decimals--)
        n /= 10;
    char text[24], *at = text + sizeof text;
    for (int i = 0; n || i <= decimals; i++, n /= 10) {
        if (i == decimals && i > 0)
            *--at = '.';
        *--at = (char)('0' + n % 10);
    }
    if (x < 0)
        *--at = '-';
    size_t length = (size_t)(text + sizeof text - at);
    memcpy(out, at, length);
    return length;
}
