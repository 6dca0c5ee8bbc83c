/* Batches for a GPU, without one: larder's device code is run on this machine (levels_on_cpu.cpp)
 * with planes that libjpeg left (fake_nvjpeg.c), so that rows of both ways can be compared to the
 * bit, and what a driver and nvJPEG get wrong is tried. How fast anything is, is not asked here. */
#include "check.h"

#include "base/half.h"
#include "gpu/gpu_levels.h"
#include "loader/fill/freight_inside.h"
#include "loader/inside.h"
#include "pack_kit.h"
#include "pictures.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256], kept[256], source[300];
enum { PICTURES = 24, BATCH = 8, BROKEN = 5 };

static const char *build(void) {
    const char *b = getenv("LARDER_BUILD");
    return b ? b : "build/test";
}

static void write_picture(int i, const void *bytes, size_t size) {
    char path[400];
    snprintf(path, sizeof path, "%s/%c", folder, 'a' + i % 3);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%c/%02d.jpg", folder, 'a' + i % 3, i);
    check_write(path, bytes, size);
}

/* Of all samplings, odd sides, grey ones, with restart marks; some that no device takes. */
static void write_pictures(void) {
    static const int samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};
    for (int i = 0; i < PICTURES; i++) {
        check_jpeg_conf c = {.w = 97 + 41 * ((uint32_t)i % 7),
                             .h = 80 + 37 * ((uint32_t)i % 5),
                             .channels = i % 6 == 5 ? 1 : 3,
                             .h_samp = samplings[i % 4][0],
                             .v_samp = samplings[i % 4][1],
                             .progressive = i == 13,
                             .restart = i % 3 == 2 ? 4 : 0,
                             .seed = (uint32_t)i};
        c.h_samp = c.channels == 1 ? 1 : c.h_samp;
        c.v_samp = c.channels == 1 ? 1 : c.v_samp;
        size_t size;
        unsigned char *bytes = check_jpeg(&c, &size);
        write_picture(i, bytes, size);
        free(bytes);
    }
}

static larder_loader_conf conf_of(const char *augment) {
    return (larder_loader_conf){.size = sizeof(larder_loader_conf),
                                .source = source,
                                .augment = augment,
                                .cache = "50%",
                                .batch = BATCH,
                                .threads = 2,
                                .seed = 11,
                                .epochs = 2};
}

static size_t elements(const larder_batch *b) {
    return b->n * b->views * b->shape.h * b->shape.w * b->shape.c;
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    return -1;
}

static const void *x_of(larder_loader *l, const larder_batch *b, void *room) {
    if (b->x)
        return b->x;
    check_ok(larder_loader_to_device(l, b, room, NULL));
    return room;
}

/* Both to their end: the same samples, and the same rows to the bit. */
static void compare(larder_loader_conf here, larder_loader_conf there, bool *decoded) {
    larder_loader *a, *b;
    check_ok(larder_loader_open(&a, &here));
    check_ok(larder_loader_open(&b, &there));
    void *room = malloc((size_t)32 << 20);
    for (int rc = 0; rc != LARDER_END;) {
        const larder_batch *p, *q;
        rc = larder_loader_next(a, &p);
        check_ok(rc);
        assert_int_equal(larder_loader_next(b, &q), rc);
        if (rc != 0)
            continue;
        assert_int_equal(p->n, q->n);
        assert_non_null(p->x);
        assert_null(q->x);
        assert_memory_equal(p->served, q->served, p->n * sizeof *p->served);
        assert_memory_equal(p->ids, q->ids, p->n * sizeof *p->ids);
        assert_memory_equal(p->y, q->y, p->n * sizeof *p->y);
        assert_memory_equal(p->kind, q->kind, p->n);
        assert_true(p->mix_weight == q->mix_weight);
        size_t each = p->dtype == LARDER_F32 ? 4 : p->dtype == LARDER_U8 ? 1 : 2;
        assert_int_equal(p->dtype, q->dtype);
        assert_memory_equal(p->x, x_of(b, q, room), elements(p) * each);
        check_ok(larder_loader_done(a, p));
        check_ok(larder_loader_done(b, q));
    }
    for (uint64_t e = 0; e < 2; e++) {
        larder_figures f = {.size = sizeof f}, g = {.size = sizeof g};
        check_ok(larder_loader_figures(a, e, &f));
        check_ok(larder_loader_figures(b, e, &g));
        f.requests = g.requests = 0; /* measured: neighbours may be read together or not */
        assert_memory_equal(&f, &g, sizeof f);
    }
    *decoded = stat_of(b, "decoded_gpu") > 0;
    free(room);
    larder_loader_close(&a);
    larder_loader_close(&b);
}

