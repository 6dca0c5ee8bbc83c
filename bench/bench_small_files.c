/* Small files from a warm page cache: open, read and close one by one; the same in io_uring
 * batches; and packed in tar shards. Rounds of the three take turns in one process; the table
 * shows medians, per core-second and per second of wall time.
 *
 *     build/bench_small_files [ROUNDS] [THREADS]
 */
#include "base/clock.h"
#include "source/source.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAYS = 3, BATCH = 64, MOST_ROUNDS = 31, MOST_THREADS = 16 };
static const char *const way_names[WAYS] = {"plain", "uring", "tar"};

static void die(const char *what) {
    fprintf(stderr, "bench_small_files: %s: %s\n", what, larder_errmsg());
    exit(1);
}

/* ---- data ------------------------------------------------------------------------------------------------- */

static void put_member(FILE *f, const char *name, const void *bytes, size_t size) {
    static const char zeros[512];
    unsigned char head[512] = {0};
    unsigned sum = 0;
    snprintf((char *)head, 100, "%s", name);
    memcpy(head + 100, "0000644\0000000000\0000000000", 24);
    snprintf((char *)head + 124, 12, "%011zo", size);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < 512; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum);
    fwrite(head, 1, 512, f);
    fwrite(bytes, 1, size, f);
    fwrite(zeros, 1, (512 - size % 512) % 512, f);
}

/* n files in ten classes, and the same in one shard. */
static void make_data(const char *folder, size_t bytes, size_t n) {
    char path[512], *content = calloc(1, bytes);
    snprintf(path, sizeof path, "%s/all.tar", folder);
    FILE *shard = fopen(path, "wb");
    if (!content || !shard)
        die("no room for the data");
    snprintf(path, sizeof path, "%s/files", folder);
    mkdir(path, 0700);
    for (size_t i = 0; i < n; i++) {
        char key[64], label[8];
        for (size_t k = 0; k < bytes; k += 64)
            content[k] = (char)(i + k / 64);
        snprintf(path, sizeof path, "%s/files/class%zu", folder, i * 10 / n);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/files/class%zu/%06zu.jpg", folder, i * 10 / n, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(content, 1, bytes, f) != bytes || fclose(f) != 0)
            die("no room for the data");
        snprintf(key, sizeof key, "%06zu.jpg", i);
        put_member(shard, key, content, bytes);
        snprintf(label, sizeof label, "%zu", i * 10 / n);
        snprintf(key, sizeof key, "%06zu.cls", i);
        put_member(shard, key, label, 1);
    }
    memset(content, 0, bytes);
    fwrite(content, 1, 1024, shard);
    if (fclose(shard) != 0)
        die("no room for the data");
    free(content);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* ---- measuring ---------------------------------------------------------------------------------------------- */

typedef struct job {
    larder__data *data;
    const uint64_t *ids;
    size_t n;
} job;

static void *read_all(void *arg) {
    const job *j = arg;
    larder_read out[BATCH];
    for (size_t at = 0; at < j->n; at += BATCH) {
        size_t n = j->n - at < BATCH ? j->n - at : BATCH;
        if (larder__data_read(j->data, j->ids + at, n, out) < 0)
            die("reading");
        for (size_t i = 0; i < n; i++) {
            if (out[i].code < 0)
                die(out[i].why);
            larder_buf_unref(&out[i].buf);
        }
    }
    return NULL;
}

static void measure(larder__data *d, const uint64_t *ids, size_t n, size_t threads, double *wall,
                    double *cpu) {
    pthread_t id[MOST_THREADS];
    job jobs[MOST_THREADS];
    double w = larder__now(), c = larder__cpu_seconds();
    for (size_t t = 0; t < threads; t++) {
        size_t from = n * t / threads, to = n * (t + 1) / threads;
        jobs[t] = (job){d, ids + from, to - from};
        if (pthread_create(&id[t], NULL, read_all, &jobs[t]) != 0)
            die("no thread");
    }
    for (size_t t = 0; t < threads; t++)
        pthread_join(id[t], NULL);
    *wall = larder__now() - w;
    *cpu = larder__cpu_seconds() - c;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static void bench(const char *folder, size_t bytes, size_t n, size_t rounds, size_t threads) {
    static const char *const uris[WAYS] = {"dir:%s/files?io=plain", "dir:%s/files?io=uring",
                                           "tar:%s/all.tar?index=off"};
    double wall[WAYS][MOST_ROUNDS], cpu[WAYS][MOST_ROUNDS];
    larder__data *data[WAYS];
    uint64_t *ids = malloc(n * sizeof *ids);
    larder_rng rng;
    make_data(folder, bytes, n);
    for (size_t k = 0; k < WAYS; k++) {
        char uri[512];
        snprintf(uri, sizeof uri, k == 2 ? uris[2] : k ? uris[1] : uris[0], folder);
        if (!ids || larder__data_open(&data[k], uri) < 0)
            die(uri);
    }
    larder_rng_seed(&rng, bytes, 0);
    for (size_t i = 0; i < n; i++)
        ids[i] = i;
    for (size_t r = 0; r <= rounds; r++) { /* the first one warms up */
        for (size_t i = n; i > 1; i--) {
            size_t j = larder_rng_below(&rng, (uint32_t)i);
            uint64_t swap = ids[i - 1];
            ids[i - 1] = ids[j];
            ids[j] = swap;
        }
        for (size_t k = 0; k < WAYS; k++)
            measure(data[k], ids, n, threads, &wall[k][r ? r - 1 : 0], &cpu[k][r ? r - 1 : 0]);
    }
    double plain = 0;
    for (size_t k = 0; k < WAYS; k++) {
        double c = median(cpu[k], rounds), w = median(wall[k], rounds);
        plain = k ? plain : c;
        printf("%8zu  %-6s  %12.0f  %12.0f  %6.2f\n", bytes, way_names[k], (double)n / c, (double)n / w,
               plain / c);
        larder__data_close(&data[k]);
    }
    free(ids);
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    static const size_t sizes[][2] = {{3072, 8000}, {20000, 4000}, {110000, 1500}};
    if (rounds < 1 || rounds > MOST_ROUNDS || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: bench_small_files [ROUNDS] [THREADS]\n");
        return 2;
    }
    printf("%8s  %-6s  %12s  %12s  %6s\n", "bytes", "way", "files/core-s", "files/s", "ratio");
    for (size_t i = 0; i < 3; i++) {
        const char *base = getenv("TMPDIR");
        char folder[256];
        snprintf(folder, sizeof folder, "%s/larder-bench-XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(folder))
            die("no temporary folder");
        bench(folder, sizes[i][0], sizes[i][1], rounds, threads);
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    return 0;
}
