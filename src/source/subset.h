/* Some samples of a data set, in an order of their own: what "?take=" and "?ids=" of any source
 * leave. Made when it is opened, then read by any thread.
 *
 *     take=1000:5000   ids 1000 to 4999; either end may be left out
 *     take=10%         a tenth, spread evenly over all ids, so that every class has its share
 *     take=5000        so many, the same way
 *     take=-10%        all but those of take=10%: the two are a split; -5000 and -1000:5000 too
 *     ids=FILE         a line a sample, its id or its name as `larder ls` shows it
 *
 * With both, `take` counts in the lines of the file. */
#ifndef LARDER_SOURCE_SUBSET_H
#define LARDER_SOURCE_SUBSET_H

#include <larder/plugin.h>

typedef struct larder__subset {
    uint64_t count; /* of samples left; 0: all are there, as they are */
    uint64_t *ids;  /* of each */
} larder__subset;

int larder__subset_make(larder__subset *, const larder_source *, void *st, uint64_t count,
                        const char *take, const char *ids);
void larder__subset_free(larder__subset *);

static inline uint64_t larder__subset_id(const larder__subset *s, uint64_t i) {
    return s->count ? s->ids[i] : i;
}

#endif
