/* What jobs and groups that share something may be called. */
#ifndef LARDER_SHARED_JOB_NAME_H
#define LARDER_SHARED_JOB_NAME_H

#include <stdbool.h>
#include <string.h>

enum { LARDER__JOB_NAME = 40 }; /* bytes, with the zero behind it */

static inline bool larder__job_name_fits(const char *text) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(text);
    return n > 0 && n < LARDER__JOB_NAME && strspn(text, allowed) == n;
}

#endif
