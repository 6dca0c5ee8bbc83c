/* Rows of a batch on the GPU. `taps`, `make` and `paint` turn planes that a JPEG decoder left in the
 * device's memory into levels, as src/stage does: colour made whole and RGB as libjpeg-turbo does it,
 * the resampling of resample.c and other_filters.c by the weights of taps.c, flips and padding of
 * emit.c, the colours of recolour.c. `values` turns levels, wherever they were made, into what
 * training wants: scaled, mixed, cast.
 *
 * Compiled without fused multiply-adds (--fmad=false): sums are the host's, bit by bit. Structs are
 * those of gpu_levels.h. tests/unit/test_gpu_feed.c runs this file on the host beside its twins. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { GREY, WHOLE, HALF_WIDTH, HALF_BOTH, HALF_HEIGHT, RGB };           /* colour of a picture */
enum { PLAIN, SMOOTH, SMOOTH_WITHIN, SHARP, NEAREST };                   /* how a row is made */
enum { BILINEAR, BICUBIC, NEAREST_PIXEL };                               /* larder_filter */
enum { BRIGHTEN, CONTRAST, SATURATE, HUE, TO_GREY, INVERT, MASK, SOLARIZE }; /* larder__recolour */
enum { F32, BYTES, F16, BF16 };                                          /* larder_dtype */

struct Axis {
    double in0, in1;
    i64 lo, hi, full, first, last;
    int filter, aliased;
};

struct Recolour {
    int op;
    float by;
};

struct Picture {
    u64 plane[3];
    int pitch[3];
    int colour;
    int w, h, cw, ch; /* sides; those of the planes of colour */
    int left, top;    /* where it lies in the coordinates of axes */
};

enum { RECOLOURS = 16 };

struct Job {
    Picture from;
    Axis x, y;
    u64 taps_x, taps_y; /* n outputs: int first[n], count[n], float weight[n * width] */
    int width_x, width_y;
    int how, flipped, upended;
    int plain_x, plain_y;       /* PLAIN: the first pixel */
    int reach0, reach1;         /* columns that are looked at */
    int filled0, filled1, filled2, filled3; /* x0 y0 x1 y1 of the row before it is flipped */
    u8 fill[4];
    int recolours;
    Recolour recolour[RECOLOURS];
    u64 sums; /* one u64 a pass, zero before: levels of grey, for contrast */
    u64 out;
};

struct Shape {
    int w, h, packed; /* packed: channels last */
};

template <typename T> __device__ T *at(u64 address) { return (T *)address; }

/* ---- weights, as taps.c ---------------------------------------------------------------------- */

__device__ static double radius_of(const Axis &a) { return a.filter == BICUBIC ? 2 : 1; }

__device__ static double width_of(const Axis &a) {
    double scale = (a.in1 - a.in0) / (double)a.full;
    return scale > 1 && !a.aliased ? scale : 1;
}

__device__ static i64 nearest_to(const Axis &a, i64 i) {
    double step = (a.in1 - a.in0) / (double)a.full, whole = floor(a.in0);
    double sum = (a.in0 - whole) + step * 0.5;
    for (i64 k = 0; k < i; k++)
        sum += step;
    i64 from = (i64)(whole + floor(sum));
    return from < a.lo ? a.lo : from > a.hi - 1 ? a.hi - 1 : from;
}

__device__ static void reach_of(const Axis &a, i64 i, i64 *from, i64 *to, double *centre) {
    double support = radius_of(a) * width_of(a);
    *centre = a.in0 + ((double)i + 0.5) * ((a.in1 - a.in0) / (double)a.full);
    *from = (i64)floor(*centre - support + 0.5);
    *to = (i64)floor(*centre + support + 0.5);
    *from = *from < a.lo ? a.lo : *from > a.hi - 1 ? a.hi - 1 : *from;
    *to = *to > a.hi ? a.hi : *to <= *from ? *from + 1 : *to;
}

