#include "base/escape.h"

#include <stdbool.h>
#include <string.h>

size_t larder__utf8_length(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f, beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

/* Marks of direction (Unicode's Bidi_Control) and separators of lines are below U+FFFF. */
unsigned larder__hidden(const char *text, size_t length) {
    static const unsigned ranges[][2] = {{0x01, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069},
                                         {0xfeff, 0xfeff}};
    const unsigned char *s = (const unsigned char *)text;
    unsigned code = length == 1   ? s[0]
                    : length == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                    : length == 3 ? (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu)
                                  : 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return code;
    return 0;
}

size_t larder__shown_one(char out[LARDER__SHOWN_BYTES], const char *text) {
    size_t n = larder__utf8_length(text);
    unsigned code = n ? larder__hidden(text, n) : 0;
    if (n == 0 || (code && n == 1))
        snprintf(out, LARDER__SHOWN_BYTES, "\\x%02x", (unsigned)(unsigned char)text[0]);
    else if (code)
        snprintf(out, LARDER__SHOWN_BYTES, "\\u%04x", code & 0xffffu);
    else {
        memcpy(out, text, n);
        out[n] = 0;
    }
    return n ? n : 1;
}

size_t larder__shown(char *out, size_t cap, const char *text) {
    size_t used = 0;
    while (*text) {
        char one[LARDER__SHOWN_BYTES];
        text += larder__shown_one(one, text);
        size_t n = strlen(one);
        if (used + n >= cap)
            break;
        memcpy(out + used, one, n);
        used += n;
    }
    if (cap)
        out[used] = 0;
    return used;
}

void larder__shown_print(FILE *to, const char *text) {
    while (*text) {
        char one[LARDER__SHOWN_BYTES];
        text += larder__shown_one(one, text);
        fputs(one, to);
    }
}
