/* What every source must keep, whatever it reads from: see tests/conformance/test_sources.c. */
#ifndef LARDER_TEST_SOURCE_SUITE_H
#define LARDER_TEST_SOURCE_SUITE_H

#include "conform.h"

typedef struct source_case {
    const larder_source *source;
    const char *where, *args; /* of a small data set: at most 64 samples */
    const char *nowhere;      /* a place where it finds nothing */
    uint64_t count;           /* samples that are there */
    /* Changes some byte of a sample, and nothing else; or is NULL, and other_args makes others. */
    void (*change)(void *arg);
    void *arg;
    const char *other_args;
    bool network; /* threads of its own allocate and free */
} source_case;

/* All of it; false: wrong_said() tells what is wrong. */
bool source_suite(const source_case *);

#endif
