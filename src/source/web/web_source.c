/* http:, https:, s3: and gs:, from the text of a URI to a data set. */
#include "base/err.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/answer.h"
#include "source/split.h"
#include "source/web/web_data.h"

#include <stdio.h>

/* ---- open and close -------------------------------------------------------------------------- */

static int open_site(larder__web_data *d, larder__web_site *site, const larder_args *args) {
    uint32_t cores = larder__cpu_count();
    const char *ca = larder_args_text(args, "ca");
    uint32_t engines = (uint32_t)larder_args_number(args, "engines");
    larder__web_conf conf = {
        .requests = (uint32_t)larder_args_number(args, "requests"),
        .engines = engines      ? engines
                   : cores < 8  ? 1
                   : cores < 32 ? 2
                                : 4,
        .retries = (uint32_t)larder_args_number(args, "retries"),
        .backoff = larder_args_number(args, "backoff"),
        .connect = larder_args_number(args, "connect"),
        .stall = larder_args_number(args, "stall"),
        .ca = ca[0] ? ca : NULL,
    };
    conf.engines = conf.engines < conf.requests ? conf.engines : conf.requests;
    if (conf.connect <= 0 || conf.connect > 86400 || conf.stall <= 0 || conf.stall > 86400 ||
        conf.backoff > 86400) {
        larder__web_site_close(&site);
        return larder__fail(LARDER_E_RANGE,
                            "connect, stall and backoff are seconds of a day at most");
    }
    d->gap = (uint64_t)larder_args_number(args, "gap");
    d->range = (uint64_t)larder_args_number(args, "range");
    d->check = larder_args_number(args, "etag") != 0;
    d->keep = strcmp(larder_args_text(args, "index"), "keep") == 0;
    d->margin = (uint32_t)larder_args_number(args, "margin");
    return larder__web_open(&d->web, site, &conf);
}

static int open_http(larder__web_data *d, const char *scheme, const char *where,
                     const larder_args *args) {
    larder__web_site *site;
    char *key;
    larder__http_conf conf = {larder_args_text(args, "bearer"), larder_args_text(args, "query")};
    int rc = larder__web_site_http(&site, &key, scheme, where, &conf);
    if (rc == 0)
        rc = open_site(d, site, args);
    if (rc == 0)
        rc = larder__web_data_open(d, &key, larder_args_text(args, "split"));
    larder__free(key);
    return rc;
}

static int http_open(void *st, const char *where, const larder_args *args) {
    return open_http(st, "http", where, args);
}

static int https_open(void *st, const char *where, const larder_args *args) {
    return open_http(st, "https", where, args);
}

static int open_bucket(larder__web_data *d, const char *where, const larder_args *args,
                       const larder__s3_conf *conf) {
    larder__web_site *site;
    char *key;
    int rc = larder__web_site_s3(&site, &key, where, conf);
    if (rc == 0)
        rc = open_site(d, site, args);
    if (rc == 0)
        rc = larder__web_data_open(d, &key, larder_args_text(args, "split"));
    larder__free(key);
    return rc;
}

static int s3_open(void *st, const char *where, const larder_args *args) {
    larder__s3_conf conf = {.profile = larder_args_text(args, "profile"),
                            .region = larder_args_text(args, "region"),
                            .endpoint = larder_args_text(args, "endpoint"),
                            .style = larder_args_text(args, "style"),
                            .anonymous = larder_args_number(args, "anonymous") != 0};
    return open_bucket(st, where, args, &conf);
}

static int gs_open(void *st, const char *where, const larder_args *args) {
    larder__s3_conf conf = {.profile = larder_args_text(args, "profile"),
                            .region = "",
                            .endpoint = larder_args_text(args, "endpoint"),
                            .style = "path",
                            .anonymous = larder_args_number(args, "anonymous") != 0,
                            .google = true,
                            .bearer = larder_args_text(args, "bearer")};
    return open_bucket(st, where, args, &conf);
}

