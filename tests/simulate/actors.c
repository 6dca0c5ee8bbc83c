#include "actors.h"

#include "base/mem.h"
#include "descriptors.h"
#include "open_files.h"
#include "passed_memory.h"
#include "wrapped.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define WITH_ASAN 1
#else
#define WITH_ASAN 0
#endif

enum { STACK = 256 << 10, GUARD = 4096 };

typedef enum { FREE, READY, WAITING, OVER } thread_state;

struct actor_thread {
    thread_state state;
    actor_process *of;
    const void *on;
    double wake;
    bool woken;
    void *(*main)(void *);
    void *arg;
    ucontext_t begin;
    jmp_buf at;
    bool begun, alone; /* alone: nobody joins it */
    unsigned char *stack;
    larder__purse *purse;
    int err;
    void *fake; /* of ASan */
};

static struct {
    double now;
    uint64_t steps;
    larder_rng rng;
    actor_process processes[ACTOR_PROCESSES];
    actor_thread threads[ACTOR_THREADS];
    int top; /* threads below it were used */
    actor_thread *current;
    jmp_buf home;
    ucontext_t home_context;
    char complaint[600];
    const void *home_stack;
    size_t home_size;
} w;
bool actors_verbose;

/* ---- chance and words ------------------------------------------------------------------------ */

uint64_t actors_chance(uint64_t below) { return larder_rng_below(&w.rng, (uint32_t)below); }
bool actors_one_in(uint64_t n) { return actors_chance(n) == 0; }
double actors_between(double low, double high) {
    return low + (high - low) * (double)(larder_rng_next(&w.rng) >> 11) * 0x1p-53;
}

void actors_complain(const char *format, ...) {
    va_list args;
    if (w.complaint[0])
        return;
    int n = snprintf(w.complaint, sizeof w.complaint,
                     "step %llu, %.6f s, %s: ", (unsigned long long)w.steps, w.now - 1000,
                     w.current ? w.current->of->name : "the world");
    va_start(args, format);
    vsnprintf(w.complaint + n, sizeof w.complaint - (size_t)n, format, args);
    va_end(args);
}

const char *actors_complaint(void) { return w.complaint[0] ? w.complaint : NULL; }

