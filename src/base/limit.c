#include "base/limit.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t read_limit(const char *path) {
    unsigned long long v = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return UINT64_MAX;
    int got = fscanf(f, "%19llu", &v); /* "max" gives none */
    fclose(f);
    return got == 1 && v > 0 ? v : UINT64_MAX;
}

/* The limit of our own cgroup (version 2) and of every one above it counts. */
static uint64_t cgroup_limit(void) {
    char line[512], path[640];
    uint64_t least = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return least;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        char *at = line + 3;
        at[strcspn(at, "\n")] = 0;
        for (;;) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", strcmp(at, "/") ? at : "");
            uint64_t v = read_limit(path);
            least = v < least ? v : least;
            char *cut = strrchr(at, '/');
            if (!cut || cut == at)
                break;
            *cut = 0;
        }
    }
    fclose(f);
    uint64_t top = read_limit("/sys/fs/cgroup/memory.max");
    uint64_t old = read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    least = top < least ? top : least;
    return old < least ? old : least;
}

uint64_t larder__memory_limit(void) {
    uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = cgroup_limit();
    return group < ram ? group : ram;
}

uint32_t larder__cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}
