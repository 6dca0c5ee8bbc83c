/* What a server says is there: answers to a listing of S3, pages of a folder, manifests. All come
 * from somebody else; every parser is bounded by the bytes it is given, which it may write to. */
#ifndef LARDER_SOURCE_LISTED_H
#define LARDER_SOURCE_LISTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LARDER__BYTES_UNKNOWN UINT64_MAX
enum { LARDER__KEY_MAX = 4096, LARDER__LIST_TOKEN = 2048 };

typedef struct larder__listed {
    const char *name; /* n bytes, none of them zero */
    size_t n;
    bool folder;
    uint64_t bytes; /* LARDER__BYTES_UNKNOWN: not said */
    uint64_t tag;   /* of its ETag; 0: not said */
    int32_t label;  /* of a manifest; -1: not said */
} larder__listed;

/* A negative answer ends the reading and is its result. */
typedef int (*larder__listed_fn)(void *arg, const larder__listed *);

/* What tells one state of an object from another, from the text of an ETag or, for servers without
 * one, of a date; never 0. Only two of one kind can be compared. */
uint64_t larder__etag_tag(const char *text, size_t n);
uint64_t larder__date_tag(const char *text, size_t n);
static inline bool larder__tags_differ(uint64_t a, uint64_t b) {
    return a && b && (a & 1) == (b & 1) && a != b;
}

/* ListObjectsV2: names are whole keys, folders end with '/'. `token`: "" or where to go on. */
int larder__s3_list_parse(char *bytes, size_t n, larder__listed_fn, void *arg,
                          char token[LARDER__LIST_TOKEN]);
typedef struct larder__s3_error { /* "" where there is none */
    char code[64], message[160];
    char region[64]; /* where the bucket lies, of a refusal for that reason */
} larder__s3_error;
void larder__s3_error_parse(char *bytes, size_t n, larder__s3_error *out);

/* The page of a folder, HTML or nginx's JSON: names are what lies in it. */
int larder__page_parse(char *bytes, size_t n, larder__listed_fn, void *arg);

/* Does it end as such a page does? Of one that came without a word on how long it is. */
bool larder__page_is_whole(const char *bytes, size_t n);

/* One object a line: PATH, then perhaps a tab and its size or "-", then a tab and its class. Blank
 * lines and those that begin with '#' are none. */
int larder__manifest_parse(char *bytes, size_t n, const char *label, larder__listed_fn, void *arg);
/* Does a path lead to nothing but what lies below its folder? Manifests come from anybody. */
bool larder__stays_below(const char *path);

#endif
