/* The thread that drives requests: libcurl's multi interface, one handle of it a thread. Attempts
 * that failed for a moment wait in a list and begin again when they are due. */
#include "source/web/web.h"

#if LARDER_HAVE_CURL
#include "source/web/web_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

static const double longest_wait = 20, longest_told = 60; /* seconds; by our rule, by a server's */
static const double look_every = 0.2;                     /* seconds: for answers that stopped */

/* ---- what libcurl calls ---------------------------------------------------------------------- */

static void note_bytes(larder__web_try *t, size_t n) {
    t->moved = larder__now();
    if (t->answering && n < LARDER__WEB_LITTLE - t->little) {
        t->little += (uint32_t)n;
        return;
    }
    t->answering = true;
    t->paced = t->moved;
    t->little = 0;
}

/* "HTTP/1.1 200 OK", "HTTP/2 200": whether many share a connection. */
static void note_version(larder__web_engine *e, const char *line, size_t n) {
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) {
        e->alone |= line[5] < '2';
        e->shared |= line[5] >= '2';
    }
}

static size_t take_head(char *line, size_t one, size_t n, void *arg) {
    larder__web_try *t = arg;
    larder__web_engine *e = NULL;
    (void)one;
    note_bytes(t, n);
    curl_easy_getinfo(t->easy, CURLINFO_PRIVATE, &e);
    note_version(e, line, n);
    larder__web_head_line(&t->head, line, n, time(NULL));
    return n;
}

/* The part of bytes[0..n) of the body that its pieces want. */
static void scatter(larder__web_try *t, const char *bytes, size_t n) {
    const larder__web_request *r = t->request;
    uint64_t from = t->body, to = t->body + n;
    while (t->piece < r->piece_count) {
        const larder__web_piece *p = &r->pieces[t->piece];
        uint64_t a = p->at > from ? p->at : from, end = p->at + p->n, b = end < to ? end : to;
        if (a < b)
            memcpy(p->to + (a - p->at), bytes + (a - from), (size_t)(b - a));
        if (end > to)
            return;
        t->piece++;
    }
}

static size_t take_good(larder__web_try *t, const larder__web_site *site, const char *bytes,
                        size_t n) {
    larder__web_request *r = t->request;
    if (!t->checked && !larder__web_check_head(t, site))
        return 0;
    if (r->bytes != LARDER__BYTES_UNKNOWN && n > r->bytes - t->body) {
        t->verdict = larder__web_answer(r, site, LARDER_E_CHANGED,
                                        "more than %llu bytes came; it was changed while in use",
                                        (unsigned long long)r->bytes);
        return 0;
    }
    if (r->piece_count) {
        scatter(t, bytes, n);
    } else if (r->text.n + n > r->most) {
        t->verdict =
            larder__web_answer(r, site, LARDER_E_RANGE, "is larger than %zu bytes", r->most);
        return 0;
    } else {
        larder__text_add(&r->text, bytes, n);
        if (r->text.failed) {
            t->verdict = larder__web_answer(r, site, LARDER_E_NOMEM, "out of memory");
            return 0;
        }
    }
    t->body += n;
    return n;
}

static size_t take_body(char *bytes, size_t one, size_t n, void *arg) {
    larder__web_try *t = arg;
    larder__web_engine *e = NULL;
    (void)one;
    note_bytes(t, n);
    curl_easy_getinfo(t->easy, CURLINFO_PRIVATE, &e);
    if (t->probe && t->head.status / 100 == 2)
        return t->head.status == 206 ? n : 0; /* all of it comes: its head was enough */
    if (t->head.status == 200 || t->head.status == 206)
        return take_good(t, e->web->site, bytes, n);
    size_t room = sizeof t->error_body - t->error_size, some = n < room ? n : room;
    memcpy(t->error_body + t->error_size, bytes, some);
    t->error_size += some;
    t->body += n;
    return t->body < 1 << 20 ? n : 0; /* a page of a megabyte about an error is none */
}

/* ---- one attempt ----------------------------------------------------------------------------- */

static larder__web_try *take_try(larder__web_engine *e) {
    larder__web_try *t = e->idle;
    if (t) {
        e->idle = t->next;
        return t;
    }
    t = larder__calloc(1, sizeof *t);
    if (t && !(t->easy = curl_easy_init())) {
        larder__free(t);
        t = NULL;
    }
    return t;
}

static void clear_try(larder__web_try *t) {
    CURL *easy = t->easy;
    curl_slist_free_all(t->headers);
    larder__dressed_free(&t->dressed);
    *t = (larder__web_try){.easy = easy};
}

static void give_try(larder__web_engine *e, larder__web_try *t) {
    clear_try(t);
    curl_easy_reset(t->easy);
    t->next = e->idle;
    e->idle = t;
}

static bool set_headers(larder__web_try *t) {
    for (size_t i = 0; i < t->dressed.header_count; i++) {
        struct curl_slist *more = curl_slist_append(t->headers, t->dressed.headers[i].at);
        if (!more)
            return false;
        t->headers = more;
    }
    return true;
}

