#include "base/err.h"

#include "base/escape.h"

#include <larder/plugin.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[512];

const char *larder_errmsg(void) { return sentence[0] ? sentence : "no error"; }

/* Every sentence of the library passes here, with whatever names and answers were put into it. One
 * that was longer than its room may end within a character, which goes. */
static void publish(char fresh[sizeof sentence]) {
    size_t n = strlen(fresh);
    if (n + 1 == sizeof sentence) {
        while (n > 0 && ((unsigned char)fresh[n - 1] & 0xc0) == 0x80)
            n--;
        n -= n > 0 && (unsigned char)fresh[n - 1] >= 0xc0;
        fresh[n] = 0;
    }
    larder__shown(sentence, sizeof sentence, fresh);
}

void larder__errmsg_set(const char *text) {
    char fresh[sizeof sentence];
    snprintf(fresh, sizeof fresh, "%s", text);
    publish(fresh);
}

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

int larder_fail(int code, const char *format, ...) {
    char fresh[sizeof sentence];
    va_list ap;
    va_start(ap, format);
    vsnprintf(fresh, sizeof fresh, format, ap);
    va_end(ap);
    publish(fresh);
    return code;
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
