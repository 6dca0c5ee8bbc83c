/* Tries every split of the cache at 1 % and keeps the fastest. 5151 splits at some tens of
 * operations: nothing cleverer is called for, and nothing is left to doubt. */
#include "plan/rates.h"

#include "base/err.h"
#include "base/sized.h"

#include <stdbool.h>

#include <math.h>

/* Rates that differ by rounding alone are equal. */
static const double SAME = 1e-9;

const char *larder__resource_name(larder_resource r) {
    static const char *const names[] = {
#define XX(name, text) text,
        LARDER_PLAN_RESOURCES(XX)
#undef XX
    };
    return r >= 0 && r < LARDER_RESOURCES ? names[r] : "?";
}

/* Bytes a sample adds to an exchange of gradients: a ring moves 2(k-1)/k of the model per batch,
 * between the nodes over the network and between the GPUs of a node over PCIe. */
static double exchanged(double given, double members, double free_from, const larder_rates *r) {
    if (isnan(given))
        given = r->nvlink >= free_from ? 0 : 2 * (members - 1) / members * r->model_bytes;
    return given / r->batch;
}

/* Bytes of a sample in the cache. Decoded ones are pixels at native size, one byte each; augmented
 * ones are what training takes. */
static double tensor_bytes(const larder_rates *r) { return r->m * r->s_data; }
static double pixel_bytes(const larder_rates *r) {
    return (isnan(r->m_decoded) ? r->m : r->m_decoded) * r->s_data;
}

typedef struct mix { /* samples in each form, Eq. 2, 4, 6 and 8 */
    double augmented, decoded, encoded, stored;
} mix;

/* A cache that could hold more than all samples: the paper fills it with augmented ones first. The
 * loader lets samples in as decoded, encoded and then augmented, and where jobs are counted the
 * shared model does what it does. */
static mix mix_of(const larder_rates *r, larder_plan_model model, larder_split s) {
    double n = r->n_total, augmented = s.augmented / 100.0 * r->s_cache / tensor_bytes(r);
    double decoded = s.decoded / 100.0 * r->s_cache / pixel_bytes(r);
    double encoded = s.encoded / 100.0 * r->s_cache / r->s_data;
    mix x;
    if (model == LARDER_PLAN_SHARED && r->jobs >= 1) {
        x.decoded = fmin(n, decoded);
        x.encoded = fmin(n - x.decoded, encoded);
        x.augmented = fmin(n - x.decoded - x.encoded, augmented);
    } else {
        x.augmented = fmin(n, augmented);
        x.decoded = fmin(n - x.augmented, decoded);
        x.encoded = fmin(n - x.augmented - x.decoded, encoded);
    }
    x.stored = fmax(0, n - x.augmented - x.decoded - x.encoded);
    return x;
}

/* ---- the paper's model: a rate for each way, and their mean ---------------------------------- */

typedef struct way { /* the slowest resource on one way to a sample */
    double rate;
    larder_resource by;
} way;

static void narrow(way *w, double rate, larder_resource by) {
    if (rate < w->rate)
        *w = (way){rate, by};
}

/* Eq. 1, 3, 5 and 7, without what only some of them have. `bytes`: what comes from the cache. */
static way common_way(const larder_rates *r, double bytes) {
    double tensor = tensor_bytes(r);
    way w = {r->n * r->t_gpu, LARDER_RESOURCE_GPU};
    narrow(&w, r->n * r->b_pcie / (tensor + exchanged(r->c_pcie, r->gpus, 1, r)),
           LARDER_RESOURCE_PCIE);
    narrow(&w, r->n * r->b_nic / (bytes + exchanged(r->c_nw, r->n, 2, r)), LARDER_RESOURCE_NETWORK);
    narrow(&w, r->b_cache / bytes, LARDER_RESOURCE_CACHE);
    return w;
}

static void paper(larder_outlook *o, const larder_rates *r, const mix *x) {
    way augmented = common_way(r, tensor_bytes(r)), decoded = common_way(r, pixel_bytes(r));
    narrow(&decoded, r->n * r->t_a, LARDER_RESOURCE_CPU);
    way encoded = common_way(r, r->s_data);
    narrow(&encoded, r->n * r->t_da, LARDER_RESOURCE_CPU);
    way stored = encoded;
    narrow(&stored, r->b_storage / r->s_data, LARDER_RESOURCE_STORAGE);
    const struct {
        double samples;
        way way;
    } ways[] = {{x->stored, stored},
                {x->encoded, encoded},
                {x->decoded, decoded},
                {x->augmented, augmented}};
    double longest = -1; /* the way on which most time is spent names the bottleneck */
    o->throughput = 0;
    for (int i = 0; i < 4; i++) {
        o->throughput += ways[i].samples / r->n_total * ways[i].way.rate;
        if (ways[i].samples / ways[i].way.rate > longest) {
            longest = ways[i].samples / ways[i].way.rate;
            o->bottleneck = ways[i].way.by;
        }
    }
}

