#include "source/web/web.h"

#include "base/certificates.h"
#include "base/err.h"

#if LARDER_HAVE_CURL

#include "base/clock.h"
#include "base/mem.h"
#include "source/web/web_inside.h"

#include <signal.h>
#include <stdlib.h>

LARDER__LATE(curl, LARDER_LATE_CURL, LARDER__CURL_CALLS)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode begun;
static void begin_curl(void) { begun = curl_global_init(CURL_GLOBAL_DEFAULT); }

int larder__web_begin(void) {
    int rc = larder__late_open(&curl_late);
    if (rc < 0)
        return rc;
    pthread_once(&once, begin_curl);
    return begun == CURLE_OK ? 0 : larder__fail(LARDER_E_NOMEM, "libcurl does not start");
}

static int open_stats(larder__web *w) {
    static const larder_figure counted[] = {
        [LARDER__WEB_REQUESTS] = {"requests", "requests", "sent"},
        [LARDER__WEB_RETRIES] = {"retries", "requests", "sent again"},
        [LARDER__WEB_BYTES] = {"bytes", "bytes", "on the wire"},
        [LARDER__WEB_CONNECTIONS] = {"connections", "connections", "made"}};
    int rc = larder__stats_open(&w->stats);
    for (size_t i = 0; rc == 0 && i < LARDER__WEB_LATENCY; i++)
        rc = larder__stat_counter(w->stats, &w->stat[i], counted[i].name, counted[i].unit,
                                  counted[i].help);
    return rc < 0
               ? rc
               : larder__stat_histogram(w->stats, &w->stat[LARDER__WEB_LATENCY], "latency",
                                        "seconds", "of a request, from its begin to its last byte");
}

/* Signals are for the program's own threads. */
static int start_engine(larder__web *w, uint32_t i) {
    larder__web_engine *e = &w->engines[i];
    sigset_t all, before;
    e->web = w;
    e->most = (w->conf.requests + w->conf.engines - 1) / w->conf.engines;
    larder_rng_seed(&e->rng, (uint64_t)(larder__now() * 1e9), i);
    e->multi = curl_multi_init();
    if (!e->multi)
        return larder__fail(LARDER_E_NOMEM, "no memory for libcurl");
    curl_multi_setopt(e->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(e->multi, CURLMOPT_MAXCONNECTS, (long)e->most);
    curl_multi_setopt(e->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)e->most);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    e->started = pthread_create(&e->thread, NULL, larder__web_engine_run, e) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e->started ? 0 : larder__fail(LARDER_E_NOMEM, "no thread for requests can be started");
}

int larder__web_open(larder__web **out, larder__web_site *site, const larder__web_conf *conf) {
    *out = NULL;
    larder__web *w = larder__calloc(1, sizeof *w);
    if (!w) {
        larder__web_site_close(&site);
        return LARDER_E_NOMEM;
    }
    w->site = site;
    w->conf = *conf;
    w->conf.ca = NULL;
    w->lock_ready = pthread_mutex_init(&w->lock, NULL) == 0;
    int rc = w->lock_ready ? larder__web_begin() : LARDER_E_NOMEM;
    if (rc == 0)
        rc = open_stats(w);
    const char *ca = conf->ca ? conf->ca : larder__system_certificates();
    if (rc == 0 && ca && !(w->ca = larder__strdup(ca)))
        rc = LARDER_E_NOMEM;
    if (rc == 0 && !(w->engines = larder__calloc(conf->engines, sizeof *w->engines)))
        rc = LARDER_E_NOMEM;
    for (uint32_t i = 0; rc == 0 && i < conf->engines; i++)
        rc = start_engine(w, i);
    if (rc < 0) {
        larder__web_close(&w);
        return rc;
    }
    *out = w;
    return 0;
}

static void wake(larder__web *w) {
    for (uint32_t i = 0; w->engines && i < w->conf.engines; i++)
        if (w->engines[i].started)
            curl_multi_wakeup(w->engines[i].multi);
}

void larder__web_close(larder__web **pw) {
    larder__web *w = *pw;
    *pw = NULL;
    if (!w)
        return;
    if (w->lock_ready) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_mutex_unlock(&w->lock);
    }
    wake(w);
    for (uint32_t i = 0; w->engines && i < w->conf.engines; i++) {
        if (w->engines[i].started)
            pthread_join(w->engines[i].thread, NULL);
        if (w->engines[i].multi)
            curl_multi_cleanup(w->engines[i].multi);
    }
    if (w->lock_ready)
        pthread_mutex_destroy(&w->lock);
    larder__stats_close(&w->stats);
    larder__web_site_close(&w->site);
    larder__free(w->engines);
    larder__free(w->ca);
    larder__free(w);
}

static void hand_over(larder__web_engine *e, larder__web_request *r) {
    r->next = NULL;
    if (e->fresh_last)
        e->fresh_last->next = r;
    else
        e->fresh = r;
    e->fresh_last = r;
}

void larder__web_run(larder__web *w, larder__web_request *requests, size_t n) {
    larder__web_call call = {.left = n, .done = PTHREAD_COND_INITIALIZER};
    if (n == 0)
        return;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n; i++) {
        requests[i].call = &call;
        requests[i].tries = requests[i].redirects = 0;
        requests[i].redirect[0] = 0;
        hand_over(&w->engines[w->turn++ % w->conf.engines], &requests[i]);
    }
    pthread_mutex_unlock(&w->lock);
    wake(w);
    pthread_mutex_lock(&w->lock);
    while (call.left)
        pthread_cond_wait(&call.done, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&call.done);
}

void larder__web_interrupt(larder__web *w) {
    pthread_mutex_lock(&w->lock);
    w->interrupted = true;
    pthread_mutex_unlock(&w->lock);
    wake(w);
}

larder__web_site *larder__web_site_of(larder__web *w) { return w->site; }

int larder__web_stat(larder__web *w, int which, larder_stat_value *out) {
    return larder__stat_read(w->stats, (size_t)which, out);
}

#else /* nothing can be opened, so nothing else is ever called */

int larder__web_open(larder__web **out, larder__web_site *site, const larder__web_conf *conf) {
    (void)conf;
    *out = NULL;
    larder__web_site_close(&site);
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build reads no http:, https:, s3: or gs: (it lacks libcurl; install "
                        "libcurl4-openssl-dev and build again)");
}

void larder__web_close(larder__web **w) { *w = NULL; }
void larder__web_run(larder__web *w, larder__web_request *r, size_t n) {
    (void)w, (void)r, (void)n;
}
void larder__web_interrupt(larder__web *w) { (void)w; }
larder__web_site *larder__web_site_of(larder__web *w) {
    (void)w;
    return NULL;
}
int larder__web_stat(larder__web *w, int which, larder_stat_value *out) {
    (void)w, (void)which, (void)out;
    return LARDER_E_RANGE;
}

#endif
