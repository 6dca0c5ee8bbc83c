#include "base/versions.h"

#include "base/err.h"

#include <stdio.h>

larder__spoken larder__speaks = {LARDER__WIRE_VERSION, LARDER__WIRE_OLDEST, LARDER__VALUE_VERSION};

int larder__version_check(larder__format f, const char *what, uint64_t found) {
    static const struct {
        unsigned oldest, newest;
        const char *remedy;
    } all[] = {
#define XX(name, oldest, newest, remedy) {oldest, newest, remedy},
        LARDER__FORMATS(XX)
#undef XX
    };
    char read[32];
    if (found >= all[f].oldest && found <= all[f].newest)
        return 0;
    if (all[f].oldest == all[f].newest)
        snprintf(read, sizeof read, "%u", all[f].newest);
    else
        snprintf(read, sizeof read, "%u to %u", all[f].oldest, all[f].newest);
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s: its format has version %llu, of %s larder; this one (" LARDER_VERSION
                        ") reads version %s: %s",
                        what, (unsigned long long)found,
                        found < all[f].oldest ? "an older" : "a newer", read, all[f].remedy);
}
