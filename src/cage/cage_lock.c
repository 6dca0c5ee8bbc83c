/* Three locks, one behind the other: limits of resources; landlock, where the kernel has it, under
 * which no file can be reached; and seccomp, under which there is hardly a call to the kernel left.
 * The kernel's structs and numbers are written out here, since a C library need not have its
 * headers; they never change. */
#include "cage/cage_lock.h"

#include "base/err.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Memory that sanitizers reserve and never touch is beyond any limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- resources ------------------------------------------------------------------------------- */

typedef struct taken { /* bytes */
    uint64_t data; /* of private memory that can be written to, which is what RLIMIT_DATA counts */
    uint64_t all;  /* of addresses: RLIMIT_DATA lets stacks pass, and what is only read */
} taken;

static int measure(taken *out) {
    unsigned long long pages[6] = {0};
    FILE *f = fopen("/proc/self/statm", "re");
    int n = f ? fscanf(f, "%llu %llu %llu %llu %llu %llu", &pages[0], &pages[1], &pages[2],
                       &pages[3], &pages[4], &pages[5])
              : 0;
    if (f)
        fclose(f);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *out = (taken){.data = pages[5] * page, .all = pages[0] * page};
    return n == 6 ? 0
                  : larder__fail(LARDER_E_UNSUPPORTED, "/proc does not tell what memory it has");
}

static int limit(unsigned which, uint64_t most) { /* glibc: an enum, of no sign */
    struct rlimit now, r = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
    if (getrlimit(which, &now) == 0 && now.rlim_max < r.rlim_max)
        r.rlim_cur = r.rlim_max = now.rlim_max; /* it is in a tighter one already */
    return setrlimit(which, &r) == 0
               ? 0
               : larder__fail(LARDER_E_UNSUPPORTED, "a limit of resources: %s", strerror(errno));
}

static uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static int limit_all(const taken *now, uint64_t memory) {
    const struct {
        unsigned which;
        uint64_t most;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_FSIZE, 0},
        {RLIMIT_NPROC, 0},
        {RLIMIT_NOFILE, 0},
        {RLIMIT_MEMLOCK, 0},
        {RLIMIT_STACK, 8u << 20},
        {RLIMIT_DATA, SANITIZED ? UINT64_MAX : sum(now->data, memory)},
        {RLIMIT_AS, SANITIZED ? UINT64_MAX : sum(now->all, memory)},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof limits / sizeof *limits; i++)
        rc = limit(limits[i].which, limits[i].most);
    return rc;
}

/* ---- landlock -------------------------------------------------------------------------------- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

/* A set of rules that handles all there is and allows none of it. Kernels know different things:
 * each is asked for as much as it knows. Without landlock the lock behind it has to do. */
static int shut_files(void) {
    const uint64_t files[] = {0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff};
    struct {
        uint64_t files, net, scoped;
    } all = {0};
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1u);
    if (abi < 1)
        return 0;
    all.files = files[abi < 6 ? abi : 6];
    all.net = abi >= 4 ? 3 : 0;    /* to bind and to connect */
    all.scoped = abi >= 6 ? 3 : 0; /* abstract sockets, and signals */
    size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0u);
    int rc = rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0u) != 0
                 ? larder__fail(LARDER_E_UNSUPPORTED, "landlock: %s", strerror(errno))
                 : 0;
    if (rules >= 0)
        close(rules);
    return rc;
}

/* ---- seccomp --------------------------------------------------------------------------------- */

#if defined(__x86_64__) && !defined(__ILP32__)
#define ARCHITECTURE 0xc000003eu
#elif defined(__aarch64__) && defined(__AARCH64EL__) && !defined(__ILP32__)
#define ARCHITECTURE 0xc00000b7u
#endif

#ifdef ARCHITECTURE

typedef struct step { /* sock_filter */
    uint16_t code;
    uint8_t yes, no; /* steps to leave out */
    uint32_t k;
} step;

typedef struct filter { /* sock_fprog */
    uint16_t count;
    step *steps;
} filter;

enum { LOAD = 0x20, AND = 0x54, IS = 0x15, ANSWER = 0x06 };
enum { NUMBER = 0, WHERE = 4, ARGUMENTS = 16 }; /* offsets in seccomp_data */
#define ALLOW 0x7fff0000u
#define KILL 0x80000000u /* all of the process */

enum { STEPS = 256, SECCOMP_FILTER = 1, SECCOMP_ALL_THREADS = 1 };

typedef struct program {
    step steps[STEPS];
    uint16_t count;
} program;

