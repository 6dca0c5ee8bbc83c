/* Any text as a file of credentials, read for two profiles, and as a service's answer. */
#include "source/web/aws_given.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static larder__aws_conf c;
    char *text = malloc(size + 1);
    bool found = false;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    memset(&c, 0, sizeof c);
    larder__aws_conf_parse(&c, &found, "default", text, "credentials");
    larder__aws_conf_parse(&c, &found, "profile x", text, "config");
    if (!memchr(c.key, 0, sizeof c.key) || !memchr(c.secret, 0, sizeof c.secret) ||
        !memchr(c.token, 0, sizeof c.token) || !memchr(c.region, 0, sizeof c.region) ||
        !memchr(c.endpoint, 0, sizeof c.endpoint) || !memchr(c.elsewhere, 0, sizeof c.elsewhere) ||
        !memchr(c.program, 0, sizeof c.program))
        abort();
    if (larder__aws_given_parse(&c, text, "answer") == 0 &&
        (!c.key[0] || !c.secret[0] || !memchr(c.token, 0, sizeof c.token)))
        abort();
    free(text);
    return 0;
}
