#include "source/source.h"

#include "base/asked.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "source/answer.h"
#include "source/own.h"
#include "source/own_source.h"
#include "source/subset.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { CONTENT_NAME = 64 };

struct larder__data {
    const larder_source *source;
    void *st;
    char *uri;
    char content[CONTENT_NAME]; /* the NAME of content=NAME; "": none */
    char *take, *ids;           /* the values of these parameters, until it is described */
    larder__subset some;        /* ids here are places in it; the source's own are its ids */
    larder_dataset about;
};

/* ---- from a text to a source, a place and its parameters ------------------------------------- */

typedef struct target {
    const larder_source *source;
    char *text;  /* owns what the others point into */
    char *where; /* without prefix and query */
    char *args;  /* the query, or a wrapper's parameters */
} target;

/* A query begins at the last '?' that a key and '=' follow, so that "tar:shard-00?.tar" is a
 * pattern and "idx:folder?split=test" is not. */
static char *cut_query(char *text) {
    char *mark = strrchr(text, '?');
    if (!mark || (mark[1] && !strchr(mark, '=')))
        return text + strlen(text);
    *mark = 0;
    return mark + 1;
}

static int recognise(target *t) {
    int best = 0;
    const larder_source *s;
    for (size_t i = 0; (s = larder__sources[i]); i++) {
        int answer = s->probe ? s->probe(t->where) : 0;
        if (answer > best) {
            best = answer;
            t->source = s;
        }
    }
    if (best > 0)
        return 0;
    if (access(t->where, F_OK) != 0)
        return larder__fail(LARDER_E_NOTFOUND, "there is no file or folder \"%.200s\"", t->where);
    char names[200] = "";
    for (size_t i = 0, at = 0; (s = larder__sources[i]) && at < sizeof names; i++)
        if (s->probe)
            at += (size_t)snprintf(names + at, sizeof names - at, " %s:", s->plugin.name);
    return larder__fail(LARDER_E_FORMAT,
                        "%.200s: no source recognises what is there; say which one it is with%s",
                        t->where, names);
}

/* "name:parameters:URI"; a first word without '=' is the value of the first parameter. */
static int cut_wrapper(target *t, char *rest) {
    const larder_plugin *p = &t->source->plugin;
    if (t->source->many && rest[strcspn(rest, "=*:")] != '=') {
        t->where = rest;
        t->args = rest + strlen(rest);
        return rest[0] ? 0 : larder__fail(LARDER_E_ARGS, "%s: of nothing", p->name);
    }
    char *colon = strchr(rest, ':');
    if (!colon || !colon[1])
        return larder__fail(LARDER_E_ARGS,
                            "%s: needs parameters and a data set, as in %s:%s=…:dir:photos",
                            p->name, p->name, p->params[0].name);
    *colon = 0;
    t->where = colon + 1;
    t->args = rest;
    size_t word = strcspn(rest, ",=");
    if (word == 0 || rest[word] == '=')
        return 0;
    size_t need = strlen(p->params[0].name) + strlen(rest) + 2;
    char *fresh = larder__malloc(need + strlen(t->where) + 1);
    if (!fresh)
        return LARDER_E_NOMEM;
    snprintf(fresh, need, "%s=%s", p->params[0].name, rest);
    memcpy(fresh + need, t->where, strlen(t->where) + 1);
    larder__free(t->text);
    t->text = t->args = fresh;
    t->where = fresh + need;
    return 0;
}

static int find_target(target *t, const char *uri) {
    char prefix[32];
    const char *rest;
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyz0123456789_");
    int rc = larder__plugins_from_env();
    if (rc < 0)
        return rc;
    t->text = larder__strdup(uri);
    if (!t->text)
        return LARDER_E_NOMEM;
    t->where = t->text;
    bool prefixed = uri[n] == ':' && larder__spec_name(uri, prefix, sizeof prefix, &rest) == 0;
    if (prefixed) {
        t->source = (const larder_source *)larder__plugin_named(LARDER_SORT_SOURCE, prefix);
        if (t->source && t->source->wraps)
            return cut_wrapper(t, t->text + n + 1);
    }
    t->args = cut_query(t->text);
    if (t->source)
        t->where = t->text + n + 1;
    if (t->source && t->source->probe && !t->where[0])
        return larder__fail(LARDER_E_ARGS, "%s: needs a place, as in %s:folder", prefix, prefix);
    if (t->source)
        return 0;
    if (prefixed && access(t->where, F_OK) != 0) {
        larder__source_find(prefix);
        return LARDER_E_ARGS;
    }
    return recognise(t);
}

