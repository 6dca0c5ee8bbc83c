/* Run records: what is written comes back, what is broken is refused with file and line. */
#include "check.h"

#include "base/mem.h"
#include "report/html.h"
#include "report/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const larder__epoch sample = {.epoch = 2,
                                     .accuracy = 0.885,
                                     .top5 = 0.99,
                                     .loss = 0.31,
                                     .seconds = 1.5,
                                     .stall_seconds = 0.5,
                                     .served = 60000,
                                     .hits = 12000,
                                     .substitutes = 5,
                                     .repeats = 4,
                                     .misses = 47995,
                                     .background_reads = 3,
                                     .touched = 1,
                                     .storage_bytes = UINT64_MAX,
                                     .h = 0.75};

static char *printed(const larder__epoch *e) {
    char line[2048] = "";
    FILE *f = fmemopen(line, sizeof line, "w");
    assert_non_null(f);
    larder__epoch_print(f, e);
    assert_int_equal(fclose(f), 0);
    char *copy = strdup(line); /* of exact size, so that reading past its end is seen */
    assert_non_null(copy);
    return copy;
}

static void test_epoch_round_trip(void **state) {
    (void)state;
    larder__epoch back;
    char *text = printed(&sample);
    assert_int_equal(strchr(text, '\n') - text + 1, strlen(text)); /* exactly one line */
    check_ok(larder__epoch_parse(&back, text, "here"));
    assert_memory_equal(&back, &sample, sizeof back);
    free(text);
    larder__epoch unknown = {.accuracy = NAN, .top5 = NAN, .h = NAN};
    text = printed(&unknown);
    assert_null(strstr(text, "\"h\""));
    assert_non_null(strstr(text, "\"accuracy\": null"));
    check_ok(larder__epoch_parse(&back, text, "here"));
    assert_true(isnan(back.accuracy) && isnan(back.h));
    free(text);
}

static void test_refuses(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{\"epoch\"}",
                                      "{\"epoch\": }",
                                      "{\"epoch\": 1",
                                      "{\"epoch\": 1,}",
                                      "{\"epoch\": -1}",
                                      "{\"epoch\": 1.5}",
                                      "{\"epoch\": 99999999999999999999999}",
                                      "{\"epoch\": \"1\"}",
                                      "{\"loss\": 1e999}",
                                      "{\"loss\": 0x10}",
                                      "{\"loss\": nan}",
                                      "{\"loss\": 1e}",
                                      "{\"loss\": {\"a\": 1}}",
                                      "{\"loss\": [1]}",
                                      "{\"a\": \"\\u12\"}",
                                      "{\"a\": \"\\q\"}",
                                      "{\"a\": \"no end}",
                                      "{\"epoch\": 1} x",
                                      "{\"epoch\": 1 \"hits\": 2}",
                                      "{\"a\": \"\\",
                                      "{\"epoch\": null}"};
    larder__epoch e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (larder__epoch_parse(&e, bad[i], "file:7") != LARDER_E_FORMAT)
            fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(larder_errmsg(), "file:7"));
    }
    char longer[700];
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "{\"a\": \"", 7);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(larder__epoch_parse(&e, longer, "here"), LARDER_E_FORMAT);
}

/* Every prefix and every changed byte of a good line is taken or refused, never worse. */
static void test_mangled(void **state) {
    (void)state;
    larder__epoch e;
    char *text = printed(&sample);
    size_t n = strlen(text);
    for (size_t cut = 0; cut < n - 2; cut++) {
        char *copy = strndup(text, cut);
        assert_int_equal(larder__epoch_parse(&e, copy, "here"), LARDER_E_FORMAT);
        free(copy);
    }
    for (size_t at = 0; at < n; at++)
        for (int v = 1; v < 256; v += 7) {
            char keep = text[at];
            text[at] = (char)v;
            int rc = larder__epoch_parse(&e, text, "here");
            assert_true(rc == 0 || rc == LARDER_E_FORMAT);
            text[at] = keep;
        }
    free(text);
}

static void write_run(const char *folder, const char *name, const char *epochs) {
    char path[300];
    larder__meta meta = {.name = "", .status = "done", .epochs_asked = 2, .samples = 10};
    snprintf(meta.name, sizeof meta.name, "%s", name);
    check_ok(larder__meta_write(folder, &meta));
    snprintf(path, sizeof path, "%s/epochs.jsonl", folder);
    check_write(path, epochs, strlen(epochs));
}

