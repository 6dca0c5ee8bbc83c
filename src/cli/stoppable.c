#include "cli/stoppable.h"

#include <larder/larder.h>
#include <stdio.h>

int larder__stoppable_run(const larder__stoppable *s) {
    larder__stop stop;
    int rc = larder__stop_open(&stop);
    if (rc == 0) {
        rc = s->run(s->options, &stop);
        int code = larder__stop_code(&stop);
        larder__stop_close(&stop);
        if (code && (!s->may_finish || rc == LARDER_E_CANCELLED)) {
            fprintf(stderr, "larder %s: %s\n", s->name, s->stopped);
            return code;
        }
    }
    if (rc < 0)
        fprintf(stderr, "larder %s: %s\n", s->name, larder_errmsg());
    return rc == 0 ? 0 : rc == LARDER_E_ARGS ? 2 : 1;
}
