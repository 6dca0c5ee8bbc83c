/* Data sets come with a training and a test part. Every source that knows parts takes the same
 * parameter, `split`, and means the training part unless told otherwise. */
#ifndef LARDER_SOURCE_SPLIT_H
#define LARDER_SOURCE_SPLIT_H

#include <larder/plugin.h>

#define LARDER__SPLIT_PARAM                                                                        \
    {                                                                                              \
        "split", "auto|train|test|val", "auto",                                                    \
            "which part: auto means train where there are parts", 0, 0                             \
    }

/* Is this folder made of parts, train/ (with folders or shards in it) beside test/ or val/? Then
 * writes the wanted part's path into out, else `where` itself; E_NOTFOUND when `split` names a
 * part and there is none. */
int larder__split_folder(const char *where, const char *split, char *out, size_t cap);
/* The same for file names: does `name` belong to the wanted part? Parts are told by the words
 * train, and test or val, in the name. 1: train, 2: test, 3: val, 0: no word. */
int larder__split_word(const char *name);

/* Names may be parts: train-0.tar beside val-0.tar. Of so many with each word, which one is wanted?
 * 0: all of them, there are no parts; E_NOTFOUND: there are none, and `split` wants one. */
int larder__split_wanted(const size_t words[4], const char *split, const char *where);

/* The names that folders of a part have, the most usual first, NULL at the end. */
const char *const *larder__split_names(const char *split);

bool larder__is_shard_name(const char *path); /* x.tar */
bool larder__is_folder(const char *path);
bool larder__is_file(const char *path);

#endif
