/* Any bytes as the head of an answer, line by line. */
#include "source/web/web_head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__web_head h = {0};
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) + 1 - at : size - at;
        char *line = malloc(n);
        if (!line)
            return 0;
        memcpy(line, data + at, n);
        larder__web_head_line(&h, line, n, 1000000000);
        free(line);
        if (h.status < 0 || h.status > 999 || h.retry_after < 0 || h.retry_after > 86400 ||
            (h.ranged && (h.last < h.first || h.last >= h.total)))
            abort();
        if (!memchr(h.location, 0, sizeof h.location) || !memchr(h.region, 0, sizeof h.region))
            abort();
        at += n;
    }
    return 0;
}