static void set_protocols(CURL *c, bool tls) {
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS,
                     tls ? (long)CURLPROTO_HTTPS : (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* A connection that many share may be dead without a word, and would be taken for all that follows
 * as long as somebody is in it. So after a stall whoever begins gets one of its own, until those
 * who were under way then have left, or heard something more. HTTP/1 has one for each, and a server
 * that now and then does not answer is to keep the others. */
static bool doubts_connections(const larder__web_engine *e) {
    const larder__web_try *t = e->busy;
    while (t && t->moved > e->stalled)
        t = t->next;
    return e->stalled > 0 && (e->shared || !e->alone) && t;
}

/* Errors of setopt can only be those of memory, which shows when the transfer begins. */
static void set_options(larder__web_engine *e, larder__web_try *t) {
    const larder__web_conf *conf = &e->web->conf;
    CURL *c = t->easy;
    bool tls = strncmp(t->dressed.url.at, "https:", 6) == 0;
    curl_easy_setopt(c, CURLOPT_URL, t->dressed.url.at);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_PRIVATE, e);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "larder/" LARDER_VERSION);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->says);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 128L << 10);
    curl_easy_setopt(c, CURLOPT_NOBODY, t->request->head && !t->probe ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(conf->connect * 1000));
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, larder__web_site_is_s3(e->web->site) ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)LARDER__WEB_REDIRECTS);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(c, CURLOPT_PIPEWAIT, tls ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, tls && doubts_connections(e) ? 1L : 0L);
    set_protocols(c, tls);
    if (e->web->ca)
        curl_easy_setopt(c, CURLOPT_CAINFO, e->web->ca);
}

static int dress_try(larder__web_engine *e, larder__web_try *t) {
    const larder__web_request *r = t->request;
    char range[64] = "";
    t->probe = r->head && larder__web_site_is_signed(e->web->site);
    if (t->probe)
        snprintf(range, sizeof range, "bytes=0-0");
    else if (r->ranged)
        snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)r->from,
                 (unsigned long long)(r->from + r->bytes - 1));
    int rc =
        larder__web_site_dress(e->web->site, &t->dressed, r->head && !t->probe ? "HEAD" : "GET",
                               r->key, r->query, r->query_count, range, r->redirect);
    return rc == 0 && !set_headers(t) ? LARDER_E_NOMEM : rc;
}

static void finish(larder__web_engine *e, larder__web_request *r) {
    larder__web_call *call = r->call;
    pthread_mutex_lock(&e->web->lock);
    if (--call->left == 0)
        pthread_cond_signal(&call->done);
    pthread_mutex_unlock(&e->web->lock);
}

static void begin(larder__web_engine *e, larder__web_request *r) {
    larder__web_try *t = take_try(e);
    if (!t) {
        larder__web_answer(r, e->web->site, LARDER_E_NOMEM, "out of memory");
        finish(e, r);
        return;
    }
    t->request = r;
    larder__text_free(&r->text);
    int rc = dress_try(e, t);
    if (rc == 0) {
        set_options(e, t);
        t->begun = t->moved = larder__now();
        rc = curl_multi_add_handle(e->multi, t->easy) == CURLM_OK ? 0 : LARDER_E_NOMEM;
    }
    if (rc < 0) {
        larder__web_answer(r, e->web->site, rc, "%s",
                           rc == LARDER_E_NOMEM ? "out of memory" : larder_errmsg());
        give_try(e, t);
        finish(e, r);
        return;
    }
    r->tries++;
    t->next = e->busy;
    e->busy = t;
    e->under_way++;
    larder__stat_add(e->web->stats, e->web->stat[LARDER__WEB_REQUESTS], 1);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void count(larder__web_engine *e, larder__web_try *t) {
    curl_off_t body = 0;
    long head = 0, asked = 0, fresh = 0;
    larder__web *w = e->web;
    curl_easy_getinfo(t->easy, CURLINFO_SIZE_DOWNLOAD_T, &body);
    curl_easy_getinfo(t->easy, CURLINFO_HEADER_SIZE, &head);
    curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &asked);
    curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &fresh);
    larder__stat_add(w->stats, w->stat[LARDER__WEB_BYTES],
                     (uint64_t)body + (uint64_t)head + (uint64_t)asked);
    larder__stat_add(w->stats, w->stat[LARDER__WEB_CONNECTIONS], (uint64_t)fresh);
    larder__stat_observe(w->stats, w->stat[LARDER__WEB_LATENCY], larder__now() - t->begun);
}

/* From half of it to all of it, so that those who failed together do not come back together. */
static double backoff(larder__web_engine *e, const larder__web_request *r, double told) {
    double wait = ldexp(e->web->conf.backoff, (int)(r->tries < 30 ? r->tries : 30) - 1);
    wait = wait < longest_wait ? wait : longest_wait;
    wait *= 0.5 + 0.5 * larder_rng_unit(&e->rng);
    told = told < longest_told ? told : longest_told;
    return wait > told ? wait : told;
}

static void say_tries(larder__web_request *r) {
    size_t n = strlen(r->why);
    if (r->tries > 1)
        snprintf(r->why + n, sizeof r->why - n, "; tried %u times", r->tries);
}

