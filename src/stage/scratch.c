#include "stage/scratch.h"

#include "base/clock.h"
#include "base/mem.h"

#define KEEP_BYTES ((size_t)32 << 20)

int larder__scratch_open(larder__scratch **out) {
    *out = larder__calloc(1, sizeof **out);
    return *out ? 0 : LARDER_E_NOMEM;
}

void larder__scratch_close(larder__scratch **scratch) {
    larder__scratch *s = *scratch;
    if (!s)
        return;
    larder__scratch_send(s, NULL);
    larder__jpeg_close(s);
    larder__jpeg_writer_close(s);
    larder__png_close(s);
    larder__sound_close(s);
    for (int i = 0; i < LARDER__BLOCKS; i++)
        larder__free(s->block[i]);
    larder__free(s);
    *scratch = NULL;
}

void larder__scratch_time(larder__scratch *s, bool on) {
    s->timed = on;
    s->decode_seconds = 0;
}

void larder__scratch_send(larder__scratch *s, larder__elsewhere *e) {
    if (s->elsewhere)
        s->elsewhere->close(s->elsewhere);
    s->elsewhere = e;
}

double larder__scratch_seconds(const larder__scratch *s) {
    return larder__thread_seconds() + (s->elsewhere ? s->elsewhere->seconds(s->elsewhere) : 0);
}

double larder__scratch_decoding(const larder__scratch *s) { return s->decode_seconds; }

void *larder__scratch_take(larder__scratch *s, larder__block which, size_t bytes) {
    if (bytes <= s->cap[which])
        return s->block[which];
    larder__free(s->block[which]);
    s->cap[which] = 0;
    size_t grown = bytes + bytes / 4; /* the next sample is likely a little larger or smaller */
    s->block[which] = larder__memalign(64, grown);
    if (s->block[which])
        s->cap[which] = grown;
    return s->block[which];
}

void larder__scratch_trim(larder__scratch *s) {
    for (int i = 0; i < LARDER__BLOCKS; i++)
        if (s->cap[i] > KEEP_BYTES) {
            larder__free(s->block[i]);
            s->block[i] = NULL;
            s->cap[i] = 0;
        }
}