static void compare_with(const char *augment, larder_dtype dtype, larder_layout layout,
                         const char *decode, size_t views) {
    larder_loader_conf here = conf_of(augment);
    here.dtype = dtype;
    here.layout = layout;
    here.views = views;
    larder_loader_conf there = here;
    there.device = "cuda:0";
    there.decode = decode;
    bool decoded;
    compare(here, there, &decoded);
    if (!decode || strncmp(decode, "auto", 4) != 0) /* then cores may take it all back */
        assert_int_equal(decoded, decode != NULL);
}

#define SMALL "rrc:size=32,gap=0"
#define LEVELS SMALL "|flip|normalize:preset=imagenet"

static void rows_travel_as_levels(void **state) {
    (void)state;
    compare_with(LEVELS, LARDER_F32, LARDER_NCHW, NULL, 1);
    compare_with(LEVELS, LARDER_F16, LARDER_NHWC, NULL, 1);
    compare_with(LEVELS, LARDER_BF16, LARDER_NCHW, NULL, 2);
    compare_with(SMALL "|flip", LARDER_U8, LARDER_NHWC, NULL, 1);
    compare_with(SMALL "|mixup", LARDER_F32, LARDER_NCHW, NULL, 1);
    compare_with(SMALL "|normalize:preset=imagenet|cutmix", LARDER_BF16, LARDER_NHWC, NULL, 1);
    compare_with(SMALL "|mixup", LARDER_U8, LARDER_NCHW, NULL, 1);
    compare_with(SMALL "|mixup", LARDER_F16, LARDER_NCHW, NULL, 1);
}

static void rows_are_decoded_there(void **state) {
    static const char *const chains[] = {
        LEVELS,
        "rrc:size=32,gap=0,interpolation=bicubic|flip|vflip",
        "rrc:size=32,gap=0,interpolation=nearest|vflip:p=1",
        "rrc:size=200,gap=0,interpolation=bicubic,antialias=no",
        "rrc:size=40,gap=0,antialias=no|flip:p=1",
        "resize:h=50,w=30,gap=0|normalize:mean=0.5,std=0.25",
        "resize:size=64,gap=0|centercrop:size=48",
        "centercrop:size=120|flip",
        "crop:h=100,w=90,pad=12|flip",
        "centercrop:h=300,w=260|vflip:p=1",
        "resize:h=24,w=30,gap=0|pad:by=3/2/1/4,fill=9/8/7|flip:p=1",
        SMALL
        "|jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.2|normalize:preset=imagenet",
        SMALL "|jitter:contrast=0.9|jitter:contrast=0.5,brightness=0.3|grey:p=0.3",
        SMALL "|solarize:p=0.5|posterize:p=0.5|invert:p=0.3|grey:p=0.5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        printf("  %s\n", chains[i]);
        compare_with(chains[i], LARDER_F32, i % 2 ? LARDER_NHWC : LARDER_NCHW, "gpu", 1);
    }
    compare_with(LEVELS, LARDER_F32, LARDER_NCHW, "gpu:fast", 1); /* libjpeg's RGB, here */
    compare_with("centercrop:size=120|flip", LARDER_U8, LARDER_NHWC, "auto", 1);
    compare_with(LEVELS, LARDER_F16, LARDER_NCHW, "auto:fast", 1);
    compare_with(LEVELS, LARDER_F32, LARDER_NCHW, "gpu", 3);
    compare_with(SMALL "|mixup", LARDER_F32, LARDER_NCHW, "gpu:fast", 1);
}

