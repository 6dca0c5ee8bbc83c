/* Text from elsewhere as people see it: nothing in it moves a cursor or turns the line around. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/object.h"
#include "check.h"
#include "report/svg.h"
#include "see/prometheus.h"
#include "unix/frame.h"
#include "unix/message.h"
#include "unix/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ESC, line feed, C1's CSI, right-to-left override, a line separator, a byte that is no UTF-8. */
#define HOSTILE "a\033[2J\n\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\xff\xc3\xa9"
#define SHOWN "a\\x1b[2J\\x0a\\u009b\\u202e\\u2028\\xff\xc3\xa9"

static void test_text(void **st) {
    (void)st;
    char out[128];
    assert_int_equal(larder__shown(out, sizeof out, HOSTILE), strlen(SHOWN));
    assert_string_equal(out, SHOWN);
    larder__shown(out, sizeof out, SHOWN); /* twice is once */
    assert_string_equal(out, SHOWN);
    larder__shown(out, sizeof out, "\xe2\x80"); /* a character that is cut off */
    assert_string_equal(out, "\\xe2\\x80");
    larder__shown(out, sizeof out, "\xf0\x9f\x98\x80 \xe4\xb8\xad C:\\x");
    assert_string_equal(out, "\xf0\x9f\x98\x80 \xe4\xb8\xad C:\\x");
    assert_int_equal(larder__shown(out, 5, "ab\033c"), 2); /* no half of an escape */
    assert_string_equal(out, "ab");
    assert_int_equal(larder__shown(out, 6, "abc\xc3\xa9\xc3\xa9"), 5);
    assert_int_equal(larder__shown(out, 1, "abc"), 0);
}

static void test_sentences(void **st) {
    (void)st;
    assert_int_equal(larder__fail(LARDER_E_FORMAT, "%s: broken", HOSTILE), LARDER_E_FORMAT);
    assert_string_equal(larder_errmsg(), SHOWN ": broken");
    larder__fail_in(LARDER_E_FORMAT, "sample \033");
    assert_string_equal(larder_errmsg(), "sample \\x1b: " SHOWN ": broken");
    larder__errmsg_set("said by another\nmachine");
    assert_string_equal(larder_errmsg(), "said by another\\x0amachine");
    char name[1200];
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    name[1198] = 0;
    for (int lead = 0; lead < 2; lead++) { /* cut between characters */
        larder__fail(LARDER_E_FORMAT, "%s%s", lead ? "x" : "", name);
        assert_null(strchr(larder_errmsg(), '\\'));
        assert_true(strlen(larder_errmsg()) > 500);
    }
}

static int keep_text(void *arg, const char *key, const larder__object_value *v) {
    (void)key;
    strcpy(arg, v->text);
    return 0;
}

static void test_json_there_and_back(void **st) {
    (void)st;
    char *text, back[256];
    size_t size;
    larder__json j = {.to = open_memstream(&text, &size)};
    larder__json_open(&j, NULL, '{');
    larder__json_text(&j, "name", HOSTILE);
    larder__json_close(&j, '}');
    fclose(j.to);
    assert_string_equal(text, "{\"name\": \"a\\u001b[2J\\u000a\\u009b\\u202e\\u2028\\udcff\xc3\xa9"
                              "\"}\n");
    check_ok(larder__object_parse(text, "here", keep_text, back));
    assert_string_equal(back, HOSTILE);
    free(text);
    check_ok(
        larder__object_parse("{\"a\": \"\\u0000\\ud800\\udc00\\u20ac\"}", "here", keep_text, back));
    assert_string_equal(back, "???\xe2\x82\xac");
}

static char *written(void (*write)(FILE *, const void *), const void *arg) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    write(to, arg);
    fclose(to);
    return text;
}

static void write_xml(FILE *to, const void *text) { larder__xml_text(to, text); }

static void test_pages(void **st) {
    (void)st;
    char *text = written(write_xml, "<b>" HOSTILE);
    assert_string_equal(text, "&lt;b&gt;" SHOWN);
    free(text);
}

static void write_jobs(FILE *to, const void *jobs) { larder__prometheus_write(to, jobs, 2); }

static void test_metrics(void **st) {
    (void)st;
    larder__job *jobs = calloc(2, sizeof *jobs);
    for (int i = 0; i < 2; i++) {
        jobs[i].pid = (uint64_t)(i + 1);
        larder__job_say(jobs[i].source, HOSTILE "\"");
        larder__job_show(&jobs[i], &(larder_stat_value){.name = "samples",
                                                        .unit = i ? "samples" : "rows",
                                                        .help = "handed\nout",
                                                        .type = 'c',
                                                        .value = 12});
        larder__job_show(&jobs[i],
                         &(larder_stat_value){
                             .name = "x 1\nfake", .unit = "", .help = "", .type = 'g', .value = 1});
    }
    char *text = written(write_jobs, jobs);
    assert_non_null(strstr(text, "source=\"a\\\\x1b[2J\\\\x0a\\\\u009b\\\\u202e\\\\u2028\\\\xff"
                                 "\xc3\xa9\\\"\""));
    assert_non_null(strstr(text, "handed\\\\x0aout\n"));
    assert_null(strstr(text, "\nfake"));
    assert_non_null(strstr(text, "larder_x_1_fake{larder_job=\"1.0\""));
    /* A count of rows and one of samples: one metric, and no job is left out of it. */
    assert_non_null(strstr(text, "larder_samples_total{larder_job=\"1.0\""));
    assert_non_null(strstr(text, "larder_samples_total{larder_job=\"2.0\""));
    free(text);
    free(jobs);
}

/* ---- the daemon's log ------------------------------------------------------------------------ */

static void keep_line(void *arg, const char *line) { strcat(strcat(arg, line), "|"); }

static void test_log(void **st) {
    (void)st;
    char log[4096] = "", folder[256], socket_path[300];
    snprintf(socket_path, sizeof socket_path, "%s/s", check_folder(folder));
    larder__server_conf conf = {.socket = socket_path,
                                .mode = 0600,
                                .cache = 1 << 20,
                                .clients = 4,
                                .say = keep_line,
                                .arg = log};
    larder__server *s;
    check_ok(larder__server_open(&s, &conf));
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    larder__server_adopt(s, ends[1]);
    larder__hello hello = {.magic = LARDER__WIRE_MAGIC,
                           .version = LARDER__WIRE_VERSION,
                           .pid = 1,
                           .batch = 1,
                           .identity = 7,
                           .about.keys = 10,
                           .payload = 100,
                           .about.share = {1},
                           .about.decoded_ratio = 1,
                           .size = 10,
                           .name = HOSTILE,
                           .about.policy = "lru",
                           .budget = "20%"};
    larder_writer w = {0};
    larder__hello_write(&hello, &w);
    check_ok(larder__frame_send(ends[0], LARDER__MSG_HELLO, w.bytes, w.size, NULL, 0));
    for (int i = 0; i < 100 && !strstr(log, "pid 1"); i++)
        larder__server_turn(s, 10);
    if (!strstr(log, SHOWN))
        fail_msg("the log says %s", log);
    assert_null(strchr(log, '\n'));
    larder__free(w.bytes);
    close(ends[0]);
    larder__server_close(&s);
    check_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),    cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_pages),   cmocka_unit_test(test_json_there_and_back),
        cmocka_unit_test(test_metrics), cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
