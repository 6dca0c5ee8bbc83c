/* "s-{000..009}.tar", "{a,b}/x", several of them with commas between: what shells make of braces.
 */
#ifndef LARDER_SOURCE_BRACES_H
#define LARDER_SOURCE_BRACES_H

#include <stdint.h>

enum { LARDER__MOST_SHARDS = 1000000 };

/* Called for every text without braces, in order; a negative answer ends it and is the result. */
typedef int (*larder__pattern_fn)(void *arg, const char *text);
int larder__braces_expand(const char *patterns, larder__pattern_fn, void *arg);

#endif
