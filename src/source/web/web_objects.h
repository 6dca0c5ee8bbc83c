/* The objects that a data set is made of: name below a common folder, size, and what tells whether
 * it is still the same. Filled at open; only tags that were not known change later. */
#ifndef LARDER_SOURCE_WEB_OBJECTS_H
#define LARDER_SOURCE_WEB_OBJECTS_H

#include "source/names.h"
#include "source/web/web.h"

typedef struct larder__web_objects {
    char *root; /* "" or a key that ends with '/' */
    larder__names names;
    uint64_t *bytes, *tags; /* LARDER__BYTES_UNKNOWN; 0 */
    size_t bytes_cap, tags_cap;
} larder__web_objects;

int larder__web_objects_add(larder__web_objects *, const char *name, size_t n, uint64_t bytes,
                            uint64_t tag);
void larder__web_objects_free(larder__web_objects *);
/* A whole key, on the heap; NULL: no memory. */
char *larder__web_key(const char *root, const char *name);
char *larder__web_objects_key(const larder__web_objects *, uint64_t i);
/* Asks for the sizes (and tags, where `tags`) that are not known. With `gaps`, one that is not
 * there keeps LARDER__BYTES_UNKNOWN. */
int larder__web_objects_ask(larder__web_objects *, larder__web *, bool tags, bool gaps);
/* Asks for the tags of some, spread over all, where no list has told them; whoever does not answer
 * has none. */
void larder__web_objects_peek(larder__web_objects *, larder__web *);
/* Any thread: what it was when it was first seen. */
uint64_t larder__web_objects_tag(const larder__web_objects *, uint64_t i);
void larder__web_objects_seen(larder__web_objects *, uint64_t i, uint64_t tag);

#endif
