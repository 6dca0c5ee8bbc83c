/* A loader on made-up samples, run to see what it hands out. */
#ifndef LARDER_TEST_LOADER_KIT_H
#define LARDER_TEST_LOADER_KIT_H

#include "check.h"

#define KIT_PIXELS "crop:size=8,pad=2|flip"

/* 8x8x3 raw samples, batch 16, two threads, seed 7; change what the test is about. */
larder_loader_conf kit_conf(const char *source, const char *recipe);

/* One number for everything a batch says: ids, served, labels, weights, pixels. Kinds are left out:
 * how a sample came may differ after a resume, what it is may not. */
uint64_t kit_digest(const larder_batch *);

/* The loss the kit's training gives a sample: any fixed function of id and epoch will do. */
float kit_loss(uint64_t id, uint64_t epoch);

/* Takes up to `max` batches, reports kit_loss for each, and writes their digests; epoch ends are
 * written as 1. Returns how many entries were written. */
size_t kit_run(larder_loader *, uint64_t *digests, size_t max);

/* Opens, runs `before` entries, saves, and goes on in another loader with other threads and batches
 * ahead; fails unless all `count` entries are those of `whole`. The second one, still open. */
larder_loader *kit_resume(const larder_loader_conf *, size_t before, const uint64_t *whole,
                          size_t count);

/* A matrix as NumPy writes it, into folder/name. */
void kit_write_array(const char *folder, const char *name, const char *type, uint64_t rows,
                     uint64_t cols, const void *data, size_t size);

#endif
