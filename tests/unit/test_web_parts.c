/* What http: and s3: are made of, without a server: hashes, signatures, lists, pages, manifests and
 * heads. */
#include "aws_kit.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "source/web/sigv4.h"
#include "source/web/web_head.h"
#include "source/web/web_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hashes ---------------------------------------------------------------------------------- */

static void check_sum(const char *text, size_t repeat, const char *want) {
    unsigned char sum[LARDER__SHA256];
    char hex[2 * LARDER__SHA256 + 1];
    larder__sha256 x;
    larder__sha256_begin(&x);
    for (size_t i = 0; i < repeat; i++)
        larder__sha256_add(&x, text, strlen(text));
    larder__sha256_end(&x, sum);
    larder__sha256_hex(sum, hex);
    assert_string_equal(hex, want);
}

/* FIPS 180-4's examples, and lengths around a block's end. */
static void test_sha256(void **st) {
    (void)st;
    check_sum("", 1, LARDER__EMPTY_SHA256);
    check_sum("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sum("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    check_sum("a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check_sum("a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    check_sum("a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/* RFC 4231, cases 1, 2 and 6. */
static void test_hmac(void **st) {
    (void)st;
    unsigned char key[131], sum[LARDER__SHA256];
    char hex[2 * LARDER__SHA256 + 1];
    memset(key, 0x0b, 20);
    larder__hmac_sha256(key, 20, "Hi There", 8, sum);
    larder__sha256_hex(sum, hex);
    assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    larder__hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, sum);
    larder__sha256_hex(sum, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    larder__hmac_sha256(key, sizeof key, text, strlen(text), sum);
    larder__sha256_hex(sum, hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* The examples in Amazon's documentation of signature version 4 for S3. */
static void check_signature(const char *path, const larder__pair *query, size_t queries,
                            const char *range, const char *want) {
    larder__pair headers[4];
    size_t n = 0;
    headers[n++] = (larder__pair){"host", "examplebucket.s3.amazonaws.com"};
    if (range)
        headers[n++] = (larder__pair){"range", range};
    headers[n++] = (larder__pair){"x-amz-content-sha256", LARDER__EMPTY_SHA256};
    headers[n++] = (larder__pair){"x-amz-date", "20130524T000000Z"};
    larder__sigv4 s = {.method = "GET",
                       .path = path,
                       .query = query,
                       .query_count = queries,
                       .headers = headers,
                       .header_count = n,
                       .region = "us-east-1",
                       .service = "s3",
                       .key = "AKIAIOSFODNN7EXAMPLE",
                       .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                       .date = "20130524T000000Z"};
    larder__text out = {0};
    check_ok(larder__sigv4_sign(&s, &out));
    const char *signature = strstr(out.at, "Signature=");
    assert_non_null(signature);
    assert_string_equal(signature + 10, want);
    assert_null(strstr(out.at, "wJalr"));
    larder__text_free(&out);
}

static void test_signatures(void **st) {
    (void)st;
    check_signature("/test.txt", NULL, 0, "bytes=0-9",
                    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    const larder__pair lifecycle[] = {{"lifecycle", ""}};
    check_signature("/", lifecycle, 1, NULL,
                    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    const larder__pair list[] = {{"prefix", "J"}, {"max-keys", "2"}};
    check_signature("/", list, 2, NULL,
                    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_query(void **st) {
    (void)st;
    const larder__pair query[] = {{"b", "x y+z"}, {"a-b", "1"}, {"a", "\xc3\xa4/~"}, {"a", "0"}};
    larder__text out = {0};
    check_ok(larder__sigv4_query(&out, query, 4));
    assert_string_equal(out.at, "a=%C3%A4%2F~&a=0&a-b=1&b=x%20y%2Bz");
    larder__text_free(&out);
}

/* ---- sites ----------------------------------------------------------------------------------- */

static void check_url(const larder__s3_conf *conf, const char *where, const char *want) {
    larder__web_site *s;
    larder__dressed d;
    char *key;
    check_ok(larder__web_site_s3(&s, &key, where, conf));
    check_ok(larder__web_site_dress(s, &d, "GET", key, NULL, 0, "", ""));
    assert_string_equal(d.url.at, want);
    larder__dressed_free(&d);
    larder__web_site_close(&s);
    larder__free(key);
}

/* The bucket in the host's name where that works, in the path where it must be. */
static void test_styles(void **st) {
    (void)st;
    kit_aws_clear();
    larder__s3_conf conf = kit_s3_conf();
    check_url(&conf, "//photos/a b/c.jpg", "https://photos.s3.us-east-1.amazonaws.com/a%20b/c.jpg");
    check_url(&conf, "//pho.tos/x", "https://s3.us-east-1.amazonaws.com/pho.tos/x");
    conf.region = "eu-west-1";
    conf.style = "path";
    check_url(&conf, "//photos/x", "https://s3.eu-west-1.amazonaws.com/photos/x");
    conf.endpoint = "http://127.0.0.1:9000";
    conf.style = "auto";
    check_url(&conf, "//photos/x", "http://127.0.0.1:9000/photos/x");
    conf.style = "virtual";
    conf.endpoint = "https://store.example:8443/";
    check_url(&conf, "//photos/", "https://photos.store.example:8443/");
    setenv("AWS_ENDPOINT_URL", "http://elsewhere:1", 1);
    setenv("AWS_REGION", "us-west-2", 1);
    conf = kit_s3_conf();
    check_url(&conf, "//photos/x", "http://elsewhere:1/photos/x");
    kit_aws_clear();
}

static void test_wrong_places(void **st) {
    (void)st;
    kit_aws_clear();
    static const char *const wrong[] = {"photos", "///x",       "//a b/x",
                                        "//a%/x", "//pho:80/x", "//user:secret@host/x"};
    larder__s3_conf conf = kit_s3_conf();
    larder__web_site *s;
    char *key;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(larder__web_site_s3(&s, &key, wrong[i], &conf), LARDER_E_ARGS);
        assert_null(s);
        assert_null(strstr(larder_errmsg(), "secret"));
    }
    larder__http_conf http = {"", ""};
    assert_int_equal(larder__web_site_http(&s, &key, "http", "//u:secret@h/x", &http),
                     LARDER_E_ARGS);
    assert_null(strstr(larder_errmsg(), "secret"));
    static const char *const endpoints[] = {"ftp://x", "http://", "http://a b", "https:///"};
    for (size_t i = 0; i < 4; i++) {
        conf.endpoint = endpoints[i];
        assert_int_equal(larder__web_site_s3(&s, &key, "//photos/", &conf), LARDER_E_ARGS);
    }
    http.bearer = "NO_SUCH_VARIABLE";
    assert_int_equal(larder__web_site_http(&s, &key, "http", "//h/x", &http), LARDER_E_ARGS);
    http = (larder__http_conf){"", "NO_SUCH_VARIABLE"};
    assert_int_equal(larder__web_site_http(&s, &key, "http", "//h/x", &http), LARDER_E_ARGS);
    setenv("LARDER_TEST_QUERY", "a=secret b", 1);
    http.query = "LARDER_TEST_QUERY";
    assert_int_equal(larder__web_site_http(&s, &key, "http", "//h/x", &http), LARDER_E_ARGS);
    assert_null(strstr(larder_errmsg(), "secret"));
}

/* A query of the URL's own, alone or as part of a whole URL, goes behind every object's. */
static void test_own_query(void **st) {
    (void)st;
    static const char *const texts[] = {"a=1&sig=%2Bx", "https://h/y.tar?a=1&sig=%2Bx"};
    larder__http_conf http = {"", "LARDER_TEST_QUERY"};
    for (size_t i = 0; i < 2; i++) {
        larder__web_site *s;
        larder__dressed d;
        char *key;
        setenv("LARDER_TEST_QUERY", texts[i], 1);
        check_ok(larder__web_site_http(&s, &key, "https", "//h/x y.tar", &http));
        check_ok(larder__web_site_dress(s, &d, "GET", key, NULL, 0, "", ""));
        assert_string_equal(d.url.at, "https://h/x%20y.tar?a=1&sig=%2Bx");
        assert_string_equal(larder__web_site_shown(s), "https://h/");
        larder__dressed_free(&d);
        larder__web_site_close(&s);
        larder__free(key);
    }
    unsetenv("LARDER_TEST_QUERY");
}

static void check_trust(larder__web_site *s, bool trusted, const char *const *urls) {
    for (size_t i = 0; urls[i]; i++)
        if (larder__web_site_trusts(s, urls[i]) != trusted)
            fail_msg("%s is %strusted", urls[i], trusted ? "not " : "");
}

/* Of bucket "photos" at `endpoint`: what its server may send a signed request on to. */
static void check_endpoint(const char *endpoint, const char *const *fine,
                           const char *const *others) {
    larder__s3_conf conf = kit_s3_conf();
    larder__web_site *s;
    char *key;
    conf.endpoint = endpoint;
    check_ok(larder__web_site_s3(&s, &key, "//photos/", &conf));
    check_trust(s, true, fine);
    check_trust(s, false, others);
    larder__web_site_close(&s);
    larder__free(key);
}

static void test_trust(void **st) {
    (void)st;
    kit_aws_clear();
    static const char *const amazon[] = {"https://photos.s3.eu-west-1.amazonaws.com/x",
                                         "https://photos.s3.amazonaws.com/x",
                                         "https://s3.eu-west-1.amazonaws.com:443/photos/x",
                                         "https://photos.s3-eu-west-1.amazonaws.com/x",
                                         "https://photos.s3.dualstack.eu-west-1.AmazonAWS.com/x",
                                         NULL};
    static const char *const not_amazon[] = {"",
                                             "ftp://photos.s3.eu-west-1.amazonaws.com/x",
                                             "http://photos.s3.eu-west-1.amazonaws.com/x",
                                             "https://photos.s3.eu-west-1.amazonaws.com:8443/x",
                                             "https://photos.s3.eu-west-1.amazonaws.com.cn/x",
                                             "https://amazonaws.com.example.org/x",
                                             "https://s3.amazonaws.com.example.org/x",
                                             "https://s3.example-amazonaws.com/x",
                                             "https://user@s3.eu-west-1.amazonaws.com/x",
                                             "https://ec2-192-0-2-1.compute-1.amazonaws.com/x",
                                             "https://s3-name-1.us-east-1.elb.amazonaws.com/x",
                                             "https://s3evil.amazonaws.com/x",
                                             "https://.amazonaws.com/x",
                                             "https://amazonaws.com/x",
                                             NULL};
    check_endpoint("", amazon, not_amazon);

    static const char *const local[] = {"http://127.0.0.1:9000/photos/x", "http://127.0.0.1:9000",
                                        "http://127.0.0.1:9000?x", NULL};
    static const char *const not_local[] = {
        "http://127.0.0.1:9001/photos/x", "http://127.0.0.1/photos/x", "http://127.0.0.1:/x",
        "https://127.0.0.1/photos/x",     "http://10.0.0.1:9000/x",    "http://127.0.0.1:9000x/y",
        "http://[::1]:9000/photos/x",     "http://127.0.0.1:90000/x",  NULL};
    check_endpoint("http://127.0.0.1:9000", local, not_local);

    static const char *const named[] = {"http://x.co.uk/photos/x", "http://x.co.uk:80/",
                                        "http://photos.x.co.uk/x", "https://X.co.uk/photos/x",
                                        NULL};
    static const char *const not_named[] = {"http://evil.co.uk/photos/x", "http://co.uk/x",
                                            "http://other.x.co.uk/x",     "http://x.co.uk:8080/x",
                                            "https://x.co.uk:8443/x",     NULL};
    check_endpoint("http://x.co.uk", named, not_named);

    static const char *const six[] = {"http://[::1]:9000/photos/x", NULL};
    static const char *const not_six[] = {"http://[::1]:9001/x", "http://[::2]:9000/x",
                                          "http://[::1", "http://[::1]x:9000/", NULL};
    check_endpoint("http://[::1]:9000", six, not_six);
}

static void test_move(void **st) {
    (void)st;
    kit_aws_clear();
    larder__s3_conf conf = kit_s3_conf();
    larder__web_site *s;
    char *key;
    check_ok(larder__web_site_s3(&s, &key, "//photos/", &conf));
    assert_true(larder__web_site_move(s, "eu-west-1"));
    assert_false(larder__web_site_move(s, "eu-west-1"));
    assert_false(larder__web_site_move(s, "a/b"));
    larder__web_site_close(&s);
    larder__free(key);
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct seen {
    char names[8][64];
    larder__listed of[8];
    size_t used;
} seen;

static int take(void *arg, const larder__listed *l) {
    seen *s = arg;
    assert_true(s->used < 8);
    snprintf(s->names[s->used], 64, "%.*s", (int)l->n, l->name);
    s->of[s->used++] = *l;
    return 0;
}

static void test_s3_list(void **st) {
    (void)st;
    char token[LARDER__LIST_TOKEN];
    char text[] = "<?xml version=\"1.0\"?><!-- x --><ListBucketResult xmlns=\"y\"><Name>b</Name>"
                  "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                  "<Contents><Key>a+b%26c/%C3%A4.jpg</Key><ETag>&quot;abc&quot;</ETag>"
                  "<Size>12</Size><Owner><ID>z</ID></Owner></Contents>"
                  "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes><x/>"
                  "<NextContinuationToken>t&amp;1=</NextContinuationToken></ListBucketResult>";
    seen s = {0};
    check_ok(larder__s3_list_parse(text, strlen(text), take, &s, token));
    assert_int_equal(s.used, 2);
    assert_string_equal(s.names[0], "a b&c/\xc3\xa4.jpg");
    assert_int_equal(s.of[0].bytes, 12);
    assert_int_equal(s.of[0].tag, larder__etag_tag("\"abc\"", 5));
    assert_int_equal(s.of[0].tag, larder__etag_tag("W/\"abc\"", 7));
    assert_true(s.of[1].folder);
    assert_string_equal(token, "t&1=");
    static const char *const wrong[] = {
        "",
        "no",
        "<a></a>",
        "<ListBucketResult>",
        "</ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key></Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char copy[200];
        snprintf(copy, sizeof copy, "%s", wrong[i]);
        s.used = 0;
        assert_int_equal(larder__s3_list_parse(copy, strlen(copy), take, &s, token),
                         LARDER_E_FORMAT);
    }
}

static void test_s3_error(void **st) {
    (void)st;
    larder__s3_error e;
    char text[] = "<Error><Code>SlowDown</Code><Message>Please &lt;reduce&gt;</Message>"
                  "<Region>eu-west-1</Region></Error>";
    larder__s3_error_parse(text, strlen(text), &e);
    assert_string_equal(e.code, "SlowDown");
    assert_string_equal(e.message, "Please <reduce>");
    assert_string_equal(e.region, "eu-west-1");
    char other[] = "<html><title>502</title>";
    larder__s3_error_parse(other, strlen(other), &e);
    assert_string_equal(e.code, "");
    assert_string_equal(e.region, "");
}

static void test_pages(void **st) {
    (void)st;
    char html[] =
        "<html><a href=\"../\">../</a>\n<a href=\"d%20e/\">d e/</a>   15-Nov-2026 14:25       -\n"
        "<a href=\"x&amp;y.jpg\">x</a>      15-Nov-2026 14:25                4502\n"
        "<A HREF=\"big.jpg\">b</a> 12K\n<a href=\"?C=N\">o</a><a href=\"/up\">u</a>"
        "<a href=\"http://h/x\">h</a><a href=\"a/b\">n</a><a href=\"q.jpg?x=1\">q</a>";
    seen s = {0};
    check_ok(larder__page_parse(html, strlen(html), take, &s));
    assert_int_equal(s.used, 4);
    assert_string_equal(s.names[0], "d e/");
    assert_true(s.of[0].folder);
    assert_string_equal(s.names[1], "x&y.jpg");
    assert_int_equal(s.of[1].bytes, 4502);
    assert_string_equal(s.names[2], "big.jpg");
    assert_true(s.of[2].bytes == LARDER__BYTES_UNKNOWN);
    assert_string_equal(s.names[3], "q.jpg");
    char json[] = "[\n{ \"name\":\"a\", \"type\":\"directory\", \"mtime\":\"x\" },\n"
                  "{ \"name\":\"b}\\\".jpg\", \"type\":\"file\", \"size\":7 },\n"
                  "{ \"name\":\"p\", \"type\":\"other\" }, {\"name\":\"s/t\",\"type\":\"file\"}]";
    s = (seen){0};
    check_ok(larder__page_parse(json, strlen(json), take, &s));
    assert_int_equal(s.used, 2);
    assert_string_equal(s.names[0], "a/");
    assert_string_equal(s.names[1], "b}\".jpg");
    assert_int_equal(s.of[1].bytes, 7);
    char cut[] = "[{\"name\":\"a\"";
    assert_int_equal(larder__page_parse(cut, strlen(cut), take, &s), LARDER_E_FORMAT);
    static const char *const whole[] = {"[]\n", " [{\"name\":\"a\"}] ", "<A HREF=\"a\"></A></HTML>",
                                        "<a href=\"a\"></a></body></html >\n<!-- 3 ms -->\n"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_true(larder__page_is_whole(whole[i], strlen(whole[i])));
    static const char *const half[] = {
        "", " ", "[", "[{\"name\":\"a\"},\n", "<html><a href=\"a\"></a>\n", "</htm"};
    for (size_t i = 0; i < sizeof half / sizeof *half; i++)
        assert_false(larder__page_is_whole(half[i], strlen(half[i])));
    char none[] = "<html>It works!</html>";
    assert_int_equal(larder__page_parse(none, strlen(none), take, &s), LARDER_E_FORMAT);
}

static void test_manifests(void **st) {
    (void)st;
    char text[] = "# names\r\na/b.jpg\n\nc d.jpg\t12\r\ne.jpg\t-\t3\n";
    seen s = {0};
    check_ok(larder__manifest_parse(text, strlen(text), "m", take, &s));
    assert_int_equal(s.used, 3);
    assert_string_equal(s.names[1], "c d.jpg");
    assert_int_equal(s.of[1].bytes, 12);
    assert_int_equal(s.of[1].label, -1);
    assert_true(s.of[2].bytes == LARDER__BYTES_UNKNOWN);
    assert_int_equal(s.of[2].label, 3);
    static const char *const wrong[] = {"a\tx", "a\t1\t-1",   "a\t1\t",
                                        "\t1",  "http://h/x", "a\t99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", wrong[i]);
        assert_int_equal(larder__manifest_parse(copy, strlen(copy), "m", take, &s),
                         LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "line 1"));
    }
}

/* ---- heads ----------------------------------------------------------------------------------- */

static void add_line(larder__web_head *h, const char *line) {
    larder__web_head_line(h, line, strlen(line), 1000000000);
}

static void test_heads(void **st) {
    (void)st;
    larder__web_head h = {0};
    add_line(&h, "ETag: \"early\"\r\n"); /* before any status */
    assert_int_equal(h.tag, 0);
    add_line(&h, "HTTP/1.1 301 Moved\r\n");
    add_line(&h, "Location: http://h/x\r\n");
    assert_string_equal(h.location, "http://h/x");
    add_line(&h, "HTTP/1.1 206 Partial Content\r\n");
    assert_string_equal(h.location, "");
    assert_false(h.framed);
    add_line(&h, "Transfer-Encoding: identity\r\n");
    assert_false(h.framed);
    add_line(&h, "Transfer-Encoding: gzip, Chunked\r\n");
    assert_true(h.framed);
    add_line(&h, "HTTP/1.1 206 Partial Content\r\n");
    assert_false(h.framed);
    add_line(&h, "content-LENGTH:10\r\n");
    assert_true(h.framed);
    add_line(&h, "Content-Range: bytes 5-14/100\r\n");
    add_line(&h, "Last-Modified: Sun, 15 Nov 2026 14:25:00 GMT\r\n");
    uint64_t by_date = h.tag;
    assert_int_equal(by_date & 1, 0);
    add_line(&h, "ETag: \"abc\"\r\n");
    assert_int_equal(h.tag, larder__etag_tag("abc", 3));
    assert_false(larder__tags_differ(h.tag, by_date)); /* of two kinds: no telling */
    assert_int_equal(h.status, 206);
    assert_int_equal(h.length, 10);
    assert_true(h.ranged && h.first == 5 && h.last == 14 && h.total == 100);
    add_line(&h, "HTTP/2 503");
    assert_true(h.status == 503 && h.framed && !h.ranged && h.length == LARDER__BYTES_UNKNOWN);
    add_line(&h, "Retry-After: 7");
    assert_true(h.retry_after == 7);
    add_line(&h, "Retry-After: Sun, 09 Sep 2001 01:46:45 GMT"); /* 5 s after 1000000000 */
    assert_true(h.retry_after == 5);
    static const char *const wrong[] = {"bytes 5-4/10",
                                        "bytes 5-14/14",
                                        "bytes -/3",
                                        "bytes a-b/c",
                                        "bytes 1-2",
                                        "items 1-2/3",
                                        "bytes 1-99999999999999999999/*"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[100];
        add_line(&h, "HTTP/1.1 206 x");
        snprintf(line, sizeof line, "Content-Range: %s", wrong[i]);
        add_line(&h, line);
        assert_false(h.ranged);
    }
    add_line(&h, "Content-Range: bytes 1-2/*");
    assert_true(h.ranged && h.total == LARDER__BYTES_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),     cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_signatures), cmocka_unit_test(test_query),
        cmocka_unit_test(test_styles),     cmocka_unit_test(test_wrong_places),
        cmocka_unit_test(test_trust),      cmocka_unit_test(test_move),
        cmocka_unit_test(test_own_query),  cmocka_unit_test(test_s3_list),
        cmocka_unit_test(test_s3_error),   cmocka_unit_test(test_pages),
        cmocka_unit_test(test_manifests),  cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
