#include "base/await.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PAUSE_FIRST = 0.02, PAUSE_MOST = 0.5; /* seconds between two looks */
static const double SLICE = 0.05;                         /* of a pause, then `still` is asked */

bool larder__await_seconds(const char *text, larder__await *w) {
    double s;
    bool fine = larder__parse_seconds(text, &s) == 0 && s <= 86400;
    if (fine)
        w->seconds = s;
    return fine;
}

bool larder__await_absent(const char *text, larder__await *w) {
    w->go_on = strcmp(text, "go-on") == 0;
    return w->go_on || strcmp(text, "fail") == 0;
}

bool larder__await_still(const larder__await *w) { return !w || !w->still || w->still(w->arg); }

int larder__await_given_up(void) {
    return larder__fail(LARDER_E_CANCELLED, "opening was given up");
}

/* False: whoever opens gives up. */
static bool pause_for(const larder__await *w, double until) {
    bool still = true;
    while (still && larder__now() < until) {
        larder__sleep_until(fmin(until, larder__now() + SLICE));
        still = larder__await_still(w);
    }
    return still;
}

int larder__await_there(const larder__await *w, int (*attempt)(void *arg), void *arg) {
    double until = larder__now() + w->seconds, pause = PAUSE_FIRST;
    int rc;
    while ((rc = attempt(arg)) == LARDER_E_IO && larder__now() < until) {
        if (!pause_for(w, fmin(until, larder__now() + pause)))
            return larder__await_given_up();
        pause = fmin(1.5 * pause, PAUSE_MOST);
    }
    if (rc != LARDER_E_IO)
        return rc;
    if (w->go_on)
        return LARDER__ABSENT;
    char why[300];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    return w->seconds > 0 ? larder__fail(rc, "%s (looked for it for %g s)", why, w->seconds) : rc;
}
