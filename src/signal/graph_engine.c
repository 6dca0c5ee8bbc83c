#include "signal/graph_engine.h"

#include "signal/graph_kernel.h"

/* By the measured speed of the kernel, not by a clock: the choice must repeat. */
const larder_engine *larder__graph_engine_auto(uint64_t n, uint32_t dim) {
    double seconds = 256.0 * (double)n * dim / larder__graph_kernel_best()->macs;
    return seconds <= LARDER__GRAPH_EXACT_SECONDS ? &larder__engine_exact : &larder__engine_strata;
}
