/* Recorded row accesses: parsed or refused, and what was parsed names only rows that are there. */
#include "svm/access.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__accesses a;
    if (larder__accesses_parse(&a, data, size, "input") < 0)
        return 0;
    uint64_t at = 0, note = 0;
    for (uint64_t r = 0; r < a.rounds; r++) {
        if (a.round[r].begin != at || a.round[r].note_begin != note)
            abort();
        at = a.round[r].end;
        note = a.round[r].note_end;
    }
    if (at != a.count || note > a.note_count)
        abort();
    for (uint64_t i = 0; i < a.count; i++)
        if (a.ids[i] >= a.rows)
            abort();
    for (uint64_t i = 0; i < a.note_count; i++)
        if (a.note_ids[i] >= a.rows || isnan(a.notes[i]))
            abort();
    larder__accesses_free(&a);
    return 0;
}