static void unlink_try(larder__web_engine *e, larder__web_try *t) {
    larder__web_try **at = &e->busy;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    e->under_way--;
    curl_multi_remove_handle(e->multi, t->easy);
}

static void end_try(larder__web_engine *e, larder__web_try *t, CURLcode rc) {
    larder__web_request *r = t->request;
    double wait;
    count(e, t);
    unlink_try(e, t);
    larder__web_outcome what = larder__web_judge(t, e->web->site, rc, &wait);
    give_try(e, t);
    if (what == LARDER__WEB_AGAIN && wait < 0)
        r->tries--; /* bounded by the redirects that it may have */
    if (what == LARDER__WEB_AGAIN && (wait < 0 || r->tries <= e->web->conf.retries)) {
        larder__stat_add(e->web->stats, e->web->stat[LARDER__WEB_RETRIES], 1);
        r->due = larder__now() + (wait < 0 ? 0 : backoff(e, r, wait));
        r->next = e->later;
        e->later = r;
        return;
    }
    if (what != LARDER__WEB_DONE)
        say_tries(r);
    finish(e, r);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* What is due goes in front of the queue. */
static void call_later(larder__web_engine *e) {
    double now = larder__now();
    for (larder__web_request **at = &e->later; *at;) {
        larder__web_request *r = *at;
        if (r->due > now) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->next = e->queue;
        e->queue = r;
        e->queue_last = e->queue_last ? e->queue_last : r;
    }
}

/* Seconds until something is to be done even if nothing comes. */
static double idle_time(const larder__web_engine *e) {
    double now = larder__now(), wait = e->busy ? look_every : 1;
    for (const larder__web_request *r = e->later; r; r = r->next)
        wait = r->due - now < wait ? r->due - now : wait;
    return wait > 0 ? wait : 0;
}

/* libcurl's own limit looks at the average of the last seconds, and so is late. Until the first
 * byte the connection may have to be made. A byte now and then is no answer either. */
static void end_stalled(larder__web_engine *e) {
    const larder__web_conf *conf = &e->web->conf;
    double now = larder__now();
    if (now - e->looked < look_every)
        return;
    e->looked = now;
    for (larder__web_try *t = e->busy, *next; t; t = next) {
        next = t->next;
        t->dripped = t->answering && now - t->paced > 2 * conf->stall;
        if (t->dripped || now - t->moved > conf->stall + (t->answering ? 0 : conf->connect)) {
            e->stalled = now;
            curl_easy_setopt(t->easy, CURLOPT_FORBID_REUSE, 1L); /* the last to leave closes it */
            end_try(e, t, CURLE_OPERATION_TIMEDOUT);
        }
    }
}

static larder__web_request *pop(larder__web_engine *e) {
    larder__web_request *r = e->queue;
    e->queue = r->next;
    if (!e->queue)
        e->queue_last = NULL;
    return r;
}

/* False: the thread ends. */
static bool take_fresh(larder__web_engine *e, bool *cancelled) {
    pthread_mutex_lock(&e->web->lock);
    if (e->fresh && e->queue_last)
        e->queue_last->next = e->fresh;
    else if (e->fresh)
        e->queue = e->fresh;
    if (e->fresh)
        e->queue_last = e->fresh_last;
    e->fresh = e->fresh_last = NULL;
    bool stop = e->web->stop;
    *cancelled = e->web->interrupted || stop;
    pthread_mutex_unlock(&e->web->lock);
    return !stop;
}

static void cancel_one(larder__web_engine *e, larder__web_request *r) {
    larder__web_answer(r, e->web->site, LARDER_E_CANCELLED, "interrupted");
    finish(e, r);
}

static void cancel_all(larder__web_engine *e) {
    while (e->busy) {
        larder__web_try *t = e->busy;
        larder__web_request *r = t->request;
        unlink_try(e, t);
        give_try(e, t);
        cancel_one(e, r);
    }
    while (e->queue)
        cancel_one(e, pop(e));
    while (e->later) {
        larder__web_request *r = e->later;
        e->later = r->next;
        cancel_one(e, r);
    }
}

static void collect(larder__web_engine *e) {
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(e->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode rc = m->data.result; /* gone once the handle is taken out */
        larder__web_try *t = e->busy;
        while (t->easy != m->easy_handle)
            t = t->next;
        end_try(e, t, rc);
    }
}

void *larder__web_engine_run(void *arg) {
    larder__web_engine *e = arg;
    bool cancelled;
    while (take_fresh(e, &cancelled)) {
        if (cancelled)
            cancel_all(e);
        call_later(e);
        while (e->queue && e->under_way < e->most)
            begin(e, pop(e));
        int running = 0;
        curl_multi_perform(e->multi, &running);
        collect(e);
        end_stalled(e);
        if (e->queue && e->under_way < e->most)
            continue;
        curl_multi_poll(e->multi, NULL, 0, (int)(idle_time(e) * 1000) + 1, NULL);
    }
    cancel_all(e);
    while (e->idle) {
        larder__web_try *t = e->idle;
        e->idle = t->next;
        curl_easy_cleanup(t->easy);
        larder__free(t);
    }
    return NULL;
}

#endif
