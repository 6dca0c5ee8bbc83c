/* Which files a pattern means: "s-{000..009}.tar", "s-*.tar", "{a,b}.tar", a folder of .tar files,
 * or several of these with commas between (outside of braces). */
#ifndef LARDER_SOURCE_SHARDS_H
#define LARDER_SOURCE_SHARDS_H

#include "source/names.h"

/* Adds the paths in order: patterns as given, ranges as they count, globs and folders sorted. */
int larder__shards_expand(larder__names *out, const char *patterns, const char *split);

#endif
