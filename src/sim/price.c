#include "sim/price.h"

#include "base/err.h"
#include "base/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An example, as prices differ by region and year: 0.0004 for 1000 GETs, 0.09 for a GiB that leaves
 * the cloud. */
static const larder__price s3 = {0.0004 / 1000, 0.09 / (1 << 30)};

static int wrong(const char *text) {
    return larder__fail(LARDER_E_ARGS,
                        "price \"%.80s\" is not s3 or get=MONEY/REQUESTS,byte=MONEY/SIZE, as in "
                        "get=0.0004/1000,byte=0.09/GiB",
                        text);
}

/* "GiB" is one of them. */
static bool read_bytes(const char *text, double *out) {
    char sized[40];
    uint64_t bytes;
    bool bare = text[0] && (text[0] < '0' || text[0] > '9');
    if ((size_t)snprintf(sized, sizeof sized, "%s%s", bare ? "1" : "", text) >= sizeof sized ||
        larder__parse_bytes(sized, &bytes) < 0)
        return false;
    *out = (double)bytes;
    return bytes > 0;
}

static bool read_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out > 0 && isfinite(*out);
}

/* "0.09/GiB": money for one. */
static bool read_rate(const char *text, bool of_bytes, double *out) {
    char *end;
    double money = strtod(text, &end), many = 1;
    if (end == text || *end != '/' || !(money >= 0) || !isfinite(money) ||
        !(of_bytes ? read_bytes(end + 1, &many) : read_number(end + 1, &many)))
        return false;
    *out = money / many;
    return true;
}

int larder__price_parse(larder__price *p, const char *text) {
    char copy[120], *rest = copy;
    *p = s3;
    if (strcmp(text, "s3") == 0)
        return 0;
    *p = (larder__price){0};
    if (!text[0] || strlen(text) >= sizeof copy)
        return wrong(text);
    memcpy(copy, text, strlen(text) + 1);
    for (char *part; (part = strsep(&rest, ","));) {
        bool get = strncmp(part, "get=", 4) == 0, byte = strncmp(part, "byte=", 5) == 0;
        if (!(get && read_rate(part + 4, false, &p->request)) &&
            !(byte && read_rate(part + 5, true, &p->byte)))
            return wrong(text);
    }
    return 0;
}