__device__ static double weight_at(const Axis &a, double away) {
    if (a.filter != BICUBIC)
        return away < 1 ? 1 - away : 0;
    const double k = a.aliased ? -0.75 : -0.5;
    if (away < 1)
        return ((k + 2) * away - (k + 3)) * away * away + 1;
    return away < 2 ? (((away - 5) * away + 8) * away - 4) * k : 0;
}

__device__ static double weigh(const Axis &a, double centre, i64 from, i64 to, float *w) {
    double width = width_of(a), sum = 0;
    for (i64 k = from; k < to; k++) {
        double v = weight_at(a, fabs(((double)k + 0.5 - centre) / width));
        w[k - from] = (float)v;
        sum += v;
    }
    if (!a.aliased || a.filter != BICUBIC)
        return sum;
    for (i64 k = (i64)floor(centre - 1.5); k < from; k++)
        w[0] += (float)weight_at(a, fabs((double)k + 0.5 - centre));
    for (i64 k = (i64)floor(centre + 2.5) - 1; k >= to; k--)
        w[to - from - 1] += (float)weight_at(a, fabs((double)k + 0.5 - centre));
    return 1;
}

__device__ static void tap(const Axis &a, i64 i, int width, int *first, int *count, float *w) {
    i64 from, to;
    double centre;
    if (a.filter == NEAREST_PIXEL) {
        *first = (int)nearest_to(a, a.first + i);
        *count = 1;
        w[0] = 1;
        return;
    }
    reach_of(a, a.first + i, &from, &to, &centre);
    if (to - from > width)
        to = from + width;
    double sum = weigh(a, centre, from, to, w);
    if (!(fabs(sum) > 1e-9)) {
        w[0] = 1;
        sum = 1;
    }
    for (i64 k = 0; k < to - from; k++)
        w[k] = (float)(w[k] / sum);
    *first = (int)from;
    *count = (int)(to - from);
}

/* One block an axis of a job. */
extern "C" __global__ void taps(const Job *jobs) {
    const Job &j = jobs[blockIdx.x];
    const Axis &a = blockIdx.y ? j.y : j.x;
    int n = (int)(a.last - a.first), width = blockIdx.y ? j.width_y : j.width_x;
    int *first = at<int>(blockIdx.y ? j.taps_y : j.taps_x), *count = first + n;
    float *weight = (float *)(count + n);
    if (j.how == PLAIN)
        return;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        tap(a, i, width, first + i, count + i, weight + (i64)i * width);
}

/* ---- one pixel of a picture, as libjpeg-turbo ------------------------------------------------ */

__device__ static int within(int v, int most) { return v < 0 ? 0 : v > most ? most : v; }

/* Colour at x of a line that is half as wide: three parts of the nearest, one of the next. */
__device__ static int across(int near, int beside, int x, int w, bool edge) {
    (void)w;
    return edge ? near : (3 * near + beside + 1 + (x & 1)) >> 2;
}

__device__ static int chroma(const Picture &p, int plane, int x, int y) {
    const u8 *from = at<const u8>(p.plane[plane]);
    const i64 pitch = p.pitch[plane];
    if (p.colour == WHOLE)
        return from[y * pitch + x];
    if (p.colour == HALF_WIDTH) {
        const u8 *line = from + y * pitch;
        int k = x >> 1, other = x & 1 ? k + 1 : k - 1;
        bool edge = other < 0 || other >= p.cw;
        return across(line[k], line[within(other, p.cw - 1)], x, p.cw, edge);
    }
    int row = p.colour == HALF_HEIGHT || p.colour == HALF_BOTH ? y >> 1 : y;
    int next = within(y & 1 ? row + 1 : row - 1, p.ch - 1);
    const u8 *a = from + row * pitch, *b = from + next * pitch;
    if (p.colour == HALF_HEIGHT)
        return (3 * a[x] + b[x] + 1 + (y & 1)) >> 2;
    int k = x >> 1, other = x & 1 ? k + 1 : k - 1, here = 3 * a[k] + b[k];
    if (other < 0 || other >= p.cw)
        return (here * 4 + (x & 1 ? 7 : 8)) >> 4;
    return (here * 3 + 3 * a[other] + b[other] + (x & 1 ? 7 : 8)) >> 4;
}

