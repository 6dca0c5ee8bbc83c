/* A cache in Redis over TLS: the same samples and pixels as without, certificates are checked in
 * every way, and what is refused says why. */
#include "loader_kit.h"
#include "redis_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE "mem:?n=400&h=8&w=8&c=3"
enum { N = 400, BATCH = 16, MOST = 200 };

typedef struct outcome {
    uint64_t digests[MOST];
    size_t count;
    double asked, lost;
} outcome;

static char folder[256]; /* ca, other (another ca), server, named, client, locked: .pem and .key */

static void shell(const char *format, ...) {
    char line[2000];
    va_list more;
    va_start(more, format);
    vsnprintf(line, sizeof line, format, more); // NOLINT(clang-diagnostic-format-nonliteral)
    va_end(more);
    if (system(line) != 0)
        fail_msg("did not work: %s", line);
}

static void make_key(const char *name) {
    shell("openssl ecparam -name prime256v1 -genkey -noout -out %s/%s.key 2>/dev/null", folder,
          name);
}

static void make_ca(const char *name) {
    make_key(name);
    shell("openssl req -x509 -new -key %s/%s.key -days 30 -subj /CN=%s -out %s/%s.pem 2>/dev/null",
          folder, name, name, folder, name);
}

static void make_certificate(const char *name, const char *about) {
    make_key(name);
    shell("cd %s && printf 'subjectAltName=%s' >ext && openssl req -new -key %s.key -subj /CN=x "
          "-out req 2>/dev/null && openssl x509 -req -in req -CA ca.pem -CAkey ca.key "
          "-CAcreateserial -days 30 -extfile ext -out %s.pem 2>/dev/null",
          folder, about, name, name);
}

static const char *lacking; /* why nothing was made */

static int make_all(void **unused) {
    (void)unused;
    if (!kit_redis_there())
        lacking = "no Redis server, or a build without hiredis";
    else if (strstr(larder_features(), "-tls"))
        lacking = "a build without TLS for Redis";
    else if (system("openssl version >/dev/null 2>&1") != 0)
        lacking = "no openssl to make certificates with";
    if (lacking)
        return 0;
    check_folder(folder);
    make_ca("ca");
    make_ca("other");
    make_certificate("server", "IP:127.0.0.1,DNS:localhost");
    make_certificate("named", "DNS:store.example");
    make_certificate("client", "DNS:client");
    make_key("plain");
    shell("openssl ec -in %s/client.key -aes128 -passout pass:x -out %s/locked.key 2>/dev/null",
          folder, folder);
    return 0;
}

static int remove_all(void **unused) {
    (void)unused;
    if (folder[0])
        check_folder_remove(folder);
    return 0;
}

#define tls_or_skip()                                                                              \
    do {                                                                                           \
        if (!folder[0])                                                                            \
            skip_since(lacking);                                                                   \
    } while (0)

/* A server that speaks TLS on a second port, which is answered. */
static uint16_t start(kit_redis *r, const char *certificate, const char *who, const char *more) {
    char cert[300], key[300], ca[300], port[8];
    uint16_t tls = kit_free_port();
    snprintf(port, sizeof port, "%u", tls);
    snprintf(cert, sizeof cert, "%s/%s.pem", folder, certificate);
    snprintf(key, sizeof key, "%s/%s.key", folder, certificate);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    kit_redis_start(r, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
                    "--tls-ca-cert-file", ca, "--tls-auth-clients", who, more, more ? "yes" : NULL,
                    "--tls-cluster", "yes", NULL);
    return tls;
}

static void run(outcome *out, const char *cache) {
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    larder_loader *l;
    c.cache = cache;
    c.epochs = 3;
    c.threads = 3;
    *out = (outcome){0};
    check_ok(larder_loader_open(&l, &c));
    out->count = kit_run(l, out->digests, N / BATCH);
    if (strstr(cache, "redis")) /* else what is still being written is served from here */
        for (int i = 0; i < 600 && kit_stat(l, "redis_written") < N * 2 / 5; i++)
            kit_nap(0.05);
    out->count += kit_run(l, out->digests + out->count, MOST);
    if (strstr(cache, "redis")) {
        out->asked = kit_stat(l, "redis_asked");
        out->lost = kit_stat(l, "redis_lost");
    }
    larder_loader_close(&l);
}

static void same(const outcome *a, const outcome *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->digests, b->digests, a->count * sizeof *a->digests);
}

static void refused(const char *word, const char *format, ...) {
    char cache[900];
    va_list more;
    va_start(more, format);
    vsnprintf(cache, sizeof cache, format, more); // NOLINT(clang-diagnostic-format-nonliteral)
    va_end(more);
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    larder_loader *l = NULL;
    c.cache = cache;
    assert_true(larder_loader_open(&l, &c) < 0);
    if (!strstr(larder_errmsg(), word))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), word);
}

static void test_served(void **unused) {
    (void)unused;
    static outcome a, b;
    kit_redis r;
    char cache[900];
    tls_or_skip();
    run(&a, "40%");
    uint16_t port = start(&r, "server", "no", NULL);
    snprintf(cache, sizeof cache, "rediss://127.0.0.1:%u?budget=40%%&timeout=30s&ca=%s/ca.pem",
             port, folder);
    run(&b, cache);
    same(&a, &b);
    assert_true(b.asked > 100 && b.lost == 0);
    snprintf(cache, sizeof cache, "rediss://localhost:%u?budget=40%%&timeout=30s&ca=%s/ca.pem",
             port, folder);
    run(&b, cache);
    same(&a, &b);
    kit_redis_stop(&r);
}

