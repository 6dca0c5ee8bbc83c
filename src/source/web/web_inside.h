/* What the files of the engine share: web.c hands requests over and waits, web_engine.c drives
 * them, web_verdict.c says what an answer or its absence means. Built with libcurl alone. */
#ifndef LARDER_SOURCE_WEB_INSIDE_H
#define LARDER_SOURCE_WEB_INSIDE_H

#include "base/err.h"
#include "base/late.h"
#include "source/web/web.h"

#include <curl/curl.h>
#include <larder/plugin.h>
#include <pthread.h>

/* Of libcurl; web.c has it. */
#define LARDER__CURL_CALLS(X)                                                                      \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_setopt) X(curl_multi_wakeup) X(curl_slist_append) X(curl_slist_free_all)
LARDER__CURL_CALLS(LARDER__LATE_NAME)

enum { LARDER__WEB_REDIRECTS = 5, LARDER__WEB_ERROR_BODY = 2048 };
enum { LARDER__WEB_LITTLE = 1024 }; /* bytes that have to come in twice the time of a stall */

typedef struct larder__web_call { /* somebody waits for these */
    size_t left;                  /* guarded by the web's lock */
    pthread_cond_t done;
} larder__web_call;

typedef struct larder__web_try { /* one attempt at a request */
    CURL *easy;
    struct curl_slist *headers;
    larder__dressed dressed;
    larder__web_request *request;
    larder__web_head head;
    bool probe;          /* a head is asked for by a GET of one byte */
    bool checked;        /* the head was looked at and fits what was asked for */
    uint64_t body;       /* bytes of it that came */
    size_t piece;        /* the first one that is not complete */
    double begun, moved; /* when something of it came last */
    double paced;        /* when there was some way with it last: `little` bytes since */
    uint32_t little;
    bool dripped;   /* it ended for that it came too slowly */
    bool answering; /* the first byte is there */
    int verdict;    /* negative: this ends the request; its sentence is there */
    char error_body[LARDER__WEB_ERROR_BODY];
    size_t error_size;
    char says[CURL_ERROR_SIZE];
    struct larder__web_try *next;
} larder__web_try;

typedef struct larder__web_engine {
    struct larder__web *web;
    pthread_t thread;
    bool started;
    CURLM *multi;
    larder__web_request *fresh, *fresh_last; /* handed over; guarded by the web's lock */
    /* Its own from here on. */
    larder__web_request *queue, *queue_last; /* not begun */
    larder__web_request *later;              /* to be tried again, in no order */
    larder__web_try *busy, *idle;
    uint32_t under_way, most;
    double looked;      /* for attempts that stopped, */
    double stalled;     /* and when one had */
    bool alone, shared; /* answers came by HTTP/1, and by what many share a connection with */
    larder_rng rng;
} larder__web_engine;

struct larder__web {
    larder__web_site *site;
    larder__web_conf conf;
    char *ca;
    bool lock_ready;
    pthread_mutex_t lock;
    bool stop, interrupted; /* guarded by lock */
    uint32_t turn;          /* which engine is next; guarded by lock */
    larder__stats *stats;
    larder__stat stat[LARDER__WEB_STATS];
    larder__web_engine *engines;
};

/* libcurl's own start, once in a process: 0, or why there is none. */
int larder__web_begin(void);
void *larder__web_engine_run(void *engine);

/* The head is complete: does it fit? Sets the verdict where it does not; false: take no body. */
bool larder__web_check_head(larder__web_try *, const larder__web_site *);

typedef enum { LARDER__WEB_DONE, LARDER__WEB_FAILED, LARDER__WEB_AGAIN } larder__web_outcome;
/* An attempt is over. FAILED and AGAIN: the request has code and sentence. `wait`: AGAIN not before
 * so many seconds, or 0: by the usual rule; negative: at once. */
larder__web_outcome larder__web_judge(larder__web_try *, larder__web_site *, CURLcode,
                                      double *wait);
/* "URL: sentence" as the request's answer; worth `code`. */
#define larder__web_answer(request, site, code, ...)                                               \
    (larder__say(__VA_ARGS__), larder__web_answer_said(request, site, code))
int larder__web_answer_said(larder__web_request *, const larder__web_site *, int code);

#endif
