/* Loops over pixels and the like are compiled for several instruction sets, the right one is chosen
 * at load time. Not under sanitizers, whose start-up the choice would precede, nor where the
 * compiler or the C library cannot: before 18, clang gives other files no name to call. */
#ifndef LARDER_BASE_CLONES_H
#define LARDER_BASE_CLONES_H

#include <stdint.h> /* says whether the C library is glibc: this header may be a file's first */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define LARDER__SANITIZED 1
#endif
/* MSan would have every lane of a vector set, also those that a mask drops or nobody reads. */
#if __has_feature(memory_sanitizer)
#define LARDER__LANES_CHECKED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARDER__SANITIZED 1
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(LARDER__SANITIZED) &&                    \
    (defined(__clang__) ? __clang_major__ >= 18 : __GNUC__ >= 9)
#define LARDER__CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
/* For loops that shift by what they have just read: BMI2 does that in one step, on Intel too. */
#define LARDER__SHIFT_CLONES __attribute__((target_clones("bmi2", "default")))
#else
#define LARDER__CLONES
#define LARDER__SHIFT_CLONES
#endif

/* A fused multiply-add rounds once where two instructions round twice: with it, pixels would depend
 * on the machine. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* For what follows in files of numbers that no two machines have to agree on. */
#if defined(__clang__)
#define LARDER__FUSE _Pragma("STDC FP_CONTRACT ON")
#elif defined(__GNUC__)
#define LARDER__FUSE _Pragma("GCC optimize(\"fp-contract=fast\")")
#else
#define LARDER__FUSE
#endif

#define LARDER__INLINE static inline __attribute__((always_inline))

#endif
