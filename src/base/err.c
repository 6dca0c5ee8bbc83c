#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[512];

const char *larder_errmsg(void) { return sentence[0] ? sentence : "no error"; }

const char *larder_strerror(int code) {
    switch (code) {
#define XX(name, number, text)                                                                     \
    case number:                                                                                   \
        return text;
        LARDER_ERRORS(XX)
#undef XX
    default:
        return "unknown error";
    }
}

/* Names of files are anybody's: a sentence must not move the reader's cursor. */
static void publish(char fresh[sizeof sentence]) {
    for (char *c = fresh; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    memcpy(sentence, fresh, sizeof sentence);
}

void larder__errmsg_set(const char *text) { snprintf(sentence, sizeof sentence, "%s", text); }

void larder__say(const char *format, ...) {
    char fresh[sizeof sentence]; /* the arguments may point into the old sentence */
    int kept = errno;
    va_list ap;
    va_start(ap, format);
    vsnprintf(fresh, sizeof fresh, format, ap);
    va_end(ap);
    publish(fresh);
    errno = kept;
}

void larder__say_before(const char *format, ...) {
    char fresh[sizeof sentence];
    int kept = errno;
    va_list ap;
    va_start(ap, format);
    int used = vsnprintf(fresh, sizeof fresh, format, ap);
    va_end(ap);
    if (used >= 0 && (size_t)used < sizeof fresh)
        snprintf(fresh + used, sizeof fresh - (size_t)used, ": %.400s", larder_errmsg());
    publish(fresh);
    errno = kept;
}
