/* What a worker of a cage answers: refused, or the pixels that were wanted lie in its memory. */
#include "cage/cage_talk.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__cage_answer a = {0};
    larder__picture p = {0};
    const larder__rect want = {3, 2, 40, 30};
    static const uint8_t base[64]; /* looked at nowhere: it stands for the memory's beginning */
    int rc = larder__cage_heard(&a, data, size, 1);
    if (rc < 0) {
        for (const char *c = larder_errmsg(); *c; c++)
            if ((unsigned char)*c < ' ')
                abort();
        if (rc == LARDER_E_NOMEM || rc == LARDER_E_STATE)
            abort(); /* would end the run */
        return 0;
    }
    if (rc > 0)
        abort();
    if (larder__cage_picture(&a, want, base, &p) < 0)
        return 0;
    int64_t last = (want.y1 - 1 - p.is.y0) * p.row + (want.x1 - p.is.x0) * p.pixel + 64;
    int64_t first = (want.y0 - p.is.y0) * p.row + (want.x0 - p.is.x0) * p.pixel;
    last += p.at - base;
    if (p.at < base || p.at >= base + sizeof base || p.pixel != 4 || p.channel != 1 || first < 0 ||
        last <= first || last > (int64_t)LARDER__CAGE_OUT)
        abort();
    return 0;
}