/* ---- open and close -------------------------------------------------------------------------- */

/* A URL with a query of its own was pasted, which may be secret: it is not repeated here. */
static int say_query(const larder_plugin *p, int code) {
    char why[200];
    bool takes = false;
    for (const larder_param *q = p->params; q && q->name; q++)
        takes |= strcmp(q->name, "query") == 0;
    if (!takes)
        return code;
    snprintf(why, sizeof why, "%.160s", larder_errmsg());
    return larder__fail(code,
                        "%s… What follows ? are parameters of larder; a URL's own query (as of a "
                        "signed URL) goes into an environment variable that query= names",
                        why);
}

const larder_param larder__source_params[] = {
    {"content", "text", "", "a name: whatever has it is the same data, copied or not", 0, 0},
    {"take", "text", "", "a part: first:last, 10% or 5000 (spread evenly), -10% (all others)", 0,
     0},
    {"ids", "text", "", "a file with the ids or names of the samples to take, one a line", 0, 0},
    {0}};

static int read_content(const char *text, char name[CONTENT_NAME]) {
    int rc = 0;
    size_t n = strlen(text);
    if (n >= CONTENT_NAME ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") < n)
        rc =
            larder__fail(LARDER_E_ARGS,
                         "content=NAME says that whatever has this NAME is the same data; it has 1 "
                         "to %d letters, digits and _.-",
                         CONTENT_NAME - 1);
    else
        memcpy(name, text, n + 1);
    return rc;
}

/* What every source takes. */
static int read_every(larder__data *d, const target *t) {
    const larder_plugin every = {.name = t->source->plugin.name, .params = larder__source_params};
    const larder_param *const own[] = {t->source->plugin.params, NULL};
    larder_args args;
    int rc = larder__args_parse(&args, "source", &every, t->args, '&', own);
    if (rc < 0)
        return rc;
    rc = read_content(larder_args_text(&args, "content"), d->content);
    d->take = larder__strdup(larder_args_text(&args, "take"));
    d->ids = larder__strdup(larder_args_text(&args, "ids"));
    larder__args_free(&args);
    return rc < 0 ? rc : d->take && d->ids ? 0 : LARDER_E_NOMEM;
}

/* A name stands for the files' times and numbers, which copies do not have in common; what was
 * looked at of the bytes is never left out. */
static uint64_t identity_of(const larder_dataset *a, const char *name) {
    uint64_t told = name[0] ? larder__hash_bytes(1, name, strlen(name)) : a->identity;
    uint64_t all[] = {name[0] != 0, told, a->fingerprint, a->content};
    return larder__hash_bytes(0x1d, all, sizeof all);
}

static int open_target(larder__data *d, const target *t) {
    const larder_plugin *p = &t->source->plugin;
    const larder_param *const every[] = {larder__source_params, NULL};
    bool wraps = t->source->wraps;
    larder_args args;
    int rc =
        larder__args_parse(&args, "source", p, t->args, wraps ? ',' : '&', wraps ? NULL : every);
    if (rc < 0)
        return rc == LARDER_E_ARGS ? say_query(p, rc) : rc;
    if (!wraps && (rc = read_every(d, t)) < 0) {
        larder__args_free(&args);
        return rc;
    }
    d->source = t->source;
    d->st = larder__calloc(1, p->state_size);
    rc = d->st ? t->source->open(d->st, t->where, &args) : LARDER_E_NOMEM;
    larder__args_free(&args);
    return rc;
}

/* Other fields are other bytes. */
static uint64_t fields_hash(const char *const *names, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++)
        h = larder__hash_bytes(h + 1, names[i], strlen(names[i]));
    return h;
}

