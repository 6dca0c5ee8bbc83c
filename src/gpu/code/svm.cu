/* Support vector machines on the device: kernel rows, the rounds of the solver, decision values.
 *
 * A round (svm/solver.h) is seven launches on one stream, none of which the host waits for while
 * all kernel values lie in device memory:
 *
 *   keys    how much each variable violates optimality, and the ends of each block
 *   choose  a block a list: the first k of an order without ties
 *   seat    both lists in turn into the slots that are replaced
 *   gather  the kernel values of the new slots with all slots
 *   small   one block, many steps of SMO; what changed, as a list of rows
 *   add     slices of these rows times their changes
 *   fold    slices into the gradient
 *
 * Sums are in doubles and in a fixed order, atomics count whole numbers alone: the same GPU gives
 * the same bits again. Whoever finds `done` set goes home, so that rounds can be queued ahead.
 * Kernel values are plain floats: the product is a tenth of a training's time here, so there is
 * nothing to be gained that would be worth less accuracy than the CPU has. */

typedef unsigned long long u64;
typedef unsigned int u32;

#ifndef SLOTS
#define SLOTS 1024 /* variables of a round */
#endif
#define HALF (SLOTS / 2)
#define NOBODY 0xffffffffu
#define SLICES 8
#define END_BLOCKS 512 /* blocks of `keys`, at most */
#define CAP 4096       /* candidates that are sorted */
#define SAMPLE 2048    /* looked at to guess where they begin */
#define FLAT 1e-12f    /* curvature of a pair without any (indefinite kernels) */

struct state {
    double gap, target;
    double mid[2];  /* of the ends of each group */
    double ends[4]; /* group: smallest gradient that may rise, largest that may fall */
    u64 steps, most_steps, rounds;
    u64 stamp, spent[6]; /* nanoseconds: when the last phase began; what each has taken */
    u32 phase;
    u32 done;             /* 0, or why: 1 optimal, 2 nothing moved, 3 out of steps */
    u32 from, to;         /* slots that are replaced next */
    u32 new_from, new_to; /* slots that were replaced last */
    u32 changed, entered;
};

struct problem {
    double *f, *beta;
    const double *linear, *lo, *hi;
    const u32 *point;      /* of each variable */
    const u32 *column;     /* of each point in a row; NULL: the same */
    const float *diagonal; /* a point each */
    const float *rows;
    u64 stride;
    const unsigned char *group; /* of each variable; NULL: 0 */
    unsigned short *seat;       /* a variable each: its slot + 1, or 0 */
    u32 *keys;                  /* up, then low: a variable each */
    u64 *lists;                 /* group, up or low: SLOTS each, key << 32 | variable */
    u32 *found;                 /* the same: how many */
    u32 *mark;                  /* a variable each: zero between launches */
    double *ends;               /* END_BLOCKS x 4 */
    u32 *var, *where, *place;   /* a slot each: variable, column, row */
    float *k;                   /* SLOTS x SLOTS */
    u32 *list_place;            /* what changed: rows, and by how much */
    double *list_weight;
    double *part; /* SLICES x points */
    float *dist;  /* a variable each */
    struct state *state;
    u32 n, points, groups;
    u32 places;  /* 0: a row's place is its column; else the host says */
    float share; /* of a round's first gap, where its small problem ends */
    float tight; /* of the target, the same */
};

enum { SELECT, GATHER, STEPS, UPDATE, MAKE };

__device__ static u64 clock_now() {
#ifdef LARDER_ON_CPU
    return 0;
#else
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
#endif
}

/* What has run until now counts for the phase before. */
__device__ static void begin_phase(struct state *s, u32 phase) {
    if (threadIdx.x != 0 || blockIdx.x != 0 || blockIdx.y != 0)
        return;
    u64 now = clock_now();
    if (s->stamp)
        s->spent[s->phase] += now - s->stamp;
    s->stamp = now;
    s->phase = phase;
}

/* ---- orders ---------------------------------------------------------------------------------- */

