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
