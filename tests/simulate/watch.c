/* Which seed it was, where a schedule ends all of this process or never comes back: larder dies in
 * it, or goes round and round inside one step. The line that repeats it is said before the end. */
#include "schedule.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static const char *program;
static double limit;
static schedule_conf playing;

static void say(const char *what, int number, const char *of) {
    char line[600];
    int n = snprintf(line, sizeof line,
                     "FAILED %s %llu: %s %d%s\n  again: %s %s %llu-%llu without=%u players=%u\n",
                     schedule_names[playing.kind], (unsigned long long)playing.seed, what, number,
                     of, program, schedule_names[playing.kind], (unsigned long long)playing.seed,
                     (unsigned long long)playing.seed, playing.without, playing.players);
    ssize_t written = write(STDOUT_FILENO, line, (size_t)n);
    _exit(written > 0 ? 3 : 4);
}

static void died(int signal) { say("signal", signal, ""); }

static void endless(int signal) {
    (void)signal;
    say("no end after", (int)(1e3 * limit), " ms of CPU time");
}

/* The stacks of the made world are small. */
void schedule_watch(const char *name, double seconds) {
    static char stack[64 << 10];
    struct sigaction how = {.sa_handler = died, .sa_flags = SA_ONSTACK};
    program = name;
    limit = seconds;
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigaction(SIGSEGV, &how, NULL);
    sigaction(SIGBUS, &how, NULL);
    sigaction(SIGABRT, &how, NULL);
    how.sa_handler = endless;
    sigaction(SIGVTALRM, &how, NULL);
}

/* Of this process's own time: whoever else runs here takes none of it. */
void schedule_watched(const schedule_conf *c) {
    struct itimerval t = {0};
    if (!program)
        return;
    if (c) {
        playing = *c;
        t.it_value.tv_sec = (time_t)limit;
        t.it_value.tv_usec = (suseconds_t)(1e6 * (limit - (double)t.it_value.tv_sec));
    }
    setitimer(ITIMER_VIRTUAL, &t, NULL);
}
