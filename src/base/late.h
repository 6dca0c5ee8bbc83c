/* Libraries that most commands do without are opened at their first use: with all of them the
 * system's loader takes longer to start the program than a small training takes
 * (docs/results/svm.md).
 *
 *     #include <sndfile.h>
 *     #define CALLS(X) X(sf_close) X(sf_open_virtual)
 *     CALLS(LARDER__LATE_NAME)
 *     LARDER__LATE(sndfile, LARDER_LATE_SNDFILE, CALLS)
 *
 * From there on these names mean jumps through pointers, which larder__late_open finds: what begins
 * the use of a library calls that first. A function that is not listed is missed when the program
 * is linked; a variable is listed as functions are and read by LARDER__LATE_DATUM. Where
 * LARDER_LATE is off the library itself is linked, and all of this is nothing. */
#ifndef LARDER_BASE_LATE_H
#define LARDER_BASE_LATE_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct larder__late_call {
    const char *name;
    void **at;
} larder__late_call;

typedef struct larder__late {
    const char *file; /* NULL: linked */
    const larder__late_call *calls;
    atomic_bool open;
} larder__late;

/* 0, or why it cannot be used. Any thread, any number of times; it stays open. */
int larder__late_open(larder__late *);

#if LARDER_LATE

#if defined(__x86_64__)
#define LARDER__LATE_GO(pointer) "endbr64\n jmp *" pointer "(%rip)\n"
#elif defined(__aarch64__)
#define LARDER__LATE_GO(pointer)                                                                   \
    "hint 34\n adrp x16, " pointer "\n ldr x16, [x16, :lo12:" pointer "]\n br x16\n"
#else
#error "jumps are written for x86-64 and aarch64 alone: configure with -DLARDER_LATE=OFF"
#endif

#define LARDER__LATE_NAME(f) extern __typeof__(f)(f) __asm__("larder__late_" #f);

#define LARDER__LATE_JUMP(f)                                                                       \
    extern void *larder__late_at_##f;                                                              \
    __attribute__((visibility("hidden"), used)) void *larder__late_at_##f;                         \
    __asm__(                                                                                       \
        ".pushsection .text\n .balign 16\n .globl larder__late_" #f "\n .hidden larder__late_" #f  \
        "\n .type larder__late_" #f ", %function\nlarder__late_" #f                                \
        ":\n " LARDER__LATE_GO("larder__late_at_" #f) ".size larder__late_" #f                     \
                                                      ", . - larder__late_" #f "\n .popsection");
#define LARDER__LATE_CALL(f) {#f, &larder__late_at_##f},

#define LARDER__LATE_DATUM(v) (*(__typeof__(v) *)larder__late_at_##v)

#define LARDER__LATE(library, soname, CALLS)                                                       \
    CALLS(LARDER__LATE_JUMP)                                                                       \
    static const larder__late_call library##_calls[] = {CALLS(LARDER__LATE_CALL){NULL, NULL}};     \
    static larder__late library##_late = {.file = (soname), .calls = library##_calls};

#else

#define LARDER__LATE_NAME(f)
#define LARDER__LATE_DATUM(v) (v)
#define LARDER__LATE(library, soname, CALLS) static larder__late library##_late;

#endif

#endif
