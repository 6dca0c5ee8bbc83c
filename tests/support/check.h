/* cmocka needs these in this order; every test includes this first. */
#ifndef LARDER_TEST_CHECK_H
#define LARDER_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <larder/larder.h>

#include <unistd.h>

/* A call that must succeed; shows larder's sentence when it does not. */
#define check_ok(call)                                                                             \
    do {                                                                                           \
        int rc_ = (int)(call);                                                                     \
        if (rc_ < 0)                                                                               \
            fail_msg("%s: %d, %s", #call, rc_, larder_errmsg());                                   \
    } while (0)

/* A process that was forked has no test around it: it says why and ends. */
#define must(truth)                                                                                \
    do {                                                                                           \
        if (!(truth)) {                                                                            \
            fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #truth,              \
                    larder_errmsg());                                                              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* No test is skipped without the reason in a word. */
#define skip_since(why)                                                                            \
    do {                                                                                           \
        print_message("skipped: %s\n", why);                                                       \
        skip();                                                                                    \
    } while (0)
#define root_or_skip()                                                                             \
    do {                                                                                           \
        if (geteuid() != 0)                                                                        \
            skip_since("only root can be two users");                                              \
    } while (0)

/* A fresh folder below the system's temporary one; removed by check_folder_remove. */
const char *check_folder(char out[256]);
void check_folder_remove(const char *path);
/* Writes a file, whole. */
void check_write(const char *path, const void *bytes, size_t size);
/* ../shared/data/NAME if this machine has it and this build can read it, else NULL: the caller
 * skips. */
const char *check_shared(const char *name, char out[512]);
/* Bytes of the heap that are in use; 0 where it does not say: a sanitizer's, another libc's. */
size_t check_heap(void);

#endif
