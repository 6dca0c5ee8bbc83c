#include "base/mapped.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what is mapped -------------------------------------------------------------------------- */

/* A handler may come upon a range in any state, so nothing here is behind a lock and no memory goes
 * back: `turn` is odd while a range changes, and what was read counts if it is even and the same
 * afterwards. The range that a thread faults in is not changed meanwhile. */
typedef struct range {
    _Atomic uint64_t turn;
    _Atomic uintptr_t from, to; /* from 0: free */
    _Atomic(_Atomic bool *) lost;
} range;

enum { RANGES = 100 };
typedef struct ranges {
    _Atomic(struct ranges *) next;
    _Atomic int taken;
    range of[RANGES];
} ranges;

static ranges first;

static bool change(range *r, uintptr_t is, uintptr_t from, uintptr_t to, _Atomic bool *lost) {
    uint64_t turn = atomic_load(&r->turn);
    if (turn & 1 || atomic_load(&r->from) != is ||
        !atomic_compare_exchange_strong(&r->turn, &turn, turn + 1))
        return false;
    bool same = atomic_load(&r->from) == is;
    if (same) {
        atomic_store(&r->from, from);
        atomic_store(&r->to, to);
        atomic_store(&r->lost, lost);
    }
    atomic_store(&r->turn, turn + 2);
    return same;
}

/* Not from the heap, which is whoever's that asks first. */
static ranges *more(ranges *after) {
    ranges *old = atomic_load(&after->next);
    if (old)
        return old;
    void *at =
        mmap(NULL, sizeof(ranges), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&after->next, &old, at))
        return at;
    munmap(at, sizeof(ranges));
    return old;
}

static bool enter(uintptr_t from, uintptr_t to, _Atomic bool *lost) {
    ranges *all = &first;
    while (all && atomic_fetch_add(&all->taken, 1) >= RANGES) {
        atomic_fetch_sub(&all->taken, 1);
        all = more(all);
    }
    for (size_t i = 0; all; i = (i + 1) % RANGES) /* one of them is free */
        if (change(&all->of[i], 0, from, to, lost))
            return true;
    return false;
}

static void take_out(uintptr_t from) {
    for (ranges *all = &first; all; all = atomic_load(&all->next))
        for (size_t i = 0; i < RANGES; i++)
            if (change(&all->of[i], from, 0, 0, NULL)) {
                atomic_fetch_sub(&all->taken, 1);
                return;
            }
}

/* ---- the signal ------------------------------------------------------------------------------ */

#ifdef SYS_mmap2 /* of systems with 32 bits; the place in a file is 0 in either unit */
enum { MAP_CALL = SYS_mmap2 };
#else
enum { MAP_CALL = SYS_mmap };
#endif

/* Zeroes from now on, in all of the range: of a table that was cut, no part is worth keeping. */
static bool replace(const range *r, uintptr_t at) {
    uint64_t turn = atomic_load(&r->turn);
    uintptr_t from = atomic_load(&r->from), to = atomic_load(&r->to);
    _Atomic bool *lost = atomic_load(&r->lost);
    if (turn & 1 || at < from || at >= to || atomic_load(&r->turn) != turn)
        return false;
    atomic_store(lost, true); /* first: who reads a zero of these finds it set */
    /* The system itself: what a sanitizer or a tool has put before mmap is not made for handlers.
     */
    return syscall(MAP_CALL, from, to - from, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)from;
}

static bool is_ours(uintptr_t at) {
    for (ranges *all = &first; all; all = atomic_load(&all->next))
        for (size_t i = 0; i < RANGES; i++)
            if (replace(&all->of[i], at))
                return true;
    return false;
}

/* As if only the handler before were there. `fault`: it comes again when this returns, so that a
 * process without a handler ends by it, at its place. */
static void hand_on(const struct sigaction *before, siginfo_t *info, void *context, bool fault) {
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(SIGBUS, info, context);
    } else if (before->sa_handler == SIG_DFL || (fault && before->sa_handler == SIG_IGN)) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(SIGBUS, &none, NULL);
        if (!fault)
            raise(SIGBUS);
    } else if (before->sa_handler != SIG_IGN) {
        before->sa_handler(SIGBUS);
    }
}

/* A handler that somebody sets over ours may hand on to it, and ours may be set over that one
 * again: each time it is another function, which knows another one before, so that they make no
 * ring. */
enum { TIMES = 4 };
static struct sigaction before[TIMES];

static void on_bus(int time, siginfo_t *info, void *context) {
    int err = errno;
    bool fault = info->si_code > 0; /* and not sent by somebody */
    if (!fault || !is_ours((uintptr_t)info->si_addr))
        hand_on(&before[time], info, context, fault);
    errno = err;
}
#define TIME(n)                                                                                    \
    static void on_bus_##n(int number, siginfo_t *info, void *context) {                           \
        (void)number;                                                                              \
        on_bus(n, info, context);                                                                  \
    }
TIME(0)
TIME(1)
TIME(2)
TIME(3)
static void (*const handlers[TIMES])(int, siginfo_t *, void *) = {on_bus_0, on_bus_1, on_bus_2,
                                                                  on_bus_3};

static bool same(const struct sigaction *a, const struct sigaction *b) {
    bool with_info = a->sa_flags & SA_SIGINFO;
    return with_info == !!(b->sa_flags & SA_SIGINFO) &&
           (with_info ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler);
}

/* Which of ours goes over this one; TIMES: none, as one of ours it is, or there were too many. */
static int time_for(const struct sigaction *now, int times) {
    int k = 0;
    for (int i = 0; i < TIMES; i++)
        if (now->sa_flags & SA_SIGINFO && now->sa_sigaction == handlers[i])
            return TIMES;
    while (k < times && !same(&before[k], now))
        k++;
    return k;
}

static void set_handler(void) {
    static _Atomic bool setting;
    static int times;
    struct sigaction now;
    while (atomic_exchange(&setting, true))
        sched_yield();
    int k = sigaction(SIGBUS, NULL, &now) == 0 ? time_for(&now, times) : TIMES;
    if (k < TIMES) {
        before[k] = now;
        now.sa_sigaction = handlers[k];
        now.sa_flags =
            (int)((unsigned)now.sa_flags & ~(unsigned)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
        if (sigaction(SIGBUS, &now, NULL) == 0 && k == times)
            times++;
    }
    atomic_store(&setting, false);
}

/* ---- mapping --------------------------------------------------------------------------------- */

static uintptr_t pages_end(const void *at, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return ((uintptr_t)at + bytes + page - 1) / page * page;
}

int larder__mapped_open(void **out, size_t bytes, int prot, int flags, int file,
                        _Atomic bool *lost) {
    *out = NULL;
    set_handler();
    void *at = mmap(NULL, bytes, prot, flags, file, 0);
    if (at == MAP_FAILED)
        return errno;
    if (!enter((uintptr_t)at, pages_end(at, bytes), lost)) {
        munmap(at, bytes);
        return ENOMEM;
    }
    *out = at;
    return 0;
}

void larder__mapped_close(void *at, size_t bytes) {
    if (!at)
        return;
    take_out((uintptr_t)at);
    munmap(at, bytes);
}
