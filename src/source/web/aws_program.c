/* A command of the user's that prints credentials. Its words on standard error are not ours to
 * show: they may hold what nobody should read in a log. */
#include "source/web/aws_given.h"

#include "base/clock.h"
#include "base/err.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Its own group, so that what it starts can be ended with it; signals as in a fresh program. */
static int start(pid_t *out, const char *command, int to) {
    char shell[] = "sh", option[] = "-c";
    char *const words[] = {shell, option, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&how) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&files, to, 1);
    if (!err)
        err = posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    if (!err)
        err = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    if (!err)
        err = posix_spawnattr_setsigmask(&how, &none);
    if (!err)
        err = posix_spawn(out, "/bin/sh", &files, &how, words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return err;
}

/* Until its end, or until there is no room or time left. */
static int listen_to(int from, double until, char *out, size_t cap) {
    size_t n = 0;
    for (;;) {
        double left = until - larder__now();
        struct pollfd p = {.fd = from, .events = POLLIN};
        if (left <= 0)
            return larder__fail(LARDER_E_IO, "took too long");
        if (poll(&p, 1, left < 3600 ? (int)(left * 1000) + 1 : 3600000) <= 0)
            continue;
        ssize_t got = read(from, out + n, cap - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n == cap - 1)
            return larder__fail(LARDER_E_IO, "prints more than %zu bytes", cap - 1);
    }
    out[n] = 0;
    return strlen(out) == n ? 0 : larder__fail(LARDER_E_IO, "prints something else than text");
}

/* A host program that ignores SIGCHLD leaves nothing to wait for: then its words must do. */
static int reap(pid_t pid, int rc) {
    int status = 0;
    pid_t got;
    if (rc < 0)
        kill(-pid, SIGKILL);
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (rc < 0 || got != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return rc;
    return larder__fail(LARDER_E_IO, "failed (%s %d); run that command by hand to see why",
                        WIFEXITED(status) ? "exit code" : "signal",
                        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int larder__program_run(const char *command, double seconds, char *out, size_t cap) {
    int ends[2];
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return larder__fail(LARDER_E_IO, "no pipe for it: %s", strerror(errno));
    int err = start(&pid, command, ends[1]);
    close(ends[1]);
    int rc = err ? larder__fail(LARDER_E_IO, "cannot be started: %s", strerror(err))
                 : listen_to(ends[0], larder__now() + seconds, out, cap);
    close(ends[0]);
    return err ? rc : reap(pid, rc);
}
