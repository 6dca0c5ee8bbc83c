/* src/gpu/code/levels.cu on this processor, for fake_cuda.c (FAKE_CUDA_CODE names it): a block is one
 * thread, blocks come one after the other. */
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>

#define __device__
#define __global__
#define __shared__
#define __syncthreads() ((void)0)

using std::fabs;
using std::floor;

static struct place {
    unsigned x, y, z;
} blockIdx, threadIdx, blockDim = {1, 1, 1};

static inline int max(int a, int b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
template <typename T> static void atomicAdd(T *to, T n) { *to += n; }
static inline unsigned __float_as_uint(float f) {
    unsigned u;
    std::memcpy(&u, &f, sizeof u);
    return u;
}
static inline float __uint_as_float(unsigned u) {
    float f;
    std::memcpy(&f, &u, sizeof f);
    return f;
}

extern "C" {
float line[3 * 4096]; /* as much as a launch ever asks for */
}

#include "gpu/code/levels.cu"

static std::mutex one_at_a_time;

template <typename F> static void each_block(const unsigned grid[3], F run) {
    std::lock_guard<std::mutex> held(one_at_a_time);
    for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x++) {
            blockIdx = place{x, y, 0};
            run();
        }
}

template <typename T> static T &arg(void **args, int i) { return *static_cast<T *>(args[i]); }

/* As many elements a thread as there are in a row's block there: 256 threads do 4 each. */
static void all_values(const Worth &v) {
    unsigned block = blockIdx.x;
    for (unsigned k = 0; k < 256; k++) {
        blockIdx.x = block * 256 + k;
        values(v);
    }
    blockIdx.x = block;
}

#define SHOWN extern "C" __attribute__((visibility("default")))

static void run_taps(const unsigned grid[3], void **args) {
    each_block(grid, [&] { taps(arg<const Job *>(args, 0)); });
}
static void run_make(const unsigned grid[3], void **args) {
    each_block(grid, [&] { make(arg<const Job *>(args, 0), arg<Shape>(args, 1)); });
}
static void run_paint(const unsigned grid[3], void **args) {
    each_block(grid,
               [&] { paint(arg<const Job *>(args, 0), arg<Shape>(args, 1), arg<int>(args, 2)); });
}
static void run_values(const unsigned grid[3], void **args) {
    each_block(grid, [&] { all_values(arg<Worth>(args, 0)); });
}

struct code {
    const char *name;
    void (*run)(const unsigned grid[3], void **args);
};
static const code codes[] = {
    {"taps", run_taps}, {"make", run_make}, {"paint", run_paint}, {"values", run_values}};

SHOWN const void *fake_code_find(const char *name) {
    for (const code &c : codes)
        if (std::strcmp(c.name, name) == 0)
            return &c;
    return nullptr;
}
SHOWN void fake_code_run(const void *function, const unsigned grid[3], const unsigned *,
                         void **args) {
    static_cast<const code *>(function)->run(grid, args);
}
/* Of the structs that both sides have. */
SHOWN unsigned fake_code_size(int which) {
    const unsigned sizes[] = {sizeof(Axis), sizeof(Picture), sizeof(Job), sizeof(Worth)};
    return sizes[which];
}