static void web_close(void *st) {
    larder__web_data *d = st;
    if (d->kind && d->kind->close)
        d->kind->close(d);
    larder__web_close(&d->web);
    larder__web_objects_free(&d->objects);
    larder__tar_index_free(&d->index);
    larder__names_free(&d->classes);
    larder__free(d->labels);
    larder__free(d->firsts);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* An ETag or a date tells versions of one URL apart and says nothing about another, so that the URL
 * belongs to it; names below it are in the fingerprint. */
static int describe(void *st, larder_dataset *out) {
    larder__web_data *d = st;
    const char *site = larder__web_shown(d);
    larder__web_objects_peek(&d->objects, d->web);
    uint64_t h = larder__hash_bytes(larder__hash_bytes(0x3eb, site, strlen(site)), d->objects.root,
                                    strlen(d->objects.root));
    for (uint64_t i = 0; i < d->objects.names.count; i++) {
        const uint64_t told[] = {d->objects.bytes[i], larder__web_objects_tag(&d->objects, i)};
        h = larder__hash_bytes(h, told, sizeof told);
    }
    *out = d->about;
    out->identity = h;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    larder__web_data *d = st;
    return d->kind->stat(d, id, out);
}

static int name(void *st, uint64_t id, char *out, size_t cap) {
    larder__web_data *d = st;
    return d->kind->name(d, id, out, cap);
}

static int file(void *st, uint64_t id, uint64_t *out) {
    larder__web_data *d = st;
    return d->kind->file ? d->kind->file(d, id, out)
                         : larder__fail(LARDER_E_UNSUPPORTED,
                                        "%s: every sample there is an object of its own, so none "
                                        "can be read together; larder pack, or tar, puts them "
                                        "into shards",
                                        larder__web_shown(d));
}

static const char *class_name(void *st, uint32_t label) {
    const larder__web_data *d = st;
    return label < d->classes.count ? larder__names_get(&d->classes, label) : NULL;
}

static int extent(void *st, uint64_t id, uint32_t *w, uint32_t *h) {
    return larder__web_packs_extent(st, id, w, h);
}

static int part_bytes(void *st, uint64_t id, const larder_rect *rect, uint32_t *out) {
    return larder__web_packs_part_bytes(st, id, rect, out);
}

static void interrupt(void *st) { larder__web_interrupt(((larder__web_data *)st)->web); }

/* ---- reading --------------------------------------------------------------------------------- */

/* The sample's own name in front, where the URL alone does not say which one it is. */
static void blame(larder__web_data *d, uint64_t id, larder_read *r) {
    char why[sizeof r->why];
    larder_buf_unref(&r->buf);
    if (d->labels)
        return;
    memcpy(why, r->why, sizeof why);
    snprintf(r->why, sizeof r->why, "sample %llu: %.220s", (unsigned long long)id, why);
}

static int read_parts(void *st, const uint64_t *ids, const larder_rect *rects, size_t n,
                      larder_read *out) {
    larder__web_data *d = st;
    larder__web_wants wants = {0};
    void *hand = NULL;
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = NULL;
        size_t before = wants.used;
        int code = d->kind->plan(d, &hand, ids[i], rects ? &rects[i] : NULL, &wants, i, &buf);
        larder__answer_buf(&out[i], buf);
        if (code < 0) {
            wants.used = before; /* its buffer goes away */
            larder_buf_unref(&buf);
            larder__answer_failure(&out[i], code);
        }
    }
    if (d->kind->let_go)
        d->kind->let_go(d, &hand);
    rc = larder__web_fetch(d, &wants, out);
    larder__free(wants.items);
    for (size_t i = 0; i < n; i++) {
        if (rc < 0 && out[i].code == 0)
            larder_buf_unref(&out[i].buf);
        if (out[i].code < 0)
            blame(d, ids[i], &out[i]);
    }
    return rc;
}

static int web_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return read_parts(st, ids, NULL, n, out);
}

/* ---- figures --------------------------------------------------------------------------------- */

static const larder_figure shown_figures[] = {
    {"web_requests", "requests", "sent to the server"},
    {"web_retries", "requests", "sent again after a failure that may pass"},
    {"web_bytes", "bytes", "on the wire, heads and bytes between samples included"},
    {"web_connections", "connections", "made"},
    {"web_latency_p50", "seconds", "half of all requests took no longer"},
    {"web_latency_p90", "seconds", "nine of ten requests took no longer"},
    {"web_latency_p99", "seconds", "99 of 100 requests took no longer"},
    {"web_latency_max", "seconds", "the longest request"},
    {0}};

static const larder_figure *figures(void *st) {
    (void)st;
    return shown_figures;
}

static double figure(void *st, size_t i) {
    larder__web_data *d = st;
    larder_stat_value v = {0};
    int which = i < LARDER__WEB_LATENCY ? (int)i : LARDER__WEB_LATENCY;
    if (larder__web_stat(d->web, which, &v) < 0)
        return 0;
    const double of[] = {v.p50, v.p90, v.p99, v.max};
    return i < LARDER__WEB_LATENCY ? v.value : of[i - LARDER__WEB_LATENCY];
}

static const char *note(void *st, size_t i) {
    larder__web_data *d = st;
    return larder__found_note(&d->found, d->labels ? "files" : "members", i, &d->says);
}

