/* Where a program's CPU time goes, on machines without a profiler: loaded into it (LD_PRELOAD),
 * notes where it stands whenever the clock of its CPU time ticks, and writes that down when it
 * ends: a line a sample, "file offset", or "kernel 0" in a system call. bench/gpu/cpu_path.py
 * builds and reads it.
 *
 *     cc -O2 -shared -fPIC -o sampled.so sampled.c -ldl
 *     SAMPLED=file LD_PRELOAD=./sampled.so program */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#if !defined(__x86_64__)
#error "reads registers of x86-64"
#endif

enum { ROOM = 1 << 17 };
static uintptr_t where[ROOM]; /* 0: in the kernel */
static volatile unsigned n;

static void on_tick(int number, siginfo_t *about, void *context) {
    (void)number, (void)about;
    const ucontext_t *u = context;
    uintptr_t at = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
    uint16_t before;
    memcpy(&before, (const void *)(at - 2), sizeof before);
    if (n < ROOM)
        where[n++] = before == 0x050f ? 0 : at; /* behind a syscall instruction */
}

__attribute__((constructor)) static void start(void) {
    if (!getenv("SAMPLED"))
        return;
    struct sigaction how = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval each = {{0, 1000}, {0, 1000}};
    sigaction(SIGPROF, &how, NULL);
    setitimer(ITIMER_PROF, &each, NULL);
}

__attribute__((destructor)) static void write_down(void) {
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, NULL);
    FILE *to = getenv("SAMPLED") ? fopen(getenv("SAMPLED"), "w") : NULL;
    if (!to)
        return;
    for (unsigned i = 0; i < n; i++) {
        Dl_info is;
        if (where[i] && dladdr((const void *)where[i], &is))
            fprintf(to, "%s %lx\n", is.dli_fname,
                    (unsigned long)(where[i] - (uintptr_t)is.dli_fbase));
        else
            fprintf(to, "%s 0\n", where[i] ? "?" : "kernel");
    }
    fclose(to);
}
