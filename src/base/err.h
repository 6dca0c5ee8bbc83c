/* Failures: a code for the program, a sentence for the person. The sentence is kept per thread,
 * so it can be read right after the call that failed. */
#ifndef LARDER_BASE_ERR_H
#define LARDER_BASE_ERR_H

#include <larder/larder.h>

/* Sets this thread's sentence and returns `code`, so that `return larder__fail(…)` works. */
__attribute__((format(printf, 2, 3))) int larder__fail(int code, const char *format, ...);
/* Puts "prefix: " in front of the sentence that is there; returns `code`. */
__attribute__((format(printf, 2, 3))) int larder__fail_in(int code, const char *format, ...);
/* The code for this errno: ENOENT is E_NOTFOUND, ENOSPC is E_FULL, … */
int larder__code_of_errno(int err);
/* Copies a sentence into this thread, for errors that crossed threads. */
void larder__errmsg_set(const char *sentence);

#endif
