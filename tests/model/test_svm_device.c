/* What src/gpu/code/svm.cu does, launch by launch, against slow twins: on this processor, by
 * tests/support/fake/code_on_cpu.cpp, or on a GPU with LARDER_TEST_DEVICE=cuda. */
#include "check.h"

#include "base/mem.h"
#include "svm/device_work.h"
#include "svm/kernel.h"
#include "svm/working_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static larder__svm_device *device;
static uint64_t seed = 1;

static double uniform(void) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* True: there is something to run it on. */
static bool find_device(void) {
    static char path[1024], code[1024], folder[] = "/tmp/larder-test-XXXXXX";
    const char *build = getenv("LARDER_BUILD");
    char note[8];
    build = build ? build : "build/test";
    if (!getenv("LARDER_TEST_DEVICE")) {
        snprintf(path, sizeof path, "%s/fake/cuda:%s/fake/nvrtc", build, build);
        snprintf(code, sizeof code, "%s/fake/code/code_on_cpu.so", build);
        if (access(code, R_OK) != 0 || !mkdtemp(folder))
            return false;
        setenv("LARDER_CUDA_LIBRARIES", path, 1);
        setenv("FAKE_CUDA_CODE", code, 1);
        setenv("LARDER_CACHE_DIR", folder, 1);
    }
    check_ok(larder__svm_device_find(&device, "cuda", note, sizeof note));
    return true;
}

static larder__gpu_ptr put(const void *from, size_t bytes) {
    larder__gpu_ptr to;
    check_ok(larder__gpu_alloc(device->gpu, &to, bytes, "a test"));
    check_ok(larder__gpu_put(device->gpu, to, from, bytes, NULL));
    check_ok(larder__gpu_wait(device->gpu, NULL));
    return to;
}
static larder__gpu_ptr zeros(size_t bytes) {
    void *zero = calloc(1, bytes);
    larder__gpu_ptr to = put(zero, bytes);
    free(zero);
    return to;
}
static void get(void *to, larder__gpu_ptr from, size_t bytes) {
    check_ok(larder__gpu_get(device->gpu, to, from, bytes, NULL));
    check_ok(larder__gpu_wait(device->gpu, NULL));
}

/* ---- kernel rows ----------------------------------------------------------------------------- */

enum { ROWS = 300, FEATURES = 37 };

static larder_svm_data *some_data(double far, double filled) {
    static double value[ROWS * FEATURES], label[ROWS];
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        value[i] = uniform() < filled ? far + 2 * uniform() - 1 : 0;
    larder_svm_matrix m = {
        .size = sizeof m, .rows = ROWS, .value = value, .label = label, .features = FEATURES};
    larder_svm_data *d;
    check_ok(larder_svm_copy(&d, &m));
    return d;
}

/* Rows of some points, of all columns or of some, against the engine's. */
static void compare_rows(larder__kernel_conf conf, double far, double filled, double tolerance) {
    larder_svm_data *d = some_data(far, filled);
    larder__kernel k;
    larder__panel panel;
    larder__device_points p;
    uint32_t all[ROWS], ids[40], places[40];
    float norm[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        all[i] = i;
    check_ok(larder__kernel_open(&k, &conf, d, NULL, LARDER__ENGINE_AUTO));
    check_ok(larder__panel_fill(&panel, &k, d, all, ROWS));
    check_ok(larder__device_points_open(&p, device, &k, d, all, ROWS, norm));
    for (size_t i = 0; i < ROWS; i++)
        assert_true(fabsf(norm[i] - panel.norm[i]) <= 1e-6f * (1 + panel.norm[i]));
    for (uint32_t i = 0; i < 40; i++)
        ids[i] = i * 7 % ROWS, places[i] = 39 - i;
    enum { STRIDE = 320 };
    static float got[ROWS * STRIDE], want[ROWS * ROWS];
    void *scratch = calloc(1, larder__kernel_scratch(&k, ROWS) + 64);
    larder__kernel_block(&k, &panel, 0, ROWS, &panel, 0, ROWS, want, ROWS, scratch);
    larder__device_block b = {.left = &p,
                              .right = &p,
                              .rows = ROWS,
                              .columns = ROWS,
                              .out = zeros(sizeof got),
                              .out_stride = STRIDE,
                              .mirror = true};
    check_ok(larder__device_make(device, &k, &b, NULL));
    get(got, b.out, sizeof got);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < ROWS; c++)
            assert_true(fabs((double)(got[r * STRIDE + c] - want[r * ROWS + c])) <=
                        tolerance * (1 + fabs((double)want[r * ROWS + c])));
    b.rows = 40, b.columns = 40, b.mirror = false;
    b.left_ids = put(ids, sizeof ids), b.right_ids = b.left_ids;
    b.places = put(places, sizeof places);
    check_ok(larder__device_make(device, &k, &b, NULL));
    get(got, b.out, sizeof got);
    for (size_t r = 0; r < 40; r++)
        for (size_t c = 0; c < 40; c++)
            assert_true(
                fabs((double)(got[places[r] * STRIDE + c] - want[ids[r] * ROWS + ids[c]])) <=
                tolerance * (1 + fabs((double)want[ids[r] * ROWS + ids[c]])));
    larder__gpu_free(device->gpu, b.out);
    larder__gpu_free(device->gpu, b.left_ids);
    larder__gpu_free(device->gpu, b.places);
    larder__device_points_close(&p, device);
    larder__panel_free(&panel);
    larder__kernel_close(&k);
    larder_svm_data_close(&d);
    free(scratch);
}

