#include "cli/stoppable.h"

#include "cli/options.h"

#include <larder/larder.h>
#include <stdio.h>

int larder__stoppable_run(const larder__stoppable *s) {
    larder__stop stop;
    int rc = 0;
    if (s->looks)
        larder__stop_note(&stop);
    else
        rc = larder__stop_open(&stop);
    if (rc == 0) {
        rc = s->run(s->options, &stop);
        int code = larder__stop_code(&stop);
        larder__stop_close(&stop);
        if (code && (!s->may_finish || rc == LARDER_E_CANCELLED)) {
            fprintf(stderr, "larder %s: %s\n", s->name, s->stopped);
            return code;
        }
    }
    return larder__exit_code(s->name, rc);
}
