/* Whatever another rank says, it is understood or refused. */
#include "base/mem.h"
#include "loader/draw/rank_talk.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_rows(const uint8_t *data, size_t size) {
    larder_report parts[2], whole;
    void *memory[2] = {NULL, NULL}, *joined = NULL;
    size_t half = size / 2;
    int a = larder__rank_rows_read(&parts[0], &memory[0], 100, data, half);
    int b = larder__rank_rows_read(&parts[1], &memory[1], 100, data + half, size - half);
    if (a == 0 && b == 0 && larder__rank_rows_join(&whole, &joined, parts, 2, size % 2, 64) == 0)
        for (size_t i = 0; i < whole.n; i++)
            if (whole.ids[i] >= 100)
                abort();
    larder__free(memory[0]);
    larder__free(memory[1]);
    larder__free(joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__rank_turn turns[2];
    if (size && larder__rank_turn_read(&turns[0], data, size) == 0) {
        turns[1] = turns[0];
        double accuracy = larder__rank_turns_accuracy(turns, 2);
        larder_pace p = larder__rank_turns_pace(turns, 2);
        if (accuracy > 1 || p.read_seconds < 0 || isnan(p.read_seconds))
            abort();
    }
    uint64_t *ids = NULL;
    float *loss = NULL;
    size_t n;
    if (larder__rank_losses_read(&ids, &loss, &n, 100, data, size) == 0)
        for (size_t i = 0; i < n; i++)
            if (ids[i] >= 100)
                abort();
    larder__free(ids);
    larder__free(loss);
    read_rows(data, size);
    return 0;
}
