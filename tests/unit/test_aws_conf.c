/* Where the credentials of s3: come from, without a server: files, the environment, programs. */
#include "aws_kit.h"

#include "base/mem.h"
#include "source/web/aws_given.h"
#include "source/web/web_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- written down ---------------------------------------------------------------------------- */

static void test_conf_file(void **st) {
    (void)st;
    static const char text[] = "# a comment\n[default]\naws_access_key_id = K1\n"
                               "aws_secret_access_key=S1=/+\n[profile work]\r\n"
                               "region = eu-west-1\r\naws_session_token = T\r\n"
                               "s3 =\n  endpoint_url = http://nested\n[ other ]\nregion=x\n";
    larder__aws_conf c = {0};
    bool found = false;
    check_ok(larder__aws_conf_parse(&c, &found, "default", text, "file"));
    assert_true(found);
    assert_string_equal(c.key, "K1");
    assert_string_equal(c.secret, "S1=/+");
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_parse(&c, &found, "profile work", text, "file"));
    assert_string_equal(c.region, "eu-west-1");
    assert_string_equal(c.token, "T");
    assert_string_equal(c.endpoint, "");
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_parse(&c, &found, "other", text, "file"));
    assert_string_equal(c.region, "x");
    found = false;
    check_ok(larder__aws_conf_parse(&c, &found, "work", text, "file"));
    assert_false(found);
    char long_line[600];
    snprintf(long_line, sizeof long_line, "[default]\naws_secret_access_key=%0500d\n", 7);
    c = (larder__aws_conf){0};
    assert_int_equal(larder__aws_conf_parse(&c, &found, "default", long_line, "file"),
                     LARDER_E_FORMAT);
    assert_null(strstr(larder_errmsg(), "0007"));
}

static void test_conf_order(void **st) {
    (void)st;
    char folder[256], path[512], config[512];
    kit_aws_clear();
    snprintf(path, sizeof path, "%s/credentials", check_folder(folder));
    snprintf(config, sizeof config, "%s/config", folder);
    static const char keys[] = "[default]\naws_access_key_id=K1\naws_secret_access_key=S1\n"
                               "[work]\naws_access_key_id=K2\naws_secret_access_key=S2\n";
    static const char settings[] = "[default]\nregion=r1\n[profile work]\nregion=r2\n"
                                   "[profile sso]\nsso_start_url=https://x\n";
    check_write(path, keys, sizeof keys - 1);
    check_write(config, settings, sizeof settings - 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    setenv("AWS_CONFIG_FILE", config, 1);
    larder__aws_conf c = {0};
    check_ok(larder__aws_conf_load(&c, ""));
    assert_string_equal(c.key, "K1");
    assert_string_equal(c.region, "r1");
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, "work"));
    assert_string_equal(c.secret, "S2");
    assert_string_equal(c.region, "r2");
    setenv("AWS_ACCESS_KEY_ID", "K3", 1); /* half a key is none */
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, ""));
    assert_string_equal(c.key, "K1");
    setenv("AWS_SECRET_ACCESS_KEY", "S3", 1);
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, ""));
    assert_string_equal(c.key, "K3");
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, "work")); /* what was asked for by name */
    assert_string_equal(c.key, "K2");
    c = (larder__aws_conf){0};
    assert_int_equal(larder__aws_conf_load(&c, "nobody"), LARDER_E_ARGS);
    kit_aws_clear();
    setenv("AWS_CONFIG_FILE", config, 1);
    larder__s3_conf conf = kit_s3_conf();
    conf.profile = "sso";
    larder__web_site *s;
    char *key;
    assert_int_equal(larder__web_site_s3(&s, &key, "//photos/", &conf), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "sso_start_url"));
    check_folder_remove(folder);
    kit_aws_clear();
}

/* ---- given by somebody ----------------------------------------------------------------------- */

static void test_given_answers(void **st) {
    (void)st;
    larder__aws_conf c = {0};
    check_ok(larder__aws_given_parse(
        &c,
        "{\"Version\": 1, \"AccessKeyId\": \"K\", \"SecretAccessKey\": \"s\\/+=\",\n"
        " \"SessionToken\": \"t\", \"Expiration\": \"2026-11-15T19:05:00Z\"}",
        "x"));
    assert_string_equal(c.key, "K");
    assert_string_equal(c.secret, "s/+=");
    assert_string_equal(c.token, "t");
    assert_int_equal(c.expires, 1794769500);
    char text[6000], token[2001];
    memset(token, 'z', sizeof token - 1);
    token[sizeof token - 1] = 0;
    snprintf(text, sizeof text,
             "{\"Code\":\"Success\",\"Token\":\"%s\",\"SecretAccessKey\":\"s\","
             "\"AccessKeyId\":\"K\",\"Expiration\":\"soon\"}",
             token);
    check_ok(larder__aws_given_parse(&c, text, "x"));
    assert_string_equal(c.token, token);
    assert_int_equal(c.expires, 0);
    static const char *const wrong[] = {
        "",
        "[]",
        "{\"AccessKeyId\":\"K\"}",
        "{\"AccessKeyId\":\"K\",\"SecretAccessKey\":\"hush\\n\"}",
        "{\"AccessKeyId\":7,\"SecretAccessKey\":\"hush\"}",
        "{\"AccessKeyId\":\"K\",\"SecretAccessKey\":\"hush\"",
        "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"x\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(larder__aws_given_parse(&c, wrong[i], "x"), LARDER_E_FORMAT);
        assert_string_equal(c.key, "");
        assert_string_equal(c.secret, "");
        assert_null(strstr(larder_errmsg(), "hush"));
    }
    snprintf(text, sizeof text, "{\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"s\"}", token);
    assert_int_equal(larder__aws_given_parse(&c, text, "x"), LARDER_E_FORMAT);
}

