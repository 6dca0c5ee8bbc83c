/* What is made of every status and of every end of a connection: what passes is tried again, all
 * else ends with a code and a sentence that says what happened. */
#include "check.h"

#if LARDER_HAVE_CURL
#include "base/mem.h"
#include "source/web/web_inside.h"

#include <string.h>

typedef struct verdict {
    larder__web_request request;
    larder__web_outcome outcome;
    double wait;
} verdict;

/* Of a GET of an object of ten bytes, or of S3's with an error's text. */
static verdict judge(int status, CURLcode end, const char *error) {
    static const larder__s3_conf s3 = {"", "eu-west-1", "", "path", true, false, NULL};
    static const larder__http_conf http = {"", ""};
    larder__web_site *site = NULL;
    char *key = NULL;
    verdict v = {.request = {.key = "a/b.tar", .bytes = 10}};
    check_ok(error ? larder__web_site_s3(&site, &key, "//photos/a", &s3)
                   : larder__web_site_http(&site, &key, "https", "//h/a", &http));
    check_ok(larder__web_begin());
    CURL *easy = curl_easy_init();
    larder__web_try *t = larder__calloc(1, sizeof *t);
    assert_true(easy && t);
    t->easy = easy;
    t->request = &v.request;
    t->head.status = status;
    t->head.retry_after = 7;
    if (error)
        t->error_size = (size_t)snprintf(t->error_body, sizeof t->error_body,
                                         "<Error><Code>%s</Code></Error>", error);
    v.outcome = larder__web_judge(t, site, end, &v.wait);
    larder__text_free(&v.request.text);
    larder__free(t);
    curl_easy_cleanup(easy);
    larder__web_site_close(&site);
    larder__free(key);
    return v;
}

static void is(const verdict *v, larder__web_outcome outcome, int code, const char *why) {
    if (v->outcome != outcome || v->request.code != code || !strstr(v->request.why, why))
        fail_msg("%d and %d, not %d and %d: \"%s\" does not say \"%s\"", (int)v->outcome,
                 v->request.code, (int)outcome, code, v->request.why, why);
}

static void test_statuses(void **state) {
    (void)state;
    static const int passing[] = {408, 425, 429, 500, 502, 503, 504};
    for (int status = 400; status < 600; status++) {
        bool passes = false;
        for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
            passes |= status == passing[i];
        int code = status == 404 || status == 410                    ? LARDER_E_NOTFOUND
                   : status == 412 || status == 416                  ? LARDER_E_CHANGED
                   : status == 405 || status == 501 || status == 505 ? LARDER_E_UNSUPPORTED
                                                                     : LARDER_E_IO;
        char number[16];
        snprintf(number, sizeof number, "(%d)", status);
        verdict v = judge(status, CURLE_OK, NULL);
        is(&v, passes ? LARDER__WEB_AGAIN : LARDER__WEB_FAILED, code, number);
        assert_true(v.wait == 7); /* as the server said */
    }
    /* Of an error whose page does not end, which nobody hears out. */
    verdict endless = judge(404, CURLE_WRITE_ERROR, NULL);
    is(&endless, LARDER__WEB_FAILED, LARDER_E_NOTFOUND, "there is no such object (404)");
    endless = judge(503, CURLE_WRITE_ERROR, "SlowDown");
    is(&endless, LARDER__WEB_AGAIN, LARDER_E_IO, "503 SlowDown");
    static const struct {
        int status;
        const char *why;
    } said[] = {{401, "access is denied"},
                {403, "access is denied"},
                {410, "there is no such object"},
                {412, "it was changed while in use"},
                {429, "overloaded"},
                {503, "overloaded"},
                {500, "the server failed"},
                {418, "the server refused"}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_non_null(strstr(judge(said[i].status, CURLE_OK, NULL).request.why, said[i].why));
}

static void test_errors_of_s3(void **state) {
    (void)state;
    static const char *const passing[] = {"RequestTimeout", "SlowDown", "InternalError"};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        verdict v = judge(400, CURLE_OK, passing[i]);
        is(&v, LARDER__WEB_AGAIN, LARDER_E_IO, passing[i]);
    }
    static const char *const final[][2] = {
        {"NoSuchBucket", "there is no such bucket"},
        {"ExpiredToken", "renew the credentials"},
        {"TokenRefreshRequired", "renew the credentials"},
        {"SignatureDoesNotMatch", "secret key is not the one"},
        {"InvalidAccessKeyId", "does not know this key id"},
    };
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        verdict v = judge(403, CURLE_OK, final[i][0]);
        is(&v, LARDER__WEB_FAILED, LARDER_E_IO, final[i][1]);
    }
}

static void test_connections(void **state) {
    (void)state;
    static const struct {
        CURLcode end;
        larder__web_outcome outcome;
        int code;
        const char *why;
    } all[] = {
        {CURLE_COULDNT_RESOLVE_HOST, LARDER__WEB_AGAIN, LARDER_E_IO, "no address is known"},
        {CURLE_COULDNT_RESOLVE_PROXY, LARDER__WEB_AGAIN, LARDER_E_IO, "no address is known"},
        {CURLE_COULDNT_CONNECT, LARDER__WEB_AGAIN, LARDER_E_IO, "no connection to"},
        {CURLE_OPERATION_TIMEDOUT, LARDER__WEB_AGAIN, LARDER_E_IO, "in time"},
        {CURLE_PEER_FAILED_VERIFICATION, LARDER__WEB_FAILED, LARDER_E_IO, "is not trusted"},
        {CURLE_SSL_CACERT_BADFILE, LARDER__WEB_FAILED, LARDER_E_IO, "is not trusted"},
        {CURLE_TOO_MANY_REDIRECTS, LARDER__WEB_FAILED, LARDER_E_IO, "redirected more than"},
        {CURLE_OUT_OF_MEMORY, LARDER__WEB_FAILED, LARDER_E_NOMEM, "out of memory"},
        {CURLE_PARTIAL_FILE, LARDER__WEB_AGAIN, LARDER_E_IO, "broke off after 0 bytes"},
        {CURLE_RECV_ERROR, LARDER__WEB_AGAIN, LARDER_E_IO, "broke off"},
        {CURLE_GOT_NOTHING, LARDER__WEB_AGAIN, LARDER_E_IO, "broke off"},
        {CURLE_HTTP2, LARDER__WEB_AGAIN, LARDER_E_IO, "broke off"},
        {CURLE_HTTP2_STREAM, LARDER__WEB_AGAIN, LARDER_E_IO, "broke off"},
        {CURLE_SEND_ERROR, LARDER__WEB_AGAIN, LARDER_E_IO, "broke"},
        {CURLE_SSL_CONNECT_ERROR, LARDER__WEB_AGAIN, LARDER_E_IO, "no TLS connection"},
        {CURLE_UNSUPPORTED_PROTOCOL, LARDER__WEB_FAILED, LARDER_E_IO, ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        verdict v = judge(0, all[i].end, NULL);
        is(&v, all[i].outcome, all[i].code, all[i].why);
        assert_true(v.request.why[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_errors_of_s3),
        cmocka_unit_test(test_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 77; }
#endif