static void test_folder(void **state) {
    (void)state;
    char folder[256];
    larder__run run;
    check_folder(folder);
    assert_int_equal(larder__run_read(&run, folder), LARDER_E_NOTFOUND);
    write_run(folder, "a \"b\" \\c\nd",
              "{\"epoch\": 0, \"accuracy\": 0.5, \"seconds\": 1, \"hits\": 1, \"served\": 4}\n"
              "{\"epoch\": 1, \"accuracy\": 0.4, \"seconds\": 2, \"hits\": 3, \"served\": 4}\n"
              "{\"epoch\": 2, \"acc"); /* the machine stopped here */
    check_ok(larder__run_read(&run, folder));
    assert_string_equal(run.meta.name, "a \"b\" \\c\nd");
    assert_int_equal(run.count, 2);
    larder__epoch total = larder__run_total(&run);
    assert_int_equal(total.hits, 4);
    assert_true(total.seconds == 3 && total.accuracy == 0.4);
    assert_true(larder__run_best(&run) == 0.5);
    larder__run_free(&run);
    write_run(folder, "b", "{}\nnonsense\n");
    assert_int_equal(larder__run_read(&run, folder), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "epochs.jsonl:2"));
    check_folder_remove(folder);
}

static void test_report(void **state) {
    (void)state;
    larder__epoch epochs[2] = {sample, sample};
    epochs[0].storage_bytes = epochs[1].storage_bytes = 1000;
    larder__run runs[2] = {{.meta = {.name = "minio<script src=x>",
                                     .status = "done",
                                     .source = "idx:a&b",
                                     .cache = "20%",
                                     .epochs_asked = 2},
                            .epochs = epochs,
                            .count = 2},
                           {.meta = {.name = "lru", .status = "interrupted", .epochs_asked = 5}}};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    check_ok(larder__report_html(f, "title & more", runs, 2));
    assert_int_equal(fclose(f), 0);
    static const char *const outside[] = {"src=\"", "href", "@import", "url(", "<script", "<link"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strstr(text, outside[i]))
            fail_msg("the report has %s", outside[i]);
    assert_non_null(strstr(text, "88.50"));
    assert_non_null(strstr(text, "title &amp; more"));
    assert_non_null(strstr(text, "0*")); /* no epoch of five */
    free(text);
    f = open_memstream(&text, &size);
    assert_non_null(f);
    check_ok(larder__report_text(f, runs, 2, 0));
    check_ok(larder__report_html(f, "none", NULL, 0));
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(text, "95996")); /* misses and background reads of both */
    free(text);
}

static char *short_report(const larder__run *runs, size_t count) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    check_ok(larder__report_short(f, runs, count, larder__table_text));
    assert_int_equal(fclose(f), 0);
    return text;
}

/* A run that was stopped is no seed of those that ended, however far it came. */
static void test_cut_short(void **state) {
    (void)state;
    enum { RUNS = 4 };
    larder__epoch epochs[RUNS][2];
    larder__run runs[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        for (size_t e = 0; e < 2; e++) {
            epochs[i][e] = sample;
            epochs[i][e].epoch = e;
            epochs[i][e].accuracy = i < 2 ? 0.5 + 0.1 * (double)i : 0.9;
            epochs[i][e].storage_bytes = 250000000 + 1000000 * i;
        }
        runs[i] =
            (larder__run){.meta = {.name = "minio", .status = "done", .epochs_asked = 2, .seed = i},
                          .epochs = epochs[i],
                          .count = 2};
    }
    snprintf(runs[2].meta.status, sizeof runs[2].meta.status, "interrupted");
    runs[3].count = 1;
    char *text = short_report(runs, RUNS);
    assert_non_null(strstr(text, "standard deviation over 1 to 2 seeds\n"));
    assert_non_null(strstr(text, "\nminio   55.00 ± 7.07 "));
    assert_non_null(strstr(text, "  501 ± 1  "));
    assert_non_null(strstr(text, "\nminio*  "));
    assert_non_null(strstr(text, "* minio has not ended: epoch 2 of 2\n"));
    assert_non_null(strstr(text, "* minio has not ended: epoch 1 of 2\n"));
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80 + strlen("±") * 7); /* bytes: ± is two */
    free(text);
    text = short_report(runs, 1);
    assert_null(strstr(text, "±"));
    free(text);
}

