/* Who asks S3, and where: from the environment and from the two files that Amazon's tools keep.
 * What is secret in here never gets into a sentence. */
#ifndef LARDER_SOURCE_AWS_CONF_H
#define LARDER_SOURCE_AWS_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { LARDER__AWS_TEXT = 256, LARDER__AWS_TOKEN = 4096, LARDER__AWS_PROGRAM = 1024 };

typedef struct larder__aws_conf {
    char key[LARDER__AWS_TEXT], secret[LARDER__AWS_TEXT]; /* "": none, ask without a signature */
    char token[LARDER__AWS_TOKEN];                        /* of a session; "": none */
    char region[LARDER__AWS_TEXT], endpoint[LARDER__AWS_TEXT];
    bool fixed;     /* the key is the environment's: it will not change */
    time_t expires; /* when the token ends; 0: not known */
    char
        program[LARDER__AWS_PROGRAM]; /* a command that gives credentials (aws_given.h); "": none */
    char elsewhere[LARDER__AWS_TEXT]; /* the profile wants a way to credentials that is not ours */
} larder__aws_conf;

/* Everything that is not set yet. `profile`: "" means AWS_PROFILE or "default". E_ARGS for a
 * profile that was named and is in neither file; a file that is not there is none. */
int larder__aws_conf_load(larder__aws_conf *, const char *profile);
/* The same of Google's HMAC keys: GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, or those of a profile
 * that is named. What is set for Amazon is not looked at: it is nobody else's to see. */
int larder__gs_conf_load(larder__aws_conf *, const char *profile);
/* Takes what section `[section]` of such a file says and `out` does not have yet. `found`: it is
 * there. */
int larder__aws_conf_parse(larder__aws_conf *out, bool *found, const char *section,
                           const char *text, const char *path);

#endif
