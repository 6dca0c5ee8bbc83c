/* What larder doctor makes of machines that are made up: each thing that is slow or lacking has its
 * sentence, and a machine that lacks nothing has none. And a schema stands in outermost objects
 * alone. */
#include "check.h"

#include "base/json.h"
#include "cli/doctor_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char all_parts[] = "jpeg png cblas uring curl redis ";

static larder__facts healthy(void) {
    larder__facts f = {.cores = 16,
                       .machine_cores = 16,
                       .memory = (uint64_t)64 << 30,
                       .machine_memory = (uint64_t)64 << 30,
                       .free_memory = (uint64_t)32 << 30,
                       .most_files = 4096,
                       .load = 1,
                       .wide = true,
                       .uring = {.there = true},
                       .decode = 1000,
                       .copy = 1e10,
                       .disk_read = 1e9,
                       .disk_random = 20000};
    strcpy(f.here.path, "/data");
    strcpy(f.here.kind, "ext4");
    f.here.free_bytes = f.here.all_bytes = (uint64_t)1 << 40;
    f.here.writable = true;
    f.keep = f.here;
    return f;
}

/* How many sentences there are, of which one has these words. */
static uint32_t judged(const larder__facts *f, const char *parts, const char *words) {
    static larder__slow slow;
    bool found = false;
    larder__facts_judge(&slow, f, parts);
    for (uint32_t i = 0; i < slow.count; i++)
        found |= strstr(slow.lines[i], words) != NULL;
    if (!found)
        fail_msg("no sentence has \"%s\"; the first of %u: %s", words, slow.count,
                 slow.count ? slow.lines[0] : "none");
    return slow.count;
}

static void a_healthy_machine(void **state) {
    (void)state;
    larder__slow slow;
    larder__facts f = healthy();
    larder__facts_judge(&slow, &f, all_parts);
    if (slow.count)
        fail_msg("%s", slow.lines[0]);
    f.decode = f.copy = f.disk_read = f.disk_random = (double)NAN; /* nothing was measured */
    larder__facts_judge(&slow, &f, all_parts);
    assert_int_equal(slow.count, 0);
}

static void what_is_slow(void **state) {
    (void)state;
    larder__facts f = healthy();
    assert_int_equal(judged(&f, "-jpeg png cblas uring curl redis ", "libjpeg-dev"), 1);
    assert_int_equal(judged(&f, "jpeg -png -cblas uring curl redis ", "libopenblas-dev"), 2);
    f.cores = 4;
    assert_int_equal(judged(&f, all_parts, "4 of 16 cores"), 1);
    f = healthy(), f.load = 40;
    assert_int_equal(judged(&f, all_parts, "40.0 processes want 16 cores"), 1);
    assert_int_equal(judged(&f, all_parts, "what was measured is too low"), 1);
    f.decode = f.copy = f.disk_read = f.disk_random = (double)NAN;
    larder__slow slow;
    larder__facts_judge(&slow, &f, all_parts);
    assert_int_equal(slow.count, 1);
    assert_null(strstr(slow.lines[0], "measured")); /* nothing was */
    f = healthy(), f.keep.writable = false;
    assert_int_equal(judged(&f, all_parts, "LARDER_CACHE_DIR names another"), 1);
    f = healthy(), f.wide = false;
    assert_int_equal(judged(&f, all_parts, "AVX2"), 1);
    f = healthy(), f.memory = (uint64_t)8 << 30;
    assert_int_equal(judged(&f, all_parts, "8.0 GiB of 64.0 GiB"), 1);
    f = healthy(), f.free_memory = (uint64_t)1 << 30;
    assert_int_equal(judged(&f, all_parts, "1.0 GiB of memory are free"), 1);
    f = healthy(), f.most_files = 256;
    assert_int_equal(judged(&f, all_parts, "ulimit -n is 256"), 1);
    f = healthy(), f.here.network = true, strcpy(f.here.kind, "nfs");
    assert_int_equal(judged(&f, all_parts, "lies on nfs"), 1);
    f = healthy(), f.here.free_bytes = (uint64_t)1 << 30;
    assert_int_equal(judged(&f, all_parts, "(/data) has 1.0 GiB left"), 1);
    f = healthy(), f.decode = 100;
    assert_int_equal(judged(&f, all_parts, "16 cores decode about 1600"), 1);
    f = healthy(), f.disk_random = 120;
    assert_int_equal(judged(&f, all_parts, "120 random reads a second"), 1);
    f = healthy(), f.gpu.there = true, strcpy(f.cuda[0].says, "CUDA's compiler cannot be opened");
    assert_int_equal(judged(&f, all_parts, "there is a GPU, and CUDA's compiler"), 1);
    f = healthy(), f.uring.there = false, strcpy(f.uring.says, "the kernel refuses io_uring");
    assert_int_equal(judged(&f, all_parts, "refuses io_uring"), 1);
}

static void the_schema_is_outermost(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    larder__json j = {.to = to};
    larder__json_begin(&j);
    larder__json_open(&j, "inside", '[');
    larder__json_begin(&j);
    larder__json_close(&j, '}');
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
    fclose(to);
    assert_string_equal(text, "{\"schema\": 1, \"inside\": [{}]}\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_healthy_machine),
                                       cmocka_unit_test(what_is_slow),
                                       cmocka_unit_test(the_schema_is_outermost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