__device__ static u32 order_of(float x) {
    u32 b = __float_as_uint(x);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ static u64 order_of_double(double x) {
    u64 b = (u64)__double_as_longlong(x);
    return b >> 63 ? ~b : b | (u64)1 << 63;
}
__device__ static double double_of(u64 b) {
    return __longlong_as_double((long long)(b >> 63 ? b & ~((u64)1 << 63) : ~b));
}

#define ALL 0xffffffffu

__device__ static u32 warp_min(u32 x) {
#if defined(LARDER_ON_CPU) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
    return __reduce_min_sync(ALL, x);
#else
    for (int o = 16; o; o /= 2) {
        u32 y = __shfl_xor_sync(ALL, x, o);
        x = y < x ? y : x;
    }
    return x;
#endif
}
__device__ static u32 warp_max(u32 x) { return ~warp_min(~x); }
__device__ static u32 warp_sum(u32 x) {
    for (int o = 16; o; o /= 2)
        x += __shfl_xor_sync(ALL, x, o);
    return x;
}
/* The smallest of the warp, and the first lane that has it. */
__device__ static u64 warp_first(u64 key, u32 *lane) {
    u32 high = warp_min((u32)(key >> 32));
    u32 low = warp_min((u32)(key >> 32) == high ? (u32)key : ALL);
    u64 best = (u64)high << 32 | low;
    *lane = __ffs(__ballot_sync(ALL, key == best)) - 1;
    return best;
}

/* What the threads before this one have, and all; `work`: a u32 a warp. */
__device__ static u32 block_before(u32 mine, u32 *work, u32 *all) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, x = mine, before = 0, sum = 0;
    for (int o = 1; o < 32; o *= 2) {
        u32 y = __shfl_up_sync(ALL, x, o);
        x += lane >= (u32)o ? y : 0;
    }
    if (lane == 31)
        work[warp] = x;
    __syncthreads();
    for (u32 w = 0; w < blockDim.x / 32; w++) {
        before += w < warp ? work[w] : 0;
        sum += work[w];
    }
    __syncthreads();
    *all = sum;
    return before + x - mine;
}

/* ---- kernel rows ----------------------------------------------------------------------------- */

/* Points as rows of floats, `stride` apart. A block a point. */
extern "C" __global__ void larder_svm_spread(float *x, u64 stride, u32 dim, const float *base,
                                             const u64 *start, const u32 *index, const float *value,
                                             float *norm, u32 shifted, u32 first) {
    __shared__ double sum[32];
    u64 at = first + blockIdx.x;
    float *row = x + at * stride;
    for (u32 i = threadIdx.x; i < stride; i += blockDim.x)
        row[i] = i < dim && base ? base[i] : 0.0f;
    __syncthreads();
    for (u64 p = start[blockIdx.x] + threadIdx.x; p < start[blockIdx.x + 1]; p += blockDim.x)
        row[index[p]] = value[p];
    if (!shifted)
        return; /* the host knows its length */
    __syncthreads();
    double s = 0;
    for (u32 i = threadIdx.x; i < dim; i += blockDim.x)
        s += (double)row[i] * (double)row[i];
    for (int o = 16; o; o /= 2)
        s += __shfl_xor_sync(ALL, s, o);
    if (threadIdx.x % 32 == 0)
        sum[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0;
        for (u32 w = 0; w < blockDim.x / 32; w++)
            s += sum[w];
        norm[at] = (float)s;
    }
}

struct making { /* of kernel values: rows of one set of points times columns of another */
    const float *left, *right; /* points, `stride` apart, a multiple of DEEP */
    const float *left_norm, *right_norm;
    const u32 *left_ids, *right_ids; /* which of them; NULL: 0, 1, … */
    const u32 *places;               /* of the rows in `out`; NULL: 0, 1, … */
    float *out;
    struct state *state; /* whose time it is, or NULL */
    u64 stride, out_stride;
    u32 rows, columns, type, mirror; /* mirror: both sets are one, half is computed */
    int degree;
    float gamma, coef0;
    double gamma_double, coef0_double;
};

#define WIDE 128
#define DEEP 16
#define LINE (WIDE + 4)
enum { LINEAR, POLY, RBF, SIGMOID };

/* Out of line: there are 64 of them in a tile, and they are rare. */
__device__ __noinline__ static float curved(const struct making &m, float sum) {
    if (m.type == SIGMOID)
        return tanhf(m.gamma * sum + m.coef0);
    /* In doubles: at a high degree single precision would lose a digit. */
    double base = m.gamma_double * (double)sum + m.coef0_double, power = 1;
    for (int left = m.degree; left > 0; left /= 2) {
        if (left % 2)
            power *= base;
        base *= base;
    }
    return (float)power;
}

template <bool direct>
__device__ static float value_of(const struct making &m, float sum, float norm, float other) {
    if (direct) /* of the RBF kernel alone */
        return expf(-m.gamma * sum);
    if (m.type == RBF) {
        float d = norm + other - 2 * sum;
        return expf(-m.gamma * (d > 0 ? d : 0));
    }
    return m.type == LINEAR ? sum : curved(m, sum);
}

/* A tile of one side, 128 points by 16 features: 2 lines of four a thread. */
struct lines {
    float4 at[2];
};
__device__ static void fetch(struct lines *l, const float *points, u64 stride, const u32 *ids,
                             u32 first, u32 n, u32 feature) {
    for (int i = 0; i < 2; i++) {
        u32 r = first + threadIdx.x / 4 + i * 64, id;
        r = r < n ? r : n - 1;
        id = ids ? ids[r] : r;
        l->at[i] = *(const float4 *)(points + id * stride + feature + threadIdx.x % 4 * 4);
    }
}
__device__ static void put_down(const struct lines *l, float (*tile)[LINE]) {
    for (int i = 0; i < 2; i++) {
        u32 r = threadIdx.x / 4 + i * 64, f = threadIdx.x % 4 * 4;
        tile[f][r] = l->at[i].x;
        tile[f + 1][r] = l->at[i].y;
        tile[f + 2][r] = l->at[i].z;
        tile[f + 3][r] = l->at[i].w;
    }
}

