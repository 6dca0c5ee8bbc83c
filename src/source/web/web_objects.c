#include "source/web/web_objects.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <stdio.h>

enum { AT_ONCE = 512, PEEKS = 64 };

int larder__web_objects_add(larder__web_objects *o, const char *name, size_t n, uint64_t bytes,
                            uint64_t tag) {
    uint64_t i = o->names.count;
    int rc = larder__grow(&o->bytes, &o->bytes_cap, i + 1, sizeof *o->bytes);
    if (rc == 0)
        rc = larder__grow(&o->tags, &o->tags_cap, i + 1, sizeof *o->tags);
    if (rc == 0)
        rc = larder__names_add(&o->names, name, n);
    if (rc < 0)
        return rc;
    o->bytes[i] = bytes;
    o->tags[i] = tag;
    return 0;
}

void larder__web_objects_free(larder__web_objects *o) {
    larder__free(o->root);
    larder__free(o->bytes);
    larder__free(o->tags);
    larder__names_free(&o->names);
    *o = (larder__web_objects){0};
}

char *larder__web_key(const char *root, const char *name) {
    size_t cap = strlen(root) + strlen(name) + 1;
    char *key = larder__malloc(cap);
    if (key)
        snprintf(key, cap, "%s%s", root, name);
    return key;
}

char *larder__web_objects_key(const larder__web_objects *o, uint64_t i) {
    return larder__web_key(o->root, larder__names_get(&o->names, i));
}

uint64_t larder__web_objects_tag(const larder__web_objects *o, uint64_t i) {
    return __atomic_load_n(&o->tags[i], __ATOMIC_RELAXED);
}

void larder__web_objects_seen(larder__web_objects *o, uint64_t i, uint64_t tag) {
    if (tag && larder__web_objects_tag(o, i) == 0)
        __atomic_store_n(&o->tags[i], tag, __ATOMIC_RELAXED);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int take_answer(larder__web_objects *o, uint64_t i, const larder__web_request *r, bool gaps,
                       const char *shown) {
    /* S3 refuses what is not there to who may not list, and so do signed URLs. */
    if (gaps && (r->code == LARDER_E_NOTFOUND || (r->code < 0 && r->answer.status == 403)))
        return 0;
    if (r->code < 0)
        return larder__fail(r->code, "%s", r->why);
    if (r->answer.length == LARDER__BYTES_UNKNOWN)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "%s%.200s: the server does not say how many bytes it has", shown,
                            r->key);
    o->bytes[i] = r->answer.length;
    o->tags[i] = r->answer.tag;
    return 0;
}

static bool is_known(const larder__web_objects *o, uint64_t i, bool tags) {
    return o->bytes[i] != LARDER__BYTES_UNKNOWN && (!tags || o->tags[i]);
}

/* Up to AT_ONCE of them from *at on, which moves on by steps. */
static int ask_some(larder__web_objects *o, larder__web *web, uint64_t *at, uint64_t step,
                    bool tags, bool gaps, larder__web_request *requests, uint64_t *ids) {
    const char *shown = larder__web_site_shown(larder__web_site_of(web));
    size_t n = 0;
    int rc = 0;
    for (; rc == 0 && *at < o->names.count && n < AT_ONCE; *at += step) {
        if (is_known(o, *at, tags))
            continue;
        char *key = larder__web_objects_key(o, *at);
        requests[n] = (larder__web_request){
            .key = key, .head = true, .bytes = LARDER__BYTES_UNKNOWN, .object = o->bytes[*at]};
        ids[n] = *at;
        rc = key ? 0 : LARDER_E_NOMEM;
        n += key != NULL;
    }
    if (rc == 0)
        larder__web_run(web, requests, n);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            rc = take_answer(o, ids[i], &requests[i], gaps, shown);
        larder__free((char *)requests[i].key);
    }
    return rc;
}

static int ask(larder__web_objects *o, larder__web *web, uint64_t step, bool tags, bool gaps) {
    uint64_t at = 0;
    while (at < o->names.count && is_known(o, at, tags))
        at++;
    if (at == o->names.count)
        return 0;
    larder__web_request *requests = larder__malloc(AT_ONCE * sizeof *requests);
    uint64_t *ids = larder__malloc(AT_ONCE * sizeof *ids);
    int rc = requests && ids ? 0 : LARDER_E_NOMEM;
    while (rc == 0 && at < o->names.count)
        rc = ask_some(o, web, &at, step, tags, gaps, requests, ids);
    larder__free(requests);
    larder__free(ids);
    return rc;
}

int larder__web_objects_ask(larder__web_objects *o, larder__web *web, bool tags, bool gaps) {
    return ask(o, web, 1, tags, gaps);
}

void larder__web_objects_peek(larder__web_objects *o, larder__web *web) {
    ask(o, web, o->names.count / PEEKS + 1, true, true);
}
