#include "base/limit.h"

#include "base/err.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A limit in one file of a cgroup; UINT64_MAX: none, or no such file. */
typedef uint64_t (*limit_reader)(const char *folder);

static FILE *open_in(const char *folder, const char *name) {
    char path[720];
    snprintf(path, sizeof path, "%.640s/%.60s", folder, name);
    return fopen(path, "re");
}

static uint64_t read_number(const char *folder, const char *name) {
    unsigned long long v = 0;
    FILE *f = open_in(folder, name);
    if (!f)
        return UINT64_MAX;
    int got = fscanf(f, "%19llu", &v); /* "max" and -1 give none */
    fclose(f);
    return got == 1 && v > 0 ? v : UINT64_MAX;
}

static uint64_t memory_of(const char *folder) { return read_number(folder, "memory.max"); }

static uint64_t rounded_cpus(uint64_t quota, uint64_t period) {
    if (quota == UINT64_MAX || period == UINT64_MAX)
        return UINT64_MAX;
    return quota / period + (quota % period != 0);
}

/* "QUOTA PERIOD" or "max PERIOD", microseconds; half a processor still needs one thread. */
static uint64_t cpus_of(const char *folder) {
    unsigned long long quota, period;
    FILE *f = open_in(folder, "cpu.max");
    if (!f)
        return UINT64_MAX;
    int got = fscanf(f, "%19llu %19llu", &quota, &period);
    fclose(f);
    return got == 2 && quota > 0 && period > 0 ? rounded_cpus(quota, period) : UINT64_MAX;
}

/* The limit of our own cgroup (version 2) and of every one above it counts. */
static uint64_t least_limit(const char *root, const char *self, limit_reader read) {
    char line[512], folder[600];
    uint64_t least = read(root);
    FILE *f = fopen(self, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        char *at = line + 3;
        at[strcspn(at, "\n")] = 0;
        for (char *cut; (cut = strrchr(at, '/')); *cut = 0) {
            snprintf(folder, sizeof folder, "%.80s%s", root, at);
            uint64_t v = read(folder);
            least = v < least ? v : least;
        }
    }
    if (f)
        fclose(f);
    return least;
}

static uint64_t cgroup_limit(void) {
    uint64_t now = least_limit("/sys/fs/cgroup", "/proc/self/cgroup", memory_of);
    uint64_t old = read_number("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
    return old < now ? old : now;
}

uint64_t larder__cpu_quota(const char *root, const char *self) {
    char folder[600];
    snprintf(folder, sizeof folder, "%.590s/cpu", root);
    uint64_t now = least_limit(root, self, cpus_of);
    uint64_t old = rounded_cpus(read_number(folder, "cpu.cfs_quota_us"),
                                read_number(folder, "cpu.cfs_period_us"));
    return old < now ? old : now;
}

uint64_t larder__memory_limit(void) {
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = cgroup_limit();
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY};
    least = group < least ? group : least;
    getrlimit(RLIMIT_AS, &space);
    return space.rlim_cur != RLIM_INFINITY && space.rlim_cur < least ? space.rlim_cur : least;
}

int larder__memory_allows(uint64_t bytes) {
    uint64_t most = larder__memory_limit();
    if (bytes <= most)
        return 0;
    return larder__fail(LARDER_E_NOMEM,
                        "%llu MiB are wanted at once, and this process may use %llu MiB of memory",
                        (unsigned long long)(bytes >> 20), (unsigned long long)(most >> 20));
}

static uint32_t cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t larder__cpu_count(void) {
    uint64_t quota = larder__cpu_quota("/sys/fs/cgroup", "/proc/self/cgroup");
    uint32_t there = cores();
    return quota < there ? (uint32_t)quota : there;
}