/* x and y in the coordinates of axes. */
__device__ static void pixel(const Picture &p, int x, int y, int rgb[3]) {
    x = within(x - p.left, p.w - 1);
    y = within(y - p.top, p.h - 1);
    if (p.colour == RGB) {
        const u8 *from = at<const u8>(p.plane[0]) + (i64)y * p.pitch[0] + 3 * x;
        for (int c = 0; c < 3; c++)
            rgb[c] = from[c];
        return;
    }
    int luma = at<const u8>(p.plane[0])[(i64)y * p.pitch[0] + x];
    if (p.colour == GREY) {
        rgb[0] = rgb[1] = rgb[2] = luma;
        return;
    }
    int cb = chroma(p, 1, x, y) - 128, cr = chroma(p, 2, x, y) - 128;
    rgb[0] = within(luma + ((91881 * cr + 32768) >> 16), 255);
    rgb[1] = within(luma + ((-22554 * cb - 46802 * cr + 32768) >> 16), 255);
    rgb[2] = within(luma + ((116130 * cb + 32768) >> 16), 255);
}

/* ---- resampling ------------------------------------------------------------------------------ */

struct Taps {
    const int *first, *count;
    const float *weight;
    int width;
};

__device__ static Taps taps_of(u64 from, const Axis &a, int width) {
    i64 n = a.last - a.first;
    Taps t;
    t.first = at<const int>(from);
    t.count = t.first + n;
    t.weight = (const float *)(t.count + n);
    t.width = width;
    return t;
}

/* Column x of one output row, summed down as sum_rows.c does: by fours. */
__device__ static void sum_down(const Picture &p, const Taps &t, int j, int x, float out[3]) {
    const float *w = t.weight + (i64)j * t.width;
    int first = t.first[j], n = t.count[j];
    for (int k = 0; k < n; k += 4) {
        float part[4][3];
        for (int i = 0; i < 4; i++) {
            int rgb[3] = {0, 0, 0};
            float by = k + i < n ? w[k + i] : 0;
            if (k + i < n)
                pixel(p, x, first + k + i, rgb);
            for (int c = 0; c < 3; c++)
                part[i][c] = (float)rgb[c] * by;
        }
        for (int c = 0; c < 3; c++) {
            float sum = (part[0][c] + part[1][c]) + (part[2][c] + part[3][c]);
            out[c] = k ? out[c] + sum : sum;
        }
    }
}

/* The same of RGB, four levels at once, whatever channels they are of: lines begin at whole words. */
__device__ static void down_rgb(const Job &job, const Taps &t, int j, float *line) {
    const Picture &p = job.from;
    const float *w = t.weight + (i64)j * t.width;
    const int first = t.first[j] - p.top, n = t.count[j];
    const int begin = 3 * (job.reach0 - p.left), end = 3 * (job.reach1 - p.left);
    for (int b = (begin & ~3) + 4 * (int)threadIdx.x; b < end; b += 4 * (int)blockDim.x) {
        const u8 *column = at<const u8>(p.plane[0]) + b;
        float sum[4] = {0, 0, 0, 0};
        for (int k = 0; k < n; k += 4) {
            float part[4][4];
            for (int i = 0; i < 4; i++) {
                float by = k + i < n ? w[k + i] : 0;
                int y = within(first + k + i, p.h - 1);
                u32 four = k + i < n ? *(const u32 *)(column + (i64)y * p.pitch[0]) : 0;
                for (int c = 0; c < 4; c++)
                    part[i][c] = (float)(four >> 8 * c & 255) * by;
            }
            for (int c = 0; c < 4; c++) {
                float all = (part[0][c] + part[1][c]) + (part[2][c] + part[3][c]);
                sum[c] = k ? sum[c] + all : all;
            }
        }
        for (int c = 0; c < 4; c++)
            if (b + c >= begin && b + c < end)
                line[b + c - begin] = sum[c];
    }
}

