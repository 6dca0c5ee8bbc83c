/* Figures whose names get in each other's way: Prometheus takes the page, and none is left out. */
#include "check.h"
#include "see/prometheus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 3, LINES = 4096 };

static const struct {
    const char *name, *unit;
    char type;
} awkward[] = {
    /* A summary and a histogram each. */
    {"score", "", 'h'},
    {"size", "bytes", 'h'},
    {"wait_for_it", "seconds", 'h'}, /* apart: wait_ are parts of a step */
    {"delay", "seconds", 'h'},
    {"delay_duration", "seconds", 'g'},
    {"stall_seconds", "seconds", 'h'},
    {"batch_wait", "seconds", 'h'},
    /* Parts of those. */
    {"score_sum", "", 'g'},
    {"score_distribution", "", 'g'},
    {"score_distribution_count", "", 'g'},
    {"late_count", "", 'g'},
    {"late", "", 'h'},
    /* What units and kinds are called. */
    {"read", "bytes", 'c'},
    {"read_bytes", "bytes", 'c'},
    {"read_bytes_total", "", 'g'},
    /* What all jobs have. */
    {"jobs", "", 'g'},
    {"build_info", "", 'g'},
    {"job_loss", "", 'h'},
    {"step_seconds", "seconds", 'c'},
    {"step_seconds_2", "", 'g'},
    {"recipe_figure", "", 'g'},
    /* A letter, and what another process says twice. */
    {"h", "", 'g'},
    {"h", "", 'g'},
    {"again", "", 'g'},
    {"again", "", 'g'},
};
enum { AWKWARD = sizeof awkward / sizeof *awkward };

/* A value that no other figure has. */
static double value_of(int job, int figure) { return 1000.0 * (job + 1) + figure + 0.5; }

static bool is_left_out(int figure) {
    for (int i = 0; i < figure; i++)
        if (strcmp(awkward[i].name, awkward[figure].name) == 0)
            return true;
    return strncmp(awkward[figure].name, "wait_", 5) == 0;
}

/* One has them in another order, and one has other units and kinds for some. */
static void show_all(larder__job *job, int number) {
    static const uint64_t below[] = {1, 2, 3};
    job->pid = (uint64_t)number + 1;
    for (int i = 0; i < AWKWARD; i++) {
        int k = number == 1 && i < 20 ? 19 - i : i;
        bool other = number == 2 && k % 3 == 0;
        larder_stat_value v = {.name = awkward[k].name,
                               .unit = other ? "seconds" : awkward[k].unit,
                               .help = "",
                               .type = awkward[k].type,
                               .value = value_of(number, k),
                               .count = 1,
                               .p50 = 1};
        larder__job_show(job, &v);
        if (v.type == 'h')
            larder__job_show_below(job, v.name, below, sizeof below / sizeof *below);
    }
}

static char *page_of(const larder__job *jobs, size_t count) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    larder__prometheus_write(to, jobs, count);
    fclose(to);
    return text;
}

static bool is_of(const char *sample, const char *metric, const char *kind) {
    size_t n = strlen(metric);
    if (strncmp(sample, metric, n) != 0)
        return false;
    bool summary = strcmp(kind, "summary") == 0, histogram = strcmp(kind, "histogram") == 0;
    const char *rest = sample + n;
    return ((summary || histogram) &&
            (strncmp(rest, "_sum{", 5) == 0 || strncmp(rest, "_count{", 7) == 0)) ||
           (histogram && strncmp(rest, "_bucket{", 8) == 0) ||
           (!histogram && (*rest == '{' || *rest == '\0'));
}

static void is_once(char *const *known, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(known[i], name) == 0)
            fail_msg("\"%s\" stands on the page twice", name);
}

/* Every name once, every sample once and below its name. */
static void check_page(char *text) {
    static char *names[LINES], *samples[LINES];
    size_t name_count = 0, sample_count = 0;
    const char *kind = "";
    bool helped = false;
    for (char *end = NULL, *line = strtok_r(text, "\n", &end); line;
         line = strtok_r(NULL, "\n", &end)) {
        bool help = strncmp(line, "# HELP ", 7) == 0, type = strncmp(line, "# TYPE ", 7) == 0;
        assert_true(name_count < LINES && sample_count < LINES);
        assert_true(helped == type); /* its kind comes right behind the words on it */
        helped = help;
        char *after = strrchr(line, ' ');
        if (help) {
            line[7 + strcspn(line + 7, " ")] = '\0';
            is_once(names, name_count, line + 7);
            is_once(samples, sample_count, line + 7);
            names[name_count++] = line + 7;
        } else if (type) {
            *after = '\0';
            assert_string_equal(line + 7, names[name_count - 1]);
            kind = after + 1;
        } else {
            *after = '\0';
            is_once(samples, sample_count, line);
            if (name_count == 0 || !is_of(line, names[name_count - 1], kind))
                fail_msg("\"%s\" is not below its name", line);
            samples[sample_count++] = line;
        }
    }
}

static void test_names_that_collide(void **state) {
    (void)state;
    larder__job *jobs = calloc(JOBS, sizeof *jobs);
    for (int i = 0; i < JOBS; i++)
        show_all(&jobs[i], i);
    for (size_t count = 0; count <= JOBS; count++) {
        char *text = page_of(jobs, count);
        for (int i = 0; i < (int)count; i++)
            for (int k = 0; k < AWKWARD; k++) {
                char said[32];
                snprintf(said, sizeof said, " %.17g\n", value_of(i, k));
                if (!strstr(text, said) == !is_left_out(k))
                    fail_msg("%s of job %d %s", awkward[k].name, i,
                             is_left_out(k) ? "is there" : "is not there");
            }
        check_page(text);
        free(text);
    }
    free(jobs);
}

/* The names that are in use stay what they are. */
static void test_names_that_do_not(void **state) {
    (void)state;
    static const uint64_t below[] = {1, 2, 3};
    larder__job *job = calloc(1, sizeof *job);
    larder__job_show(job, &(larder_stat_value){
                              .name = "stall_seconds", .unit = "seconds", .help = "", .type = 'h'});
    larder__job_show_below(job, "stall_seconds", below, 3);
    larder__job_show(job, &(larder_stat_value){
                              .name = "read_seconds", .unit = "seconds", .help = "", .type = 'h'});
    larder__job_show(
        job, &(larder_stat_value){.name = "storage", .unit = "bytes", .help = "", .type = 'c'});
    larder__job_show(job,
                     &(larder_stat_value){.name = "ratio", .unit = "", .help = "", .type = 'g'});
    char *text = page_of(job, 1);
    static const char *const said[] = {
        "# TYPE larder_stall_seconds summary\n",
        "# TYPE larder_batch_wait_seconds histogram\n",
        "# TYPE larder_read_seconds summary\n",
        "# TYPE larder_read_duration_seconds histogram\n",
        "# TYPE larder_storage_bytes_total counter\n",
        "# TYPE larder_ratio gauge\n",
        "# TYPE larder_step_seconds_total counter\n",
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(text, said[i]))
            fail_msg("not there: %s", said[i]);
    free(text);
    free(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_collide),
        cmocka_unit_test(test_names_that_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