/* Parts of packed pictures are decoded as small pictures; shrunk ones as what they were. */
static void other_forms(void **state) {
    char plain[256], packed[256], from[300], uri[300];
    bool decoded;
    (void)state;
    check_folder(plain);
    check_folder(packed);
    kit_pictures(plain);
    snprintf(from, sizeof from, "dir:%s", plain);
    larder__pack_conf pack = kit_pack_conf(from, packed);
    larder__pack_result r;
    pack.how.restart = 2;
    check_ok(larder__pack_run(&pack, &r));
    snprintf(uri, sizeof uri, "pack:%s", packed);
    static const char *const recipes[] = {"minio", "minio:shrink=auto", "minio"};
    for (int i = 0; i < 3; i++) {
        larder_loader_conf here = conf_of("rrc:size=20,gap=0|flip");
        here.source = i == 0 ? uri : i == 1 ? source : from;
        here.recipe = recipes[i];
        larder_loader_conf there = here;
        there.device = "cuda";
        there.decode = "gpu";
        compare(here, there, &decoded);
        assert_true(decoded);
    }
    check_folder_remove(plain);
    check_folder_remove(packed);
}

/* Saved on one side and gone on with on the other, in the middle of an epoch. */
static void resumed(void **state) {
    (void)state;
    larder_loader *a, *b;
    larder_loader_conf here = conf_of(LEVELS), there = here;
    there.device = "cuda";
    there.decode = "gpu";
    void *saved, *room = malloc((size_t)1 << 20);
    size_t size;
    const larder_batch *p, *q;
    check_ok(larder_loader_open(&b, &there));
    check_ok(larder_loader_next(b, &q));
    check_ok(larder_loader_save(b, LARDER_STATE, &saved, &size));
    larder_loader_close(&b);
    check_ok(larder_loader_open(&a, &here));
    check_ok(larder_loader_open(&b, &there));
    check_ok(larder_loader_restore(a, LARDER_STATE, saved, size));
    check_ok(larder_loader_restore(b, LARDER_STATE, saved, size));
    larder_free(saved);
    for (uint64_t number = 1; number < PICTURES / BATCH; number++) {
        check_ok(larder_loader_next(a, &p));
        check_ok(larder_loader_next(b, &q));
        assert_int_equal(q->number, number);
        assert_memory_equal(p->served, q->served, p->n * sizeof *p->served);
        assert_memory_equal(p->x, x_of(b, q, room), elements(p) * sizeof(float));
        check_ok(larder_loader_done(a, p));
        check_ok(larder_loader_done(b, q));
    }
    free(room);
    larder_loader_close(&a);
    larder_loader_close(&b);
}

static void structs_agree(void **state) {
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s/fake/code/levels_on_cpu.so", build());
    void *lib = dlopen(path, RTLD_NOW);
    assert_non_null(lib);
    unsigned (*sizes)(int);
    void *at = dlsym(lib, "fake_code_size");
    memcpy(&sizes, &at, sizeof sizes);
    assert_int_equal(sizes(0), sizeof(larder__levels_axis));
    assert_int_equal(sizes(1), sizeof(larder__levels_picture));
    assert_int_equal(sizes(2), sizeof(larder__levels_job));
    assert_int_equal(sizes(3), sizeof(larder__levels_worth));
}

static void open_fails(const char *augment, const char *decode, const char *says) {
    larder_loader *l = NULL;
    larder_loader_conf c = conf_of(augment);
    c.device = "cuda";
    c.decode = decode;
    assert_true(larder_loader_open(&l, &c) < 0);
    if (!strstr(larder_errmsg(), says))
        fail_msg("\"%s\" lacks \"%s\"", larder_errmsg(), says);
}

/* All but the one that training has. */
static bool others_ready(const larder_loader *l) {
    for (uint64_t k = l->taken; k + 1 < l->taken + l->conf.prefetch; k++)
        if (k >= l->planned || l->ring[k % l->conf.ahead].phase != LARDER__FILLED)
            return false;
    return true;
}

