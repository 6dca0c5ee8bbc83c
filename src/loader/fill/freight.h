/* Batches for a GPU. Rows travel as levels (u8): each block of batch memory has a twin on the
 * device that holds the same rows, and larder_loader_to_device makes of it what training wants,
 * there.
 *
 * With decode=gpu or auto the first rows of a batch are decoded on the device. Whoever would
 * prepare such a row writes down what is to be done to it instead (stage/blueprint.h) and keeps its
 * encoded bytes; once all of these are written down, a thread of the device's has them decoded and
 * made into levels in the twin, and waits for it, while the cores are at the rest of the batch.
 * Chance is drawn by whoever writes down, as ever, so order, ledger and resuming know nothing of
 * it. What the device does not take (another sort of file, a broken one) they prepare like any
 * other row. With auto, cores that have nothing else to do take rows back that the device has not
 * begun, if training waits: so both finish together, and no core is busy without need.
 *
 * There is one such thread: nvJPEG has 14 streams for each, and calls of several threads wait for
 * each other and for training. What is in flight is bounded: LARDER__FREIGHT_PICTURES, in
 * LARDER__FREIGHT_BYTES of the device's memory (freight_inside.h). */
#ifndef LARDER_LOADER_FILL_FREIGHT_H
#define LARDER_LOADER_FILL_FREIGHT_H

#include "gpu/gpu_levels.h"
#include "stage/pipeline.h"

typedef struct larder__freight larder__freight;
typedef struct larder__twin larder__twin; /* of a block of batch memory */

struct larder_loader;
struct larder__place;

/* conf.device and conf.decode. NULL stays where there is no device to be had and none has to be. */
int larder__freight_open(struct larder_loader *, const larder_loader_conf *);
/* Once stages are known: can they do what was asked? */
int larder__freight_settle(struct larder_loader *);
enum { LARDER__FREIGHT_THREADS = 1 };
bool larder__freight_decodes(const struct larder_loader *); /* it was asked to, and can */
/* With the lock held: the share of samples that the device decoded lately; negative: it is not
 * asked to, -1: but it could be (decode=auto). */
double larder__freight_share(const struct larder_loader *);
/* Threads start with the first batch, and end before the loader's memory does. */
int larder__freight_start(struct larder_loader *);
void larder__freight_end(struct larder_loader *);
/* The twins' side of a pool: see larder__pool_conf. `done` when the last of them is gone. */
void *larder__twin_open(void *device);
void larder__twin_close(void *device, void *twin);
void larder__freight_done(void *device);

/* With the lock held: how many of n rows go to the device. */
size_t larder__freight_rows(struct larder_loader *, size_t n);
/* A row that was read is written down; false: it has to be prepared here. */
bool larder__freight_order(struct larder_loader *, struct larder__place *, size_t row,
                           larder_buf *bytes, larder_form, uint64_t seed);
/* With the lock held: all rows for the device are written down; a batch was handed out. */
void larder__freight_send(struct larder_loader *, struct larder__place *);
/* With the lock held: training begins to wait; and for a thread of the cores that has nothing else
 * to do, false: nor has this. */
void larder__freight_awaited(struct larder_loader *);
bool larder__freight_help(struct larder_loader *, larder__scratch *);
void larder__freight_handed(struct larder_loader *, const struct larder__place *);

/* A twin's rows: begun anew, moved (the row to leave out has no place any more), mixed with others;
 * `partner` is NULL where nothing is mixed. */
void larder__twin_begin(larder__twin *, size_t rows);
void larder__twin_move(larder__twin *, size_t to, size_t from);
void larder__twin_mix(larder__twin *, const larder_mixing *);
void larder__twin_pair(larder__twin *, size_t row, size_t partner);

/* Of a place: what was written down. */
typedef struct larder__orders larder__orders;
int larder__orders_open(larder__orders **, size_t rows, size_t views);
void larder__orders_close(larder__orders **);

#endif
