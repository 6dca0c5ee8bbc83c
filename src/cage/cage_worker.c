#include "cage/cage_worker.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cage/cage.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 200, HELLO_SECONDS = 60, PATIENCE = 10 /* times the processor's seconds */ };
static const size_t KEPT = (size_t)32 << 20; /* bytes of memory that stay after a large sample */

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

static void shut(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- its memory ------------------------------------------------------------------------------ */

int larder__cage_worker_open(larder__cage_worker *w) {
    const size_t all = LARDER__CAGE_IN + LARDER__CAGE_OUT;
    *w = (larder__cage_worker){.socket = -1, .handle = -1};
    w->memory = memfd_create("larder-cage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->memory < 0 || ftruncate(w->memory, (off_t)all) != 0 ||
        fcntl(w->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return larder__fail(LARDER_E_NOMEM, "memory for a cage: %s", strerror(errno));
    void *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, w->memory, 0);
    if (at == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "%zu bytes of addresses for a cage: %s", all,
                            strerror(errno));
    w->shared = at;
    madvise(at, all, MADV_DONTDUMP);
    madvise(at, all, MADV_DONTFORK);
    return 0;
}

void larder__cage_worker_close(larder__cage_worker *w) {
    larder__cage_worker_end(w);
    if (w->shared)
        munmap(w->shared, LARDER__CAGE_IN + LARDER__CAGE_OUT);
    w->shared = NULL;
    shut(&w->memory);
}

void larder__cage_worker_lay(larder__cage_worker *w, const void *bytes, size_t size) {
    if (w->used > KEPT)
        madvise(w->shared, LARDER__CAGE_IN + LARDER__CAGE_OUT, MADV_REMOVE);
    w->used = size;
    memcpy(w->shared, bytes, size);
}

/* ---- its process ----------------------------------------------------------------------------- */

/* Nothing of the environment but what finding and checking libraries takes: there are keys in it.
 */
static void choose_environment(char *out[8]) {
    static const char *const names[] = {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS",
                                        "TSAN_OPTIONS"};
    size_t n = 0;
    out[n++] = (char *)(uintptr_t) "OPENBLAS_NUM_THREADS=1"; /* a library of the program's */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *value = getenv(names[i]);
        if (value) /* "NAME=value" as it stands there */
            out[n++] = value - strlen(names[i]) - 1;
    }
    out[n] = NULL;
}

static int spawn(larder__cage_worker *w, const char *program, int far,
                 const larder__cage_limits *most) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t all, none;
    char memory[24], self[24], *environment[8];
    char *argv[] = {(char *)(uintptr_t)LARDER__CAGE_PROGRAM, memory, self, NULL};
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)most->memory);
    snprintf(self, sizeof self, "%lld", (long long)getpid());
    choose_environment(environment);
    sigfillset(&all);
    sigemptyset(&none);
    int err = posix_spawn_file_actions_init(&files);
    if (err)
        return err;
    if ((err = posix_spawnattr_init(&how)) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return err;
    }
    /* A group of its own: what is typed at a terminal is for the job. */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    for (int fd = 0; fd < 3 && err == 0; fd++)
        err = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    if (err == 0)
        err = posix_spawn_file_actions_adddup2(&files, far, LARDER__CAGE_SOCKET);
    if (err == 0)
        err = posix_spawn_file_actions_adddup2(&files, w->memory, LARDER__CAGE_MEMORY);
    if (err == 0)
        err = posix_spawn(&w->process, program, &files, &how, argv, environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return err;
}

/* Above the numbers that the process has its own under, so that none covers another. */
static int raise_descriptor(int *fd) {
    if (*fd > LARDER__CAGE_MEMORY)
        return 0;
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, LARDER__CAGE_MEMORY + 1);
    close(*fd);
    *fd = high;
    return high < 0 ? -1 : 0;
}

static int open_socket(larder__cage_worker *w, int *far) {
    int ends[2];
    const struct timeval slice = {.tv_usec = SLICE_MS * 1000};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    w->socket = ends[0];
    *far = ends[1];
    return raise_descriptor(far) == 0 && raise_descriptor(&w->memory) == 0 &&
                   setsockopt(w->socket, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) == 0
               ? 0
               : -1;
}

static int hear(larder__cage_worker *w, const larder__cage_limits *most,
                const _Atomic bool *interrupted, larder__cage_answer *a);

static int meet(larder__cage_worker *w, const char *program) {
    const larder__cage_limits patient = {.seconds = HELLO_SECONDS};
    larder__cage_answer a;
    w->number = 0;
    int rc = hear(w, &patient, NULL, &a);
    if (rc > 0)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "the program %.200s, which is to decode for it, %s before it began",
                            program, w->ended);
    if (rc < 0)
        return larder__fail_in(LARDER_E_UNSUPPORTED, "no cage");
    a.why[sizeof a.why - 1] = 0;
    if (strcmp(a.why, larder_version()) != 0)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "no cage: the program %.200s is another larder than %s", program,
                            larder_version());
    return 0;
}