/* The next batch, by training that never waits for one but the first, so that cores take nothing
 * from the device. `done` comes right before the next one, as in Python. */
static void train_slowly(larder_loader *l) {
    const larder_batch *b;
    int rc = larder_loader_next(l, &b);
    check_ok(rc);
    if (rc != 0)
        return;
    pthread_mutex_lock(&l->lock);
    for (int k = 0; k < 1000000 && !others_ready(l); k++) {
        pthread_mutex_unlock(&l->lock);
        usleep(100);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    check_ok(larder_loader_done(l, b));
}

static void is_noted(larder_loader *l, const char *what) {
    char says[512] = "";
    bool found = false;
    for (uint64_t i = 0; larder_loader_says(l, LARDER_SAYS_NOTE, i, says, sizeof says) == 0; i++)
        found |= strstr(says, what) != NULL;
    if (!found)
        fail_msg("no note says \"%s\", the last one: %s", what, says);
}

/* A run to its end, which does all the same; what it has noted. */
static void goes_on(const char *augment, const char *decode, const char *noted) {
    larder_loader *l;
    larder_loader_conf c = conf_of(augment);
    c.device = "cuda";
    c.decode = decode;
    check_ok(larder_loader_open(&l, &c));
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) != LARDER_END) {
        check_ok(rc);
        if (rc == 0)
            check_ok(larder_loader_done(l, b));
    }
    is_noted(l, noted);
    larder_loader_close(&l);
}

/* The same where the device fails in the middle of it. */
static void goes_on_without(const char *noted) {
    larder_loader *l;
    larder_loader_conf c = conf_of(LEVELS);
    c.device = "cuda";
    c.decode = "auto";
    c.epochs = 0;
    check_ok(larder_loader_open(&l, &c));
    for (int i = 0, after = 0; i < 100 && after < 2 * PICTURES / BATCH; i++) {
        train_slowly(l);
        pthread_mutex_lock(&l->lock);
        after += l->device->lost;
        pthread_mutex_unlock(&l->lock);
    }
    is_noted(l, noted);
    larder_loader_close(&l);
}

static void refusals(void **state) {
    larder_loader *l = NULL;
    (void)state;
    open_fails(SMALL "|erase", "gpu", "stage erase");
    open_fails(SMALL "|equalize", "gpu", "stage equalize");
    open_fails("jitter:hue=0.1|rrc:size=32", "gpu", "stage rrc after one that changes colours");
    open_fails("resize:h=24,w=30|pad:by=2,mode=reflect", "gpu", "no code for stage pad");
    open_fails(SMALL, "gpus", "decode is cpu, gpu or auto");
    open_fails(SMALL, "gpu:", "decode is cpu, gpu or auto");
    open_fails(SMALL, "cpu:fast", "decode is cpu, gpu or auto");
    larder_loader_conf c = conf_of(SMALL);
    c.decode = "gpu";
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    c.device = "tpu";
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    c.device = "cuda";
    c.cage = "on";
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "leave out decode=gpu or the cage"));
    goes_on(SMALL "|equalize", "auto", "stage equalize");
}

/* Batches of stages that work on finished rows lie in memory. */
static void late_stages(void **state) {
    (void)state;
    larder_loader *l;
    const larder_batch *b;
    larder_loader_conf c = conf_of(SMALL "|erase");
    c.device = "cuda";
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_next(l, &b));
    assert_non_null(b->x);
    assert_int_equal(larder_loader_to_device(l, b, (void *)8, NULL), LARDER_E_STATE);
    larder_loader_close(&l);
}