bool larder__data_chooses(const larder__data *d) { return d->source->choose != NULL; }

const char *larder__data_field(larder__data *d, size_t i) {
    return d->source->field ? d->source->field(d->st, i) : NULL;
}

/* Leaves what take= and ids= name. The same content, but other samples. */
static int take_some(larder__data *d) {
    int rc = larder__subset_make(&d->some, d->source, d->st, d->about.count, d->take, d->ids);
    if (rc < 0 || d->some.count == 0)
        return rc;
    d->about.bytes = 0;
    for (uint64_t i = 0; rc == 0 && i < d->some.count; i++) {
        larder_sample s;
        rc = d->source->stat(d->st, d->some.ids[i], &s);
        d->about.bytes += rc == 0 ? s.bytes : 0;
    }
    d->about.count = d->some.count;
    d->about.fingerprint =
        larder__hash_bytes(d->about.fingerprint, d->some.ids, d->some.count * sizeof *d->some.ids);
    return rc;
}

int larder__data_choose(larder__data *d, const char *const *names, size_t n) {
    int rc = d->source->choose ? d->source->choose(d->st, names, n) : 0;
    if (rc == 0)
        rc = d->source->describe(d->st, &d->about);
    if (rc == 0 && !d->source->wraps)
        rc = take_some(d);
    if (rc == 0 && !d->source->wraps) { /* what is inside has said it */
        d->about.identity = identity_of(&d->about, d->content);
        if (d->source->choose)
            d->about.identity ^= fields_hash(names, n);
    }
    return rc;
}

int larder__data_open(larder__data **out, const char *uri) {
    return larder__data_open_fields(out, uri, NULL, 0);
}

int larder__data_open_fields(larder__data **out, const char *uri, const char *const *names,
                             size_t n) {
    int rc = larder__data_begin(out, uri);
    if (rc == 0 && (rc = larder__data_choose(*out, names, n)) < 0)
        larder__data_close(out);
    return rc;
}