static void rows(void **state) {
    (void)state;
    compare_rows((larder__kernel_conf){LARDER_SVM_RBF, 3, 0.1, 0}, 0, 1, 1e-6);
    compare_rows((larder__kernel_conf){LARDER_SVM_RBF, 3, 0.1, 0}, 0, 0.1, 1e-6);
    compare_rows((larder__kernel_conf){LARDER_SVM_RBF, 3, 0.1, 0}, 40, 1, 1e-5); /* differences */
    compare_rows((larder__kernel_conf){LARDER_SVM_LINEAR, 3, 0.1, 0}, 0, 0.5, 1e-5);
    compare_rows((larder__kernel_conf){LARDER_SVM_POLY, 5, 0.1, 1}, 0, 1, 1e-4);
    compare_rows((larder__kernel_conf){LARDER_SVM_SIGMOID, 3, 0.05, -0.3}, 0, 1, 1e-5);
}

/* ---- who enters ------------------------------------------------------------------------------ */

enum { SLOTS = LARDER__DEVICE_SLOTS };

typedef struct made {
    size_t n;
    unsigned groups;
    double *f, *linear, *lo, *hi, *beta;
    uint32_t *point;
    uint8_t *group;
    uint16_t *seat;
    larder__device_state s;
    larder__device_problem p;
} made;

/* `kinds`: so few different gradients that many are equal; 0: all differ. */
static void make(made *m, size_t n, unsigned groups, unsigned kinds) {
    *m = (made){.n = n, .groups = groups, .s = {.target = 1e-3, .to = SLOTS, .mid = {0.3, 0.1}}};
    double **doubles[] = {&m->f, &m->linear, &m->lo, &m->hi, &m->beta};
    for (size_t i = 0; i < 5; i++)
        *doubles[i] = calloc(n, sizeof(double));
    m->point = calloc(n, sizeof *m->point);
    m->group = calloc(n, 1);
    m->seat = calloc(n, sizeof *m->seat);
    for (size_t i = 0; i < n; i++) {
        double where = uniform();
        m->point[i] = (uint32_t)(n - 1 - i);
        m->f[i] = kinds ? floor(uniform() * kinds) / 8 : 4 * uniform() - 2;
        m->linear[i] = kinds ? 0 : uniform();
        m->hi[i] = 1;
        m->beta[i] = where < 0.4 ? 0 : where < 0.7 ? 1 : where;
        m->group[i] = groups > 1 && uniform() < 0.5;
    }
}

static double gradient(const made *m, size_t v) { return m->f[m->point[v]] + m->linear[v]; }

/* As working_set.c, by keys of floats as the device has them. */
static size_t choose_slowly(const made *m, unsigned group, uint32_t *out, size_t share) {
    larder__candidate *up = calloc(m->n, sizeof *up), *low = calloc(m->n, sizeof *low);
    bool *taken = calloc(m->n, sizeof *taken);
    size_t ups = 0, lows = 0;
    for (uint32_t v = 0; v < m->n; v++) {
        bool inside = m->seat[v] && !(m->seat[v] > m->s.from && m->seat[v] <= m->s.to);
        if (m->group[v] != group || inside)
            continue;
        double x = gradient(m, v) - m->s.mid[group];
        if (m->beta[v] < m->hi[v])
            up[ups++] = (larder__candidate){(double)(float)x, v};
        if (m->beta[v] > m->lo[v])
            low[lows++] = (larder__candidate){(double)(float)-x, v};
    }
    ups = larder__candidates_first(up, ups, share);
    lows = larder__candidates_first(low, lows, share);
    /* Whoever is in both counts where he comes first; then both lists in turn. */
    size_t n = 0;
    for (size_t i = 0; i < share && n < share; i++) {
        size_t where = SIZE_MAX;
        for (size_t j = 0; i < ups && j < lows; j++)
            if (low[j].id == up[i].id)
                where = j;
        if (i < ups && !(where < i) && !taken[up[i].id])
            taken[up[i].id] = true, out[n++] = up[i].id;
        if (i < lows && n < share && !taken[low[i].id]) {
            where = SIZE_MAX;
            for (size_t j = 0; j < ups; j++)
                if (up[j].id == low[i].id)
                    where = j;
            if (where > i) /* also: not there */
                taken[low[i].id] = true, out[n++] = low[i].id;
        }
    }
    free(up), free(low), free(taken);
    return n;
}