/* Comes first: a driver that has started is not asked again. */
static void drivers(void **state) {
    (void)state;
    setenv("FAKE_CUDA", "none", 1);
    open_fails(SMALL, "gpu", "device cuda: NVIDIA's driver sees no GPU");
    goes_on(SMALL, "auto", "sees no GPU");
    goes_on(SMALL, NULL, "sees no GPU");
    setenv("FAKE_CUDA", "old", 1);
    open_fails(SMALL, "gpu", "a newer driver");
    goes_on(SMALL, NULL, "a newer driver");
    setenv("FAKE_CUDA", "full", 1);
    setenv("FAKE_CUDA_BYTES", "1000", 1);
    open_fails(SMALL, NULL, "are wanted for the levels of a batch");
    unsetenv("FAKE_CUDA");
    unsetenv("FAKE_CUDA_BYTES");
}

static void nvjpeg_faults(void **state) {
    bool decoded;
    (void)state;
    larder_loader_conf here = conf_of(LEVELS), there = here;
    there.device = "cuda";
    there.decode = "gpu";
    static const char *const faults[] = {"engine", "refuse", "fail", "lies", "whole", "parts"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv("FAKE_NVJPEG", faults[i], 1);
        compare(here, there, &decoded);
        assert_true(decoded);
    }
    setenv("FAKE_NVJPEG", "full", 1);
    goes_on_without("too little memory");
    larder_loader *l;
    const larder_batch *b;
    check_ok(larder_loader_open(&l, &there));
    int rc;
    while ((rc = larder_loader_next(l, &b)) == 0) /* what is there already is handed out */
        check_ok(larder_loader_done(l, b));
    assert_int_equal(rc, LARDER_E_NOMEM);
    assert_non_null(strstr(larder_errmsg(), "decode=gpu"));
    larder_loader_close(&l);
    unsetenv("FAKE_NVJPEG");
}

/* Where the share comes to rest, if training wants so many rows a second and a core and the device
 * make so many. What is decided is seen some batches later. */
static double rests_at(double processors, double wanted, double a_core, double there,
                       double *busy) {
    enum { BATCHES = 4000, LATER = 3, SETTLED = 100 };
    larder__freight_case c = {.share = 1, .processors = processors};
    static double share[LATER + BATCHES];
    for (int i = 0; i < LATER; i++)
        share[i] = 1;
    for (int i = 0; i < BATCHES; i++) {
        double here = wanted * (1 - share[i]) / a_core, most = here / processors;
        double device = wanted * share[i] / there;
        most = device > most ? device : most;
        c.device_busy = 0.8 * c.device_busy + 0.2 * (device < 1 ? device : 1);
        c.waited = most > 1 ? 1 - 1 / most : 0;
        c.ready = most < 1;
        c.busy = 0.8 * c.busy + 0.2 * here;
        share[LATER + i] = c.share = larder__freight_next_share(&c);
    }
    for (int i = SETTLED; there > a_core && i < BATCHES; i++) /* and soon stays there */
        assert_true(fabs(share[i] - c.share) <= 1.0 / 16);
    *busy = wanted * (1 - c.share) / a_core;
    return c.share;
}

static void who_decodes(void **state) {
    double busy;
    (void)state;
    assert_true(rests_at(16, 4700, 870, 8000, &busy) == 0); /* cores that suffice do it all */
    assert_true(rests_at(8, 4700, 870, 8000, &busy) == 0);
    assert_true(rests_at(3, 100, 870, 8000, &busy) == 0);
    rests_at(4, 4700, 870, 8000, &busy);
    assert_true(busy >= 1.8 && busy <= 2.1); /* two are left alone */
    rests_at(6, 18000, 870, 40000, &busy);   /* also where training takes four times as much */
    assert_true(busy >= 3.8 && busy <= 4.1);
    assert_true(rests_at(2, 4700, 870, 8000, &busy) > 0.95);
    assert_true(rests_at(1, 100, 870, 8000, &busy) > 0.95);
    double slow = rests_at(4, 4700, 870, 400, &busy); /* a device that is slower than the cores */
    assert_true(slow < 0.5);
    larder__freight_case waits = {.share = 0.5, .waited = 0.1, .processors = 64};
    assert_true(larder__freight_next_share(&waits) > 0.5);
    waits.device_busy = 1;
    assert_true(larder__freight_next_share(&waits) < 0.5);
}

