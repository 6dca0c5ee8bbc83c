/* Photographs to RandomResizedCrop(224), flip, normalise, per core-second: from packed shards of
 * which the crop's segments are read, from the same pictures as they were, and with a full decode.
 *
 *     bench_pack --packed FOLDER --plain URI [--rounds N] [--samples N] [--u8]
 *                [--open|--profile|--epoch]
 *
 * The cases take turns; CPU time of the process, median and spread of the rounds. --open measures
 * opening the packed set instead: seconds and peak memory. --profile runs the packed case
 * alone and without a loader, for a profiler; --epoch an epoch of it, by the clock on the wall.
 * --u8: bytes, channels last and not normalised, as a device gets them. */
#include "base/clock.h"
#include "base/mem.h"
#include "source/source.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WARM = 8 }; /* batches before the clock starts */
#define PLACED "rrc:size=224|flip"
#define AUGMENT PLACED "|normalize:preset=imagenet"

typedef struct options {
    const char *packed, *plain;
    int rounds;
    uint64_t samples;
    bool open, profile, epoch;
} options;

static bool bytes_alone; /* --u8 */

static void die(const char *what) {
    fprintf(stderr, "bench_pack: %s: %s\n", what, larder_errmsg());
    exit(1);
}

/* ---- through the loader, as training does ---------------------------------------------------- */

typedef struct rate {
    double samples; /* per core-second */
    double bytes;   /* from storage, per sample served */
    double payload; /* of a sample, as the plain data set has it */
} rate;

static rate through_loader(const char *source, larder_parts parts, uint64_t want) {
    larder_loader_conf conf = {.size = sizeof conf};
    conf.source = source;
    conf.cache = "0";
    conf.augment = bytes_alone ? PLACED : AUGMENT;
    conf.dtype = bytes_alone ? LARDER_U8 : LARDER_F32;
    conf.layout = bytes_alone ? LARDER_NHWC : LARDER_NCHW;
    conf.batch = 64;
    conf.threads = 1;
    conf.parts = parts;
    larder_loader *l = NULL;
    if (larder_loader_open(&l, &conf) < 0)
        die(source);
    const larder_batch *b;
    uint64_t served = 0, bytes = 0;
    larder_figures f = {.size = sizeof f};
    double begun = 0;
    for (int batch = 0; served < want;) {
        if (batch == WARM) /* the ring of batches has been touched, as it is in all of training */
            begun = larder__cpu_seconds();
        int rc = larder_loader_next(l, &b);
        if (rc < 0)
            die(source);
        if (rc == LARDER_END_EPOCH)
            continue;
        served += batch++ < WARM ? 0 : b->n;
        larder_loader_done(l, b);
    }
    double seconds = larder__cpu_seconds() - begun;
    uint64_t counted = 0;
    for (uint64_t e = 0; larder_loader_figures(l, e, &f) == 0; e++) {
        bytes += f.storage_bytes;
        counted += f.served;
    }
    larder_loader_close(&l);
    return (rate){(double)served / seconds, (double)bytes / (double)counted, 0};
}

/* ---- reading and decoding all of each picture ------------------------------------------------ */

/* One sample after the other, without a loader around it: all of each picture, or what its crop
 * needs. */
static rate one_by_one(const char *source, bool whole, uint64_t want) {
    larder__data *d = NULL;
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf conf = {.spec = bytes_alone ? PLACED : AUGMENT,
                                  .dtype = bytes_alone ? LARDER_U8 : LARDER_F32,
                                  .layout = bytes_alone ? LARDER_NHWC : LARDER_NCHW,
                                  .whole = whole};
    if (larder__data_open(&d, source) < 0 || larder__pipeline_open(&p, &conf) < 0 ||
        larder__scratch_open(&s) < 0)
        die(source);
    size_t row = larder__pipeline_bytes(p);
    char *batch = larder__memalign(64, row * 64);
    if (!batch)
        die("memory");
    uint64_t n = larder__data_about(d)->count, bytes = 0;
    double begun = larder__cpu_seconds();
    for (uint64_t i = 0; i < want; i++) {
        uint64_t id = i * 7919 % n;
        larder_read r = {0};
        larder_rect need = {0};
        uint32_t w = 0, h = 0;
        if (!whole && (larder__data_extent(d, id, &w, &h) < 0 ||
                       (w && larder__pipeline_reach(p, w, h, i, &need) < 0)))
            die(source);
        int rc =
            w ? larder__data_read_parts(d, &id, &need, 1, &r) : larder__data_read(d, &id, 1, &r);
        if (rc < 0 || r.code < 0 ||
            larder__pipeline_run(p, s, larder_buf_data(r.buf), larder_buf_size(r.buf), i,
                                 batch + i % 64 * row) < 0)
            die(source);
        bytes += larder_buf_size(r.buf);
        larder_buf_unref(&r.buf);
    }
    double seconds = larder__cpu_seconds() - begun;
    double payload = (double)larder__data_about(d)->bytes / (double)n;
    larder__free(batch);
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
    larder__data_close(&d);
    return (rate){(double)want / seconds, (double)bytes / (double)want, payload};
}