/* Thread (tx, ty) of 16 x 16 has rows and columns 4t..4t+3 and 64 more. */
__device__ static u32 within(u32 t, int i) { return (i < 4 ? 0 : 60) + t * 4 + i; }

template <bool direct> __device__ static void make_tile(const struct making &m) {
    __shared__ float a[2][DEEP][LINE], b[2][DEEP][LINE];
    u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16, c0 = blockIdx.x * WIDE,
        r0 = blockIdx.y * WIDE;
    if (m.mirror && c0 < r0)
        return;
    if (m.state)
        begin_phase(m.state, MAKE);
    float sum[8][8];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            sum[i][j] = 0;
    struct lines next_a, next_b;
    fetch(&next_a, m.left, m.stride, m.left_ids, r0, m.rows, 0);
    fetch(&next_b, m.right, m.stride, m.right_ids, c0, m.columns, 0);
    put_down(&next_a, a[0]);
    put_down(&next_b, b[0]);
    __syncthreads();
    int now = 0;
    for (u64 f = 0; f < m.stride; f += DEEP) {
        bool more = f + DEEP < m.stride;
        if (more) {
            fetch(&next_a, m.left, m.stride, m.left_ids, r0, m.rows, (u32)f + DEEP);
            fetch(&next_b, m.right, m.stride, m.right_ids, c0, m.columns, (u32)f + DEEP);
        }
#pragma unroll 4
        for (int d = 0; d < DEEP; d++) {
            float x[8], y[8];
            *(float4 *)x = *(const float4 *)&a[now][d][ty * 4];
            *(float4 *)(x + 4) = *(const float4 *)&a[now][d][64 + ty * 4];
            *(float4 *)y = *(const float4 *)&b[now][d][tx * 4];
            *(float4 *)(y + 4) = *(const float4 *)&b[now][d][64 + tx * 4];
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    if (direct) {
                        float e = x[i] - y[j];
                        sum[i][j] += e * e;
                    } else {
                        sum[i][j] += x[i] * y[j];
                    }
                }
        }
        now = !now;
        if (more) {
            put_down(&next_a, a[now]);
            put_down(&next_b, b[now]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u32 r = r0 + within(ty, i);
        if (r >= m.rows)
            continue;
        float norm = direct ? 0 : m.left_norm[m.left_ids ? m.left_ids[r] : r];
        float *out = m.out + (u64)(m.places ? m.places[r] : r) * m.out_stride;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            u32 c = c0 + within(tx, j);
            if (c >= m.columns)
                continue;
            float other = direct ? 0 : m.right_norm[m.right_ids ? m.right_ids[c] : c];
            float v = value_of<direct>(m, sum[i][j], norm, other);
            out[c] = v;
            if (m.mirror && c0 != r0)
                m.out[(u64)c * m.out_stride + r] = v;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) larder_svm_products(struct making m) {
    make_tile<false>(m);
}
extern "C" __global__ void __launch_bounds__(256, 2) larder_svm_differences(struct making m) {
    make_tile<true>(m);
}

/* ---- a round: who enters --------------------------------------------------------------------- */

__device__ static double gradient(const struct problem &p, u32 v) {
    return p.f[p.point[v]] + p.linear[v];
}

extern "C" __global__ void larder_svm_keys(struct problem p) {
    __shared__ u64 low[2][32], high[2][32];
    struct state *s = p.state;
    if (s->done)
        return;
    begin_phase(s, SELECT);
    u64 first[2] = {~(u64)0, ~(u64)0}, last[2] = {~(u64)0, ~(u64)0};
    for (u32 v = blockIdx.x * blockDim.x + threadIdx.x; v < p.n; v += gridDim.x * blockDim.x) {
        u32 g = p.group ? p.group[v] : 0, slot = p.seat[v];
        double x = gradient(p, v), beta = p.beta[v];
        bool up = beta<p.hi[v], down = beta> p.lo[v];
        bool free = slot == 0 || (slot > s->from && slot <= s->to);
        u64 key = order_of_double(x);
        if (up && key < first[g])
            first[g] = key;
        if (down && ~key < last[g])
            last[g] = ~key;
        u32 a = order_of((float)(x - s->mid[g])), b = order_of((float)(s->mid[g] - x));
        p.keys[v] = up && free ? (a < NOBODY ? a : NOBODY - 1) : NOBODY;
        p.keys[p.n + v] = down && free ? (b < NOBODY ? b : NOBODY - 1) : NOBODY;
    }
    u32 lane;
    for (int g = 0; g < 2; g++) {
        u64 a = warp_first(first[g], &lane), b = warp_first(last[g], &lane);
        if (threadIdx.x % 32 == 0)
            low[g][threadIdx.x / 32] = a, high[g][threadIdx.x / 32] = b;
    }
    __syncthreads();
    if (threadIdx.x >= 2)
        return;
    u32 g = threadIdx.x;
    u64 a = ~(u64)0, b = ~(u64)0;
    for (u32 w = 0; w < blockDim.x / 32; w++) {
        a = low[g][w] < a ? low[g][w] : a;
        b = high[g][w] < b ? high[g][w] : b;
    }
    double inf = __longlong_as_double(0x7ff0000000000000ll);
    p.ends[blockIdx.x * 4 + 2 * g] = a == ~(u64)0 ? inf : double_of(a);
    p.ends[blockIdx.x * 4 + 2 * g + 1] = b == ~(u64)0 ? -inf : double_of(~b);
}

/* The ends of all blocks, by a warp. Is it optimal enough? */
__device__ static void see_ends(const struct problem &p, u32 blocks, bool *done, bool tells) {
    struct state *s = p.state;
    double gap = 0, inf = __longlong_as_double(0x7ff0000000000000ll);
    u32 lane;
    for (u32 g = 0; g < p.groups; g++) {
        u64 a = ~(u64)0, b = ~(u64)0;
        for (u32 i = threadIdx.x; i < blocks; i += 32) {
            u64 x = order_of_double(p.ends[i * 4 + 2 * g]);
            u64 y = ~order_of_double(p.ends[i * 4 + 2 * g + 1]);
            a = x < a ? x : a;
            b = y < b ? y : b;
        }
        double lowest = double_of(warp_first(a, &lane)), highest = double_of(~warp_first(b, &lane));
        bool both = lowest < inf && highest > -inf;
        gap = both && highest - lowest > gap ? highest - lowest : gap;
        if (tells && threadIdx.x == 0) {
            s->ends[2 * g] = lowest;
            s->ends[2 * g + 1] = highest;
            s->mid[g] = both ? (lowest + highest) / 2 : 0;
        }
    }
    if (threadIdx.x == 0)
        *done = !(gap > s->target);
    if (tells && threadIdx.x == 0) {
        s->gap = gap;
        if (!(gap > s->target))
            s->done = 1;
    }
}

/* Ascending; n is a power of two. */
__device__ static void sort(u64 *list, u32 n) {
    for (u32 size = 2; size <= n; size *= 2)
        for (u32 step = size / 2; step; step /= 2) {
            __syncthreads();
            for (u32 t = threadIdx.x; t < n / 2; t += blockDim.x) {
                u32 i = t / step * 2 * step + t % step, j = i + step;
                bool up = (i & size) == 0;
                u64 x = list[i], y = list[j];
                if ((x > y) == up)
                    list[i] = y, list[j] = x;
            }
        }
    __syncthreads();
}

struct listing {
    const u32 *keys;
    const unsigned char *group;
    u32 own, n;
};
__device__ static u32 key_at(const struct listing &l, u32 v) {
    return l.group && l.group[v] != l.own ? NOBODY : l.keys[v];
}

/* How many have a key up to this one, or that key and a number up to `id`. */
__device__ static u32 count_to(const struct listing &l, u32 key, u32 id, u32 *work) {
    u32 mine = 0;
    for (u32 v = threadIdx.x; v < l.n; v += blockDim.x) {
        u32 k = key_at(l, v);
        mine += k < key || (k == key && v <= id);
    }
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0)
        work[threadIdx.x / 32] = mine;
    __syncthreads();
    u32 sum = 0;
    for (u32 w = 0; w < blockDim.x / 32; w++)
        sum += work[w];
    __syncthreads();
    return sum;
}

/* Those up to this key and number. Returns how many there are, also beyond the room. */
__device__ static u32 collect(const struct listing &l, u32 key, u32 id, u64 *list, u32 *count) {
    if (threadIdx.x == 0)
        *count = 0;
    __syncthreads();
    for (u32 v = threadIdx.x; v < l.n; v += blockDim.x) {
        u32 k = key_at(l, v);
        if (!(k < key || (k == key && v <= id)))
            continue;
        u32 at = atomicAdd(count, 1u);
        if (at < CAP)
            list[at] = (u64)k << 32 | v;
    }
    __syncthreads();
    u32 n = *count;
    __syncthreads();
    return n;
}

/* The k-th of (key, number), found by halving: where a guess did not do, many keys being equal. */
__device__ static void find_kth(const struct listing &l, u32 k, u32 *key, u32 *id, u32 *work) {
    u32 lo = 0, hi = NOBODY - 1;
    *key = NOBODY - 1, *id = ALL;
    if (count_to(l, NOBODY - 1, ALL, work) <= k)
        return;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (count_to(l, mid, ALL, work) >= k)
            hi = mid;
        else
            lo = mid + 1;
    }
    *key = lo;
    lo = 0, hi = l.n - 1;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (count_to(l, *key, mid, work) >= k)
            hi = mid;
        else
            lo = mid + 1;
    }
    *id = lo;
}