static int choose(void *st, const char *const *names, size_t n) {
    larder__web_data *d = st;
    if (d->kind->choose)
        return d->kind->choose(d, names, n);
    return n ? larder__fail(LARDER_E_UNSUPPORTED, "%s: only tar shards there have fields to choose",
                            larder__web_shown(d))
             : 0;
}

static const char *field(void *st, size_t i) {
    larder__web_data *d = st;
    return d->kind->field ? d->kind->field(d, i) : NULL;
}

/* ---- the four of them ------------------------------------------------------------------------ */

#define COMMON_PARAMS                                                                              \
    LARDER__SPLIT_PARAM, {"requests", "int", "64", "requests under way at once", 1, 4096},         \
        {"gap", "size", "32KiB", "read over this many bytes rather than ask once more", 0, 0},     \
        {"range", "size", "4MiB", "neighbours are joined to ranges of this size at most", 0, 0},   \
        {"retries", "int", "6", "tries after the first one where a failure may pass", 0, 100},     \
        {"backoff", "time", "100ms", "before the second try; doubled from try to try", 0, 0},      \
        {"connect", "time", "10s", "time for a connection to come about", 0, 0},                   \
        {"stall", "time", "20s", "an answer that stops for so long has failed", 0, 0},             \
        {"etag", "bool", "true", "an object whose ETag changes while in use is an error", 0, 0},   \
        {"index", "keep|off", "keep", "keep each shard's index in the user's cache folder", 0, 0}, \
        {"margin", "int", "1", "packed: pixels read around a crop", 0, 4096},                      \
        {"ca", "text", "", "file of certificates to trust instead of the system's", 0, 0}, {       \
        "engines", "int", "0", "threads that drive requests; 0: by the processors there are", 0,   \
            64                                                                                     \
    }

static const larder_param http_params[] = {
    COMMON_PARAMS,
    {"bearer", "text", "", "name of the environment variable that holds a token to send", 0, 0},
    {"query", "text", "", "name of the one that holds a URL's own query, as of a signed URL", 0, 0},
    {0}};

static const larder_param s3_params[] = {
    COMMON_PARAMS,
    {"region", "text", "", "AWS_REGION and the profile's, if not given; else us-east-1", 0, 0},
    {"endpoint", "text", "", "http://host:port of a server; AWS_ENDPOINT_URL if not given", 0, 0},
    {"profile", "text", "", "section of ~/.aws/credentials; AWS_PROFILE if not given", 0, 0},
    {"style", "auto|virtual|path", "auto", "bucket in the host's name or in the path", 0, 0},
    {"anonymous", "bool", "false", "sign nothing, whatever credentials there are", 0, 0},
    {0}};

static const larder_param gs_params[] = {
    COMMON_PARAMS,
    {"endpoint", "text", "", "http://host:port of a server; if not given, Google's own", 0, 0},
    {"profile", "text", "", "section of ~/.aws/credentials with HMAC keys", 0, 0},
    {"bearer", "text", "", "name of the environment variable that holds a token to send", 0, 0},
    {"anonymous", "bool", "false", "sign nothing, whatever keys there are", 0, 0},
    {0}};

#define WEB_SOURCE(scheme, text, table)                                                            \
    const larder_source larder__source_##scheme = {                                                \
        .plugin = {.name = #scheme,                                                                \
                   .summary = text,                                                                \
                   .params = table,                                                                \
                   .state_size = sizeof(larder__web_data)},                                        \
        .open = scheme##_open,                                                                     \
        .close = web_close,                                                                        \
        .describe = describe,                                                                      \
        .stat = stat_one,                                                                          \
        .name = name,                                                                              \
        .class_name = class_name,                                                                  \
        .read = web_read,                                                                          \
        .extent = extent,                                                                          \
        .part_bytes = part_bytes,                                                                  \
        .read_parts = read_parts,                                                                  \
        .interrupt = interrupt,                                                                    \
        .figures = figures,                                                                        \
        .figure = figure,                                                                          \
        .note = note,                                                                              \
        .choose = choose,                                                                          \
        .field = field,                                                                            \
        .file = file,                                                                              \
    }

WEB_SOURCE(http, "//host/folder/, //host/s-{000..009}.tar or //host/manifest.txt of a web server",
           http_params);
WEB_SOURCE(https, "the same, through TLS", http_params);
WEB_SOURCE(s3, "//bucket/folder/, //bucket/s-{000..009}.tar or //bucket/manifest.txt of S3",
           s3_params);
WEB_SOURCE(gs, "the same of Google Cloud Storage", gs_params);
