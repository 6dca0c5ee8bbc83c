/* Failures: a code for the program, a sentence for the person. The sentence is kept per thread,
 * so it can be read right after the call that failed. */
#ifndef LARDER_BASE_ERR_H
#define LARDER_BASE_ERR_H

#include <larder/larder.h>

#include <errno.h>

/* larder__fail(code, format, …) sets this thread's sentence, larder__fail_in puts "prefix: " in
 * front of the one that is there; both are worth `code`, so that `return larder__fail(…)` works.
 * Macros, so that compilers and analysers see which code comes back and follow the right path. */
#define larder__fail(code, ...) (larder__say(__VA_ARGS__), larder__answer(code))
#define larder__fail_in(code, ...) (larder__say_before(__VA_ARGS__), larder__answer(code))
/* Both leave errno as it is: `code` may be computed from it, after them. */
__attribute__((format(printf, 1, 2))) void larder__say(const char *format, ...);
__attribute__((format(printf, 1, 2))) void larder__say_before(const char *format, ...);
static inline int larder__answer(int code) { return code; }

/* The code for this errno. */
static inline int larder__code_of_errno(int err) {
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return LARDER_E_NOTFOUND;
    case ENOMEM:
        return LARDER_E_NOMEM;
    case ENOSPC:
    case EDQUOT:
        return LARDER_E_FULL;
    default:
        return LARDER_E_IO;
    }
}
/* Copies a sentence into this thread, for errors that crossed threads. */
void larder__errmsg_set(const char *sentence);

#endif
