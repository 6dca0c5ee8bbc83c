/* Credentials that are not written down in a file: a program of the profile gives them, or a
 * service of the container or machine that this runs on. What is secret in here never gets into a
 * sentence. */
#ifndef LARDER_SOURCE_AWS_GIVEN_H
#define LARDER_SOURCE_AWS_GIVEN_H

#include "source/web/aws_conf.h"

/* Where `out` has no key: asks the profile's program, or else the container's service, or else the
 * machine's. Still none, and 0: there is nobody to ask, or a machine without a role. */
int larder__aws_given(larder__aws_conf *out);

/* An answer of one of them, a JSON object; `from` is for sentences. */
int larder__aws_given_parse(larder__aws_conf *out, const char *text, const char *from);
/* "2026-11-15T19:05:00Z", also with a fraction or another zone; 0: something else. */
time_t larder__aws_time(const char *text);

/* What a shell command prints, at most `cap` - 1 bytes and as text. E_IO: it failed, said nothing
 * or too much, or took longer than `seconds`. */
int larder__program_run(const char *command, double seconds, char *out, size_t cap);

enum { LARDER__SERVICE_MISSING = 1 }; /* the answer of a service that has nothing to give */
typedef struct larder__service_ask {
    const char *url, *put; /* put: a header "name: value"; the request is a PUT. NULL: a GET */
    const char *header;    /* another one to send; NULL: none */
} larder__service_ask;
/* One short exchange, with no proxy in between, tried three times: 0 and its text, MISSING for 404,
 * or E_IO. E_UNSUPPORTED in a build without libcurl. */
int larder__service_get(const larder__service_ask *, char *out, size_t cap);

#endif
