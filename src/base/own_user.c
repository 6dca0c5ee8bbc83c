#include "base/own_user.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint32_t larder__anybodys_number(const char *overflow, const char *map) {
    enum { USUAL = 65534 };
    static const unsigned long all[] = {0, 0, UINT32_MAX}; /* users from, to, and how many */
    char *end = NULL;
    size_t alike = 0;
    for (; map && alike < 3 && strtoul(map, &end, 10) == all[alike] && end > map; alike++)
        map = end;
    if (alike == 3)
        return UINT32_MAX;
    unsigned long number = overflow ? strtoul(overflow, &end, 10) : USUAL;
    return overflow && end > overflow && number < UINT32_MAX ? (uint32_t)number : USUAL;
}

static const char *text_of(const char *path, char out[128]) {
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, 127, f) : 0;
    bool whole = f && !ferror(f);
    if (f)
        fclose(f);
    out[n] = 0;
    return whole ? out : NULL;
}

/* Read once a process: a child may have gone into a namespace of its own. */
static uint32_t anybody(void) {
    static _Atomic uint64_t known; /* and of which process */
    char overflow[128], map[128];
    uint64_t was = atomic_load(&known), pid = (uint64_t)getpid();
    if (was >> 32 == pid)
        return (uint32_t)was;
    uint32_t number = larder__anybodys_number(text_of("/proc/sys/kernel/overflowuid", overflow),
                                              text_of("/proc/self/uid_map", map));
    atomic_store(&known, pid << 32 | number);
    return number;
}

bool larder__is_own_user(uint32_t user) { return user == geteuid() && user != anybody(); }

bool larder__is_own_or_root(uint32_t user) { return user == 0 || larder__is_own_user(user); }

const char *larder__why_not_own(uint32_t user) {
    return user == geteuid() && !larder__is_own_user(user)
               ? " (your number too, but in this user namespace it may be anybody's)"
               : "";
}