/* Some keys, sorted: the one below which there should be somewhat more than are wanted. */
__device__ static u32 look_around(const struct listing &l, u64 *list) {
    u32 n = l.n < SAMPLE ? l.n : SAMPLE, size = 1;
    while (size < n)
        size *= 2;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x)
        list[i] = i < n ? (u64)key_at(l, (u32)((u64)i * l.n / n)) << 32 | i : ~(u64)0;
    sort(list, size);
    return n;
}

/* Block (list, group): the first of those who should rise, or fall, in order. */
extern "C" __global__ void larder_svm_choose(struct problem p, u32 blocks) {
    __shared__ u64 list[CAP];
    __shared__ u32 work[32], count;
    __shared__ bool done;
    struct state *s = p.state;
    if (s->done)
        return;
    if (threadIdx.x < 32)
        see_ends(p, blocks, &done, blockIdx.x == 0 && blockIdx.y == 0);
    __syncthreads();
    if (done)
        return;
    u32 which = blockIdx.x, g = blockIdx.y, k = (s->to - s->from) / p.groups, n = 0;
    struct listing l = {p.keys + (u64)which * p.n, p.groups > 1 ? p.group : 0, g, p.n};
    u32 sampled = look_around(l, list), rank = (u32)(3 * (u64)k * sampled / (2 * (u64)p.n)) + 6;
    bool found = false;
    for (int tries = 0; tries < 3 && !found; tries++) {
        __syncthreads();
        if (tries)
            look_around(l, list);
        u32 key = rank < sampled ? (u32)(list[rank] >> 32) : NOBODY - 1;
        key = key < NOBODY ? key : NOBODY - 1;
        __syncthreads();
        n = collect(l, key, ALL, list, &count);
        found = n <= CAP && (n >= k || key == NOBODY - 1);
        if (n > CAP && rank == 0)
            break;
        rank = n > CAP ? rank / 2 : 2 * rank + 8;
    }
    if (!found) {
        u32 key, id;
        find_kth(l, k, &key, &id, work);
        n = collect(l, key, id, list, &count);
    }
    u32 size = 2;
    while (size < n)
        size *= 2;
    for (u32 i = n + threadIdx.x; i < size; i += blockDim.x)
        list[i] = ~(u64)0;
    sort(list, size);
    n = n < k ? n : k;
    u64 *out = p.lists + (g * 2 + which) * (u64)SLOTS;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = list[i];
    if (threadIdx.x == 0)
        p.found[g * 2 + which] = n;
}

