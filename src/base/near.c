#include "base/near.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char fold(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c == '_' ? '-' : c; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

size_t larder__edits(const char *a, const char *b, size_t most) {
    uint8_t space[3][LARDER__NEAR_CHARS + 1];
    uint8_t *before = space[0], *above = space[1], *row = space[2]; /* of rows i-2, i-1, i */
    size_t na = strlen(a), nb = strlen(b);
    if (na > LARDER__NEAR_CHARS || nb > LARDER__NEAR_CHARS || (na > nb ? na - nb : nb - na) > most)
        return most + 1;
    for (size_t j = 0; j <= nb; j++)
        above[j] = before[j] = (uint8_t)j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= nb; j++) {
            char x = fold(a[i - 1]), y = fold(b[j - 1]);
            size_t best =
                least(above[j - 1] + (x != y ? 1u : 0u), 1u + least(row[j - 1], above[j]));
            if (i > 1 && j > 1 && x == fold(b[j - 2]) && fold(a[i - 2]) == y)
                best = least(best, before[j - 2] + 1u);
            row[j] = (uint8_t)best;
        }
        uint8_t *spare = before;
        before = above, above = row, row = spare;
    }
    return least(above[nb], most + 1);
}

void larder__near_begin(larder__near *n, const char *word, size_t len) {
    *n = (larder__near){.edits = SIZE_MAX};
    if (len < sizeof n->word)
        memcpy(n->word, word, len);
}

/* A third of the longer word, so that "min" is minio and "x" is nothing. */
void larder__near_try(larder__near *n, const char *name, size_t len) {
    char other[LARDER__NEAR_CHARS] = "";
    size_t long_one = strlen(n->word) > len ? strlen(n->word) : len;
    if (!n->word[0] || len >= sizeof other)
        return;
    memcpy(other, name, len);
    size_t most = least(least((long_one + 1) / 3, 3), n->edits ? n->edits - 1 : 0);
    size_t edits = larder__edits(n->word, other, most);
    if (edits > most || edits >= n->edits)
        return;
    n->edits = edits;
    memcpy(n->best, other, sizeof other);
}

const char *larder__near_found(const larder__near *n) { return n->best[0] ? n->best : NULL; }

const char *larder__near_hint(const larder__near *n, char out[LARDER__NEAR_CHARS + 32]) {
    out[0] = 0;
    if (n->best[0])
        snprintf(out, LARDER__NEAR_CHARS + 32, "; did you mean %s?", n->best);
    return out;
}
