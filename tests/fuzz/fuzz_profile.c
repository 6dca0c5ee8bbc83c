/* Any text as the rates of a machine (`larder plan --profile FILE`): refused with a sentence, or a
 * plan comes of it that says what it should. */
#include "plan/rates.h"

#include <larder/larder.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const larder_outlook *o) {
    const double shares[] = {o->encoded, o->decoded, o->augmented, o->stored};
    double sum = 0;
    for (size_t i = 0; i < 4; i++) {
        if (!(shares[i] >= -1e-9 && shares[i] <= 1 + 1e-9))
            abort();
        sum += shares[i];
    }
    if (!(fabs(sum - 1) < 1e-6) || !(o->throughput >= 0) ||
        (unsigned)o->bottleneck >= LARDER_RESOURCES ||
        o->split.encoded + o->split.decoded + o->split.augmented != 100)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder_rates r = {0};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    larder__rates_defaults(&r);
    int rc = larder__rates_read(&r, text, "fuzz");
    for (int model = LARDER_PLAN_SHARED; rc == 0 && model <= LARDER_PLAN_PAPER; model++) {
        larder_plan p;
        rc = larder__plan_make(&p, &r, (larder_plan_model)model);
        if (rc == 0) {
            check(&p.best);
            check(&p.runner_up);
        }
    }
    if (rc < 0 && !larder_errmsg()[0])
        abort();
    free(text);
    return 0;
}
