/* The cage's locks, built as for a processor whose calls to the kernel nobody has listed: the last
 * of them refuses, with a sentence. That a cage whose locks refuse does not open is
 * tests/fault/test_cage.c's. */
#include "check.h"

#include "base/err.h"
#include "cage/cage_lock.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The system's headers have been read as they are meant to be. */
#undef __x86_64__
#undef __aarch64__
#define larder__cage_lock lock_elsewhere
#define larder__cage_limits_memory limits_elsewhere
int lock_elsewhere(uint64_t memory);
bool limits_elsewhere(void);
#include "cage/cage_lock.c"

static void refuses(void **state) {
    int status;
    (void)state;
    pid_t p = fork(); /* the other locks stay shut */
    assert_true(p >= 0);
    if (p == 0) {
        must(lock_elsewhere((uint64_t)1 << 30) == LARDER_E_UNSUPPORTED);
        must(strstr(larder_errmsg(), "x86-64 and aarch64 alone"));
        _exit(0);
    }
    assert_int_equal(waitpid(p, &status, 0), p);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
