/* Any bytes as a table: every field is a text inside of it. */
#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    larder__csv c;
    if (!text)
        abort();
    memcpy(text, data, size);
    larder__csv_begin(&c, "input", text, size);
    uint64_t line = 0;
    while (larder__csv_next(&c) > 0) {
        if (c.line <= line || c.count == 0)
            abort();
        line = c.line;
        for (size_t i = 0; i < c.count; i++)
            if (c.fields[i] < text || c.fields[i] + strlen(c.fields[i]) > text + size)
                abort();
    }
    larder__csv_free(&c);
    free(text);
    return 0;
}