static size_t shown_width(const char *line) {
    size_t n = 0;
    for (; *line && *line != '\n'; line++)
        n += ((unsigned char)*line & 0xc0) != 0x80;
    return n;
}

static size_t occurrences(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* On any terminal that has room for a name and a column beside it no line is wider; what says at
 * which price accuracy came is always there; and what is not there is named. */
static void test_narrow(void **state) {
    (void)state;
    static const char *const kept[] = {"acc %",   "time s",    "read MB", "hits %",
                                       "subst %", "repeats %", "misses %"};
    static const char *const others[] = {"cache", "stall %", "best %", "requests", "held up by"};
    larder__epoch epochs[2] = {sample, sample};
    larder__run runs[2];
    for (size_t i = 0; i < 2; i++)
        runs[i] =
            (larder__run){.meta = {.name = "rotate:h=0.8,until=0.7", .cache = "20%", .seed = i},
                          .epochs = &epochs[i],
                          .count = 1};
    for (size_t count = 1; count <= 2; count++)
        for (size_t room = 0; room < 300; room = room ? room + 6 : 50) {
            char *text = NULL;
            size_t size = 0;
            FILE *f = open_memstream(&text, &size);
            assert_non_null(f);
            check_ok(larder__report_text(f, runs, count, room));
            assert_int_equal(fclose(f), 0);
            bool left = strstr(text, "left out") != NULL;
            char *last = strrchr(text, '\n');
            const char *every = count > 1 ? strstr(text, "every run\n") : text;
            for (char *line = text; line < last; line = strchr(line, '\n') + 1)
                if (room && strncmp(line, "left out", 8) != 0 &&
                    strncmp(line, "batches:", 8) != 0 && shown_width(line) > room)
                    fail_msg("%zu columns: %s", room, line);
            for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
                assert_int_equal(occurrences(every, kept[i]), 1);
            for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                assert_int_equal(occurrences(every, others[i]), 1);
            assert_int_equal(occurrences(every, "seed"), 1);
            if (count > 1) /* the seeds tell these runs apart */
                assert_true(!strstr(every, "left out") ||
                            strstr(every, "seed") < strstr(every, "left out"));
            assert_int_equal(left, strstr(text, "; --wide shows them\n") != NULL);
            assert_true(room != 0 || !left);
            assert_true(room != 80 || left);
            free(text);
        }
}

/* The page opens with accuracy over time, and seeds that differ have bars in it. */
static void test_opening(void **state) {
    (void)state;
    larder__epoch epochs[2] = {sample, sample};
    epochs[1].accuracy += 0.01;
    larder__run runs[2];
    for (size_t i = 0; i < 2; i++)
        runs[i] =
            (larder__run){.meta = {.name = "minio", .seed = i}, .epochs = &epochs[i], .count = 1};
    for (size_t count = 1; count <= 2; count++) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        check_ok(larder__report_html(f, "t", runs, count));
        assert_int_equal(fclose(f), 0);
        char *chart = strstr(text, "<svg");
        assert_non_null(chart);
        *strstr(chart, "</svg>") = '\0';
        assert_non_null(strstr(chart, "<title>Accuracy over time</title>"));
        assert_int_equal(strstr(chart, "stroke-width=\"1.5\"") != NULL, count > 1);
        free(text);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    larder__epoch epochs[1] = {sample};
    larder__run run = {.meta = {.name = "r"}, .epochs = epochs, .count = 1};
    FILE *f = fopen("/dev/null", "w");
    assert_non_null(f);
    uint64_t at = 1;
    for (;; at++) {
        larder__mem_fail_at(at, 0);
        int rc = larder__report_html(f, "t", &run, 1);
        bool failed = larder__mem_failed() != 0;
        larder__mem_fail_at(0, 0);
        if (!failed)
            break;
        assert_int_equal(rc, LARDER_E_NOMEM);
    }
    assert_true(at > 6);
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epoch_round_trip), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_mangled),          cmocka_unit_test(test_folder),
        cmocka_unit_test(test_report),           cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_opening),          cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