/* One block. Both lists in turn, whoever is in both where he comes first. */
extern "C" __global__ void larder_svm_seat(struct problem p) {
    __shared__ unsigned char keep[2 * SLOTS];
    __shared__ u32 work[32];
    struct state *s = p.state;
    if (s->done)
        return;
    u32 from = s->from, to = s->to, share = (to - from) / p.groups, base = from;
    for (u32 i = from + threadIdx.x; i < to; i += blockDim.x) {
        u32 v = p.var[i];
        if (v != NOBODY)
            p.seat[v] = 0;
        p.var[i] = NOBODY;
        p.where[i] = 0;
        if (!p.places)
            p.place[i] = 0;
    }
    __syncthreads();
    for (u32 g = 0; g < p.groups; g++) {
        const u64 *up = p.lists + g * 2 * (u64)SLOTS, *low = up + SLOTS;
        u32 ups = p.found[g * 2], lows = p.found[g * 2 + 1], all;
        for (u32 i = threadIdx.x; i < 2 * share; i += blockDim.x)
            keep[i] = i / 2 < (i % 2 ? lows : ups);
        for (u32 i = threadIdx.x; i < ups; i += blockDim.x)
            p.mark[(u32)up[i]] = i + 1;
        __syncthreads();
        for (u32 j = threadIdx.x; j < lows; j += blockDim.x) {
            u32 twin = p.mark[(u32)low[j]];
            if (twin && twin - 1 <= j)
                keep[2 * j + 1] = 0;
            else if (twin)
                keep[2 * (twin - 1)] = 0;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < ups; i += blockDim.x)
            p.mark[(u32)up[i]] = 0;
        u32 taken = 0;
        for (u32 i0 = 0; i0 < 2 * share; i0 += blockDim.x) {
            u32 i = i0 + threadIdx.x, mine = i < 2 * share ? keep[i] : 0;
            u32 at = taken + block_before(mine, work, &all);
            taken += all;
            if (!mine || at >= share)
                continue;
            u32 v = (u32)(i % 2 ? low[i / 2] : up[i / 2]), slot = base + at, point = p.point[v];
            u32 column = p.column ? p.column[point] : point;
            p.var[slot] = v;
            p.seat[v] = (unsigned short)(slot + 1);
            p.where[slot] = column;
            if (!p.places)
                p.place[slot] = column;
        }
        base += taken < share ? taken : share;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        s->entered = base - from;
        s->new_from = from, s->new_to = to;
        s->from = to - from == SLOTS || from ? 0 : HALF;
        s->to = s->from + HALF;
    }
}