void actors_log(const char *format, ...) {
    va_list args;
    if (!actors_verbose)
        return;
    fprintf(stderr, "%6llu %12.6f %-9s ", (unsigned long long)w.steps, w.now - 1000,
            w.current ? w.current->of->name : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- switching ------------------------------------------------------------------------------- */

/* A thread begins by makecontext and goes on by longjmp, which asks nothing of the system. ASan
 * has to be told whose stack it is. */
static void leave(actor_thread *t) {
    t->purse = larder__mem_charge(NULL);
    t->err = errno;
#if WITH_ASAN
    bool over = t->state == OVER || t->state == FREE;
    __sanitizer_start_switch_fiber(over ? NULL : &t->fake, w.home_stack, w.home_size);
    if (over)
        setcontext(&w.home_context);
    swapcontext(&t->begin, &w.home_context);
    __sanitizer_finish_switch_fiber(t->fake, NULL, NULL);
#else
    if (_setjmp(t->at) == 0)
        _longjmp(w.home, 1);
#endif
    errno = t->err;
    larder__mem_charge(t->purse);
}

static void enter(void) {
    actor_thread *t = w.current;
#if WITH_ASAN
    __sanitizer_finish_switch_fiber(NULL, &w.home_stack, &w.home_size);
#endif
    t->main(t->arg);
    t->state = t->alone ? FREE : OVER; /* else its place is free when somebody has joined it */
    actors_wake(t, w.now);
    leave(t);
    abort(); /* nobody comes back here */
}

static void go_on(actor_thread *t) {
    w.current = t;
#if WITH_ASAN
    void *fake;
    t->begun = true;
    __sanitizer_start_switch_fiber(&fake, t->stack + GUARD, STACK - GUARD);
    swapcontext(&w.home_context, &t->begin);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#else
    if (_setjmp(w.home) == 0) {
        if (t->begun)
            _longjmp(t->at, 1);
        t->begun = true;
        setcontext(&t->begin);
    }
#endif
    w.current = NULL;
}

static void prepare(actor_thread *t) {
    if (!t->stack) {
        t->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (t->stack == MAP_FAILED || mprotect(t->stack, GUARD, PROT_NONE) < 0)
            abort();
    }
#if WITH_ASAN
    ASAN_UNPOISON_MEMORY_REGION(t->stack + GUARD, STACK - GUARD);
#endif
    getcontext(&t->begin);
    t->begin.uc_stack.ss_sp = t->stack + GUARD;
    t->begin.uc_stack.ss_size = STACK - GUARD;
    t->begin.uc_link = NULL;
    makecontext(&t->begin, enter, 0);
    t->begun = t->alone = false;
    t->purse = NULL;
}

/* ---- processes and threads ------------------------------------------------------------------- */

actor_process *actors_process(uint32_t number) { return &w.processes[number]; }
actor_process *actors_current(void) { return w.current ? w.current->of : NULL; }
actor_thread *actors_thread(void) { return w.current; }

static actor_thread *thread_new(actor_process *p, void *(*main)(void *), void *arg) {
    for (int i = 0; i < ACTOR_THREADS; i++) {
        actor_thread *t = &w.threads[i];
        if (t->state != FREE)
            continue;
        w.top = i >= w.top ? i + 1 : w.top;
        t->of = p;
        t->main = main;
        t->arg = arg;
        t->on = NULL;
        t->state = READY;
        t->wake = w.now + actors_between(0, 1e-4);
        prepare(t);
        return t;
    }
    abort(); /* ACTOR_THREADS is too small */
}

actor_process *actors_start(uint32_t number, const char *name, void *(*main)(void *), void *arg) {
    actor_process *p = &w.processes[number];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->alive = true;
    p->stopped_until = 0;
    p->number = number;
    p->lives++;
    p->heap = actor_heap_of(number);
    thread_new(p, main, arg);
    return p;
}

void actors_crash(actor_process *p) {
    p->alive = false;
    for (int i = 0; i < w.top; i++)
        if (w.threads[i].state != FREE && w.threads[i].of == p)
            w.threads[i].state = FREE;
    passed_crash(p);
    descriptors_crash(p);
    wrapped_crash(p);
    open_files_crash(p);
    actor_heap_reset(p->heap);
}

void actors_stop(actor_process *p, double seconds) { p->stopped_until = w.now + seconds; }

actor_thread *actors_spawn(void *(*main)(void *), void *arg) {
    return thread_new(w.current->of, main, arg);
}
void actors_spawn_in(actor_process *p, void *(*main)(void *), void *arg) {
    thread_new(p, main, arg)->alone = true;
}

void actors_join(actor_thread *t) {
    while (t->state != OVER)
        actors_wait(t, ACTOR_NEVER);
    t->state = FREE;
}

void actors_let_go(actor_thread *t) {
    if (t->state == OVER)
        t->state = FREE;
    else
        t->alone = true;
}

bool actors_running(const actor_process *p) {
    for (int i = 0; i < w.top; i++)
        if (w.threads[i].of == p && w.threads[i].state != FREE && w.threads[i].state != OVER)
            return true;
    return false;
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool actors_wait(const void *on, double until) {
    actor_thread *t = w.current;
    t->state = WAITING;
    t->on = on;
    t->wake = until > w.now ? until : w.now;
    t->woken = false;
    leave(t);
    return t->woken;
}

void actors_wake(const void *on, double at) {
    for (int i = 0; i < w.top; i++) {
        actor_thread *t = &w.threads[i];
        if (t->state != WAITING || t->on != on)
            continue;
        double then = (at > w.now ? at : w.now) + actors_between(0, 2e-6);
        t->woken = true;
        t->wake = then < t->wake ? then : t->wake;
    }
}

void actors_wake_one(const void *on) {
    actor_thread *found = NULL;
    uint64_t n = 0;
    for (int i = 0; i < w.top; i++) {
        actor_thread *t = &w.threads[i];
        if (t->state == WAITING && t->on == on && !t->woken && actors_chance(++n) == 0)
            found = t;
    }
    if (!found)
        return;
    found->woken = true;
    found->wake = w.now + actors_between(0, 2e-6);
}

void actors_yield(void) { actors_wait(NULL, w.now + actors_between(0, 5e-5)); }
void actors_sleep(double until) {
    while (w.now < until)
        actors_wait(NULL, until);
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Looking at the clock takes time too: whoever does nothing else comes to an end. */
double actors_now(void) {
    if (w.current)
        w.now += 1e-8;
    return w.now;
}
uint64_t actors_steps(void) { return w.steps; }

static actor_thread *first(double *when) {
    actor_thread *best = NULL;
    *when = ACTOR_NEVER;
    for (int i = 0; i < w.top; i++) {
        actor_thread *t = &w.threads[i];
        if (t->state != READY && t->state != WAITING)
            continue;
        double at = t->wake > t->of->stopped_until ? t->wake : t->of->stopped_until;
        if (at < *when) {
            *when = at;
            best = t;
        }
    }
    return best;
}

double actors_next(void) {
    double when;
    first(&when);
    return when;
}

bool actors_step(void) {
    double when;
    actor_thread *t = first(&when);
    if (!t)
        return false;
    w.steps++;
    w.now = when > w.now ? when : w.now;
    t->state = READY;
    t->on = NULL;
    go_on(t);
    return true;
}

void actors_begin(uint64_t seed) {
    w.now = 1000;
    w.steps = 0;
    w.complaint[0] = '\0';
    w.current = NULL;
    w.top = 0;
    larder_rng_seed(&w.rng, seed, 1);
    for (int i = 0; i < ACTOR_PROCESSES; i++)
        w.processes[i] = (actor_process){.number = (uint32_t)i};
    for (int i = 0; i < ACTOR_THREADS; i++)
        w.threads[i].state = FREE;
}

void actors_end(void) {
    for (int i = 0; i < ACTOR_PROCESSES; i++)
        if (w.processes[i].heap)
            actors_crash(&w.processes[i]);
}