static void add(program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
    if (p->count < STEPS)
        p->steps[p->count++] = (step){code, yes, no, k};
}

static void allow(program *p, long call) {
    add(p, IS, (uint32_t)call, 0, 1);
    add(p, ANSWER, ALLOW, 0, 0);
}

/* Where the lower half of argument i, of these bits alone, is `value`; else it ends. */
static void allow_where(program *p, long call, unsigned i, uint32_t bits, uint32_t value) {
    add(p, IS, (uint32_t)call, 0, 5);
    add(p, LOAD, ARGUMENTS + 8 * i, 0, 0);
    add(p, AND, bits, 0, 0);
    add(p, IS, value, 0, 1);
    add(p, ANSWER, ALLOW, 0, 0);
    add(p, ANSWER, KILL, 0, 0);
}

/* Memory of one's own that is no code. */
static void allow_memory(program *p) {
    add(p, IS, SYS_mmap, 0, 8);
    add(p, LOAD, ARGUMENTS + 8 * 2, 0, 0);
    add(p, AND, PROT_EXEC, 0, 0);
    add(p, IS, 0, 0, 4);
    add(p, LOAD, ARGUMENTS + 8 * 3, 0, 0);
    add(p, AND, ~(uint32_t)(MAP_FIXED | MAP_NORESERVE | MAP_STACK), 0, 0);
    add(p, IS, MAP_PRIVATE | MAP_ANONYMOUS, 0, 1);
    add(p, ANSWER, ALLOW, 0, 0);
    add(p, ANSWER, KILL, 0, 0);
    allow_where(p, SYS_mprotect, 2, PROT_EXEC, 0);
    allow_where(p, SYS_madvise, 2, ~31u, 0); /* from 100 on it breaks memory, for root */
}

static const long allowed[] = {
    SYS_recvfrom,
    SYS_sendto,
    /* To /dev/null: what libraries complain of. */
    SYS_write,
    SYS_writev,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    /* A large qsort asks how much memory there is. */
    SYS_sysinfo,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_sched_yield,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
#ifdef SYS_time
    SYS_time,
#endif
};

static int shut_calls(void) {
    static program p; /* the stack of a process that is to be small */
    p.count = 0;
    add(&p, LOAD, WHERE, 0, 0);
    add(&p, IS, ARCHITECTURE, 1, 0);
    add(&p, ANSWER, KILL, 0, 0);
    add(&p, LOAD, NUMBER, 0, 0); /* x32 has other numbers, which are on no list */
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        allow(&p, allowed[i]);
    allow_memory(&p); /* from here on the number is gone once it has been one of these */
    allow_where(&p, SYS_futex, 1, ~(128u | 256u | 1u), 0); /* to wait and to wake */
    uint32_t self = (uint32_t)getpid();                    /* abort() */
    allow_where(&p, SYS_tgkill, 0, UINT32_MAX, self);
    allow_where(&p, SYS_tkill, 0, UINT32_MAX, self);
    add(&p, ANSWER, KILL, 0, 0);
    if (p.count == STEPS)
        return larder__fail(LARDER_E_STATE, "the list of calls is too long");
    const filter f = {p.count, p.steps};
    if (syscall(SYS_seccomp, SECCOMP_FILTER, SECCOMP_ALL_THREADS, &f) == 0)
        return 0;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this kernel has no seccomp for it (%s), without which a cage holds nobody",
                        strerror(errno));
}

#else

static int shut_calls(void) {
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "which calls a decoder needs is known of x86-64 and aarch64 alone");
}

#endif

/* What root may do more than others, for calls that are left. */
static int drop_rights(void) {
    const uint32_t version[2] = {0x20080522, 0}, none[6] = {0}; /* _LINUX_CAPABILITY_VERSION_3 */
    return syscall(SYS_capset, version, none) == 0
               ? 0
               : larder__fail(LARDER_E_UNSUPPORTED, "rights of root: %s", strerror(errno));
}

bool larder__cage_limits_memory(void) { return !SANITIZED; }

int larder__cage_lock(uint64_t memory) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return larder__fail(LARDER_E_UNSUPPORTED, "no_new_privs: %s", strerror(errno));
    taken now; /* each lock takes away what the ones before it need */
    int rc = measure(&now);
    if (rc == 0)
        rc = shut_files();
    if (rc == 0)
        rc = limit_all(&now, memory);
    if (rc == 0)
        rc = drop_rights();
    return rc < 0 ? rc : shut_calls();
}
