/* What a data set costs before its first sample is read: 1, 10 and 100 million samples, made up
 * (mem:) and in tar shards of 10,000 whose indexes are mapped. Shards are empty files of the right
 * size, so that a hundred million need 4 GB of disk, for the indexes; nothing is read from them,
 * and all is removed at the end. Each row is a process of its own.
 *
 *     build/bench_scale [MOST SAMPLES] [FOLDER]
 */
#include "base/clock.h"
#include "base/err.h"
#include "tar_many.h"

#include <larder/larder.h>

#include <ftw.h>
#include <sys/wait.h>

enum { BATCH = 256, BATCHES = 8000 };

static void die(const char *what) {
    fprintf(stderr, "bench_scale: %s: %s\n", what, larder_errmsg());
    exit(1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* ---- one row --------------------------------------------------------------------------------- */

static double status_mib(const char *what) {
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = atof(line + strlen(what));
    if (f)
        fclose(f);
    return kib / 1024;
}

static double mapped_mib(void) {
    char line[PATH_MAX + 128];
    double bytes = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long from, to;
        if (strstr(line, "/tar-") && sscanf(line, "%llx-%llx", &from, &to) == 2)
            bytes += (double)(to - from);
    }
    if (f)
        fclose(f);
    return bytes / (1 << 20);
}

typedef struct span { /* seconds */
    double wall, cpu;
} span;

static span now(void) { return (span){larder__now(), larder__cpu_seconds()}; }
static span since(span begin) {
    span end = now();
    return (span){end.wall - begin.wall, end.cpu - begin.cpu};
}

static span take(larder_loader *l, int batches) {
    span begin = now();
    for (int i = 0; i < batches; i++) {
        const larder_batch *b;
        if (larder_loader_next(l, &b) < 0)
            die("a batch");
        larder_loader_done(l, b);
    }
    return since(begin);
}

static void measure(const char *name, const char *source, const char *recipe, double n) {
    larder_loader_conf c = {.size = sizeof c,
                            .source = source,
                            .recipe = recipe,
                            .cache = "20%",
                            .batch = BATCH,
                            .threads = 1,
                            .order_only = true};
    larder_loader *l = NULL;
    span begin = now();
    if (larder_loader_open(&l, &c) < 0)
        die(source);
    span opened = since(begin), first = take(l, 1);
    double heap = status_mib("RssAnon:");
    span rest = take(l, BATCHES);
    printf("%-6s %-6s %11.0f %8.2f %6.2f %8.2f %6.2f %8.0f %8.0f %8.0f %9.0f\n", name, recipe, n,
           opened.wall, opened.cpu, first.wall, first.cpu, heap, mapped_mib(),
           rest.cpu / BATCHES / BATCH * 1e9, BATCHES / rest.wall);
    fflush(stdout);
    larder_loader_close(&l);
}

static void row(const char *name, const char *source, const char *recipe, double n) {
    fflush(stdout);
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        measure(name, source, recipe, n);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        die(name);
}

int main(int argc, char **argv) {
    static const char *const recipes[] = {"minio", "rotate"};
    double most = argc > 1 ? atof(argv[1]) : 1e8;
    const char *root = argc > 2 ? argv[2] : "/tmp";
    char folder[PATH_MAX / 2], kept[PATH_MAX], source[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/bench_scale.XXXXXX", root);
    if (!mkdtemp(folder))
        die(folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    setenv("LARDER_CACHE_DIR", kept, 1);
    printf("%-6s %-6s %11s %8s %6s %8s %6s %8s %8s %8s %9s\n", "source", "recipe", "samples",
           "open s", "CPU s", "first s", "CPU s", "heap MiB", "mapped", "draw ns", "batches/s");
    uint64_t made = 0;
    for (double n = 1e6; n <= most; n *= 10) {
        uint64_t shards = (uint64_t)n / TAR_MANY_SHARD;
        if (tar_many(folder, made, shards) < 0)
            die(folder);
        made = shards;
        for (size_t i = 0; i < 2; i++) {
            snprintf(source, sizeof source, "mem:?n=%.0f&bytes=110000", n);
            row("mem", source, recipes[i], n);
            snprintf(source, sizeof source, "tar:%s/s-{000000..%06llu}.tar", folder,
                     (unsigned long long)(shards - 1));
            row("tar", source, recipes[i], n);
        }
    }
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
