/* Tags and texts of an XML document, one after the other, as far as S3's answers need it: no
 * entities of its own (a DOCTYPE is refused), no attributes, names without their prefix. Bounded by
 * the bytes given. */
#ifndef LARDER_SOURCE_XML_SCAN_H
#define LARDER_SOURCE_XML_SCAN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct larder__xml {
    char *at, *end;      /* texts are decoded in place */
    const char *path[8]; /* open elements, the innermost last */
    size_t path_size[8];
    unsigned depth;   /* may be more than there is room for in `path` */
    bool empty;       /* the element that was just opened ends at once */
    const char *text; /* what lies between its tags, when an element without others ends */
    size_t text_size;
    bool leaf, closing;
} larder__xml;

enum { LARDER__XML_END, LARDER__XML_OPEN, LARDER__XML_CLOSE };

void larder__xml_begin(larder__xml *, char *bytes, size_t n);
/* The next tag, or a negative code. After OPEN and CLOSE the element is the last of `path`; at
 * CLOSE `text` is its text. */
int larder__xml_next(larder__xml *);
/* Is the innermost element this one? */
bool larder__xml_is(const larder__xml *, const char *name);
/* And the one around it? */
bool larder__xml_within(const larder__xml *, const char *name);

#endif
