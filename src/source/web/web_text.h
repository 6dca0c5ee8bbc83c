/* A text that grows while a URL or a request is put together; its error is sticky. */
#ifndef LARDER_SOURCE_WEB_TEXT_H
#define LARDER_SOURCE_WEB_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct larder__text { /* zeroed is empty */
    char *at;                 /* ends with a zero byte once something was added */
    size_t n, cap;
    bool failed; /* no memory; what was added later is not in it */
} larder__text;

void larder__text_add(larder__text *, const char *bytes, size_t n);
void larder__text_put(larder__text *, const char *);
void larder__text_free(larder__text *);

/* Adds `bytes` so that they can stand in a URL: all but letters, digits and "-._~" become %XX, and
 * '/' unless `path`. As RFC 3986 and Amazon's signatures want it. */
void larder__text_escaped(larder__text *, const char *bytes, size_t n, bool path);
/* Undoes %XX in place, and '+' for a blank where `form`; "%00" stays as it is. Returns the
 * length. */
size_t larder__text_unescape(char *text, size_t n, bool form);
/* Undoes &amp; &lt; &gt; &quot; &apos; &#N; &#xN; in place; others stay. Returns the length. */
size_t larder__text_unentity(char *text, size_t n);

#endif
