/* Any text as names with braces and ranges in them: what comes out has none that were opened, and
 * no more of them than somebody can mean. */
#include "source/braces.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *arg, const char *text) {
    size_t *count = arg;
    if (strlen(text) > 1 << 20)
        abort();
    return ++*count > 10000 ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    size_t count = 0;
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    larder__braces_expand(text, take, &count);
    free(text);
    return 0;
}
