/* What every stage must keep, whatever it does to pictures: see
 * tests/conformance/test_every_stage.c. */
#ifndef LARDER_TEST_STAGE_SUITE_H
#define LARDER_TEST_STAGE_SUITE_H

#include "conform.h"

#include "stage/pipeline.h"
#include "stage/stage.h"

/* What it says of pictures of all sizes. False: wrong_said() tells what is wrong. */
bool stage_suite(const larder_stage *, const char *args);

/* What becomes of pixels in a pipeline with it, in all layouts and types; `run` is
 * larder__pipeline_run, or one that is wrong on purpose. */
typedef int row_fn(const larder__pipeline *, larder__scratch *, const void *bytes, size_t size,
                   uint64_t seed, void *out);
bool row_suite(const char *spec, row_fn *run);

#endif
