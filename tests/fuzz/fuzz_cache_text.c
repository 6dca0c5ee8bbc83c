/* Any text for a cache: taken apart or refused, and never with its password in the sentence. */
#include "redis/slots.h"
#include "shared/cache_text.h"

#include <larder/larder.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__cache_text t;
    larder__moved m;
    char text[512], shown[64];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    larder__cache_mask(text, shown, sizeof shown);
    larder__redis_moved(text, &m);
    larder__redis_slot(text, size);
    int rc = larder__cache_text_parse(&t, text, "");
    if (rc == 0 && (t.tier_count < 1 || t.tier_count > LARDER__CACHE_TIERS))
        abort();
    const char *who = strstr(text, "://"), *secret = who ? strstr(who, "hunter2") : NULL,
               *at = secret ? strchr(secret, '@') : NULL;
    bool elsewhere = secret && (strstr(text, "hunter2") != secret || (at && strstr(at, "hunter2")));
    if (rc < 0 && at && strstr(larder_errmsg(), "hunter2") && !elsewhere)
        abort();
    return 0;
}
