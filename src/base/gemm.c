#include "base/gemm.h"

#include <string.h>

#if LARDER_HAVE_CBLAS
#include "base/late.h"
#include "base/limit.h"

#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define CALLS(X) X(cblas_sgemm) X(openblas_set_num_threads)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(cblas, LARDER_LATE_CBLAS, CALLS)
#endif

/* Blocks of ROWS x COLUMNS of c stay in registers while DEPTH steps of k go by. A panel of b,
 * DEPTH x COLUMNS, is packed so that it lies in the first-level cache; a is read in place. */
enum { ROWS = 6, COLUMNS = 16, DEPTH = 256 };

typedef float vec8 __attribute__((vector_size(32), aligned(4)));

typedef struct view { /* element (i, j) is at[i * row + j * column] */
    const float *at;
    size_t row, column;
} view;

static view view_of(larder__matrix m) {
    return m.flip ? (view){m.at, 1, m.stride} : (view){m.at, m.stride, 1};
}

static void pack(const view *b, size_t depth, size_t columns, float *panel) {
    for (size_t p = 0; p < depth; p++) {
        float *to = panel + p * COLUMNS;
        const float *from = b->at + p * b->row;
        for (size_t j = 0; j < columns; j++)
            to[j] = from[j * b->column];
        for (size_t j = columns; j < COLUMNS; j++)
            to[j] = 0;
    }
}

/* The block is a macro because a vector wider than the target's is split before inlining: each
 * instruction set needs its own text. Rows past `rows` read row 0 again and are not stored. */
#define DEFINE_BLOCK(name, attributes)                                                             \
    attributes static void name(const view *a, size_t rows, const float *panel, size_t depth,      \
                                float out[ROWS][COLUMNS]) {                                        \
        vec8 sum[ROWS][2] = {0};                                                                   \
        const float *row[ROWS];                                                                    \
        for (size_t r = 0; r < ROWS; r++)                                                          \
            row[r] = a->at + (r < rows ? r : 0) * a->row;                                          \
        for (size_t p = 0; p < depth; p++) {                                                       \
            const vec8 *b = (const vec8 *)(const void *)(panel + p * COLUMNS);                     \
            vec8 left = b[0], right = b[1];                                                        \
            _Pragma("GCC unroll 6") for (size_t r = 0; r < ROWS; r++) {                            \
                float x = row[r][p * a->column];                                                   \
                sum[r][0] += x * left;                                                             \
                sum[r][1] += x * right;                                                            \
            }                                                                                      \
        }                                                                                          \
        memcpy(out, sum, sizeof sum);                                                              \
    }

DEFINE_BLOCK(block_any, )
#if defined(__x86_64__)
DEFINE_BLOCK(block_avx2, __attribute__((target("avx2,fma"))))
#endif

typedef void block_fn(const view *, size_t, const float *, size_t, float[ROWS][COLUMNS]);

static block_fn *block_for_cpu(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return block_avx2;
#endif
    return block_any;
}

static void store(float sum[ROWS][COLUMNS], size_t rows, size_t columns, bool add, float *c,
                  size_t stride) {
    for (size_t r = 0; r < rows; r++) {
        float *to = c + r * stride;
        if (add)
            for (size_t j = 0; j < columns; j++)
                to[j] += sum[r][j];
        else
            memcpy(to, sum[r], columns * sizeof *to);
    }
}

void larder__gemm_plain(size_t m, size_t n, size_t k, larder__matrix a, larder__matrix b, bool add,
                        float *c, size_t stride) {
    _Alignas(64) float panel[DEPTH * COLUMNS];
    _Alignas(64) float sum[ROWS][COLUMNS];
    block_fn *block = block_for_cpu();
    view va = view_of(a), vb = view_of(b);
    /* k == 0 still has to clear c. */
    for (size_t p = 0; p == 0 || p < k; p += DEPTH) {
        size_t depth = k - p < DEPTH ? k - p : DEPTH;
        for (size_t j = 0; j < n; j += COLUMNS) {
            size_t columns = n - j < COLUMNS ? n - j : COLUMNS;
            view part = {vb.at + p * vb.row + j * vb.column, vb.row, vb.column};
            pack(&part, depth, columns, panel);
            for (size_t i = 0; i < m; i += ROWS) {
                size_t rows = m - i < ROWS ? m - i : ROWS;
                view left = {va.at + i * va.row + p * va.column, va.row, va.column};
                block(&left, rows, panel, depth, sum);
                store(sum, rows, columns, add || p > 0, c + i * stride + j, stride);
            }
        }
    }
}

#if LARDER_HAVE_CBLAS
/* OpenBLAS asks the system for a buffer a thread, and for ever again where there is no memory: a
 * product that would hang is the own kernel's. Asked once, and again before more threads. It takes
 * the buffers later, so there has to be room besides for what others take until then: malloc keeps
 * up to 8 heaps of 64 MiB a processor for threads that start, and they have stacks. */
enum { BUFFER = (128 << 20) + (64 << 10), BUFFERS = 1024, OTHERS = 5 };

/* Of the others' room only the addresses are asked for: what they use of it is not said. */
static bool room_for(uint32_t buffers, uint32_t others) {
    void *at[BUFFERS];
    uint32_t n = 0, all_of = buffers + others < BUFFERS ? buffers + others : BUFFERS;
    for (; n < all_of; n++) {
        int may = n < buffers ? PROT_READ | PROT_WRITE : PROT_NONE;
        at[n] = mmap(NULL, BUFFER, may, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at[n] == MAP_FAILED)
            break;
    }
    bool all = n == all_of;
    while (n > 0)
        munmap(at[--n], BUFFER);
    return all;
}

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static atomic_bool own;

/* Our own threads may each be in a product. */
static bool room_beside(uint32_t threads) {
    uint32_t processors = larder__cpu_count();
    return room_for(threads + processors, OTHERS * processors);
}

static void ask(void) { atomic_store(&own, !room_beside(1) || larder__late_open(&cblas_late) < 0); }

static bool by_own(void) {
    pthread_once(&asked, ask);
    return atomic_load_explicit(&own, memory_order_relaxed);
}

void larder__gemm(size_t m, size_t n, size_t k, larder__matrix a, larder__matrix b, bool add,
                  float *c, size_t stride) {
    if (by_own()) {
        larder__gemm_plain(m, n, k, a, b, add, c, stride);
        return;
    }
    cblas_sgemm(CblasRowMajor, a.flip ? CblasTrans : CblasNoTrans,
                b.flip ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a.at,
                (blasint)a.stride, b.at, (blasint)b.stride, add ? 1.0f : 0.0f, c, (blasint)stride);
}
void larder__gemm_threads(unsigned threads) {
    if (!by_own() && threads > 1 && !room_beside(threads))
        atomic_store(&own, true);
    if (!by_own())
        openblas_set_num_threads((int)threads);
}
#else
void larder__gemm(size_t m, size_t n, size_t k, larder__matrix a, larder__matrix b, bool add,
                  float *c, size_t stride) {
    larder__gemm_plain(m, n, k, a, b, add, c, stride);
}
void larder__gemm_threads(unsigned threads) { (void)threads; }
#endif
