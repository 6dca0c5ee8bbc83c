/* Any bytes as a recording: a window of it, resampled and not. */
#include "stage/sound.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libsndfile 1.2 loses what libvorbis made for an OGG file that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libvorbis"; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static larder__scratch *scratch; /* one for all inputs, as a thread has it */
    static float out[2 * 4000];
    if (!scratch && larder__scratch_open(&scratch) < 0)
        return 0;
    larder__sound_window(&(larder__sound){8000, 1, 4000}, scratch, data, size, 0.5, out);
    larder__sound_window(&(larder__sound){16000, 2, 4000}, scratch, data, size, 1, out);
    return 0;
}
