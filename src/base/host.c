#include "base/host.h"

#include "base/limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* "Intel(R) Xeon(R) …" as the kernel has it; "" where it does not say. */
static void find_processor(char *out, size_t cap) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(out, cap, "%s", colon + (colon[1] == ' ' ? 2 : 1));
        out[strcspn(out, "\n")] = 0;
        break;
    }
    if (f)
        fclose(f);
}

void larder__host_say(char *out, size_t cap) {
    struct utsname u;
    char processor[128];
    find_processor(processor, sizeof processor);
    if (uname(&u) != 0)
        strcpy(u.sysname, "?"), u.release[0] = u.machine[0] = 0;
    snprintf(out, cap, "%s%s%u cores, %.1f GiB, %.20s %.60s %.20s", processor,
             processor[0] ? ", " : "", larder__cpu_count(),
             (double)larder__memory_limit() / (1 << 30), u.sysname, u.release, u.machine);
}
