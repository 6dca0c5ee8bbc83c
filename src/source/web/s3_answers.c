/* Answers of S3: lists of objects, and errors. */
#include "source/web/listed.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/spec.h"
#include "source/web/web_text.h"
#include "source/web/xml_scan.h"

#include <stdio.h>
#include <string.h>

uint64_t larder__etag_tag(const char *text, size_t n) {
    if (n > 2 && text[0] == 'W' && text[1] == '/') {
        text += 2;
        n -= 2;
    }
    if (n > 1 && text[0] == '"' && text[n - 1] == '"') {
        text++;
        n -= 2;
    }
    return larder__hash_bytes(0xe7a6, text, n) | 1;
}

uint64_t larder__date_tag(const char *text, size_t n) {
    uint64_t tag = larder__hash_bytes(0xda7e, text, n) & ~(uint64_t)1;
    return tag ? tag : 2;
}

static int wrong(const char *what) {
    return larder__fail(LARDER_E_FORMAT, "a list of objects %s", what);
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct list {
    larder__listed object; /* being put together */
    bool escaped;          /* names are as in a URL */
    bool truncated;
    larder__listed_fn fn;
    void *arg;
} list;

static int take_name(list *l, const larder__xml *x, bool folder) {
    l->object.folder = folder;
    l->object.name = x->text;
    l->object.n =
        l->escaped ? larder__text_unescape((char *)x->text, x->text_size, true) : x->text_size;
    if (l->object.n == 0 || l->object.n >= LARDER__KEY_MAX ||
        memchr(l->object.name, 0, l->object.n))
        return wrong("has a name that is empty, too long or has a zero byte in it");
    return 0;
}

/* An element has ended. */
static int take_element(list *l, const larder__xml *x, char token[LARDER__LIST_TOKEN]) {
    if (larder__xml_is(x, "EncodingType"))
        l->escaped = x->text_size == 3 && memcmp(x->text, "url", 3) == 0;
    else if (larder__xml_is(x, "IsTruncated"))
        l->truncated = x->text_size == 4 && memcmp(x->text, "true", 4) == 0;
    else if (larder__xml_is(x, "NextContinuationToken")) {
        if (x->text_size >= LARDER__LIST_TOKEN || memchr(x->text, 0, x->text_size))
            return wrong("goes on at a place whose name is too long");
        memcpy(token, x->text, x->text_size);
        token[x->text_size] = 0;
    } else if (larder__xml_within(x, "Contents") && larder__xml_is(x, "Key"))
        return take_name(l, x, false);
    else if (larder__xml_within(x, "CommonPrefixes") && larder__xml_is(x, "Prefix"))
        return take_name(l, x, true);
    else if (larder__xml_within(x, "Contents") && larder__xml_is(x, "Size"))
        return larder__parse_digits(x->text, x->text_size, &l->object.bytes)
                   ? 0
                   : wrong("has a size that is no number");
    else if (larder__xml_within(x, "Contents") && larder__xml_is(x, "ETag"))
        l->object.tag = larder__etag_tag(x->text, x->text_size);
    else if (larder__xml_is(x, "Contents") || larder__xml_is(x, "CommonPrefixes")) {
        if (!l->object.name)
            return wrong("has an object without a name");
        return l->fn(l->arg, &l->object);
    }
    return 0;
}

/* Names are escaped or not by a word that may come behind them in the document. */
static bool says_url(const char *bytes, size_t n) {
    static const char word[] = "<EncodingType>url<";
    return memmem(bytes, n, word, sizeof word - 1) != NULL;
}

int larder__s3_list_parse(char *bytes, size_t n, larder__listed_fn fn, void *arg,
                          char token[LARDER__LIST_TOKEN]) {
    static const larder__listed none = {.bytes = LARDER__BYTES_UNKNOWN, .label = -1};
    list l = {.escaped = says_url(bytes, n), .fn = fn, .arg = arg};
    larder__xml x;
    bool right = false;
    int rc;
    token[0] = 0;
    larder__xml_begin(&x, bytes, n);
    while ((rc = larder__xml_next(&x)) > 0) {
        if (rc == LARDER__XML_OPEN) {
            right |= x.depth == 1 && larder__xml_is(&x, "ListBucketResult");
            if (larder__xml_is(&x, "Contents") || larder__xml_is(&x, "CommonPrefixes"))
                l.object = none;
        } else if (right && (rc = take_element(&l, &x, token)) < 0) {
            break;
        }
    }
    if (rc == 0 && !right)
        rc = wrong("was expected, not this");
    if (rc == 0 && l.truncated && !token[0])
        rc = wrong("is cut short and does not say where it goes on");
    if (!l.truncated)
        token[0] = 0;
    return rc;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void take_text(char *out, size_t cap, const larder__xml *x) {
    snprintf(out, cap, "%.*s", x->text_size < cap ? (int)x->text_size : (int)cap - 1, x->text);
}

void larder__s3_error_parse(char *bytes, size_t n, larder__s3_error *out) {
    larder__xml x;
    *out = (larder__s3_error){0};
    larder__xml_begin(&x, bytes, n);
    for (int rc; (rc = larder__xml_next(&x)) > 0;)
        if (rc == LARDER__XML_CLOSE && larder__xml_within(&x, "Error")) {
            if (larder__xml_is(&x, "Code"))
                take_text(out->code, sizeof out->code, &x);
            else if (larder__xml_is(&x, "Message"))
                take_text(out->message, sizeof out->message, &x);
            else if (larder__xml_is(&x, "Region"))
                take_text(out->region, sizeof out->region, &x);
        }
}
