/* What a row needs of its sample, and what that costs: drawn from seed and place alone, so known
 * before a byte is read. For data sets of which parts can be read; the loader and the simulator
 * ask the same questions here and get the same answers.
 *
 * What the cache keeps is whole, unless `keep`: then it holds the part that was used so far, which
 * grows when a row needs more. */
#ifndef LARDER_LOADER_DRAW_PICTURE_PARTS_H
#define LARDER_LOADER_DRAW_PICTURE_PARTS_H

#include "source/source.h"
#include "stage/pipeline.h"

typedef struct larder__parts larder__parts;

typedef struct larder__parts_conf {
    larder__data *data;               /* of which parts can be read */
    const larder__pipeline *pipeline; /* NULL: opened here, from `augment` */
    const char *augment;
    uint64_t seed, batch;
    uint32_t rank, world;
    bool keep;
} larder__parts_conf;

int larder__parts_open(larder__parts **out, const larder__parts_conf *);
void larder__parts_close(larder__parts **);
bool larder__parts_keep(const larder__parts *);

/* The chance of one row, the same in any process with the same global batch. */
uint64_t larder__place_seed(uint64_t seed, uint64_t batch, uint32_t rank, uint32_t world,
                            uint64_t number, size_t row);

/* Any thread. All of a sample; x1 == 0 where it has no parts. */
larder_rect larder__parts_whole(const larder__parts *, uint64_t id);
/* Any thread. What row `row` of batch `number` will look at if `id` is served there. */
larder_rect larder__parts_need(const larder__parts *, uint64_t number, size_t row, uint64_t id);
/* Any thread. Bytes of a part, as a buffer and from storage; reads the index, never a sample. */
uint32_t larder__parts_bytes(const larder__parts *, uint64_t id, const larder_rect *);

/* With `keep`, in the order of requests: what the cache should hold of a sample to serve this row,
 * given whether it holds any now; then, once decided, whether it does. */
larder_rect larder__parts_hold(const larder__parts *, uint64_t number, size_t row, uint64_t id,
                               bool resident);
void larder__parts_held(larder__parts *, uint64_t id, const larder_rect *);
/* Does the cache hold what this row needs? */
bool larder__parts_holds(const larder__parts *, uint64_t number, size_t row, uint64_t id);

/* Of residents alone; `slots` tells who they are. */
void larder__parts_save(const larder__parts *, const larder_slots *, larder_writer *);
int larder__parts_load(larder__parts *, const larder_slots *, larder_reader *);

#endif
