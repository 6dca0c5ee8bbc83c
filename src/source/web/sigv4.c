#include "source/web/sigv4.h"

#include "base/err.h"
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void larder__sigv4_date(char out[17], time_t when) {
    struct tm t = {0};
    gmtime_r(&when, &t);
    if (strftime(out, 17, "%Y%m%dT%H%M%SZ", &t) == 0)
        memcpy(out, "19700101T000000Z", 17);
}

/* By name, then by value, as escaped: '=' ends the name, so it comes before all else. */
static int by_escaped(const void *a, const void *b) {
    const char *x = ((const larder__text *)a)->at, *y = ((const larder__text *)b)->at;
    while (*x && *x == *y)
        x++, y++;
    int left = *x == '=' ? 0 : (unsigned char)*x, right = *y == '=' ? 0 : (unsigned char)*y;
    return left - right;
}

int larder__sigv4_query(larder__text *out, const larder__pair *query, size_t n) {
    larder__text parts[LARDER__SIGNED_QUERY] = {0};
    bool failed = false;
    if (n > LARDER__SIGNED_QUERY)
        return larder__fail(LARDER_E_RANGE, "a query of %zu parts", n);
    for (size_t i = 0; i < n; i++) {
        larder__text_escaped(&parts[i], query[i].name, strlen(query[i].name), false);
        larder__text_put(&parts[i], "=");
        larder__text_escaped(&parts[i], query[i].value, strlen(query[i].value), false);
        failed |= parts[i].failed || !parts[i].at;
    }
    if (!failed && n)
        qsort(parts, n, sizeof *parts, by_escaped);
    for (size_t i = 0; i < n; i++) {
        if (!failed) {
            larder__text_put(out, i ? "&" : "");
            larder__text_add(out, parts[i].at, parts[i].n);
        }
        larder__text_free(&parts[i]);
    }
    return failed || out->failed ? LARDER_E_NOMEM : 0;
}

static void add_names(larder__text *t, const larder__sigv4 *s) {
    for (size_t i = 0; i < s->header_count; i++) {
        larder__text_put(t, i ? ";" : "");
        larder__text_put(t, s->headers[i].name);
    }
}

static int canonical(const larder__sigv4 *s, larder__text *t) {
    const char *payload = LARDER__EMPTY_SHA256;
    larder__text_put(t, s->method);
    larder__text_put(t, "\n");
    larder__text_put(t, s->path);
    larder__text_put(t, "\n");
    int rc = larder__sigv4_query(t, s->query, s->query_count);
    larder__text_put(t, "\n");
    for (size_t i = 0; i < s->header_count; i++) {
        larder__text_put(t, s->headers[i].name);
        larder__text_put(t, ":");
        larder__text_put(t, s->headers[i].value);
        larder__text_put(t, "\n");
        if (strcmp(s->headers[i].name, "x-amz-content-sha256") == 0)
            payload = s->headers[i].value;
    }
    larder__text_put(t, "\n");
    add_names(t, s);
    larder__text_put(t, "\n");
    larder__text_put(t, payload);
    return rc < 0 ? rc : t->failed ? LARDER_E_NOMEM : 0;
}

static void hash_hex(const larder__text *t, char out[2 * LARDER__SHA256 + 1]) {
    unsigned char sum[LARDER__SHA256];
    larder__sha256 x;
    larder__sha256_begin(&x);
    larder__sha256_add(&x, t->at, t->n);
    larder__sha256_end(&x, sum);
    larder__sha256_hex(sum, out);
}

/* HMAC over HMAC: day, region, service, "aws4_request", then the text. */
static int sign_text(const larder__sigv4 *s, const char *text, char out[2 * LARDER__SHA256 + 1]) {
    unsigned char key[LARDER__SHA256];
    larder__text first = {0};
    larder__text_put(&first, "AWS4");
    larder__text_put(&first, s->secret);
    if (first.failed) {
        larder__text_free(&first);
        return LARDER_E_NOMEM;
    }
    larder__hmac_sha256(first.at, first.n, s->date, 8, key);
    explicit_bzero(first.at, first.n);
    larder__text_free(&first);
    const char *const steps[] = {s->region, s->service, "aws4_request", text};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        larder__hmac_sha256(key, sizeof key, steps[i], strlen(steps[i]), key);
    larder__sha256_hex(key, out);
    explicit_bzero(key, sizeof key);
    return 0;
}

int larder__sigv4_sign(const larder__sigv4 *s, larder__text *out) {
    char hash[2 * LARDER__SHA256 + 1], scope[160];
    larder__text text = {0};
    if (s->header_count > LARDER__SIGNED_HEADERS)
        return larder__fail(LARDER_E_RANGE, "%zu headers to sign", s->header_count);
    int n =
        snprintf(scope, sizeof scope, "%.8s/%s/%s/aws4_request", s->date, s->region, s->service);
    int rc = n > 0 && (size_t)n < sizeof scope
                 ? canonical(s, &text)
                 : larder__fail(LARDER_E_ARGS, "the region \"%.60s\" is too long", s->region);
    if (rc == 0) {
        hash_hex(&text, hash);
        text.n = 0;
        const char *const lines[] = {"AWS4-HMAC-SHA256\n", s->date, "\n", scope, "\n", hash};
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            larder__text_put(&text, lines[i]);
        rc = text.failed ? LARDER_E_NOMEM : sign_text(s, text.at, hash);
    }
    if (rc == 0) {
        const char *const before[] = {"AWS4-HMAC-SHA256 Credential=", s->key, "/", scope,
                                      ",SignedHeaders="};
        for (size_t i = 0; i < sizeof before / sizeof *before; i++)
            larder__text_put(out, before[i]);
        add_names(out, s);
        larder__text_put(out, ",Signature=");
        larder__text_put(out, hash);
        rc = out->failed ? LARDER_E_NOMEM : 0;
    }
    larder__text_free(&text);
    return rc;
}
