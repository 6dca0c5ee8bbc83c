/* A loader whose batches are made on a GPU whose driver fails, call by call: it refuses with a
 * sentence, ends with one, or goes on with the cores and says so; no batch that is handed out has a
 * wrong byte, and the next loader is as if nothing had been. */
#include "fake_kit.h"

#include "pictures.h"

#include <larder/larder.h>
#include <sys/stat.h>

enum { PICTURES = 12, BATCH = 4, SIDE = 16, ROW = 3 * SIDE * SIDE };
static fake_cuda fake;
static char folder[256], kept[256], source[300];

static void write_pictures(void) {
    for (int i = 0; i < PICTURES; i++) {
        char path[400];
        size_t size;
        check_jpeg_conf c = {.w = 40, .h = 30, .channels = 3, .h_samp = 2, .v_samp = 2};
        c.seed = (uint32_t)i;
        unsigned char *bytes = check_jpeg(&c, &size);
        snprintf(path, sizeof path, "%s/%c", folder, 'a' + i % 2);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%c/%02d.jpg", folder, 'a' + i % 2, i);
        check_write(path, bytes, size);
        free(bytes);
    }
}

typedef struct way {
    const char *decode;
    uint32_t threads;
} way;

static larder_loader_conf conf_of(const way *w) {
    return (larder_loader_conf){.size = sizeof(larder_loader_conf),
                                .source = source,
                                .augment = "rrc:size=16,gap=0|flip|normalize:preset=imagenet",
                                .cache = "50%",
                                .batch = BATCH,
                                .threads = w->threads,
                                .seed = 3,
                                .epochs = 1,
                                .device = w->decode ? "cuda" : NULL,
                                .decode = w->decode};
}

/* Rows of all batches that came, by their place in the epoch; the answer of what ended it. */
static int run(const way *w, float *out, size_t *batches) {
    larder_loader_conf c = conf_of(w);
    larder_loader *l = NULL;
    const larder_batch *b;
    int rc = larder_loader_open(&l, &c);
    *batches = 0;
    if (rc < 0) {
        assert_null(l);
        return rc;
    }
    while ((rc = larder_loader_next(l, &b)) == 0) {
        float *to = out + b->number * BATCH * ROW;
        assert_int_equal(b->number, *batches);
        if (b->x)
            memcpy(to, b->x, b->n * ROW * sizeof *to);
        else
            rc = larder_loader_to_device(l, b, to, NULL);
        *batches += rc == 0;
        check_ok(larder_loader_done(l, b));
        if (rc < 0)
            break;
    }
    larder_loader_close(&l);
    return rc < 0 ? rc : 0;
}

static void each_call(const char *decode) {
    static float want[PICTURES * ROW], got[PICTURES * ROW];
    way here = {NULL, 1}, there = {decode, 1};
    size_t batches;
    long refused = 0, went_on = 0;
    fake_cuda_fail(&fake, 0, false);
    check_ok(run(&here, want, &batches));
    assert_int_equal(batches, PICTURES / BATCH);
    check_ok(run(&there, got, &batches));
    long before = *fake.calls;
    check_ok(run(&there, got, &batches));
    long calls = *fake.calls - before;
    for (long n = 1; n <= calls; n += 1 + n / 60) {
        memset(got, 0, sizeof got);
        fake_cuda_fail(&fake, n, n % 2);
        int rc = run(&there, got, &batches);
        fake_cuda_fail(&fake, 0, false);
        assert_memory_equal(got, want, batches * BATCH * ROW * sizeof *got);
        if (rc < 0 && !strstr(larder_errmsg(), "GPU") && !strstr(larder_errmsg(), "cuda"))
            fail_msg("call %ld of %ld: %d, \"%s\"", n, calls, rc, larder_errmsg());
        assert_true(rc < 0 || batches == PICTURES / BATCH);
        refused += rc < 0;
        went_on += rc == 0;
    }
    printf("  %s: %ld calls, %ld refusals, %ld went on\n", decode, calls, refused, went_on);
    check_ok(run(&there, got, &batches));
    assert_memory_equal(got, want, sizeof got);
    assert_true(refused > 0 && went_on > 0); /* at the end it is only asked to give back */
}

static void each_way(void **state) {
    (void)state;
    each_call("gpu");
    each_call("auto");
    each_call("cpu");
}

int main(void) {
    size_t size;
    unsigned char *some = check_jpeg(
        &(check_jpeg_conf){.w = 8, .h = 8, .channels = 1, .h_samp = 1, .v_samp = 1}, &size);
    check_folder(folder);
    check_folder(kept);
    int rc = 77;
    if (some && fake_cuda_open(&fake, "levels_on_cpu.so", kept)) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(each_way)};
        snprintf(source, sizeof source, "dir:%s", folder);
        write_pictures();
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    } else
        printf("skipped: no libjpeg or no C++ compiler\n");
    free(some);
    check_folder_remove(folder);
    check_folder_remove(kept);
    return rc;
}
