/* A worker of a cage whose decoder was taken over: a picture with the comment "#evil WHEN DEED" has
 * it do that, at the head or at the pixels. All other pictures it decodes as it should. */
#include "cage/cage.h"
#include "cage/cage_talk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARDER__CAGE_TEST = 57 }; /* a descriptor of test_cage.c */

static uint64_t asked; /* questions so far, which is the number of the last */

static void tell(larder__cage_answer a) {
    a.magic = LARDER__CAGE_TELLS;
    send(LARDER__CAGE_SOCKET, &a, sizeof a, MSG_NOSIGNAL); /* the true answer follows */
}

static void crash(const char *deed, uint8_t *out) {
    if (strcmp(deed, "segv") == 0)
        *(volatile uint8_t *)(out - ((uintptr_t)out - 8)) = 1;
    if (strcmp(deed, "abort") == 0)
        abort();
    if (strcmp(deed, "exit") == 0)
        _exit(0);
    for (size_t n = LARDER__CAGE_OUT - 4096; strcmp(deed, "overrun") == 0; n++)
        ((volatile uint8_t *)out)[n] = 0xee;
    for (volatile unsigned n = 0; strcmp(deed, "loop") == 0; n++) {
    }
    if (strcmp(deed, "stand") == 0)
        for (;;)
            syscall(SYS_futex, &(int){0}, 0, 0, NULL, NULL, 0);
    /* Far more than there is room for, and no more: a cage that does not hold is not to cost the
     * machine. */
    for (int i = 0; i < 1024 && strcmp(deed, "allocate") == 0; i++) {
        void *volatile p = malloc(1 << 20); /* or a compiler sees that nobody uses it */
        if (!p)
            abort();
        memset(p, 1, 1 << 20);
    }
    for (int i = 0; i < 64 && strcmp(deed, "reserve") == 0; i++) /* tables of pages cost, too */
        if (mmap(NULL, (size_t)1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            abort();
}

/* What it must not have: crashes if that is so. */
static void look_round(const char *deed, const uint8_t *bytes, uint8_t *out) {
    if (strcmp(deed, "scribble") == 0) { /* on what it was given to read */
        mprotect((void *)(uintptr_t)bytes, 4096, PROT_READ | PROT_WRITE);
        *(volatile uint8_t *)(uintptr_t)bytes = 'X';
    }
    if (strcmp(deed, "environ") == 0 && !getenv("LARDER_CAGE_SECRET"))
        crash("segv", out);
    if (strcmp(deed, "descriptor") == 0 && write(LARDER__CAGE_TEST, "", 1) < 0)
        crash("segv", out);
}

/* What it could do harm with. */
static void reach_out(const char *deed) {
    char *const none[] = {NULL};
    if (strcmp(deed, "open") == 0)
        (void)!open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    if (strcmp(deed, "socket") == 0)
        (void)!socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strcmp(deed, "execve") == 0)
        execve("/bin/true", none, none);
    if (strcmp(deed, "ptrace") == 0)
        ptrace(PTRACE_ATTACH, getpid() - 1, NULL, NULL);
    if (strcmp(deed, "kill") == 0)
        syscall(SYS_kill, -1,
                SIGTERM); /* would be all of this user's, so never in a test as root */
    if (strcmp(deed, "signal") == 0)
        syscall(SYS_tgkill, getpid() - 1, getpid() - 1, 0);
    if (strcmp(deed, "fork") == 0)
        syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (strcmp(deed, "prctl") == 0)
        prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    if (strcmp(deed, "code") == 0)
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (strcmp(deed, "share") == 0)
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (strcmp(deed, "shrink") == 0)
        (void)!ftruncate(LARDER__CAGE_OUT_FD, 0);
    if (strcmp(deed, "stack") == 0) /* RLIMIT_DATA does not count it */
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1,
             0);
    if (strcmp(deed, "poison") == 0) /* without an address, or root would lose a page for ever */
        madvise(NULL, 0, 100);
    if (strcmp(deed, "inherit") == 0) /* FUTEX_LOCK_PI */
        syscall(SYS_futex, &(int){0}, 6, 0, NULL, NULL, 0);
}

static void lie(const char *deed) {
    const larder__cage_answer wide = {
        .number = asked, .w = 8, .h = 8, .row = INT64_MAX, .is = {0, 0, INT64_MAX, INT64_MAX}};
    larder__cage_answer a = wide;
    if (strcmp(deed, "short") == 0)
        send(LARDER__CAGE_SOCKET, "yes", 3, MSG_NOSIGNAL);
    if (strcmp(deed, "other") == 0)
        tell((larder__cage_answer){.number = asked + 7});
    if (strcmp(deed, "positive") == 0)
        tell((larder__cage_answer){.number = asked, .code = 5, .w = 8, .h = 8});
    if (strcmp(deed, "giant") == 0)
        tell((larder__cage_answer){.number = asked, .w = UINT32_MAX, .h = UINT32_MAX});
    if (strcmp(deed, "wide") == 0)
        tell(wide);
    a.row = -64;
    a.is = (larder__rect){0, 0, 8, 8};
    if (strcmp(deed, "backwards") == 0)
        tell(a);
    a.row = 32;
    a.at = (int64_t)LARDER__CAGE_OUT - 16;
    if (strcmp(deed, "outside") == 0)
        tell(a);
    a.at = 0;
    a.is.y1 = 4;
    if (strcmp(deed, "less") == 0)
        tell(a);
    if (strcmp(deed, "tearful") == 0) {
        a = (larder__cage_answer){.number = asked, .code = LARDER_E_NOMEM};
        tell(a);
    }
    if (strcmp(deed, "escape") == 0) {
        a = (larder__cage_answer){.number = asked, .code = LARDER_E_STATE};
        memset(a.why, 0x1b, sizeof a.why);
        tell(a);
    }
    for (uint64_t n = asked; strcmp(deed, "ahead") == 0; n++) /* and never reads a question */
        tell((larder__cage_answer){.number = n, .w = 8, .h = 8, .row = 32, .is = {0, 0, 8, 8}});
    if (strcmp(deed, "twice") == 0) /* the true one is heard by whoever asks next */
        tell((larder__cage_answer){.number = asked, .w = 8, .h = 8});
}

static void hook(uint32_t what, const uint8_t *bytes, size_t size, uint8_t *out) {
    char when[16], deed[16], text[64] = "";
    asked++;
    memcpy(text, bytes, size < sizeof text - 1 ? size : sizeof text - 1);
    if (sscanf(text, "P6 #evil %15s %15s", when, deed) != 2 ||
        (strcmp(when, "head") == 0) != (what == LARDER__CAGE_HEAD))
        return;
    crash(deed, out);
    look_round(deed, bytes, out);
    reach_out(deed);
    lie(deed);
}

int main(int argc, char **argv) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it, for which it lacks the calls */
    signal(SIGBUS, SIG_DFL);
    _exit(larder__cage_serve(argc, argv, hook));
}
