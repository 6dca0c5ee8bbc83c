/* larder serve: one cache for all jobs of a machine. */
#include "base/err.h"
#include "base/escape.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stop.h"
#include "see/http_server.h"
#include "unix/attach.h"
#include "unix/server.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    const char *socket, *cache, *quota, *mode, *http, *owner, *tcp, *token_file;
    uint64_t clients;
    bool quiet, status, with_stdin, share_data;
} options;

static int parse_options(options *o, int argc, char **argv) {
    *o = (options){.cache = "1GiB", .quota = "0", .mode = "600", .clients = 1024};
    const larder__option table[] = {
        {"socket", LARDER__TEXT, &o->socket, "PATH",
         "where to listen ($LARDER_SOCKET, $XDG_RUNTIME_DIR/larder.sock or "
         "/tmp/larder-UID/larder.sock)"},
        {"cache", LARDER__TEXT, &o->cache, "SIZE", "memory for all data sets together (1GiB)"},
        {"quota", LARDER__TEXT, &o->quota, "SIZE", "what one job may bring in, 0: all of it (0)"},
        {"mode", LARDER__TEXT, &o->mode, "OCTAL",
         "permissions of the socket: who may attach (600)"},
        {"share-data", LARDER__FLAG, &o->share_data, NULL,
         "users share data even where one of them cannot read its files"},
        {"http", LARDER__TEXT, &o->http, "HOST:PORT",
         "serve the page of larder dash there too; a token in $LARDER_TOKEN (off)"},
        {"clients", LARDER__NUMBER, &o->clients, "N", "connections at most (1024)"},
        {"quiet", LARDER__FLAG, &o->quiet, NULL, "say nothing about who comes and goes"},
        {"with-stdin", LARDER__FLAG, &o->with_stdin, NULL,
         "end when standard input does: with the program that started it"},
        {"status", LARDER__FLAG, &o->status, NULL, "ask a running daemon how it is: JSON"},
        {"owner", LARDER__TEXT, &o->owner, "USER",
         "with --status: whose daemon may answer besides yours and root's"},
        {"tcp", LARDER__TEXT, &o->tcp, NULL, NULL},
        {"token-file", LARDER__TEXT, &o->token_file, NULL, NULL},
        {0}};
    const larder__command command = {
        "serve", "larder serve [--socket PATH] [--cache SIZE]\nlarder serve --status",
        "Keeps one cache for all training jobs of this machine. Jobs attach with\n"
        "cache=\"unix:PATH\" (or --cache unix:PATH, or LARDER_SOCKET=PATH and no other change), "
        "share\n"
        "what any of them has read, and read the bytes in place. A job that dies leaves nothing\n"
        "behind; when the daemon dies, jobs go on straight from storage and come back to it.\n"
        "Processes that train one model together have one cache and one order with\n"
        "cache=\"unix:PATH?job=NAME\"; from Python that comes by itself.\n"
        "Several machines share a cache through Redis: cache=\"redis://HOST/\". Ctrl-C ends it.",
        "  larder serve --cache 8GiB &\n"
        "  larder train photos/ --recipe minio --cache unix: &\n"
        "  larder train photos/ --recipe minio --cache unix: --seed 1 &\n"
        "  larder serve --status",
        table};
    size_t count;
    return larder__options_parse(&command, argc, argv, NULL, 0, &count);
}

static void say_line(void *quiet, const char *line) {
    char when[16];
    time_t now = time(NULL);
    struct tm tm;
    if (*(const bool *)quiet)
        return;
    strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &tm));
    printf("%s %s\n", when, line);
    fflush(stdout);
}

static void stop_server(void *server) { larder__server_stop(server); }

/* Ends with whoever holds the other end: a pipe's end is seen even where its writer was killed. */
static void *watch_stdin(void *server) {
    char ignored[256];
    ssize_t n;
    while ((n = read(STDIN_FILENO, ignored, sizeof ignored)) > 0 || (n < 0 && errno == EINTR)) {
    }
    larder__server_stop(server);
    return NULL;
}

/* The page, beside the daemon's own loop. */
typedef struct page {
    larder__http *http;
    pthread_t thread;
    bool running;
} page;

static void *run_page(void *http) {
    larder__http_run(http);
    return NULL;
}

static int open_page(page *p, const char *address) {
    const char *token = getenv("LARDER_TOKEN");
    int rc = larder__http_open(&p->http,
                               &(larder__http_server_conf){.address = address, .token = token});
    int err = rc == 0 ? pthread_create(&p->thread, NULL, run_page, p->http) : 0;
    p->running = rc == 0 && err == 0;
    return err ? larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err)) : rc;
}