static void test_cluster(void **unused) {
    (void)unused;
    static outcome a, b;
    kit_redis r;
    char cache[900], out[200];
    tls_or_skip();
    run(&a, "40%");
    uint16_t port = start(&r, "server", "no", "--cluster-enabled");
    kit_redis_cli(&r, "cluster addslotsrange 0 16383", out, sizeof out);
    for (int i = 0; i < 200; i++) {
        if (strstr(kit_redis_cli(&r, "cluster info", out, sizeof out), "cluster_state:ok"))
            break;
        kit_nap(0.05);
    }
    snprintf(cache, sizeof cache,
             "rediss-cluster://127.0.0.1:%u?budget=40%%&timeout=30s&ca=%s/ca.pem", port, folder);
    run(&b, cache);
    same(&a, &b);
    assert_true(b.asked > 100 && b.lost == 0);
    kit_redis_stop(&r);
}

static void test_certificates(void **unused) {
    (void)unused;
    static outcome a, b;
    kit_redis r, named;
    char cache[900];
    tls_or_skip();
    run(&a, "40%");
    uint16_t port = start(&r, "server", "yes", NULL), other = start(&named, "named", "no", NULL);
    /* Nobody we believe has signed it. */
    refused("certificate is not believed", "rediss://127.0.0.1:%u?timeout=30s", port);
    refused("certificate is not believed", "rediss://127.0.0.1:%u?timeout=30s&ca=%s/other.pem",
            port, folder);
    /* It is about somebody else. */
    refused("name=", "rediss://127.0.0.1:%u?timeout=30s&ca=%s/ca.pem", other, folder);
    refused("name=", "rediss://localhost:%u?timeout=30s&ca=%s/ca.pem", other, folder);
    snprintf(cache, sizeof cache,
             "rediss://127.0.0.1:%u?budget=40%%&timeout=30s&ca=%s/ca.pem&name=store.example", other,
             folder);
    run(&b, cache);
    same(&a, &b);
    /* It wants to know who we are. */
    refused("cert=", "rediss://127.0.0.1:%u?timeout=30s&ca=%s/ca.pem", port, folder);
    refused("key=",
            "rediss://127.0.0.1:%u?timeout=30s&ca=%s/ca.pem&cert=%s/client.pem&key=%s/plain.key",
            port, folder, folder, folder);
    refused("password",
            "rediss://127.0.0.1:%u?timeout=30s&ca=%s/ca.pem&cert=%s/client.pem&key=%s/locked.key",
            port, folder, folder, folder);
    refused("nowhere", "rediss://127.0.0.1:%u?timeout=30s&ca=/nowhere/ca.pem", port);
    refused("nowhere",
            "rediss://127.0.0.1:%u?timeout=30s&ca=%s/ca.pem&cert=/nowhere/c&key=/nowhere/k", port,
            folder);
    snprintf(cache, sizeof cache,
             "rediss://127.0.0.1:%u?budget=40%%&timeout=30s&ca=%s/ca.pem&cert=%s/client.pem&"
             "key=%s/client.key",
             port, folder, folder, folder);
    run(&b, cache);
    same(&a, &b);
    /* The wrong port, either way. */
    refused("plain port", "rediss://127.0.0.1:%u?timeout=1s&ca=%s/ca.pem", r.port, folder);
    refused("127.0.0.1", "redis://127.0.0.1:%u?timeout=1s&wait=0&absent=fail", port);
    kit_redis_stop(&r);
    kit_redis_stop(&named);
}

/* The connection is cut and stalls in the middle of records. */
static void test_network(void **unused) {
    (void)unused;
    static outcome a, b;
    kit_redis r;
    kit_proxy p;
    larder_loader *l;
    char cache[900];
    tls_or_skip();
    run(&a, "40%");
    uint16_t port = start(&r, "server", "no", NULL);
    kit_proxy_start(&p, port);
    snprintf(cache, sizeof cache, "rediss://127.0.0.1:%u?budget=40%%&timeout=100ms&ca=%s/ca.pem",
             p.port, folder);
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    c.cache = cache;
    c.epochs = 3;
    c.threads = 3;
    int rc = -1; /* on a busy machine shaking hands may take longer than this time-out allows */
    for (int i = 0; i < 20 && rc < 0; i++)
        rc = larder_loader_open(&l, &c);
    check_ok(rc);
    b = (outcome){0};
    for (int i = 0; i < 12; i++) {
        b.count += kit_run(l, b.digests + b.count, 5);
        p.mode = i % 3;
        kit_nap(0.05);
    }
    p.mode = KIT_PASS;
    b.count += kit_run(l, b.digests + b.count, MOST - b.count);
    same(&a, &b);
    for (int i = 0; i < 600 && kit_stat(l, "redis_attached") < 1; i++)
        kit_nap(0.05);
    assert_true(kit_stat(l, "redis_attached") == 1);
    larder_loader_close(&l);
    kit_proxy_stop(&p);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_served),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_certificates),
        cmocka_unit_test(test_network),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