/* Threads of this process that stand behind this one. */
static size_t behind(void) {
    int mine = getpriority(PRIO_PROCESS, 0);
    size_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));)
        if (e->d_name[0] != '.') {
            errno = 0;
            int its = getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name));
            n += errno == 0 && its > mine; /* one that has just ended has none */
        }
    closedir(tasks);
    return n;
}

/* Cores leave their processors to training where the device does what they do not. */
static void cores_stand_back(void **state) {
    larder_loader_conf c = conf_of(LEVELS);
    larder_loader *l;
    const larder_batch *b;
    (void)state;
    if (sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) > 14)
        skip_since("threads keep a priority that somebody has set");
    c.device = "cuda";
    for (int there = 0; there < 2; there++) {
        c.decode = there ? "auto" : "cpu";
        check_ok(larder_loader_open(&l, &c));
        l->readers.most = 0; /* a slow disk has more threads, some behind */
        check_ok(larder_loader_next(l, &b));
        while (there && behind() < c.threads) /* each says so before its first work */
            usleep(1000);
        assert_int_equal(behind(), there ? c.threads : 0);
        larder_loader_close(&l);
    }
}

/* Cores that have nothing else to do do it all, whatever auto began with. */
static void goes_back_to_the_cores(uint32_t prefetch) {
    larder_loader_conf conf = conf_of(SMALL);
    conf.device = "cuda";
    conf.decode = "auto:fast";
    conf.epochs = 0;
    conf.prefetch = prefetch;
    larder_loader *l;
    check_ok(larder_loader_open(&l, &conf));
    l->device->processors = 64;
    double least = 1;
    for (int i = 0; i < 600 && least > 0.5; i++) {
        train_slowly(l);
        pthread_mutex_lock(&l->lock);
        least = l->device->share < least ? l->device->share : least;
        pthread_mutex_unlock(&l->lock);
    }
    assert_true(least <= 0.5);
    larder_loader_close(&l);
}

static void auto_goes_back_to_the_cores(void **state) {
    (void)state;
    for (uint32_t prefetch = 2; prefetch <= 5; prefetch++)
        goes_back_to_the_cores(prefetch);
}

/* A folder of more pictures than the device takes at once. */
static void write_many(const char *to, int n) {
    char path[400];
    for (int i = 0; i < n; i++) {
        check_jpeg_conf c = {.w = 40 + (uint32_t)i % 9,
                             .h = 50,
                             .channels = 3,
                             .h_samp = 1,
                             .v_samp = 1,
                             .seed = (uint32_t)i};
        size_t size;
        unsigned char *bytes = check_jpeg(&c, &size);
        snprintf(path, sizeof path, "%s/a", to);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/a/%03d.jpg", to, i);
        check_write(path, bytes, size);
        free(bytes);
    }
}

/* Nobody has to begin with any row that was left to the device. */
static bool all_begun(larder_loader *l) {
    pthread_mutex_lock(&l->lock);
    const larder__place *p = &l->ring[0];
    bool out = p->device_rows && p->unsent == 0 && p->begun_there == p->open_there;
    pthread_mutex_unlock(&l->lock);
    return out;
}

/* A device that does not come to an end, and training waits: cores take all that it has not begun.
 */
