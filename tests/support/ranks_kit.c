#include "ranks_kit.h"

#include "base/mem.h"
#include "unix/attach.h"
#include "unix/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- daemons --------------------------------------------------------------------------------- */

/* Serves when a byte comes through the pipe. */
static pid_t start_daemon(const kit_store *s, int *tell) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char go;
        larder__server *server = NULL;
        larder__server_conf conf = {
            .socket = s->socket, .mode = 0600, .cache = 64 << 20, .clients = 64};
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        close(pipes[1]);
        if (read(pipes[0], &go, 1) == 1 && larder__server_open(&server, &conf) == 0)
            larder__server_run(server);
        _exit(0);
    }
    close(pipes[0]);
    *tell = pipes[1];
    return pid;
}

static bool answers(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool there = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

static void let_serve(const kit_store *s, int tell) {
    assert_int_equal(write(tell, "", 1), 1);
    close(tell);
    for (int i = 0; i < 4000 && !answers(s->socket); i++)
        kit_nap(0.01);
    assert_true(answers(s->socket));
}

static void end_daemon(pid_t *pid) {
    if (*pid == 0)
        return;
    kill(*pid, SIGKILL);
    assert_int_equal(waitpid(*pid, NULL, 0), *pid);
    *pid = 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

void kit_store_start(kit_store *s, kit_store_kind kind) {
    int tell;
    *s = (kit_store){.kind = kind, .tell = -1};
    if (kind == KIT_REDIS) {
        kit_redis_start(&s->redis, NULL);
        return;
    }
    if (kind == KIT_CLUSTER) {
        kit_cluster_start(&s->cluster);
        return;
    }
    snprintf(s->folder, sizeof s->folder, "/tmp/larder-ranks-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->socket, sizeof s->socket, "%s/s", s->folder);
    s->pid = start_daemon(s, &tell);
    s->next = start_daemon(s, &s->tell);
    let_serve(s, tell);
}

void kit_store_kill(kit_store *s) {
    if (s->kind == KIT_REDIS)
        kit_redis_kill(&s->redis);
    else if (s->kind == KIT_CLUSTER && s->moved)
        kit_cluster_move_back(&s->cluster, s->owner, s->heir);
    else if (s->kind == KIT_CLUSTER) {
        s->owner = kit_cluster_owner(&s->cluster, "*:alive:*");
        s->heir = kit_cluster_heir(&s->cluster, s->owner);
        kit_cluster_move(&s->cluster, s->owner, s->heir);
        s->moved = true;
    } else
        end_daemon(&s->pid);
}

void kit_store_again(kit_store *s) {
    if (s->kind == KIT_REDIS) {
        kit_redis_again(&s->redis);
        return;
    }
    s->pid = s->next;
    s->next = 0;
    let_serve(s, s->tell);
    s->tell = -1;
}

void kit_store_stop(kit_store *s) {
    char lock[80];
    if (s->kind == KIT_REDIS) {
        kit_redis_stop(&s->redis);
        return;
    }
    if (s->kind == KIT_CLUSTER) {
        kit_cluster_stop(&s->cluster);
        return;
    }
    end_daemon(&s->pid);
    end_daemon(&s->next);
    if (s->tell >= 0)
        close(s->tell);
    snprintf(lock, sizeof lock, "%s.lock", s->socket);
    unlink(s->socket);
    unlink(lock);
    rmdir(s->folder);
}

const char *kit_store_cache(const kit_store *s, char *out, size_t cap, const char *budget,
                            const char *job, unsigned patience) {
    if (s->kind == KIT_REDIS)
        snprintf(out, cap, "redis://127.0.0.1:%u?budget=%s&timeout=30s&job=%s&patience=%us",
                 s->redis.port, budget, job, patience);
    else if (s->kind == KIT_CLUSTER)
        snprintf(out, cap, "redis-cluster://127.0.0.1:%u?budget=%s&timeout=30s&job=%s&patience=%us",
                 s->cluster.nodes[0].port, budget, job, patience);
    else
        snprintf(out, cap, "unix:%s?budget=%s&job=%s&patience=%us", s->socket, budget, job,
                 patience);
    return out;
}

static bool empty_now(const kit_store *s) {
    static const char left[] =
        "eval \"return #redis.call('keys','larder:3:*:j-*:[012]:*')\" 0"; /* values */
    if (s->kind == KIT_REDIS)
        return kit_redis_number(&s->redis, left) == 0;
    char *json = NULL;
    larder__door door = larder__door_at(s->socket);
    if (larder__attach_status(&door, &json) < 0) /* it may not come to answer for seconds */
        return false;
    bool empty = strstr(json, "\"rank_jobs\": []") || strstr(json, "\"rank_jobs\":[]");
    larder__free(json);
    return empty;
}

bool kit_store_emptied(const kit_store *s) {
    bool empty = false; /* for minutes, if need be */
    for (int i = 0; i < 12000 && !(empty = empty_now(s)); i++)
        kit_nap(0.05);
    return empty;
}
