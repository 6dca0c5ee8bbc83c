#include "cli/tight_memory.h"

#if LARDER_HAVE_CBLAS

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* OpenBLAS starts its threads before main. Under ulimit -v some find no memory for their buffers,
 * ask for ever, and are waited for at the end. Told before it is loaded, it starts none; whoever
 * wants threads of it asks for them later. */
void larder__tight_memory(char **argv) {
    static const char name[] = "OPENBLAS_NUM_THREADS";
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY || getenv(name))
        return;
    if (setenv(name, "1", 0) == 0)
        execv("/proc/self/exe", argv);
}

#else
void larder__tight_memory(char **argv) { (void)argv; }
#endif
