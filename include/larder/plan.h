/* larder plan: how to split a cache between encoded, decoded and augmented samples, from the rates
 * of a machine. Pure arithmetic: no file, no clock, no chance.
 *
 *     larder_rates r = {.size = sizeof r, .s_cache = 64e9};
 *     …                                     // t_gpu t_da t_a b_storage s_data m n_total are needed
 *     larder_plan p = {.size = sizeof p};
 *     if (larder_plan_make(&p, &r, LARDER_PLAN_SHARED) < 0) die(larder_errmsg());
 *     printf("%d/%d/%d\n", p.best.split.encoded, p.best.split.decoded, p.best.split.augmented);
 *
 * Two models. PAPER is Seneca's (its equations 1 to 9): each way of getting a sample has a rate,
 * and the rates are averaged. SHARED, the default, adds up what a mean sample costs on every
 * resource; the dearest resource sets the pace. Only the second has optima inside the triangle
 * while the cache is smaller than the data set.
 */
#ifndef LARDER_PLAN_H
#define LARDER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Key, what it is where it is 0 (NAN: has to be given), what its text is (bytes may have a suffix),
 * help. */
#define LARDER_RATES(XX)                                                                           \
    XX(n, 1, number, "training nodes")                                                             \
    XX(t_gpu, NAN, number, "samples/s that training eats, per node")                               \
    XX(t_da, NAN, number, "samples/s the processors decode and augment, per node")                 \
    XX(t_a, NAN, number, "samples/s they augment when decoded already, per node")                  \
    XX(t_d, NAN, number,                                                                           \
       "samples/s they decode whole, as the decoded cache wants them; from t_da and t_a "          \
       "unless given")                                                                             \
    XX(b_nic, INFINITY, bytes, "bytes/s of a node's network")                                      \
    XX(b_pcie, INFINITY, bytes, "bytes/s between a node's memory and its GPUs")                    \
    XX(b_cache, INFINITY, bytes, "bytes/s the cache delivers, to all nodes together")              \
    XX(b_storage, NAN, bytes, "bytes/s the storage delivers, to all nodes together")               \
    XX(s_cache, NAN, bytes, "bytes of the cache")                                                  \
    XX(s_data, NAN, bytes, "bytes of a mean encoded sample")                                       \
    XX(m, NAN, number, "how much larger a decoded or augmented sample is")                         \
    XX(m_decoded, NAN, number, "how much larger a decoded one is, where that differs; else m")     \
    XX(n_total, NAN, number, "samples of the data set")                                            \
    XX(gpus, 1, number, "GPUs of a node")                                                          \
    XX(batch, 256, number, "samples between two exchanges of gradients")                           \
    XX(model_bytes, 0, bytes, "bytes of the model's gradients")                                    \
    XX(nvlink, 0, link, "none, intra: within a node, inter: between nodes too")                    \
    XX(c_nw, NAN, bytes, "bytes a batch exchanges by network; from model_bytes unless given")      \
    XX(c_pcie, NAN, bytes, "bytes a batch exchanges by PCIe; from model_bytes unless given")       \
    XX(jobs, 0, number,                                                                            \
       "jobs that share the cache and remake used augmented samples; 0: leave "                    \
       "the remaking out, as the paper does")

typedef struct larder_rates {
    size_t size;
#define XX(key, initial, kind, help) double key;
    LARDER_RATES(XX)
#undef XX
} larder_rates;

#define LARDER_PLAN_RESOURCES(XX)                                                                  \
    XX(STORAGE, "storage")                                                                         \
    XX(CACHE, "cache")                                                                             \
    XX(NETWORK, "network")                                                                         \
    XX(PCIE, "pcie")                                                                               \
    XX(CPU, "cpu")                                                                                 \
    XX(GPU, "gpu")

typedef enum larder_resource {
#define XX(name, text) LARDER_RESOURCE_##name,
    LARDER_PLAN_RESOURCES(XX) LARDER_RESOURCES
#undef XX
} larder_resource;

typedef enum larder_plan_model { LARDER_PLAN_SHARED, LARDER_PLAN_PAPER } larder_plan_model;

typedef struct larder_split { /* percent of the cache's bytes, 100 together */
    int encoded, decoded, augmented;
} larder_split;

typedef struct larder_outlook { /* what one split promises */
    larder_split split;
    double throughput; /* samples/s of all nodes together */
    larder_resource bottleneck;
    double encoded, decoded, augmented, stored; /* shares of the samples, 1 together */
} larder_outlook;

typedef struct larder_plan {
    size_t size;
    larder_plan_model model;
    larder_outlook best;      /* of equals the one with most encoded, then most decoded */
    size_t ties;              /* other splits that are as fast */
    larder_outlook runner_up; /* the fastest that is slower; equal to best where none is */
} larder_plan;

/* LARDER_E_ARGS with a sentence that names what is missing or impossible. */
int larder_plan_make(larder_plan *, const larder_rates *, larder_plan_model);

#ifdef __cplusplus
}
#endif
#endif
