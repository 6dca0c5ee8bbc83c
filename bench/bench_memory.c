/* Bytes of metadata a sample: cache, sampler and ledger of a real loader that has everything
 * resident (the worst case), and of one with a 20 % cache, at ten million samples. Measured as the
 * growth of the process, less the payload; malloc's own overhead is part of it. */
#include <larder/larder.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double resident_bytes(void) {
    long pages = 0, unused;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &unused, &pages) != 2)
        exit(1);
    fclose(f);
    return (double)pages * 4096;
}

static void measure(const char *recipe, const char *cache, double share, double n) {
    enum { BYTES = 16 };
    larder_loader_conf c = {.size = sizeof c};
    char source[96];
    snprintf(source, sizeof source, "mem:?n=%.0f&h=4&w=4&c=1", n);
    c.source = source;
    c.recipe = recipe;
    c.cache = cache;
    c.batch = 4096;
    c.epochs = 1;
    c.dtype = LARDER_U8;
    double before = resident_bytes();
    larder_loader *l = NULL;
    const larder_batch *b;
    if (larder_loader_open(&l, &c) < 0) {
        fprintf(stderr, "bench_memory: %s\n", larder_errmsg());
        exit(1);
    }
    while (larder_loader_next(l, &b) == 0)
        larder_loader_done(l, b);
    double tables = 0;
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "cache_metadata_bytes") == 0)
            tables = v.value;
    double grown = resident_bytes() - before - share * n * BYTES;
    printf("%-8s %6s  %6.1f bytes a sample in all, cache's own tables %.1f\n", recipe, cache,
           grown / n, tables / n);
    fflush(stdout);
    larder_loader_close(&l);
    malloc_trim(0);
}

int main(int argc, char **argv) {
    double n = argc > 1 ? atof(argv[1]) : 1e7;
    printf("metadata of a loader on %.0f samples (target: at most 64 bytes a sample)\n", n);
    measure("lru", "20%", 0.2, n);
    measure("lru", "100%", 1, n);
    measure("minio", "20%", 0.2, n);
    return 0;
}
