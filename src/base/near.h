/* "Did you mean": the known name that lies nearest to what somebody typed. A few single-letter
 * edits count as a slip of the finger, more than that as another word. */
#ifndef LARDER_BASE_NEAR_H
#define LARDER_BASE_NEAR_H

#include <stddef.h>

enum { LARDER__NEAR_CHARS = 64 }; /* longer words are near to nothing */

typedef struct larder__near { /* the names as they are walked */
    char word[LARDER__NEAR_CHARS];
    char best[LARDER__NEAR_CHARS];
    size_t edits; /* from word to best */
} larder__near;

/* Letters to insert, drop, exchange for another or swap with their neighbour (Damerau and
 * Levenshtein; no letter is touched twice), to get from a to b: at most `most`, else most + 1. Case
 * makes no difference, nor do - and _. */
size_t larder__edits(const char *a, const char *b, size_t most);

/* Not ended by a zero byte: at most `len` of them count. */
void larder__near_begin(larder__near *, const char *word, size_t len);
/* Names tried earlier win a tie. */
void larder__near_try(larder__near *, const char *name, size_t len);
/* The nearest name, NULL when none is near enough to be meant. */
const char *larder__near_found(const larder__near *);
/* "; did you mean best?", "" when there is none. */
const char *larder__near_hint(const larder__near *, char out[LARDER__NEAR_CHARS + 32]);

#endif