static void test_times(void **st) {
    (void)st;
    assert_int_equal(larder__aws_time("2026-11-15T19:05:00.123Z"), 1794769500);
    assert_int_equal(larder__aws_time("2026-11-15T19:05:00+00:00"), 1794769500);
    assert_int_equal(larder__aws_time("2026-11-15T20:35:00+01:30"), 1794769500);
    assert_int_equal(larder__aws_time("2026-11-15T18:05:00-01:00"), 1794769500);
    static const char *const wrong[] = {"",
                                        "soon",
                                        "2026-11-15",
                                        "2026-11-15T19:05:00",
                                        "2026-11-15T19:05:00x01:00",
                                        "2026-11-15T19:05:00Zx"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(larder__aws_time(wrong[i]), 0);
}

static void test_program(void **st) {
    (void)st;
    char out[64];
    check_ok(larder__program_run("printf 'a b'; echo no >&2", 60, out, sizeof out));
    assert_string_equal(out, "a b");
    check_ok(larder__program_run("cat; test ! -t 0", 60, out, sizeof out)); /* nothing to read */
    assert_string_equal(out, "");
    assert_int_equal(larder__program_run("echo hush; exit 3", 60, out, sizeof out), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "exit code 3"));
    assert_null(strstr(larder_errmsg(), "hush"));
    assert_int_equal(larder__program_run("kill -9 $$", 60, out, sizeof out), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "signal 9"));
    assert_int_equal(larder__program_run("yes", 60, out, sizeof out), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "more than 63 bytes"));
    assert_int_equal(larder__program_run("printf 'a\\000b'", 60, out, sizeof out), LARDER_E_IO);
    assert_int_equal(larder__program_run("sleep 600 & sleep 600", 0.05, out, sizeof out),
                     LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "took too long"));
}

/* Keys that are written down come before a program, and a program before services. */
static void test_given_order(void **st) {
    (void)st;
    char folder[256], config[512];
    kit_aws_clear();
    snprintf(config, sizeof config, "%s/config", check_folder(folder));
    static const char settings[] =
        "[default]\ncredential_process = printf '{\"AccessKeyId\":\"P\",\"SecretAccessKey\":"
        "\"s\"}'\n[profile bad]\ncredential_process=false\n[profile none]\nregion=r\n";
    check_write(config, settings, sizeof settings - 1);
    setenv("AWS_CONFIG_FILE", config, 1);
    larder__aws_conf c = {0};
    check_ok(larder__aws_conf_load(&c, ""));
    check_ok(larder__aws_given(&c));
    assert_string_equal(c.key, "P");
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/x", 1);
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, ""));
    check_ok(larder__aws_given(&c));
    assert_string_equal(c.key, "P");
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, "none"));
    assert_int_equal(larder__aws_given(&c), LARDER_E_ARGS); /* not over the net in the clear */
    setenv("AWS_ACCESS_KEY_ID", "K", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, ""));
    check_ok(larder__aws_given(&c));
    assert_string_equal(c.key, "K");
    kit_aws_clear();
    setenv("AWS_CONFIG_FILE", config, 1);
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, "bad"));
    assert_int_equal(larder__aws_given(&c), LARDER_E_IO);
    c = (larder__aws_conf){0};
    check_ok(larder__aws_conf_load(&c, "none"));
    check_ok(larder__aws_given(&c)); /* switched off */
    assert_string_equal(c.key, "");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/x", 1);
    larder__s3_conf conf = kit_s3_conf();
    conf.profile = "none";
    larder__web_site *s;
    char *key;
    assert_int_equal(larder__web_site_s3(&s, &key, "//photos/", &conf), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "AWS_WEB_IDENTITY_TOKEN_FILE"));
    conf.anonymous = true;
    check_ok(larder__web_site_s3(&s, &key, "//photos/", &conf));
    larder__web_site_close(&s);
    larder__free(key);
    check_folder_remove(folder);
    kit_aws_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conf_file),     cmocka_unit_test(test_conf_order),
        cmocka_unit_test(test_given_answers), cmocka_unit_test(test_times),
        cmocka_unit_test(test_program),       cmocka_unit_test(test_given_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