/* ---- a round: the small problem -------------------------------------------------------------- */

/* A block a slot, as many as may be new. */
extern "C" __global__ void larder_svm_gather(struct problem p) {
    struct state *s = p.state;
    if (s->done)
        return;
    begin_phase(s, GATHER);
    u32 from = s->new_from, to = s->new_to, i = from + blockIdx.x;
    if (i >= to)
        return;
    const float *row = p.rows + (u64)p.place[i] * p.stride;
    for (u32 j = threadIdx.x; j < SLOTS; j += blockDim.x) {
        float v = row[p.where[j]];
        p.k[(u64)i * SLOTS + j] = v;
        if (j < from || j >= to)
            p.k[(u64)j * SLOTS + i] = v;
    }
}

#ifndef EACH
#define EACH 2 /* slots of a thread; measured on an H200: 1.8 us a step, 2.3 with 4, 2.9 with 8 */
#endif
#define SMALL (SLOTS / EACH)
#define SMALL_WARPS (SMALL / 32)

struct best_rise { /* of a warp */
    u64 key[2][SMALL_WARPS];
    double room[2][SMALL_WARPS];
    u32 slot[2][SMALL_WARPS];
};
struct best_fall {
    u32 gain[SMALL_WARPS], gap[SMALL_WARPS], slot[SMALL_WARPS], group[SMALL_WARPS];
    double above[SMALL_WARPS], room[SMALL_WARPS], value[SMALL_WARPS];
};

/* Of two, which a compiler keeps in registers. */
template <class T> __device__ static T of_two(u32 g, const T *x, int groups) {
    return groups > 1 && g ? x[groups - 1] : x[0];
}

/* What changed, in the order of slots, as a list of rows. */
__device__ static void list_changes(const struct problem &p, const double *change, u32 *work,
                                    u64 steps) {
    struct state *s = p.state;
    u32 all, mine = 0, slot = threadIdx.x * EACH;
    for (int e = 0; e < EACH; e++)
        mine += change[slot + e] != 0;
    u32 at = block_before(mine, work, &all);
    for (int e = 0; e < EACH; e++)
        if (change[slot + e] != 0) {
            p.list_place[at] = p.place[slot + e];
            p.list_weight[at++] = change[slot + e];
        }
    if (threadIdx.x == 0) {
        s->changed = all;
        s->steps += steps;
        s->rounds++;
        if (all == 0)
            s->done = 2;
        else if (s->steps >= s->most_steps)
            s->done = 3;
    }
}

/* Slot t + e * SMALL is thread t's, in registers. */
struct own {
    double f[EACH], beta[EACH], lo[EACH], hi[EACH];
    float diagonal[EACH], value[EACH]; /* value: of the row of who rises */
    u32 up, low, group;                /* bits */
};
struct between { /* what threads tell each other */
    struct best_rise rises;
    struct best_fall falls;
    float diagonal[SLOTS];
    double change[SLOTS];
    u32 work[32];
};
struct pair { /* who rises in each group; who falls, and what the step has to know */
    u32 rise[2], fall, group;
    double lowest[2], rise_room[2], fall_room, above, value, violation;
};

#define INLINE __device__ __forceinline__ static

template <int groups>
INLINE void sit_down(const struct problem &p, struct own &o, struct between &b) {
    o.up = o.low = o.group = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 slot = threadIdx.x + e * SMALL, v = p.var[slot];
        o.f[e] = o.beta[e] = o.lo[e] = o.hi[e] = 0;
        o.diagonal[e] = 0;
        if (v != NOBODY) {
            o.f[e] = gradient(p, v);
            o.beta[e] = p.beta[v], o.lo[e] = p.lo[v], o.hi[e] = p.hi[v];
            o.diagonal[e] = p.diagonal[p.point[v]];
            o.up |= (u32)(o.beta[e] < o.hi[e]) << e;
            o.low |= (u32)(o.beta[e] > o.lo[e]) << e;
            o.group |= (u32)(groups > 1 && p.group[v]) << e;
        }
        b.diagonal[slot] = o.diagonal[e];
    }
    __syncthreads();
}