/* ---- the shared model: what a mean sample costs on each resource ----------------------------- */

/* Processor time of a sample that storage has to give. Where jobs are counted, whatever is read
 * comes into the cache in the place of what all have had, as pixels in the measure in which those
 * who last are pixels: then it is decoded whole by who reads it, and the other jobs find it so. */
static double stored_seconds(const larder_outlook *o, const larder_rates *r) {
    double last = o->encoded + o->decoded, plain = 1 / r->t_da;
    if (r->jobs < 1 || last <= 0)
        return plain;
    double first = isnan(r->t_d) ? plain : 1 / r->t_d + 1 / r->t_a, pixels = o->decoded / last;
    double as_pixels = first / r->jobs + (1 - 1 / r->jobs) / r->t_a;
    return pixels * as_pixels + (1 - pixels) * plain;
}

static void shared(larder_outlook *o, const larder_rates *r) {
    double tensor = tensor_bytes(r), n = r->n;
    double read = o->stored, made = 0; /* per served sample; made: augmented again for the cache */
    if (r->jobs >= 1) { /* reads are shared; an augmented sample serves every job once */
        made = o->augmented / r->jobs;
        read = o->stored / r->jobs + made;
    }
    double from_cache =
        (o->augmented + made) * tensor + o->decoded * pixel_bytes(r) + o->encoded * r->s_data;
    const double seconds[LARDER_RESOURCES] = {
        [LARDER_RESOURCE_STORAGE] = read * r->s_data / r->b_storage,
        [LARDER_RESOURCE_CACHE] = from_cache / r->b_cache,
        [LARDER_RESOURCE_NETWORK] =
            (from_cache + read * r->s_data + exchanged(r->c_nw, n, 2, r)) / (n * r->b_nic),
        [LARDER_RESOURCE_PCIE] = (tensor + exchanged(r->c_pcie, r->gpus, 1, r)) / (n * r->b_pcie),
        [LARDER_RESOURCE_CPU] = ((o->encoded + made) / r->t_da + o->decoded / r->t_a +
                                 o->stored * stored_seconds(o, r)) /
                                n,
        [LARDER_RESOURCE_GPU] = 1 / (n * r->t_gpu)};
    o->bottleneck = LARDER_RESOURCE_GPU;
    for (int i = 0; i < LARDER_RESOURCES; i++)
        if (seconds[i] > seconds[o->bottleneck])
            o->bottleneck = (larder_resource)i;
    o->throughput = 1 / seconds[o->bottleneck];
}

larder_outlook larder__plan_outlook(const larder_rates *r, larder_plan_model model,
                                    larder_split split) {
    mix x = mix_of(r, model, split);
    larder_outlook o = {.split = split,
                        .encoded = x.encoded / r->n_total,
                        .decoded = x.decoded / r->n_total,
                        .augmented = x.augmented / r->n_total,
                        .stored = x.stored / r->n_total};
    if (model == LARDER_PLAN_PAPER)
        paper(&o, r, &x);
    else
        shared(&o, r);
    return o;
}

int larder__plan_make(larder_plan *p, const larder_rates *r, larder_plan_model model) {
    int rc = larder__rates_check(r);
    if (rc < 0)
        return rc;
    double top = 0;
    *p = (larder_plan){.size = sizeof *p, .model = model};
    for (int e = 100; e >= 0; e--)
        for (int d = 100 - e; d >= 0; d--)
            top = fmax(
                top, larder__plan_outlook(r, model, (larder_split){e, d, 100 - e - d}).throughput);
    bool found = false;
    for (int e = 100; e >= 0; e--)
        for (int d = 100 - e; d >= 0; d--) {
            larder_outlook o = larder__plan_outlook(r, model, (larder_split){e, d, 100 - e - d});
            bool same = o.throughput >= top * (1 - SAME);
            if (same && !found)
                p->best = o;
            else if (same)
                p->ties++;
            else if (o.throughput > p->runner_up.throughput)
                p->runner_up = o;
            found |= same;
        }
    if (p->runner_up.throughput <= 0)
        p->runner_up = p->best;
    return 0;
}

int larder_plan_make(larder_plan *out, const larder_rates *given, larder_plan_model model) {
    larder_rates r;
    larder_plan p = {0};
    larder__rates_defaults(&r);
    int rc = larder__rates_take(&r, given);
    if (rc == 0)
        rc = larder__sized_check(out, "larder_plan");
    if (rc == 0)
        rc = larder__plan_make(&p, &r, model);
    return rc < 0 ? rc : larder__sized_out(out, &p, sizeof p, "larder_plan");
}
