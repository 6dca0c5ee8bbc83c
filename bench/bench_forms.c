/* What a hit costs in each form: CPU time of the loader's threads a sample, all samples resident,
 * over real JPEG files where they are there. The peer is the encoded form in the same run; besides,
 * what ods costs to decide about a sample, next to plain lru. */
#include "measure.h"

#include <larder/larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5 };

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "bench_forms: %s: %s\n", what, larder_errmsg());
    exit(1);
}

static larder_loader *open_loader(const char *source, const char *recipe, const char *cache,
                                  const char *augment, size_t batch) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = source;
    c.recipe = recipe;
    c.cache = cache;
    c.augment = augment;
    c.batch = batch;
    c.threads = 1;
    larder_loader *l = NULL;
    if (larder_loader_open(&l, &c) < 0)
        die(source);
    return l;
}

/* One epoch: CPU seconds a sample. */
static double run_epoch(larder_loader *l) {
    double begun = cpu_now();
    size_t served = 0;
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) == 0) {
        served += b->n;
        larder_loader_done(l, b);
    }
    if (rc < 0)
        die("next");
    return (cpu_now() - begun) / (double)served;
}

/* Encoded and decoded ones stay; an augmented one is used once, so every epoch makes it again. */
static double cost(const char *source, const char *recipe, const char *cache) {
    const char *augment = "rrc:size=224|flip|normalize:preset=imagenet";
    larder_loader *l = open_loader(source, recipe, cache, augment, 32);
    double rounds[ROUNDS];
    run_epoch(l);
    for (int i = 0; i < ROUNDS; i++)
        rounds[i] = run_epoch(l);
    larder_loader_close(&l);
    return measure_median(rounds, ROUNDS);
}

static void compare_forms(const char *source) {
    double encoded = cost(source, "minio", "100%");
    double decoded = cost(source, "minio", "3000%:0/100/0");
    printf("a hit, CPU time a sample, rrc:size=224 to f32, median of %d epochs\n", ROUNDS);
    printf("  encoded    %7.2f ms  1.00\n", 1e3 * encoded);
    printf("  decoded    %7.2f ms  %.2f\n", 1e3 * decoded, decoded / encoded);
}

static double decide(const char *recipe, const char *cache) {
    larder_loader *l = open_loader("mem:?n=200000&h=1&w=1&c=1", recipe, cache, "", 256);
    double rounds[ROUNDS];
    run_epoch(l);
    for (int i = 0; i < ROUNDS; i++)
        rounds[i] = run_epoch(l);
    larder_loader_close(&l);
    return measure_median(rounds, ROUNDS);
}

int main(int argc, char **argv) {
    const char *shared = getenv("LARDER_SHARED");
    char source[512];
    snprintf(source, sizeof source, "tar:%s/jpeg/imagenet-sample-0000.tar",
             shared ? shared : "../shared/data");
    if (argc > 1)
        snprintf(source, sizeof source, "%s", argv[1]);
    FILE *there = strncmp(source, "tar:", 4) == 0 ? fopen(source + 4, "r") : NULL;
    if (there || argc > 1)
        compare_forms(source);
    else
        printf("%s is not there: no comparison of forms\n", source + 4);
    if (there)
        fclose(there);
    double lru = decide("lru", "20%"), minio = decide("minio", "20%");
    double ods = decide("seneca", "20%"), three = decide("seneca", "20%:40/30/30");
    printf("the whole loader on one-byte samples, CPU time a sample (deciding is most of it)\n");
    printf("  lru                  %6.0f ns  1.00\n", 1e9 * lru);
    printf("  minio                %6.0f ns  %.2f\n", 1e9 * minio, minio / lru);
    printf("  seneca               %6.0f ns  %.2f\n", 1e9 * ods, ods / lru);
    printf("  seneca:split=40/30/30%6.0f ns  %.2f\n", 1e9 * three, three / lru);
    return 0;
}