int larder__cage_worker_start(larder__cage_worker *w, const char *program,
                              const larder__cage_limits *most) {
    int far = -1;
    int err = open_socket(w, &far) == 0 ? spawn(w, program, far, most) : errno;
    shut(&far);
    if (err) {
        w->process = 0;
        larder__cage_worker_end(w);
        return larder__fail(LARDER_E_UNSUPPORTED, "no cage: %.200s cannot be started: %s", program,
                            strerror(err));
    }
    w->handle = (int)syscall(SYS_pidfd_open, w->process, 0u);
    int rc = meet(w, program);
    if (rc < 0)
        larder__cage_worker_end(w);
    return rc;
}

static void say_how(int status, char *out, size_t cap) {
    if (WIFSIGNALED(status))
        snprintf(out, cap, "was ended by signal %d (%s)%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGSYS ? ": it tried what its cage forbids" : "");
    else
        snprintf(out, cap, "ended with exit status %d", WEXITSTATUS(status));
}

/* By its handle, as its number is another's once somebody else has waited for it. */
static void end_process(const larder__cage_worker *w) {
    if (w->handle < 0 || syscall(SYS_pidfd_send_signal, w->handle, SIGKILL, NULL, 0) != 0)
        if (w->handle < 0 || errno == ENOSYS)
            kill(w->process, SIGKILL);
}

void larder__cage_worker_end(larder__cage_worker *w) {
    int status = 0;
    if (w->process > 0) {
        struct rusage took = {0};
        end_process(w); /* one that has ended stays as it ended */
        pid_t got;
        do
            got = wait4(w->process, &status, 0, &took);
        while (got < 0 && errno == EINTR);
        if (got == w->process)
            say_how(status, w->ended, sizeof w->ended);
        else /* the program waits for all its children, or for none */
            snprintf(w->ended, sizeof w->ended, "has ended");
        w->earlier += (double)(took.ru_utime.tv_sec + took.ru_stime.tv_sec) +
                      1e-6 * (double)(took.ru_utime.tv_usec + took.ru_stime.tv_usec);
    }
    w->process = 0;
    shut(&w->handle);
    shut(&w->socket);
}

static double clock_of(pid_t process) {
    clockid_t id;
    struct timespec t;
    if (process <= 0 || clock_getcpuclockid(process, &id) != 0 || clock_gettime(id, &t) != 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double larder__cage_worker_seconds(const larder__cage_worker *w) {
    return w->earlier + clock_of(w->process);
}

int larder__cage_worker_distrust(larder__cage_worker *w) {
    larder__cage_worker_end(w);
    snprintf(w->ended, sizeof w->ended, "%s", larder_errmsg());
    return LARDER__CAGE_ENDED;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* How long a sample took may not depend on what else this machine does, so it is the processor's
 * seconds that count, read whenever a slice of time went by without an answer. One that only waits
 * is ended too, much later. */
static int hear(larder__cage_worker *w, const larder__cage_limits *most,
                const _Atomic bool *interrupted, larder__cage_answer *a) {
    double begun = 0, spent = 0;
    unsigned char message[sizeof *a + 1];
    for (;;) {
        ssize_t n = recv(w->socket, message, sizeof message, 0);
        if (n > 0) {
            int rc = larder__cage_heard(a, message, (size_t)n, w->number);
            return a->magic ? rc : larder__cage_worker_distrust(w);
        }
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            larder__cage_worker_end(w);
            return LARDER__CAGE_ENDED;
        }
        if (interrupted && *interrupted) {
            larder__cage_worker_end(w);
            return larder__fail(LARDER_E_CANCELLED, "cancelled");
        }
        double now = larder__now(), worked = larder__cage_worker_seconds(w);
        if (begun == 0) {
            begun = now;
            spent = worked;
        }
        if (worked - spent < most->seconds && now - begun < PATIENCE * most->seconds)
            continue;
        larder__cage_worker_end(w);
        snprintf(w->ended, sizeof w->ended, "was ended after %g seconds%s (seconds= of the cage)",
                 most->seconds, worked - spent < most->seconds ? " of nothing" : "");
        return LARDER__CAGE_LATE;
    }
}

int larder__cage_worker_ask(larder__cage_worker *w, const larder__cage_limits *most,
                            const _Atomic bool *interrupted, larder__cage_ask *q,
                            larder__cage_answer *a) {
    q->magic = LARDER__CAGE_ASKS;
    q->number = ++w->number;
    if (send(w->socket, q, sizeof *q, MSG_NOSIGNAL) != sizeof *q) {
        larder__cage_worker_end(w);
        return LARDER__CAGE_ENDED;
    }
    return hear(w, most, interrupted, a);
}
