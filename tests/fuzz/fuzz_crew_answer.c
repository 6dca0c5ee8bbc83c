/* What a worker of a crew answers: the message, then its memory. Refused, or all that is taken lies
 * inside of it. */
#include "crew/answer_of_worker.h"

#include <stdlib.h>

enum { N = 3 };

static void trace(void *arg, uint64_t id, const char *text, size_t bytes) {
    volatile unsigned *sum = arg;
    if (id < 5 || id > 7 || bytes >= LARDER__CREW_TRACE)
        abort();
    for (size_t i = 0; i < bytes; i++)
        *sum = *sum + (unsigned char)text[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__crew_answer a;
    const uint64_t ids[N] = {5, 6, 7};
    larder_read out[N] = {0};
    volatile unsigned sum = 0;
    size_t head = size < sizeof a ? size : sizeof a;
    if (larder__crew_message(&a, data, head, 1, N) < 0)
        return 0;
    static unsigned char memory[1 << 20];
    size_t left = size - head < sizeof memory ? size - head : sizeof memory;
    memcpy(memory, data + head, left);
    const larder__crew_taker taker = {.trace = trace, .arg = (void *)&sum};
    if (larder__crew_take(&a, memory, left, ids, out, &taker) < 0)
        return 0;
    for (size_t i = 0; i < N; i++) {
        if ((out[i].code == 0) != (out[i].buf != NULL) || out[i].code > 0)
            abort();
        for (size_t k = 0; out[i].buf && k < larder_buf_size(out[i].buf); k++)
            sum = sum + ((unsigned char *)larder_buf_data(out[i].buf))[k];
        if (out[i].code < 0 && strnlen(out[i].why, sizeof out[i].why) == sizeof out[i].why)
            abort();
        larder_buf_unref(&out[i].buf);
    }
    return 0;
}