static void close_page(page *p) {
    if (p->running) {
        larder__http_stop(p->http);
        pthread_join(p->thread, NULL);
    }
    larder__http_close(&p->http);
}

static int start_watch(pthread_t *thread, larder__server *server) {
    int err = pthread_create(thread, NULL, watch_stdin, server);
    return err ? larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err)) : 0;
}

/* It may still wait for an end of input that will not come. */
static void end_watch(pthread_t thread) {
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static int read_options(const options *o, larder__server_conf *conf) {
    char *end;
    int rc = o->tcp || o->token_file
                 ? larder__fail(LARDER_E_ARGS,
                                "a daemon serves its own machine, so there is no --tcp; several "
                                "machines share a cache through Redis: --cache redis://HOST/")
                 : larder__parse_amount("--cache", o->cache, &conf->cache);
    if (rc == 0 && conf->cache == 0)
        rc = larder__fail(LARDER_E_ARGS,
                          "--cache %s: a daemon without a cache serves nobody; give "
                          "it a size such as 8GiB",
                          o->cache);
    if (rc == 0)
        rc = larder__parse_amount("--quota", o->quota, &conf->quota);
    conf->mode = (unsigned)strtoul(o->mode, &end, 8);
    if (rc == 0 && (*end || end == o->mode || conf->mode > 0777))
        rc = larder__fail(LARDER_E_ARGS, "--mode is an octal number such as 660, not \"%s\"",
                          o->mode);
    if (rc == 0 && (o->clients == 0 || o->clients > 65536))
        rc = larder__fail(LARDER_E_ARGS, "--clients is 1 to 65536");
    conf->clients = (uint32_t)o->clients;
    conf->share_data = o->share_data;
    return rc;
}

static int ask_status(const larder__door *door) {
    char *json = NULL;
    int rc = larder__attach_status(door, &json);
    if (rc < 0)
        fprintf(stderr, "larder serve: %s\n", larder_errmsg());
    else
        fputs(json, stdout);
    larder__free(json);
    return rc < 0 ? 1 : 0;
}

/* Where to listen, or whom to ask. */
static int find_door(const options *o, larder__door *out) {
    int rc = 0;
    if (!o->socket)
        rc = larder__door_usual(out, !o->status);
    else if (strlen(o->socket) >= sizeof out->path)
        rc =
            larder__fail(LARDER_E_ARGS, "%.60s…: a socket's path has at most 107 bytes", o->socket);
    else
        *out = larder__door_at(o->socket);
    if (rc == 0 && o->owner && !o->status)
        rc = larder__fail(LARDER_E_ARGS, "--owner goes with --status; a daemon is yours");
    return rc == 0 && o->owner ? larder__door_owner(o->owner, &out->owner) : rc;
}

/* As many as it may have: jobs take up to three each. */
static void allow_descriptors(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

int larder__cmd_serve(int argc, char **argv) {
    options o;
    larder__door door;
    int parsed = parse_options(&o, argc, argv);
    if (parsed != 0)
        return parsed < 0 ? 2 : 0;
    if (find_door(&o, &door) < 0) {
        fprintf(stderr, "larder serve: %s\n", larder_errmsg());
        return 2;
    }
    if (o.status)
        return ask_status(&door);
    larder__server *server = NULL;
    larder__stop stop;
    larder__server_conf conf = {.socket = door.path, .say = say_line, .arg = &o.quiet};
    int rc = read_options(&o, &conf);
    bool wrong = rc < 0;
    page shown = {.running = false};
    allow_descriptors();
    if (rc == 0)
        rc = larder__server_open(&server, &conf);
    if (rc == 0 && o.http) {
        rc = open_page(&shown, o.http);
        wrong = rc == LARDER_E_ARGS;
    }
    if (rc == 0 && (rc = larder__stop_open(&stop)) == 0) {
        char path[4 * sizeof door.path];
        larder__shown(path, sizeof path, door.path);
        printf("larder serves %s, cache %s; jobs attach with --cache unix:%s\n", path, o.cache,
               path);
        if (o.http)
            printf("and shows it at %s\n", larder__http_url(shown.http));
        fflush(stdout);
        pthread_t watch;
        bool watched = o.with_stdin && (rc = start_watch(&watch, server)) == 0;
        larder__stop_tell(&stop, stop_server, server);
        rc = rc < 0 ? rc : larder__server_run(server);
        larder__stop_tell(&stop, NULL, NULL);
        if (watched)
            end_watch(watch);
        larder__stop_close(&stop);
    }
    if (rc < 0)
        fprintf(stderr, "larder serve: %s\n", larder_errmsg());
    close_page(&shown);
    larder__server_close(&server);
    return wrong ? 2 : rc < 0 ? 1 : 0;
}