int larder__data_begin(larder__data **out, const char *uri) {
    *out = NULL;
    if (!uri || !uri[0])
        return larder__fail(LARDER_E_ARGS, "no data set was named");
    target t = {0};
    larder__data *d = larder__calloc(1, sizeof *d);
    int rc = d ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && !(d->uri = larder__strdup(uri)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = find_target(&t, uri);
    if (rc == 0)
        rc = open_target(d, &t);
    larder__free(t.text);
    if (rc < 0) {
        larder__data_close(&d);
        return rc;
    }
    *out = d;
    return 0;
}

int larder__data_open_own(larder__data **out, const larder_own_source *own, uint64_t *probes,
                          uint64_t *bytes) {
    *out = NULL;
    larder__data *d = larder__calloc(1, sizeof *d);
    if (!d)
        return LARDER_E_NOMEM;
    d->source = &larder__source_own;
    d->st = larder__calloc(1, sizeof(larder__own));
    int rc = d->st ? larder__own_begin(d->st, own, probes, bytes) : LARDER_E_NOMEM;
    if (rc == 0 && !(d->uri = larder__strdup(((larder__own *)d->st)->shown)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = d->source->describe(d->st, &d->about);
    if (rc < 0) {
        larder__data_close(&d);
        return rc;
    }
    d->about.identity = identity_of(&d->about, "");
    *out = d;
    return 0;
}

bool larder__data_is_own(const larder__data *d) { return d->source == &larder__source_own; }

uint32_t larder__data_came_to(const larder__data *d, uint64_t id) {
    if (!larder__data_is_own(d) || id >= d->about.count)
        return 0;
    return atomic_load_explicit(&((larder__own *)d->st)->came_to[id], memory_order_relaxed);
}

void larder__data_close(larder__data **pd) {
    larder__data *d = *pd;
    *pd = NULL;
    if (!d)
        return;
    if (d->st)
        d->source->close(d->st);
    larder__free(d->st);
    larder__free(d->uri);
    larder__free(d->take);
    larder__free(d->ids);
    larder__subset_free(&d->some);
    larder__free(d);
}

/* ---- questions ------------------------------------------------------------------------------- */

const larder_dataset *larder__data_about(const larder__data *d) { return &d->about; }
const char *larder__data_uri(const larder__data *d) { return d->uri; }
const larder_plugin *larder__data_plugin(const larder__data *d) { return &d->source->plugin; }

static int check_id(const larder__data *d, uint64_t id) {
    if (id < d->about.count)
        return 0;
    return larder__fail(LARDER_E_RANGE, "%.200s: there is no sample %llu, only %llu of them",
                        d->uri, (unsigned long long)id, (unsigned long long)d->about.count);
}

/* The source's own id. */
static uint64_t inner(const larder__data *d, uint64_t id) {
    return larder__subset_id(&d->some, id);
}

int larder__data_stat(larder__data *d, uint64_t id, larder_sample *out) {
    int rc = check_id(d, id);
    return rc < 0 ? rc : d->source->stat(d->st, inner(d, id), out);
}

int larder__data_name(larder__data *d, uint64_t id, char *out, size_t cap) {
    int rc = check_id(d, id);
    return rc < 0 ? rc : d->source->name(d->st, inner(d, id), out, cap);
}

int larder__data_file(larder__data *d, uint64_t id, uint64_t *out) {
    int rc = check_id(d, id);
    if (rc == 0 && !d->source->file)
        rc = larder__fail(LARDER_E_UNSUPPORTED,
                          "%.200s: its samples do not lie one behind the other in files, so none "
                          "can be read together; larder pack, or tar, puts them into shards",
                          d->uri);
    return rc < 0 ? rc : d->source->file(d->st, inner(d, id), out);
}

const char *larder__data_class(larder__data *d, uint32_t label) {
    return d->source->class_name ? d->source->class_name(d->st, label) : NULL;
}

void larder__data_interrupt(larder__data *d) {
    if (d->source->interrupt)
        d->source->interrupt(d->st);
}

const char *larder__data_source_note(larder__data *d, size_t i) {
    return d->source->note ? d->source->note(d->st, i) : NULL;
}

static uint64_t unlabelled(larder__data *d, uint64_t *first) {
    uint64_t n = 0;
    for (uint64_t id = 0; id < d->about.count; id++) {
        larder_sample s = {.label = -1};
        if (d->source->stat(d->st, inner(d, id), &s) == 0 && s.label >= 0)
            continue;
        if (n++ == 0)
            *first = id;
    }
    return n;
}

/* false: every sample has one. */
static bool say_unlabelled(larder__data *d, char *out, size_t cap) {
    if (larder__data_is_own(d)) /* a program knows what it gave */
        return false;
    uint64_t first = 0, none = unlabelled(d, &first);
    char name[256] = "";
    if (none == 0)
        return false;
    larder__data_name(d, first, name, sizeof name);
    snprintf(
        out, cap,
        "%.150s: %llu of %llu samples have no label, the first is %.120s; labels come from "
        "class folders, from .cls members of tar shards, from a manifest, or from what target= "
        "names",
        d->uri, (unsigned long long)none, (unsigned long long)d->about.count, name);
    return true;
}

int larder__data_check_labels(larder__data *d) {
    char why[480];
    return say_unlabelled(d, why, sizeof why) ? larder__fail(LARDER_E_ARGS, "%s", why) : 0;
}

const char *larder__data_note(larder__data *d, size_t i, char *out, size_t cap) {
    size_t own = 0;
    const char *says;
    while ((says = larder__data_source_note(d, own)) && own < i)
        own++;
    if (says)
        snprintf(out, cap, "%.150s: %s", d->uri, says);
    /* Typed samples may well have their y beside x. */
    return says || (i == own && !d->about.parcels && say_unlabelled(d, out, cap)) ? out : NULL;
}

const larder_figure *larder__data_figures(larder__data *d) {
    return d->source->figures ? d->source->figures(d->st) : NULL;
}

double larder__data_figure(larder__data *d, size_t i) { return d->source->figure(d->st, i); }

/* A source that answers something else than it promised is named, not believed. */
static void check_answers(larder__data *d, const uint64_t *ids, bool whole, size_t n,
                          larder_read *out) {
    for (size_t i = 0; i < n; i++) {
        larder_sample s = {0};
        if (out[i].code < 0)
            continue;
        if (out[i].buf &&
            (!whole || larder__data_is_own(d) || d->source->stat(d->st, inner(d, ids[i]), &s) < 0 ||
             s.bytes == larder_buf_size(out[i].buf)))
            continue;
        int rc = larder__fail(
            LARDER_E_FORMAT, "source \"%s\" gave %zu bytes for sample %llu and had said %u",
            d->source->plugin.name, out[i].buf ? larder_buf_size(out[i].buf) : (size_t)0,
            (unsigned long long)ids[i], s.bytes);
        larder_buf_unref(&out[i].buf);
        larder__answer_failure(&out[i], rc);
    }
}

/* Asks the source, by its own ids. What was read before a failure is let go. */
static int ask(larder__data *d, const uint64_t *ids, const larder_rect *rects, size_t n,
               larder_read *out) {
    enum { AT_ONCE = 256 };
    uint64_t own_ids[AT_ONCE];
    int rc = 0;
    for (size_t at = 0, k; rc == 0 && at < n; at += k) {
        k = d->some.count && n - at > AT_ONCE ? AT_ONCE : n - at;
        for (size_t i = 0; d->some.count && i < k; i++)
            own_ids[i] = inner(d, ids[at + i]);
        const uint64_t *those = d->some.count ? own_ids : ids + at;
        uint64_t before = larder__requests();
        rc = rects ? d->source->read_parts(d->st, those, rects + at, k, out + at)
                   : d->source->read(d->st, those, k, out + at);
        if (larder__requests() == before) /* it does not say */
            larder_note_requests(k);
        for (size_t i = 0; rc < 0 && i < at; i++)
            larder_buf_unref(&out[i].buf);
    }
    return rc;
}

/* Runs of known ids go to the source together; an unknown one is answered here. */
static int read_some(larder__data *d, const uint64_t *ids, const larder_rect *rects, size_t n,
                     larder_read *out) {
    for (size_t at = 0; at < n;) {
        size_t run = at;
        while (run < n && ids[run] < d->about.count)
            run++;
        if (run > at) {
            int rc = ask(d, ids + at, rects ? rects + at : NULL, run - at, out + at);
            if (rc < 0) {
                for (size_t i = 0; i < at; i++)
                    larder_buf_unref(&out[i].buf);
                return rc;
            }
            check_answers(d, ids + at, !rects, run - at, out + at);
        }
        if (run < n)
            larder__answer_failure(&out[run], check_id(d, ids[run]));
        at = run + 1;
    }
    return 0;
}

int larder__data_read(larder__data *d, const uint64_t *ids, size_t n, larder_read *out) {
    return read_some(d, ids, NULL, n, out);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int check_part(const larder__data *d, uint64_t id) {
    if (!d->about.parts || !d->source->read_parts)
        return larder__fail(LARDER_E_UNSUPPORTED, "%.200s: samples are read whole there", d->uri);
    return check_id(d, id);
}

int larder__data_extent(larder__data *d, uint64_t id, uint32_t *w, uint32_t *h) {
    int rc = check_part(d, id);
    return rc < 0 ? rc : d->source->extent(d->st, inner(d, id), w, h);
}

int larder__data_part_bytes(larder__data *d, uint64_t id, const larder_rect *r, uint32_t *out) {
    int rc = check_part(d, id);
    return rc < 0 ? rc : d->source->part_bytes(d->st, inner(d, id), r, out);
}

int larder__data_read_parts(larder__data *d, const uint64_t *ids, const larder_rect *rects,
                            size_t n, larder_read *out) {
    int rc = check_part(d, 0);
    return rc < 0 ? rc : read_some(d, ids, rects, n, out);
}