/* All columns of an output row; what it looked at is in `line`. */
__device__ static void down(const Job &job, int j, float *line) {
    const Picture &p = job.from;
    Taps t = taps_of(job.taps_y, job.y, job.width_y);
    if (p.colour == RGB && job.reach0 >= p.left && job.reach1 - p.left <= p.w) {
        down_rgb(job, t, j, line);
        return;
    }
    for (int x = job.reach0 + (int)threadIdx.x; x < job.reach1; x += (int)blockDim.x)
        sum_down(job.from, t, j, x, line + 3 * (x - job.reach0));
}

__device__ static void smooth(const Job &job, int i, const float *line, int rgb[3]) {
    Taps t = taps_of(job.taps_x, job.x, job.width_x);
    const float *w = t.weight + (i64)i * t.width;
    const float *from = line + 3 * (t.first[i] - job.reach0);
    float sum[3] = {0.5f, 0.5f, 0.5f};
    for (int k = 0; k < t.count[i]; k++)
        for (int c = 0; c < 3; c++)
            sum[c] += from[3 * k + c] * w[k];
    for (int c = 0; c < 3; c++)
        rgb[c] = within((int)sum[c], 255);
}

__device__ static float rounded(float v) {
    v += 0.5f;
    return (float)(int)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* First across, then down, each rounded. */
__device__ static void sharp(const Job &job, int i, int j, int rgb[3]) {
    Taps tx = taps_of(job.taps_x, job.x, job.width_x), ty = taps_of(job.taps_y, job.y, job.width_y);
    const float *wx = tx.weight + (i64)i * tx.width, *wy = ty.weight + (i64)j * ty.width;
    float all[3] = {0, 0, 0};
    for (int k = 0; k < ty.count[j]; k++) {
        float sum[3] = {0, 0, 0};
        for (int n = 0; n < tx.count[i]; n++) {
            int from[3];
            pixel(job.from, tx.first[i] + n, ty.first[j] + k, from);
            for (int c = 0; c < 3; c++)
                sum[c] += (float)from[c] * wx[n];
        }
        for (int c = 0; c < 3; c++)
            all[c] += rounded(sum[c]) * wy[k];
    }
    for (int c = 0; c < 3; c++)
        rgb[c] = (int)rounded(all[c]);
}

__device__ static void resampled(const Job &job, int i, int j, const float *line, int rgb[3]) {
    if (job.how == PLAIN)
        pixel(job.from, job.plain_x + i, job.plain_y + j, rgb);
    else if (job.how == SHARP)
        sharp(job, i, j, rgb);
    else if (job.how == NEAREST)
        pixel(job.from, at<const int>(job.taps_x)[i], at<const int>(job.taps_y)[j], rgb);
    else
        smooth(job, i, line, rgb);
}

/* ---- colours, as recolour.c ------------------------------------------------------------------ */

__device__ static int blended(int from, int to, float alpha) {
    float v = (float)from + alpha * (float)(to - from);
    v = v < 0 ? 0 : v;
    return (int)(v > 255 ? 255 : v);
}

__device__ static int grey_of(const int rgb[3]) {
    return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
}

__device__ static void blend_all(int rgb[3], int from, float alpha) {
    for (int c = 0; c < 3; c++)
        rgb[c] = blended(from, rgb[c], alpha);
}

__device__ static void turn(int rgb[3], int by) {
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int most = max(max(r, g), b), range = most - min(min(r, g), b);
    int base = r == most ? 0 : g == most ? 2 : 4;
    int first = most - (r == most ? b : g == most ? r : g);
    int then = most - (r == most ? g : g == most ? b : r);
    float wide = (float)(range | (range == 0));
    float up = (float)first / wide, down_by = (float)then / wide;
    float full = (float)range / (float)(most | (most == 0));
    float h = (float)((double)base + (double)up - (double)down_by);
    double around = (double)h / 6.0 + 1.0;
    float share = (float)(around - (double)(int)around);
    int hue = ((int)((double)share * 255.0) + by) & 255;
    int saturation = (int)((double)full * 255.0);
    int sector = (hue * 2 * 772) >> 16;
    float f = (float)(hue * 6 - sector * 255) * (1.0f / 255), value = (float)most;
    float s = (float)saturation * (1.0f / 255);
    int p = (int)(value * (1 - s) + 0.5f), q = (int)(value * (1 - s * f) + 0.5f);
    int t = (int)(value * (1 - s * (1 - f)) + 0.5f);
    sector = sector == 6 ? 0 : sector;
    if (saturation == 0) {
        rgb[0] = rgb[1] = rgb[2] = most;
        return;
    }
    rgb[0] = sector == 0 || sector == 5 ? most : sector == 1 ? q : sector == 4 ? t : p;
    rgb[1] = sector == 1 || sector == 2 ? most : sector == 0 ? t : sector == 3 ? q : p;
    rgb[2] = sector == 3 || sector == 4 ? most : sector == 2 ? t : sector == 5 ? q : p;
}

__device__ static void recolour(const Recolour &r, int rgb[3]) {
    int grey = r.op == SATURATE || r.op == TO_GREY ? grey_of(rgb) : 0;
    if (r.op == BRIGHTEN || r.op == SATURATE)
        blend_all(rgb, grey, r.by);
    else if (r.op == TO_GREY)
        rgb[0] = rgb[1] = rgb[2] = grey;
    else if (r.op == HUE)
        turn(rgb, (int)r.by);
    for (int c = 0; c < 3; c++)
        if (r.op == INVERT)
            rgb[c] = 255 - rgb[c];
        else if (r.op == MASK)
            rgb[c] &= (int)r.by;
        else if (r.op == SOLARIZE)
            rgb[c] = rgb[c] <= (int)r.by ? rgb[c] : 255 - rgb[c];
}

/* From one on to the next contrast, which has to know all of the picture; that one, or the end. */
__device__ static int recolour_from(const Job &job, int k, int rgb[3]) {
    for (; k < job.recolours && job.recolour[k].op != CONTRAST; k++)
        recolour(job.recolour[k], rgb);
    return k;
}

/* ---- rows ------------------------------------------------------------------------------------ */

__device__ static void put(const Job &job, const Shape &s, int x, int y, const int rgb[3]) {
    u8 *out = at<u8>(job.out);
    i64 plane = (i64)s.w * s.h, i = (i64)y * s.w + x;
    for (int c = 0; c < 3; c++)
        out[s.packed ? i * 3 + c : plane * c + i] = (u8)rgb[c];
}

__device__ static void get(const Job &job, const Shape &s, int x, int y, int rgb[3]) {
    const u8 *out = at<const u8>(job.out);
    i64 plane = (i64)s.w * s.h, i = (i64)y * s.w + x;
    for (int c = 0; c < 3; c++)
        rgb[c] = out[s.packed ? i * 3 + c : plane * c + i];
}

/* What a block's pixels sum up to, for the next contrast. */
__device__ static void add_up(const Job &job, int pass, u32 mine, u32 *shared) {
    if (threadIdx.x == 0)
        *shared = 0;
    __syncthreads();
    if (mine)
        atomicAdd(shared, mine);
    __syncthreads();
    if (threadIdx.x == 0 && *shared)
        atomicAdd(at<u64>(job.sums) + pass, (u64)*shared);
}

/* One block a line of a job: grid.x lines, grid.y jobs. */
extern "C" __global__ void make(const Job *jobs, Shape s) {
    extern __shared__ float line[];
    __shared__ u32 sum;
    const Job &job = jobs[blockIdx.y];
    int out_y = (int)blockIdx.x, y = job.upended ? s.h - 1 - out_y : out_y, j = y - job.filled1;
    bool filled = y >= job.filled1 && y < job.filled3, waits = false;
    u32 mine = 0;
    if (filled && (job.how == SMOOTH || job.how == SMOOTH_WITHIN))
        down(job, j, line);
    __syncthreads();
    for (int out_x = (int)threadIdx.x; out_x < s.w; out_x += (int)blockDim.x) {
        int x = job.flipped ? s.w - 1 - out_x : out_x;
        int rgb[3] = {job.fill[0], job.fill[1], job.fill[2]};
        if (filled && x >= job.filled0 && x < job.filled2)
            resampled(job, x - job.filled0, j, line, rgb);
        waits = recolour_from(job, 0, rgb) < job.recolours;
        mine += waits ? (u32)grey_of(rgb) : 0;
        put(job, s, out_x, out_y, rgb);
    }
    add_up(job, 0, mine, &sum);
}

/* The pass-th contrast of each job and what follows it; those without one are left alone. */
extern "C" __global__ void paint(const Job *jobs, Shape s, int pass) {
    __shared__ u32 sum;
    const Job &job = jobs[blockIdx.y];
    int k = 0, y = (int)blockIdx.x;
    for (int seen = 0; k < job.recolours; k++)
        if (job.recolour[k].op == CONTRAST && seen++ == pass)
            break;
    u32 mine = 0;
    if (k < job.recolours) {
        double all = (double)at<const u64>(job.sums)[pass], n = (double)((i64)s.w * s.h);
        int level = (int)(all / n + 0.5);
        for (int x = (int)threadIdx.x; x < s.w; x += (int)blockDim.x) {
            int rgb[3];
            get(job, s, x, y, rgb);
            blend_all(rgb, level, job.recolour[k].by);
            mine += recolour_from(job, k + 1, rgb) < job.recolours ? (u32)grey_of(rgb) : 0;
            put(job, s, x, y, rgb);
        }
    }
    add_up(job, pass + 1, mine, &sum);
}

/* ---- values ---------------------------------------------------------------------------------- */

struct Worth {
    u64 levels, out, slots, partners; /* slots, partners: int of each row; partners 0: not mixed */
    i64 row;                          /* elements of one */
    int w, h, c, packed, dtype;
    float scale[4], bias[4];
    float own; /* share of a row itself */
    int pasted, x0, y0, x1, y1;
};

__device__ static u32 bits_of(float f) { return __float_as_uint(f); }

__device__ static u16 to_bf16(float f) {
    u32 bits = bits_of(f);
    return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

__device__ static float of_bf16(u16 h) { return __uint_as_float((u32)h << 16); }

__device__ static u16 to_f16(float f) {
    u32 bits = bits_of(f), sign = (bits >> 16) & 0x8000;
    bits &= 0x7fffffff;
    u32 usual = (bits - 0x38000000u + 0xfff + ((bits >> 13) & 1)) >> 13;
    u32 small = bits_of(__uint_as_float(bits) + 0.5f) - 0x3f000000u;
    return (u16)(sign | (bits >= 0x47800000 ? 0x7c00 : bits < 0x38800000 ? small : usual));
}

__device__ static float of_f16(u16 h) {
    u32 magnitude = (u32)(h & 0x7fff) << 13, sign = (u32)(h & 0x8000) << 16;
    u32 moved = bits_of(__uint_as_float(magnitude) * 5192296858534827628530496329220096.0f);
    return __uint_as_float(moved | (magnitude >= 0x0f800000u ? 0x7f800000u : 0) | sign);
}

enum { AT_ONCE = 4 }; /* elements of a row that a thread makes, side by side */

/* Not by an index: the compiler would copy the array for that. */
__device__ static float of_channel(const float each[4], int c) {
    return c == 0 ? each[0] : c == 1 ? each[1] : c == 2 ? each[2] : each[3];
}

/* A value as it would lie in a row of the host: rounded to its type. */
__device__ static float value_of(const Worth &v, u8 level, int c) {
    float f = (float)level * of_channel(v.scale, c) + of_channel(v.bias, c);
    return v.dtype == F16 ? of_f16(to_f16(f)) : v.dtype == BF16 ? of_bf16(to_bf16(f)) : f;
}

__device__ static int channel_of(const Worth &v, u32 e) {
    return (int)(v.packed ? e % (u32)v.c : e / (u32)(v.w * v.h) % (u32)v.c);
}

/* Is this element in the box that comes from the partner? */
__device__ static bool boxed(const Worth &v, u32 e) {
    u32 plane = (u32)(v.w * v.h), pixel_at = v.packed ? e / (u32)v.c % plane : e % plane;
    int x = (int)(pixel_at % (u32)v.w), y = (int)(pixel_at / (u32)v.w);
    return x >= v.x0 && x < v.x1 && y >= v.y0 && y < v.y1;
}

/* n bytes, the first one lowest; in one go where they lie so. */
__device__ static u32 load(const u8 *from, u32 n) {
    if (n == AT_ONCE && (u64)from % AT_ONCE == 0)
        return *(const u32 *)from;
    u32 all = 0;
    for (u32 k = 0; k < n; k++)
        all |= (u32)from[k] << 8 * k;
    return all;
}

template <typename T, typename All> __device__ static void store(u64 to, const T *each, u32 n) {
    if (n == AT_ONCE && to % sizeof(All) == 0) {
        enum { IN_ONE = sizeof(All) / sizeof(T) };
        for (int k = 0; k < AT_ONCE; k += IN_ONE) {
            All all = 0;
            for (int i = 0; i < IN_ONE; i++)
                all |= (All)each[k + i] << 8 * sizeof(T) * i;
            at<All>(to)[k / IN_ONE] = all;
        }
        return;
    }
    for (u32 k = 0; k < n; k++)
        at<T>(to)[k] = each[k];
}

/* Element e of a row, as the bits of its type. */
__device__ static u32 made_of(const Worth &v, u32 e, u8 own, u8 other) {
    bool blends = v.partners && !v.pasted;
    u8 level = v.partners && v.pasted && boxed(v, e) ? other : own;
    if (v.dtype == BYTES)
        return blends ? (u8)(int)((float)own * v.own + (float)other * (1 - v.own) + 0.5f) : level;
    int c = channel_of(v, e);
    float f = value_of(v, level, c);
    if (blends)
        f = f * v.own + value_of(v, other, c) * (1 - v.own);
    return v.dtype == F32 ? bits_of(f) : v.dtype == F16 ? to_f16(f) : to_bf16(f);
}

/* grid.y rows, grid.x as many blocks as a row takes. */
extern "C" __global__ void values(Worth v) {
    const u32 row = (u32)v.row, e = (blockIdx.x * blockDim.x + threadIdx.x) * AT_ONCE;
    if (e >= row)
        return;
    const u32 n = row - e < AT_ONCE ? row - e : AT_ONCE;
    const u8 *levels = at<const u8>(v.levels) + e;
    const i64 to = (i64)blockIdx.y * v.row + e;
    u32 own = load(levels + at<const int>(v.slots)[blockIdx.y] * v.row, n), other = own;
    if (v.partners)
        other = load(levels + at<const int>(v.partners)[blockIdx.y] * v.row, n);
    u8 bytes[AT_ONCE];
    u16 halves[AT_ONCE];
    u32 words[AT_ONCE];
    for (u32 k = 0; k < AT_ONCE; k++) {
        words[k] = made_of(v, e + k, (u8)(own >> 8 * k), (u8)(other >> 8 * k));
        halves[k] = (u16)words[k];
        bytes[k] = (u8)words[k];
    }
    if (v.dtype == BYTES)
        store<u8, u32>(v.out + to, bytes, n);
    else if (v.dtype == F32)
        store<u32, u64>(v.out + 4 * to, words, n);
    else
        store<u16, u64>(v.out + 2 * to, halves, n);
}
