/* Device code on this processor: the text of src/gpu/code/svm.cu as C++, a block at a time, each of
 * its threads a coroutine that goes on to the next wherever threads or lanes wait for each other.
 * Made into a shared object that fake_cuda.c launches (FAKE_CUDA_CODE names it), so that what runs
 * on a GPU is tried, and compared with its slow twins, where there is none. x86-64 alone. */
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

/* ---- coroutines ------------------------------------------------------------------------------ */

struct dim {
    unsigned x, y, z;
};
static dim threadIdx, blockIdx, blockDim, gridDim;

extern "C" void fake_switch(void **save, void *load);
asm(".text\n"
    "fake_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n");

enum { STACK = 64 * 1024, LANES = 32 };

struct fiber {
    void *sp;
    char *stack;
    bool ended;
};

struct team { /* a warp, or a block */
    unsigned alive, arrived;
    uint64_t turn, in[LANES], out[LANES];
};

static std::vector<fiber> fibers;
static std::vector<team> warps;
static team block;
static unsigned current;
static void *main_sp;
static void (*run_thread)(void **);
static void **run_args;

static void go_on(unsigned from) {
    unsigned n = (unsigned)fibers.size(), next = from;
    do
        next = next + 1 == n ? 0 : next + 1;
    while (fibers[next].ended && next != from);
    if (fibers[next].ended) {
        void *gone;
        fake_switch(fibers[from].ended ? &gone : &fibers[from].sp, main_sp);
        return;
    }
    if (next == from)
        return;
    current = next;
    threadIdx.x = next;
    void *gone;
    fake_switch(fibers[from].ended ? &gone : &fibers[from].sp, fibers[next].sp);
}

static void leave(team &t) { /* whoever is gone is waited for no more */
    t.alive--;
    if (t.alive && t.arrived == t.alive) {
        memcpy(t.out, t.in, sizeof t.out);
        t.arrived = 0;
        t.turn++;
    }
}

extern "C" void fake_thread() {
    run_thread(run_args);
    unsigned me = current;
    fibers[me].ended = true;
    leave(warps[me / LANES]);
    leave(block);
    go_on(me);
    abort();
}

static void meet(team &t) {
    unsigned me = current;
    uint64_t turn = t.turn;
    if (++t.arrived == t.alive) {
        memcpy(t.out, t.in, sizeof t.out);
        t.arrived = 0;
        t.turn++;
        return;
    }
    while (t.turn == turn)
        go_on(me);
}

static void prepare(fiber &f) {
    if (!f.stack)
        f.stack = (char *)malloc(STACK);
    uintptr_t top = ((uintptr_t)f.stack + STACK) & ~(uintptr_t)15;
    void **sp = (void **)top;
    *--sp = nullptr; /* the return address of fake_thread: it has none */
    *--sp = (void *)fake_thread;
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    f.sp = sp;
    f.ended = false;
}

static void run_block() {
    unsigned n = blockDim.x;
    static std::vector<fiber> spare;
    while (fibers.size() > n) {
        spare.push_back(fibers.back());
        fibers.pop_back();
    }
    while (fibers.size() < n) {
        fiber f{};
        if (!spare.empty()) {
            f = spare.back();
            spare.pop_back();
        }
        fibers.push_back(f);
    }
    for (auto &f : fibers)
        prepare(f);
    warps.assign((n + LANES - 1) / LANES, team{});
    for (unsigned i = 0; i < n; i++)
        warps[i / LANES].alive++;
    block = team{};
    block.alive = n;
    current = 0;
    threadIdx = {0, 0, 0};
    fake_switch(&main_sp, fibers[0].sp);
}

/* ---- what device code calls ------------------------------------------------------------------ */

#define LARDER_ON_CPU 1
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __noinline__
#define __forceinline__
struct alignas(16) float4 {
    float x, y, z, w;
};

static void __syncthreads() { meet(block); }
static uint64_t *warp_says(uint64_t x) {
    team &w = warps[current / LANES];
    w.in[current % LANES] = x;
    meet(w);
    return warps[current / LANES].out;
}
template <class T> static uint64_t bits(T x) {
    uint64_t b = 0;
    memcpy(&b, &x, sizeof x);
    return b;
}
template <class T> static T from_bits(uint64_t b) {
    T x;
    memcpy(&x, &b, sizeof x);
    return x;
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int o) {
    unsigned lane = current % LANES;
    return from_bits<T>(warp_says(bits(x))[lane ^ (unsigned)o]);
}
template <class T> static T __shfl_up_sync(unsigned, T x, int o) {
    unsigned lane = current % LANES;
    uint64_t *all = warp_says(bits(x));
    return lane >= (unsigned)o ? from_bits<T>(all[lane - (unsigned)o]) : x;
}
static unsigned __ballot_sync(unsigned, bool x) {
    uint64_t *all = warp_says(x);
    unsigned out = 0;
    for (unsigned i = 0; i < LANES; i++)
        out |= (unsigned)all[i] << i;
    return out;
}
static unsigned __reduce_min_sync(unsigned, unsigned x) {
    uint64_t *all = warp_says(x);
    unsigned least = ~0u;
    for (unsigned i = 0; i < LANES; i++)
        least = all[i] < least ? (unsigned)all[i] : least;
    return least;
}
static unsigned __ffs(unsigned x) { return (unsigned)__builtin_ffs((int)x); }
static float __fdividef(float a, float b) { return a / b; }
static unsigned __float_as_uint(float x) { return (unsigned)bits(x); }
static float __uint_as_float(unsigned x) { return from_bits<float>(x); }
static long long __double_as_longlong(double x) { return (long long)bits(x); }
static double __longlong_as_double(long long x) { return from_bits<double>((uint64_t)x); }
static unsigned atomicAdd(unsigned *to, unsigned n) {
    unsigned was = *to;
    *to += n;
    return was;
}

#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include LARDER_DEVICE_CODE

/* ---- launching ------------------------------------------------------------------------------- */

template <class... A, size_t... I>
static void call(void (*f)(A...), void **args, std::index_sequence<I...>) {
    f(*(typename std::remove_reference<A>::type *)args[I]...);
}
template <class... A> static void unpack(void (*f)(A...), void **args) {
    call(f, args, std::index_sequence_for<A...>{});
}
#define CODE(name)                                                                                 \
    {                                                                                              \
#name, [](void **args) { unpack(&name, args); }                                            \
    }
static const struct {
    const char *name;
    void (*run)(void **);
} all[] = {CODE(larder_svm_spread), CODE(larder_svm_products), CODE(larder_svm_differences),
           CODE(larder_svm_keys),   CODE(larder_svm_choose),   CODE(larder_svm_seat),
           CODE(larder_svm_gather), CODE(larder_svm_small),    CODE(larder_svm_add),
           CODE(larder_svm_fold),   CODE(larder_svm_distance), CODE(larder_svm_weigh)};

extern "C" const void *fake_code_find(const char *name) {
    for (auto &c : all)
        if (strcmp(c.name, name) == 0)
            return &c;
    return nullptr;
}

extern "C" void fake_code_run(const void *code, const unsigned grid[3], const unsigned threads[3],
                              void **args) {
    static std::mutex one;
    std::lock_guard<std::mutex> alone(one);
    run_thread = ((decltype(&all[0]))code)->run;
    run_args = args;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads[0], threads[1], threads[2]};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                blockIdx = {x, y, z};
                run_block();
            }
}
