/* What every signal must keep, whatever it makes of a report: see tests/conformance/test_signals.c.
 */
#ifndef LARDER_TEST_SIGNAL_SUITE_H
#define LARDER_TEST_SIGNAL_SUITE_H

#include "conform.h"

/* All of it, with these parameters; false: wrong_said() tells what is wrong. */
bool signal_suite(const larder_signal *, const char *args);

#endif
