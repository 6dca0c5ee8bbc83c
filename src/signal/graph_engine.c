#include "signal/graph_engine.h"

#include "signal/graph_kernel.h"

const larder__graph_engine *larder__graph_engine_named(const char *name) {
    static const larder__graph_engine *const engines[] = {
        &larder__graph_exact, &larder__graph_strata, &larder__graph_hnsw, &larder__graph_hnswpq};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

/* By the measured speed of the kernel, not by a clock: the choice must repeat. */
const larder__graph_engine *larder__graph_engine_auto(uint64_t n, uint32_t dim) {
    double seconds = 256.0 * (double)n * dim / larder__graph_kernel_best()->macs;
    return seconds <= LARDER__GRAPH_EXACT_SECONDS ? &larder__graph_exact : &larder__graph_strata;
}