static void cores_take_back(void **state) {
    enum { MANY = 96, AT_ONCE = 64 };
    char many[256], uri[300], path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s/fake/nvjpeg/libnvjpeg.so.13", build());
    void *lib = dlopen(path, RTLD_NOW);
    assert_non_null(lib);
    _Atomic int *held = dlsym(lib, "fake_nvjpeg_held");
    assert_non_null(held);
    check_folder(many);
    snprintf(uri, sizeof uri, "dir:%s", many);
    write_many(many, MANY);
    larder_loader_conf here = conf_of(LEVELS);
    here.source = uri;
    here.batch = MANY;
    here.epochs = 1;
    larder_loader_conf there = here;
    there.device = "cuda";
    there.decode = "auto";
    there.patience = 0.01;
    larder_loader *a, *b;
    const larder_batch *p, *q;
    check_ok(larder_loader_open(&a, &here));
    check_ok(larder_loader_next(a, &p));
    *held = 1;
    check_ok(larder_loader_open(&b, &there));
    int rc = LARDER_NOT_YET; /* 0: the cores were faster than the device's thread, and took all */
    for (int i = 0; i < 100000 && rc == LARDER_NOT_YET && !all_begun(b); i++)
        rc = larder_loader_next(b, &q);
    bool taken = rc == 0 || all_begun(b);
    *held = 0;
    assert_true(taken);
    while (rc == LARDER_NOT_YET)
        rc = larder_loader_next(b, &q);
    check_ok(rc);
    void *room = malloc((size_t)32 << 20);
    assert_memory_equal(p->served, q->served, p->n * sizeof *p->served);
    assert_memory_equal(p->x, x_of(b, q, room), elements(p) * sizeof(float));
    assert_true(stat_of(b, "decoded_gpu") <= AT_ONCE);
    free(room);
    larder_loader_close(&a);
    larder_loader_close(&b);
    check_folder_remove(many);
}

/* What is no plain JPEG, and what is broken, is named as ever. */
static void broken_files(void **state) {
    size_t size;
    bool decoded;
    (void)state;
    check_jpeg_conf c = {.w = 90, .h = 70, .channels = 3, .h_samp = 2, .v_samp = 2, .seed = 1};
    unsigned char *bytes = check_jpeg(&c, &size);
    write_picture(PICTURES, bytes, size / 2);
    write_picture(PICTURES + 1, "no picture", 10);
    c.channels = 4;
    c.h_samp = c.v_samp = 1;
    free(bytes);
    bytes = check_jpeg(&c, &size);
    write_picture(PICTURES + 2, bytes, size);
    free(bytes);
    for (int how = LARDER_BAD_SKIP; how <= LARDER_BAD_REPLACE; how++) {
        larder_loader_conf here = conf_of("resize:h=30,w=30,gap=0|mixup");
        here.on_bad = (larder_on_bad)how;
        larder_loader_conf there = here;
        there.device = "cuda";
        there.decode = "gpu";
        compare(here, there, &decoded);
    }
}

static int set_up(void **state) {
    char path[1024];
    (void)state;
    check_folder(folder);
    check_folder(kept);
    snprintf(source, sizeof source, "dir:%s", folder);
    snprintf(path, sizeof path, "%s/fake/cuda:%s/fake/nvrtc:%s/fake/nvjpeg", build(), build(),
             build());
    setenv("LARDER_CUDA_LIBRARIES", path, 1);
    setenv("LARDER_CACHE_DIR", kept, 1);
    snprintf(path, sizeof path, "%s/fake/code/levels_on_cpu.so", build());
    setenv("FAKE_CUDA_CODE", path, 1);
    write_pictures();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(folder);
    check_folder_remove(kept);
    return 0;
}

int main(void) {
    char path[400];
    size_t size;
    unsigned char *some = check_jpeg(
        &(check_jpeg_conf){.w = 8, .h = 8, .channels = 1, .h_samp = 1, .v_samp = 1}, &size);
    snprintf(path, sizeof path, "%s/fake/code/levels_on_cpu.so", build());
    if (!some || access(path, R_OK) != 0) {
        printf("skipped: no libjpeg or no C++ compiler\n");
        return 77;
    }
    free(some);
    const struct CMUnitTest tests[] = {cmocka_unit_test(drivers),
                                       cmocka_unit_test(structs_agree),
                                       cmocka_unit_test(rows_travel_as_levels),
                                       cmocka_unit_test(rows_are_decoded_there),
                                       cmocka_unit_test(other_forms),
                                       cmocka_unit_test(resumed),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(late_stages),
                                       cmocka_unit_test(nvjpeg_faults),
                                       cmocka_unit_test(who_decodes),
                                       cmocka_unit_test(cores_stand_back),
                                       cmocka_unit_test(auto_goes_back_to_the_cores),
                                       cmocka_unit_test(cores_take_back),
                                       cmocka_unit_test(broken_files)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
