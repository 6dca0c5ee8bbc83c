/* A line of a run's record is read or refused; what was read prints as a line that reads back the
 * same. */
#include "report/record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_epoch(const char *line) {
    char again[4096] = "";
    larder__epoch first, second;
    if (larder__epoch_parse(&first, line, "fuzz") < 0)
        return;
    FILE *f = fmemopen(again, sizeof again, "w");
    if (!f)
        return;
    larder__epoch_print(f, &first);
    fclose(f);
    if (larder__epoch_parse(&second, again, "fuzz") < 0 || first.hits != second.hits ||
        first.storage_bytes != second.storage_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__meta meta;
    char *line = malloc(size + 1);
    if (!line)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    check_epoch(line);
    if (larder__meta_parse(&meta, line, "fuzz") == 0 && strlen(meta.name) >= sizeof meta.name)
        abort();
    free(line);
    return 0;
}
