#include "source/web/aws_given.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ANSWER = 16 << 10, URL = 600 };
static const double longest_program = 60; /* seconds */

/* ---- an answer ------------------------------------------------------------------------------- */

time_t larder__aws_time(const char *text) {
    struct tm t = {0};
    unsigned hours = 0, minutes = 0;
    char sign = '+', rest;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
    if (!end)
        return 0;
    if (*end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    if (strcmp(end, "Z") != 0 &&
        (sscanf(end, "%c%2u:%2u%c", &sign, &hours, &minutes, &rest) != 3 || !strchr("+-", sign)))
        return 0;
    time_t off = (time_t)(hours * 60 + minutes) * 60, when = timegm(&t);
    when += sign == '+' ? -off : off;
    return when > 0 ? when : 0;
}

static int put(char *out, size_t cap, const char *value, const char *from) {
    if (strlen(value) >= cap)
        return larder__fail(LARDER_E_FORMAT, "%s: a key or token is longer than %zu bytes", from,
                            cap - 1);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return larder__fail(LARDER_E_FORMAT, "%s: a key or token with odd characters", from);
    memcpy(out, value, strlen(value) + 1);
    return 0;
}

typedef struct answer {
    larder__aws_conf *out;
    const char *from;
} answer;

static int take_member(void *arg, const char *name, const larder__object_value *v) {
    const answer *a = arg;
    larder__aws_conf *c = a->out;
    if (!v->is_text)
        return 0;
    if (strcmp(name, "AccessKeyId") == 0)
        return put(c->key, sizeof c->key, v->long_text, a->from);
    if (strcmp(name, "SecretAccessKey") == 0)
        return put(c->secret, sizeof c->secret, v->long_text, a->from);
    if (strcmp(name, "SessionToken") == 0 || strcmp(name, "Token") == 0)
        return put(c->token, sizeof c->token, v->long_text, a->from);
    if (strcmp(name, "Expiration") == 0)
        c->expires = larder__aws_time(v->long_text);
    return 0;
}

int larder__aws_given_parse(larder__aws_conf *out, const char *text, const char *from) {
    char room[LARDER__AWS_TOKEN];
    answer a = {out, from};
    out->key[0] = out->secret[0] = out->token[0] = 0;
    out->expires = 0;
    int rc = larder__object_parse_long(text, from, room, sizeof room, take_member, &a);
    explicit_bzero(room, sizeof room);
    if (rc == 0 && (!out->key[0] || !out->secret[0]))
        rc = larder__fail(LARDER_E_FORMAT, "%s: the answer has no AccessKeyId or SecretAccessKey",
                          from);
    if (rc < 0)
        out->key[0] = out->secret[0] = out->token[0] = 0;
    return rc;
}

/* ---- the profile's program ------------------------------------------------------------------- */

static int ask_program(larder__aws_conf *out, char *room) {
    static const char from[] = "credential_process of the profile";
    int rc = larder__program_run(out->program, longest_program, room, ANSWER);
    if (rc < 0)
        return larder__fail_in(rc, "%s", from);
    return larder__aws_given_parse(out, room, from);
}

/* ---- the container's service ----------------------------------------------------------------- */

/* Secrets over plain HTTP only to this machine and to the addresses that never leave it. */
static bool may_ask(const char *url) {
    static const char *const near[] = {"127.0.0.1",     "localhost",      "[::1]",
                                       "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncasecmp(url, "https://", 8) == 0)
        return true;
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    const char *host = url + 7;
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?");
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        if (strlen(near[i]) == n && strncasecmp(host, near[i], n) == 0)
            return true;
    return false;
}

/* "authorization: TOKEN" from a file or a variable, on the heap; NULL and 0: none is wanted. */
static int authorization(char **out) {
    static const char name[] = "authorization: ";
    const char *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *told = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    unsigned char *bytes = NULL;
    size_t size = 0;
    *out = NULL;
    if (file && file[0]) {
        int rc = larder__file_read(file, ANSWER, &bytes, &size);
        if (rc < 0)
            return rc;
        told = (const char *)bytes;
    }
    int rc = 0;
    if (told && told[0]) {
        size_t n = strcspn(told, "\r\n"), all = sizeof name + n;
        *out = larder__malloc(all);
        if (*out)
            snprintf(*out, all, "%s%.*s", name, (int)n, told);
        rc = *out ? 0 : LARDER_E_NOMEM;
    }
    if (bytes)
        explicit_bzero(bytes, size);
    larder__free(bytes);
    return rc;
}

static int ask_container(larder__aws_conf *out, const char *relative, const char *full,
                         char *room) {
    static const char from[] = "the container's credentials (AWS_CONTAINER_CREDENTIALS_…)";
    char url[URL], *header = NULL;
    int n = relative ? snprintf(url, sizeof url, "http://169.254.170.2%s", relative)
                     : snprintf(url, sizeof url, "%s", full);
    if (n < 0 || (size_t)n >= sizeof url || (relative && relative[0] != '/') || !may_ask(url))
        return larder__fail(LARDER_E_ARGS, "%s: the address is neither https nor on this machine",
                            from);
    int rc = authorization(&header);
    if (rc == 0)
        rc =
            larder__service_get(&(larder__service_ask){.url = url, .header = header}, room, ANSWER);
    if (header)
        explicit_bzero(header, strlen(header));
    larder__free(header);
    if (rc == LARDER__SERVICE_MISSING)
        rc = larder__fail(LARDER_E_IO, "there are none (404)");
    return rc < 0 ? larder__fail_in(rc, "%s", from) : larder__aws_given_parse(out, room, from);
}

/* ---- the machine's service ------------------------------------------------------------------- */

static bool file_begins(const char *path, const char *with) {
    char line[64] = "";
    FILE *f = fopen(path, "re");
    bool is = f && fgets(line, sizeof line, f) && strncasecmp(line, with, strlen(with)) == 0;
    if (f)
        fclose(f);
    return is;
}

/* Elsewhere nobody answers at that address, or somebody who should not be believed. */
static bool is_amazon_machine(void) {
    return file_begins("/sys/class/dmi/id/sys_vendor", "Amazon EC2") ||
           file_begins("/sys/class/dmi/id/board_vendor", "Amazon EC2") ||
           file_begins("/sys/hypervisor/uuid", "ec2");
}

/* Version 2 of the service: a token first, then the role's name, then its credentials. A machine
 * without a role, or a service that is switched off, has none to give. */
static int ask_machine(larder__aws_conf *out, const char *endpoint, char *room) {
    static const char from[] = "the machine's credentials (instance metadata)";
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    char url[URL], header[300];
    int size = (int)strnlen(endpoint, 256);
    size -= size && endpoint[size - 1] == '/';
    snprintf(url, sizeof url, "%.*s/latest/api/token", size, endpoint);
    larder__service_ask token = {.url = url, .put = "X-aws-ec2-metadata-token-ttl-seconds: 300"};
    larder__service_ask ask = {.url = url, .header = header};
    int rc = larder__service_get(&token, room, ANSWER);
    if (rc == 0) {
        room[strcspn(room, "\r\n")] = 0;
        snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %.200s", room);
        snprintf(url, sizeof url, "%.*s%s", size, endpoint, roles);
        rc = larder__service_get(&ask, room, ANSWER);
    }
    if (rc == 0) {
        room[strcspn(room, "\r\n")] = 0;
        snprintf(url, sizeof url, "%.*s%s%.128s", size, endpoint, roles, room);
        rc = room[0] ? larder__service_get(&ask, room, ANSWER) : LARDER__SERVICE_MISSING;
    }
    explicit_bzero(header, sizeof header);
    return rc != 0 ? 0 : larder__aws_given_parse(out, room, from);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static int ask_services(larder__aws_conf *out, char *room) {
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *off = variable("AWS_EC2_METADATA_DISABLED");
    const char *endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (relative || full)
        return ask_container(out, relative, full, room);
    if ((off && strcasecmp(off, "true") == 0) || (!endpoint && !is_amazon_machine()))
        return 0;
    return ask_machine(out, endpoint ? endpoint : "http://169.254.169.254", room);
}

int larder__aws_given(larder__aws_conf *out) {
    if (out->key[0] || out->elsewhere[0])
        return 0;
    char *room = larder__malloc(ANSWER);
    if (!room)
        return LARDER_E_NOMEM;
    int rc = out->program[0] ? ask_program(out, room) : ask_services(out, room);
    explicit_bzero(room, ANSWER);
    larder__free(room);
    return rc;
}
