#include "cage/cage_talk.h"

#include "base/err.h"
#include "base/escape.h"

#include <string.h>

/* What ends a run when it happens here is the sample's own trouble there. */
static int code_of(int32_t code) {
    if (code == LARDER_E_NOMEM)
        return LARDER_E_RANGE;
    if (code < LARDER_E_FULL || code == LARDER_E_STATE || code == LARDER_E_CANCELLED)
        return LARDER_E_FORMAT;
    return (int)code;
}

int larder__cage_heard(larder__cage_answer *a, const void *bytes, size_t size, uint64_t number) {
    if (size == sizeof *a)
        memcpy(a, bytes, sizeof *a);
    else
        a->magic = 0;
    if (a->magic != LARDER__CAGE_TELLS || a->number != number || a->code > 0) {
        a->magic = 0;
        return larder__fail(LARDER_E_FORMAT, "answered something else than was asked");
    }
    if (a->code == 0)
        return 0;
    char shown[4 * LARDER__CAGE_WHY];
    a->why[sizeof a->why - 1] = 0;
    larder__shown(shown, sizeof shown, a->why);
    if (a->code == LARDER_E_NOMEM)
        return larder__fail(code_of(a->code),
                            "decoding takes more memory than its cage has (memory=)");
    return larder__fail(code_of(a->code), "%s", shown);
}

int larder__cage_picture(const larder__cage_answer *a, larder__rect want, const uint8_t *out,
                         larder__picture *pic) {
    const int64_t most = LARDER__DECODED_SIDE * 2, spare = 64; /* rows are read past their end */
    const larder__rect *is = &a->is;
    bool fits = a->at >= 0 && a->at < spare && is->x0 >= 0 && is->y0 >= 0 && is->x0 <= want.x0 &&
                is->y0 <= want.y0 && is->x1 >= want.x1 && is->y1 >= want.y1 && is->x1 <= most &&
                is->y1 <= most && is->x1 > is->x0 && is->y1 > is->y0 && a->row > 0 &&
                a->row <= most * 8 && a->row % 4 == 0 && (is->x1 - is->x0) * 4 <= a->row &&
                (is->y1 - is->y0) * a->row + 2 * spare <= (int64_t)LARDER__CAGE_OUT;
    if (!fits)
        return larder__fail(LARDER_E_FORMAT, "answered with pixels that are none");
    *pic = (larder__picture){out + a->at, (ptrdiff_t)a->row, 4, 1, *is};
    return 0;
}