/* The smallest gradient that may rise, of each group. */
template <int groups>
INLINE void who_rises(const struct own &o, struct between &b, struct pair &s) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 winner;
#pragma unroll
    for (int g = 0; g < groups; g++) {
        double least = __longlong_as_double(0x7ff0000000000000ll), room = 0;
        u32 slot = NOBODY;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if ((o.up >> e & 1) && (groups == 1 || (o.group >> e & 1) == (u32)g) && o.f[e] < least)
                least = o.f[e], room = o.hi[e] - o.beta[e], slot = threadIdx.x + e * SMALL;
        u64 best = warp_first(slot == NOBODY ? ~(u64)0 : order_of_double(least), &winner);
        if (lane == winner) {
            b.rises.key[g][warp] = best;
            b.rises.slot[g][warp] = slot;
            b.rises.room[g][warp] = room;
        }
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < groups; g++) {
        u64 best = warp_first(lane < SMALL_WARPS ? b.rises.key[g][lane] : ~(u64)0, &winner);
        s.rise[g] = best == ~(u64)0 ? NOBODY : b.rises.slot[g][winner];
        s.lowest[g] = double_of(best);
        s.rise_room[g] = b.rises.room[g][winner];
    }
}

/* Who gains most by falling against it. False: nobody does. */
template <int groups>
INLINE bool who_falls(const struct problem &p, struct own &o, struct between &b, struct pair &s) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 gain = 0, gap = 0, fall = 0, fall_group = 0;
    double above = 0, room = 0;
    float value = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) { /* all on their way before the first is wanted */
        u32 up = of_two(o.group >> e & 1, s.rise, groups);
        o.value[e] = up == NOBODY ? 0 : p.k[(u64)up * SLOTS + threadIdx.x + e * SMALL];
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 slot = threadIdx.x + e * SMALL, up = of_two(o.group >> e & 1, s.rise, groups);
        double off = o.f[e] - of_two(o.group >> e & 1, s.lowest, groups);
        float less = (float)off;
        if (up == NOBODY || !(o.low >> e & 1) || !(less > 0))
            continue;
        float eta = b.diagonal[up] + o.diagonal[e] - 2 * o.value[e];
        u32 x = __float_as_uint(__fdividef(less * less, eta > FLAT ? eta : FLAT)) + 1;
        gap = __float_as_uint(less) > gap ? __float_as_uint(less) : gap;
        if (x > gain) {
            gain = x, fall = slot, fall_group = o.group >> e & 1;
            above = off, room = o.beta[e] - o.lo[e], value = o.value[e];
        }
    }
    u32 most_gain = warp_max(gain), most_gap = warp_max(gap);
    u32 winner = __ffs(__ballot_sync(ALL, gain == most_gain)) - 1;
    if (lane == winner) {
        b.falls.gain[warp] = most_gain, b.falls.gap[warp] = most_gap;
        b.falls.slot[warp] = fall, b.falls.group[warp] = fall_group;
        b.falls.above[warp] = above, b.falls.room[warp] = room;
        b.falls.value[warp] = (double)value;
    }
    __syncthreads();
    gain = lane < SMALL_WARPS ? b.falls.gain[lane] : 0;
    most_gain = warp_max(gain);
    most_gap = warp_max(lane < SMALL_WARPS ? b.falls.gap[lane] : 0);
    winner = __ffs(__ballot_sync(ALL, gain == most_gain)) - 1;
    s.violation = (double)__uint_as_float(most_gap);
    s.fall = b.falls.slot[winner], s.group = groups > 1 ? b.falls.group[winner] : 0;
    s.fall_room = b.falls.room[winner], s.above = b.falls.above[winner];
    s.value = b.falls.value[winner];
    return most_gain > 0;
}

/* Along the pair until its minimum or a bound; a bound is hit exactly. */
template <int groups>
INLINE void take_step(const struct problem &p, struct own &o, const struct between &b,
                      const struct pair &s) {
    u32 up = of_two(s.group, s.rise, groups);
    float other[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        other[e] = p.k[(u64)s.fall * SLOTS + threadIdx.x + e * SMALL];
        if (groups > 1)
            o.value[e] = p.k[(u64)up * SLOTS + threadIdx.x + e * SMALL];
    }
    double eta = (double)b.diagonal[up] + (double)b.diagonal[s.fall] - 2 * s.value;
    double room = of_two(s.group, s.rise_room, groups);
    double t = s.above / (eta > (double)FLAT ? eta : (double)FLAT);
    t = t < room ? t : room;
    t = t < s.fall_room ? t : s.fall_room;
    bool owner = threadIdx.x == up % SMALL || threadIdx.x == s.fall % SMALL;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 slot = threadIdx.x + e * SMALL, bit = 1u << e;
        o.f[e] += t * ((double)o.value[e] - (double)other[e]);
        if (!owner || (slot != up && slot != s.fall))
            continue;
        if (slot == up)
            o.beta[e] = t == room ? o.hi[e] : o.beta[e] + t;
        else
            o.beta[e] = t == s.fall_room ? o.lo[e] : o.beta[e] - t;
        o.up = o.beta[e] < o.hi[e] ? o.up | bit : o.up & ~bit;
        o.low = o.beta[e] > o.lo[e] ? o.low | bit : o.low & ~bit;
    }
}

/* A step is a chain of things that wait for each other, so it has two barriers and no more: the
 * best of each warp goes through shared memory with all that the others need of it, and each warp
 * finds the best of these by itself. */
