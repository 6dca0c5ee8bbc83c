#include "pq.h"

#include <math.h>
#include <stdlib.h>

enum { CENTRES = 256, ROUNDS = 8 };

static uint32_t start_of(const pq *p, uint32_t part) {
    return (uint32_t)((uint64_t)part * p->dim / p->parts);
}
static uint32_t length_of(const pq *p, uint32_t part) {
    return start_of(p, part + 1) - start_of(p, part);
}
static float *centre_of(const pq *p, uint32_t part, uint32_t i) {
    return p->centres + (size_t)CENTRES * start_of(p, part) + (size_t)i * length_of(p, part);
}

int pq_open(pq *p, uint32_t dim, uint32_t parts) {
    *p = (pq){.dim = dim, .parts = parts < dim ? parts : dim};
    p->centres = calloc((size_t)CENTRES * dim, sizeof *p->centres);
    p->table = calloc((size_t)p->parts * CENTRES * CENTRES, sizeof *p->table);
    if (!p->centres || !p->table)
        return larder_fail(LARDER_E_NOMEM, "graph: no memory for a code book of %u parts", parts);
    return 0;
}

void pq_close(pq *p) {
    free(p->centres);
    free(p->table);
    *p = (pq){0};
}

static float square_distance(const float *a, const float *b, uint32_t n) {
    float sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static uint8_t nearest_centre(const pq *p, uint32_t part, const float *x) {
    uint32_t best = 0, length = length_of(p, part);
    float least = INFINITY;
    for (uint32_t i = 0; i < CENTRES; i++) {
        float d = square_distance(x, centre_of(p, part, i), length);
        if (d < least)
            least = d, best = i;
    }
    return (uint8_t)best;
}

void pq_encode(const pq *p, const float *x, uint8_t *code) {
    for (uint32_t part = 0; part < p->parts; part++)
        code[part] = nearest_centre(p, part, x + start_of(p, part));
}

/* One round of Lloyd for one part; a centre that nobody is near starts again at some vector. */
static void refine(pq *p, uint32_t part, const float *x, size_t n, const uint8_t *of,
                   larder_rng *rng) {
    uint32_t start = start_of(p, part), length = length_of(p, part), count[CENTRES] = {0};
    memset(centre_of(p, part, 0), 0, (size_t)CENTRES * length * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        float *c = centre_of(p, part, of[i]);
        for (uint32_t k = 0; k < length; k++)
            c[k] += x[i * p->dim + start + k];
        count[of[i]]++;
    }
    for (uint32_t j = 0; j < CENTRES; j++) {
        float *c = centre_of(p, part, j);
        const float *other = x + larder_rng_below(rng, (uint32_t)n) * (size_t)p->dim + start;
        for (uint32_t k = 0; k < length; k++)
            c[k] = count[j] ? c[k] / (float)count[j] : other[k];
    }
}

static void make_table(pq *p) {
    for (uint32_t part = 0; part < p->parts; part++)
        for (uint32_t i = 0; i < CENTRES; i++)
            for (uint32_t j = 0; j < CENTRES; j++)
                p->table[((size_t)part * CENTRES + i) * CENTRES + j] = square_distance(
                    centre_of(p, part, i), centre_of(p, part, j), length_of(p, part));
}

int pq_learn(pq *p, const float *x, size_t n, uint64_t seed) {
    uint8_t *of = malloc(n);
    if (!of)
        return larder_fail(LARDER_E_NOMEM, "graph: no memory to learn codes from %zu rows", n);
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x7071);
    for (uint32_t part = 0; part < p->parts; part++) {
        for (uint32_t j = 0; j < CENTRES; j++) /* the first centres are vectors */
            memcpy(centre_of(p, part, j),
                   x + larder_rng_below(&rng, (uint32_t)n) * (size_t)p->dim + start_of(p, part),
                   length_of(p, part) * sizeof(float));
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < n; i++)
                of[i] = nearest_centre(p, part, x + i * p->dim + start_of(p, part));
            refine(p, part, x, n, of, &rng);
        }
    }
    free(of);
    make_table(p);
    p->learnt = true;
    return 0;
}

float pq_distance(const void *a, const void *b, const void *book) {
    const pq *p = book;
    const uint8_t *x = a, *y = b;
    const float *table = p->table;
    float sum = 0;
    for (uint32_t part = 0; part < p->parts; part++, table += CENTRES * CENTRES)
        sum += table[x[part] * CENTRES + y[part]];
    return sum;
}

void pq_save(const pq *p, larder_writer *w) {
    larder_write_u32(w, p->learnt);
    larder_write_bytes(w, p->centres, (size_t)CENTRES * p->dim * sizeof(float));
}

int pq_load(pq *p, larder_reader *r) {
    uint32_t learnt = larder_read_u32(r);
    larder_read_bytes(r, p->centres, (size_t)CENTRES * p->dim * sizeof(float));
    for (size_t i = 0; i < (size_t)CENTRES * p->dim; i++)
        if (!(fabsf(p->centres[i]) < 1e15f) || learnt > 1)
            return larder_read_reject(r, "a centre of its codes is no number");
    p->learnt = learnt;
    make_table(p);
    return larder_read_status(r);
}
