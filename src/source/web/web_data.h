/* A data set on a site. Where samples lie differs by kind: each an object, in tar shards, or in
 * packed shards; what has to be read of which object is then fetched for all kinds alike. */
#ifndef LARDER_SOURCE_WEB_DATA_H
#define LARDER_SOURCE_WEB_DATA_H

#include "source/tar_index.h"
#include "source/web/web_objects.h"

#include <larder/plugin.h>

typedef struct larder__web_want { /* bytes of an object that belong to a sample */
    uint64_t object, at;
    size_t n;
    unsigned char *to;
    size_t sample; /* of the call */
} larder__web_want;

typedef struct larder__web_wants {
    larder__web_want *items;
    size_t used, cap;
} larder__web_wants;

int larder__web_wants_add(larder__web_wants *, const larder__web_want *);

typedef struct larder__web_data larder__web_data;
struct larder__web_packs;

typedef struct larder__web_kind {
    int (*stat)(larder__web_data *, uint64_t id, larder_sample *out);
    int (*name)(larder__web_data *, uint64_t id, char *out, size_t cap);
    /* The buffer of a sample, or of what a rectangle needs of it, and what has to be read into it.
     * `hand`: what a call has in hand, kept from sample to sample. */
    int (*plan)(larder__web_data *, void **hand, uint64_t id, const larder_rect *,
                larder__web_wants *, size_t sample, larder_buf **out);
    void (*let_go)(larder__web_data *, void **hand);
    /* Optional, as in larder_source; about is known from then on. */
    int (*choose)(larder__web_data *, const char *const *names, size_t n);
    const char *(*field)(larder__web_data *, size_t i);
    void (*close)(larder__web_data *);
    int (*file)(larder__web_data *, uint64_t id, uint64_t *out); /* NULL: each in its own */
} larder__web_kind;

struct larder__web_data {
    larder__web *web;
    larder__web_objects objects; /* images or shards */
    const larder__web_kind *kind;
    larder_dataset about;
    larder__names classes;
    uint64_t gap, range; /* bytes: read over so many; join up to so many */
    bool check;          /* a changed ETag is an error */
    bool keep;           /* indexes are kept in the user's cache folder */
    uint32_t margin;
    int32_t *labels;         /* images: of each */
    uint64_t *firsts;        /* packs: first id of each, and the count at the end */
    larder__tar_index index; /* tar shards */
    struct larder__web_packs *packs;
    larder__found found;
    larder__found_says says;
};

/* Its site, for people: an object's key may follow. */
static inline const char *larder__web_shown(const larder__web_data *d) {
    return larder__web_site_shown(larder__web_site_of(d->web));
}

/* All wants of a call; those of a sample that failed have its code and sentence in out[sample]. */
int larder__web_fetch(larder__web_data *, larder__web_wants *, larder_read *out);
/* n bytes at an offset of one object, now. */
int larder__web_get(larder__web_data *, const larder__web_objects *, uint64_t object, void *out,
                    size_t n, uint64_t at);

/* From a key to a data set; what is not said to be a shard or a manifest is a folder, and the key
 * gets its '/'. */
int larder__web_data_open(larder__web_data *, char **key, const char *split);

/* What was found becomes a data set. `walk` or `manifest` (an answer's bytes) say what is there. */
struct larder__web_walk;
int larder__web_images_walked(larder__web_data *, struct larder__web_walk *);
typedef struct larder__web_line {
    size_t name;
    uint64_t bytes;
    int32_t label;
} larder__web_line;
int larder__web_images_listed(larder__web_data *, const char *text, const larder__web_line *,
                              size_t n);
/* `objects` are the shards; sizes and tags are asked for where they are missing. Packed ones are
 * those whose first has an index beside it. */
int larder__web_shards_open(larder__web_data *);
int larder__web_tars_open(larder__web_data *);
int larder__web_packs_open(larder__web_data *, larder__web_objects *beside);

/* The URL of an object without anything secret; names the copy of its index. */
uint64_t larder__web_object_id(larder__web_data *, const larder__web_objects *, uint64_t i);

/* A packed data set's own questions. */
int larder__web_packs_extent(larder__web_data *, uint64_t id, uint32_t *w, uint32_t *h);
int larder__web_packs_part_bytes(larder__web_data *, uint64_t id, const larder_rect *,
                                 uint32_t *out);

#endif