/* ---- an epoch by the clock on the wall ------------------------------------------------------- */

/* The sum over some of the pixels tells whether two sources gave the same crops. */
static double glance(const larder_batch *b, size_t row) {
    const float *x = b->x;
    double sum = 0;
    for (size_t i = 0; i < b->n * row / sizeof *x; i += 1009)
        sum += (double)x[i];
    return sum;
}

static void measure_epoch(const char *source) {
    larder_loader_conf conf = {.size = sizeof conf};
    conf.source = source;
    conf.cache = "0";
    conf.augment = AUGMENT;
    conf.batch = 64;
    conf.threads = 2;
    conf.epochs = 1; /* of a small set, the next one would share reads that are under way */
    larder_loader *l = NULL;
    if (larder_loader_open(&l, &conf) < 0)
        die(source);
    const larder_batch *b;
    double begun = larder__now(), sum = 0;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        if (rc < 0)
            die(source);
        if (rc == LARDER_END_EPOCH)
            continue;
        sum += glance(b, 3 * 224 * 224 * sizeof(float));
        larder_loader_done(l, b);
    }
    larder_figures f = {.size = sizeof f};
    if (larder_loader_figures(l, 0, &f) < 0)
        die(source);
    printf("an epoch of %llu: %.2f s, %llu bytes a sample, sum %.3f\n",
           (unsigned long long)f.served, larder__now() - begun,
           (unsigned long long)(f.storage_bytes / f.served), sum);
    larder_loader_close(&l);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void measure_open(const char *source) {
    larder__data *d = NULL;
    double begun = larder__now();
    if (larder__data_open(&d, source) < 0)
        die(source);
    double seconds = larder__now() - begun;
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("open %llu samples: %.3f s, %.1f MiB peak\n",
           (unsigned long long)larder__data_about(d)->count, seconds, (double)use.ru_maxrss / 1024);
    larder__data_close(&d);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, double *rates, int n, double bytes, double payload) {
    qsort(rates, (size_t)n, sizeof *rates, by_value);
    printf("%-16s %6.0f samples/core-s [%.0f..%.0f], %.0f bytes a sample (%.1f%%)\n", name,
           rates[n / 2], rates[0], rates[n - 1], bytes, 100 * bytes / payload);
}

int main(int argc, char **argv) {
    options o = {.rounds = 5, .samples = 1000};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--packed") == 0 && i + 1 < argc)
            o.packed = argv[++i];
        else if (strcmp(argv[i], "--plain") == 0 && i + 1 < argc)
            o.plain = argv[++i];
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            o.rounds = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc)
            o.samples = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--open") == 0)
            o.open = true;
        else if (strcmp(argv[i], "--profile") == 0)
            o.profile = true;
        else if (strcmp(argv[i], "--u8") == 0)
            bytes_alone = true;
        else if (strcmp(argv[i], "--epoch") == 0)
            o.epoch = true;
    }
    o.rounds = o.rounds < 1 ? 1 : o.rounds > 99 ? 99 : o.rounds;
    if (!o.packed || (!o.plain && !o.open && !o.profile && !o.epoch)) {
        fprintf(stderr, "bench_pack: --packed FOLDER --plain URI\n");
        return 2;
    }
    if (o.open) {
        measure_open(o.packed);
        return 0;
    }
    if (o.epoch) {
        measure_epoch(o.packed);
        return 0;
    }
    if (o.profile) {
        rate only = one_by_one(o.packed, false, o.samples);
        printf("%.0f samples/core-s, %.0f bytes a sample\n", only.samples, only.bytes);
        return 0;
    }
    double packed[99], direct[99], plain[99], full[99];
    rate a = {0}, b = {0}, c = {0}, d = {0};
    for (int i = 0; i < o.rounds; i++) {
        packed[i] = (a = through_loader(o.packed, LARDER_PARTS_READ, o.samples)).samples;
        plain[i] = (b = through_loader(o.plain, LARDER_PARTS_OFF, o.samples)).samples;
        direct[i] = (d = one_by_one(o.packed, false, o.samples)).samples;
        full[i] = (c = one_by_one(o.plain, true, o.samples)).samples;
    }
    print("packed-loader", packed, o.rounds, a.bytes, c.payload);
    print("plain-loader", plain, o.rounds, b.bytes, c.payload);
    print("packed-direct", direct, o.rounds, d.bytes, c.payload);
    print("full-decode", full, o.rounds, c.bytes, c.payload);
    printf("packed is %.2f times as fast as a full decode, %.2f times as a cropped one\n",
           direct[o.rounds / 2] / full[o.rounds / 2], packed[o.rounds / 2] / plain[o.rounds / 2]);
    return 0;
}
