/* Calls to the system that fail when a test wants it. The linker puts these in the place of what
 * failing.list names, in larder's code and the test's own. */
#ifndef LARDER_TESTS_FAILING_CALLS_H
#define LARDER_TESTS_FAILING_CALLS_H

#include <stdbool.h>
#include <stddef.h>

size_t failing_count(void); /* of calls that can fail */
const char *failing_name(size_t which);

/* The `at`-th of this call from now on fails, once; 0: none does. */
void failing_arm(size_t which, unsigned at);
bool failing_did(void); /* since then */

/* Every `every`-th call that a signal can cut short is: EINTR, or half of the bytes. 0: none. */
void failing_interrupt(unsigned every);

#endif