static void launch(made *m, larder__gpu_function f, unsigned grid, unsigned across,
                   unsigned threads) {
    unsigned blocks = 7;
    void *args[] = {&m->p, &blocks};
    larder__gpu_shape shape = {.grid = {grid, across}, .block = {threads}};
    check_ok(larder__gpu_launch(device->gpu, f, shape, NULL, args));
    check_ok(larder__gpu_wait(device->gpu, NULL));
}

static void compare_choice(size_t n, unsigned groups, unsigned kinds, bool second) {
    made m;
    uint32_t var[SLOTS], want[SLOTS];
    make(&m, n, groups, kinds);
    memset(var, 0xff, sizeof var);
    if (second) { /* some sit already, half of whom stand up */
        m.s.to = SLOTS / 2;
        for (uint32_t i = 0; i < SLOTS; i++)
            var[i] = i * 3, m.seat[i * 3] = (uint16_t)(i + 1);
    }
    m.p = (larder__device_problem){.f = put(m.f, n * 8),
                                   .beta = put(m.beta, n * 8),
                                   .linear = put(m.linear, n * 8),
                                   .lo = put(m.lo, n * 8),
                                   .hi = put(m.hi, n * 8),
                                   .point = put(m.point, n * 4),
                                   .group = groups > 1 ? put(m.group, n) : 0,
                                   .seat = put(m.seat, n * 2),
                                   .keys = zeros(8 * n),
                                   .lists = zeros(4 * SLOTS * 8),
                                   .found = zeros(16),
                                   .mark = zeros(n * 4),
                                   .ends = zeros(512 * 4 * 8),
                                   .var = put(var, sizeof var),
                                   .where = zeros(SLOTS * 4),
                                   .place = zeros(SLOTS * 4),
                                   .state = put(&m.s, sizeof m.s),
                                   .n = (uint32_t)n,
                                   .points = (uint32_t)n,
                                   .groups = groups};
    launch(&m, device->keys, 7, 1, 256);
    launch(&m, device->choose, 2, groups, 1024);
    launch(&m, device->seat, 1, 1, 1024);
    size_t from = m.s.from, to = m.s.to, found = 0;
    for (unsigned g = 0; g < groups; g++)
        found += choose_slowly(&m, g, want + found, (to - from) / groups);
    larder__device_state after;
    get(var, m.p.var, sizeof var);
    get(&after, m.p.state, sizeof after);
    assert_int_equal(after.entered, found);
    for (size_t i = 0; i < to - from; i++)
        assert_int_equal(var[from + i], i < found ? want[i] : UINT32_MAX);
    uint32_t *marks = calloc(n, 4);
    get(marks, m.p.mark, n * 4);
    get(m.seat, m.p.seat, n * 2);
    for (size_t v = 0; v < n; v++) {
        assert_int_equal(marks[v], 0);
        assert_true(m.seat[v] == 0 || var[m.seat[v] - 1] == v);
    }
    double ends[4] = {INFINITY, -INFINITY, INFINITY, -INFINITY}, gap = 0;
    for (size_t v = 0; v < n; v++) {
        double x = gradient(&m, v), *e = ends + 2 * m.group[v];
        if (m.beta[v] < m.hi[v])
            e[0] = fmin(e[0], x);
        if (m.beta[v] > m.lo[v])
            e[1] = fmax(e[1], x);
    }
    for (unsigned g = 0; g < groups; g++)
        gap = fmax(gap, ends[2 * g + 1] - ends[2 * g]);
    assert_true(gap == after.gap); /* to the bit */
    larder__gpu_ptr all[] = {m.p.f,    m.p.beta,  m.p.linear, m.p.lo,    m.p.hi,   m.p.point,
                             m.p.seat, m.p.keys,  m.p.lists,  m.p.found, m.p.mark, m.p.ends,
                             m.p.var,  m.p.where, m.p.place,  m.p.state, m.p.group};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        larder__gpu_free(device->gpu, all[i]);
    free(marks);
    free(m.f), free(m.linear), free(m.lo), free(m.hi), free(m.beta), free(m.point), free(m.group);
    free(m.seat);
}

static void choice(void **state) {
    (void)state;
    compare_choice(700, 1, 0, false); /* fewer than there are slots */
    compare_choice(5000, 1, 0, false);
    compare_choice(5000, 2, 0, true);
    compare_choice(20000, 1, 0, true);
    compare_choice(20000, 1, 3, false); /* ties by the thousand */
    compare_choice(20000, 2, 2, true);  /* two values alone */
}

int main(void) {
    if (!find_device()) {
        printf("skipped: no C++ compiler when this was built, or a sanitizer\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