template <int groups> __device__ static void solve_small(const struct problem &p) {
    __shared__ struct between b;
    struct state *s = p.state;
    struct own o;
    struct pair chosen;
    sit_down<groups>(p, o, b);
    double tolerance = s->target * (double)p.tight;
    u64 most = s->most_steps - s->steps, done = 0;
    for (; done < most; done++) {
        who_rises<groups>(o, b, chosen);
        bool found = who_falls<groups>(p, o, b, chosen);
        if (done == 0 && (double)p.share * chosen.violation > tolerance)
            tolerance = (double)p.share * chosen.violation;
        if (!found || !(chosen.violation >= tolerance))
            break;
        take_step<groups>(p, o, b, chosen);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        u32 slot = threadIdx.x + e * SMALL, v = p.var[slot];
        b.change[slot] = v == NOBODY ? 0 : o.beta[e] - p.beta[v];
        if (v != NOBODY)
            p.beta[v] = o.beta[e];
    }
    __syncthreads();
    list_changes(p, b.change, b.work, done);
}

/* `done` may be set by this very launch, with a change that has still to be added. */
extern "C" __global__ void __launch_bounds__(SMALL) larder_svm_small(struct problem p) {
    if (threadIdx.x == 0 && p.state->done)
        p.state->changed = 0;
    __syncthreads();
    if (p.state->done)
        return;
    begin_phase(p.state, STEPS);
    __syncthreads(); /* everybody has read `done` */
    if (p.groups > 1)
        solve_small<2>(p);
    else
        solve_small<1>(p);
}

/* ---- a round: the gradient ------------------------------------------------------------------- */

/* Block (columns, slice). */
extern "C" __global__ void __launch_bounds__(256) larder_svm_add(struct problem p) {
    __shared__ u32 place[SLOTS / SLICES];
    __shared__ double weight[SLOTS / SLICES];
    struct state *s = p.state;
    u32 rows = s->changed, each = (rows + SLICES - 1) / SLICES, from = blockIdx.y * each;
    if (rows == 0)
        return;
    begin_phase(s, UPDATE);
    u32 n = from < rows ? (rows - from < each ? rows - from : each) : 0;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
        place[i] = p.list_place[from + i];
        weight[i] = p.list_weight[from + i];
    }
    __syncthreads();
    u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= p.points)
        return;
    const float *at = p.rows + (p.column ? p.column[c] : c);
    double sum = 0;
#pragma unroll 8
    for (u32 i = 0; i < n; i++)
        sum += weight[i] * (double)at[place[i] * p.stride];
    p.part[(u64)blockIdx.y * p.points + c] = sum;
}

extern "C" __global__ void larder_svm_fold(struct problem p) {
    u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (p.state->changed == 0 || c >= p.points)
        return;
    double sum = p.f[c];
    for (u32 i = 0; i < SLICES; i++)
        sum += p.part[(u64)i * p.points + c];
    p.f[c] = sum;
}

/* How far each variable is from being chosen again, for policies that ask. */
extern "C" __global__ void larder_svm_distance(struct problem p) {
    struct state *s = p.state;
    for (u32 v = blockIdx.x * blockDim.x + threadIdx.x; v < p.n; v += gridDim.x * blockDim.x) {
        u32 g = p.group ? p.group[v] : 0;
        double x = gradient(p, v), d = 3e38, fall = s->ends[2 * g + 1] - x;
        if (p.beta[v] < p.hi[v])
            d = x - s->ends[2 * g];
        if (p.beta[v] > p.lo[v] && fall < d)
            d = fall;
        p.dist[v] = d < 3e38 ? (float)d : 3e38f;
    }
}

/* ---- decision values ------------------------------------------------------------------------- */

#define LINES 8
/* Block (columns, lines, class): sums of a class's vectors, as coefficients stand in a model. */
extern "C" __global__ void larder_svm_weigh(const float *rows, u64 stride, u32 columns,
                                            const double *coef, u64 vectors, u32 first, u32 last,
                                            const u32 *class_start, u32 lines, double *sums,
                                            u64 sum_stride) {
    u32 c = blockIdx.x * blockDim.x + threadIdx.x, line = blockIdx.y * LINES, own = blockIdx.z;
    if (c >= columns)
        return;
    u32 from = class_start[own], to = class_start[own + 1], n = lines - line;
    from = from > first ? from : first;
    to = to < last ? to : last;
    n = n < LINES ? n : LINES;
    double sum[LINES];
    for (int l = 0; l < LINES; l++)
        sum[l] = 0;
    for (u32 v = from; v < to; v++) {
        double x = (double)rows[(u64)(v - first) * stride + c];
#pragma unroll
        for (int l = 0; l < LINES; l++)
            if ((u32)l < n)
                sum[l] += coef[(u64)(line + l) * vectors + v] * x;
    }
    for (int l = 0; l < LINES; l++)
        if ((u32)l < n)
            sums[((u64)own * lines + line + l) * sum_stride + c] += sum[l];
}
