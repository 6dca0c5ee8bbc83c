#include "daemon_kit.h"

#include "base/clock.h"
#include "base/world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

char kit_door_folder[256], kit_door[300];

int kit_door_make(void **state) {
    (void)state;
    check_folder(kit_door_folder);
    snprintf(kit_door, sizeof kit_door, "%s/s", kit_door_folder);
    return 0;
}

int kit_door_remove(void **state) {
    (void)state;
    check_folder_remove(kit_door_folder);
    return 0;
}

pid_t kit_daemon_start(const larder__server_conf *conf, void (*first)(void *), void *arg) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        larder__server *server = NULL;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (first)
            first(arg);
        must(larder__server_open(&server, conf) == 0);
        must(write(ready[1], "x", 1) == 1);
        larder__server_run(server);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

void kit_daemon_kill(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static double stopped_at;
static double stopped(void) { return stopped_at; }

/* A limit of time that a socket has does not count either. */
static ssize_t send_patiently(int fd, const struct msghdr *m, int flags) {
    bool waits = !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ssize_t n;
    while ((n = sendmsg(fd, m, flags)) < 0 && errno == EAGAIN && waits)
        continue;
    return n;
}

void kit_clock_stop(void *unused) {
    static larder__world still;
    (void)unused;
    stopped_at = larder__now();
    still = *larder__world_use(NULL);
    still.now = stopped;
    still.send = send_patiently;
    larder__world_use(&still);
}

void kit_clock_go_on(void) { larder__world_use(NULL); }
