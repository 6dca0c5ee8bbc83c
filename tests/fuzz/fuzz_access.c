/* Recorded row accesses: parsed or refused, and what was parsed names only rows that are there. */
#include "svm/access.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_notes(const larder__accesses *a, const larder__access_notes *n) {
    for (uint64_t i = 0; i < n->count; i++)
        if (n->ids[i] >= a->rows || isnan(n->dist[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__accesses a;
    if (larder__accesses_parse(&a, data, size, "input") < 0)
        return 0;
    uint64_t at = 0, left = 0, scored = 0;
    for (uint64_t r = 0; r < a.rounds; r++) {
        const larder__access_round *round = &a.round[r];
        if (round->begin != at || round->left_begin != left || round->scored_begin != scored)
            abort();
        at = round->end;
        left = round->left_end;
        scored = round->scored_end;
    }
    if (at != a.count || left > a.left.count || scored > a.scored.count)
        abort();
    for (uint64_t i = 0; i < a.count; i++)
        if (a.ids[i] >= a.rows)
            abort();
    check_notes(&a, &a.left);
    check_notes(&a, &a.scored);
    larder__accesses_free(&a);
    return 0;
}
