/* Any text for a cache in Redis: taken apart or refused, and never with its password in the
 * sentence. */
#include "redis/slots.h"
#include "redis/uri.h"

#include <larder/larder.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__redis_conf r;
    larder__moved m;
    char text[512], shown[64];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    larder__redis_mask(text, shown, sizeof shown);
    larder__redis_moved(text, &m);
    larder__redis_slot(text, size);
    if (!larder__redis_named(text))
        return 0;
    int rc = larder__redis_parse(&r, text);
    const char *who = strstr(text, "://"), *secret = who ? strstr(who, "hunter2") : NULL,
               *at = secret ? strchr(secret, '@') : NULL;
    bool elsewhere = secret && (strstr(text, "hunter2") != secret || (at && strstr(at, "hunter2")));
    if (rc < 0 && at && strstr(larder_errmsg(), "hunter2") && !elsewhere)
        abort();
    return 0;
}
