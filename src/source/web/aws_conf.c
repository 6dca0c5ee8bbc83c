#include "source/web/aws_conf.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* ---- one file -------------------------------------------------------------------------------- */

/* text[0..n) without the blanks around it. */
static const char *trimmed(const char *text, size_t *n) {
    while (*n && strchr(" \t\r", text[0]))
        text++, --*n;
    while (*n && strchr(" \t\r", text[*n - 1]))
        --*n;
    return text;
}

static bool is(const char *text, size_t n, const char *name) {
    return strlen(name) == n && memcmp(text, name, n) == 0;
}

static int put(char *out, size_t cap, const char *value, size_t n, const char *what,
               const char *path) {
    if (out[0])
        return 0;
    if (n >= cap)
        return larder__fail(LARDER_E_FORMAT, "%s: %s is longer than %zu bytes", path, what,
                            cap - 1);
    memcpy(out, value, n);
    out[n] = 0;
    return 0;
}

typedef struct field {
    const char *name;
    size_t at, cap;
} field;

#define FIELD(name, member)                                                                        \
    { name, offsetof(larder__aws_conf, member), sizeof((larder__aws_conf *)0)->member }

static const field fields[] = {FIELD("aws_access_key_id", key),
                               FIELD("aws_secret_access_key", secret),
                               FIELD("aws_session_token", token),
                               FIELD("region", region),
                               FIELD("endpoint_url", endpoint),
                               FIELD("credential_process", program),
                               {0}};

/* Ways to credentials that need pages of a browser, or a service that gives out roles. */
static const char *const ways[] = {"sso_session",       "sso_start_url",           "role_arn",
                                   "credential_source", "web_identity_token_file", NULL};

static int take_setting(larder__aws_conf *out, const char *key, size_t key_size, const char *value,
                        size_t n, const char *path) {
    for (const field *f = fields; f->name; f++)
        if (is(key, key_size, f->name))
            return put((char *)out + f->at, f->cap, value, n, f->name, path);
    for (size_t i = 0; ways[i]; i++)
        if (is(key, key_size, ways[i]))
            return put(out->elsewhere, sizeof out->elsewhere, key, key_size, "a setting", path);
    return 0;
}

/* A blank first byte makes a line part of the setting above it: none of ours is written so. */
int larder__aws_conf_parse(larder__aws_conf *out, bool *found, const char *section,
                           const char *text, const char *path) {
    bool inside = false;
    int rc = 0;
    for (const char *line = text; rc == 0 && *line;) {
        size_t n = strcspn(line, "\n"), size = n;
        const char *at = trimmed(line, &size);
        if (size && at[0] == '[') {
            const char *end = memchr(at, ']', size);
            size_t name_size = end ? (size_t)(end - at) - 1 : 0;
            const char *name = trimmed(at + 1, &name_size);
            inside = end && is(name, name_size, section);
            *found |= inside;
        } else if (inside && size && at == line && !strchr("#;", at[0])) {
            const char *equals = memchr(at, '=', size);
            size_t key_size = equals ? (size_t)(equals - at) : 0;
            size_t value_size = equals ? size - key_size - 1 : 0;
            const char *key = trimmed(at, &key_size);
            const char *value = equals ? trimmed(equals + 1, &value_size) : "";
            rc = key_size ? take_setting(out, key, key_size, value, value_size, path) : 0;
        }
        line += n + (line[n] == '\n');
    }
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int take_file(larder__aws_conf *out, bool *found, const char *variable, const char *name,
                     const char *section) {
    char path[PATH_MAX];
    const char *told = getenv(variable), *home = getenv("HOME");
    unsigned char *bytes;
    size_t size;
    int n = told && told[0]   ? snprintf(path, sizeof path, "%s", told)
            : home && home[0] ? snprintf(path, sizeof path, "%s/.aws/%s", home, name)
                              : -1;
    if (n < 0 || (size_t)n >= sizeof path)
        return 0;
    int rc = larder__file_read(path, MOST_BYTES, &bytes, &size);
    if (rc == LARDER_E_NOTFOUND)
        return 0;
    if (rc == 0)
        rc = larder__aws_conf_parse(out, found, section, (const char *)bytes, path);
    if (bytes)
        explicit_bzero(bytes, size);
    larder__free(bytes);
    return rc;
}

static void take_variable(char *out, size_t cap, const char *name) {
    const char *value = getenv(name);
    if (!out[0] && value && strlen(value) < cap)
        memcpy(out, value, strlen(value) + 1);
}

/* Two halves of a key from different places would be a wrong key. */
static void take_pair(larder__aws_conf *out, const char *key_name, const char *secret_name) {
    const char *key = getenv(key_name), *secret = getenv(secret_name);
    if (out->key[0] || !key || !key[0] || !secret || !secret[0])
        return;
    take_variable(out->key, sizeof out->key, key_name);
    take_variable(out->secret, sizeof out->secret, secret_name);
    out->fixed = true;
}

static void take_environment(larder__aws_conf *out) {
    take_pair(out, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    if (out->fixed)
        take_variable(out->token, sizeof out->token, "AWS_SESSION_TOKEN");
    take_variable(out->region, sizeof out->region, "AWS_REGION");
    take_variable(out->region, sizeof out->region, "AWS_DEFAULT_REGION");
    take_variable(out->endpoint, sizeof out->endpoint, "AWS_ENDPOINT_URL_S3");
    take_variable(out->endpoint, sizeof out->endpoint, "AWS_ENDPOINT_URL");
}

static const char web_identity[] = "AWS_WEB_IDENTITY_TOKEN_FILE";

static int take_files(larder__aws_conf *out, const char *wanted, bool named) {
    char section[LARDER__AWS_TEXT];
    bool found = false;
    int rc = take_file(out, &found, "AWS_SHARED_CREDENTIALS_FILE", "credentials", wanted);
    snprintf(section, sizeof section, strcmp(wanted, "default") == 0 ? "%s" : "profile %s", wanted);
    if (rc == 0)
        rc = take_file(out, &found, "AWS_CONFIG_FILE", "config", section);
    if (rc == 0 && named && !found)
        rc = larder__fail(LARDER_E_ARGS,
                          "there is no profile \"%.60s\" in ~/.aws/credentials or ~/.aws/config",
                          wanted);
    return rc;
}

/* The files' key, or where one is to be had. */
static void take_key(larder__aws_conf *out, const larder__aws_conf *files) {
    if (!out->key[0] && files->key[0] && files->secret[0]) {
        memcpy(out->key, files->key, sizeof out->key);
        memcpy(out->secret, files->secret, sizeof out->secret);
        memcpy(out->token, files->token, sizeof out->token);
    }
    if (out->key[0])
        return;
    memcpy(out->program, files->program, sizeof out->program);
    if (out->program[0])
        return;
    memcpy(out->elsewhere, files->elsewhere, sizeof out->elsewhere);
    if (!out->elsewhere[0] && getenv(web_identity))
        memcpy(out->elsewhere, web_identity, sizeof web_identity);
}

int larder__aws_conf_load(larder__aws_conf *out, const char *profile) {
    const char *wanted = profile[0] ? profile : getenv("AWS_PROFILE");
    bool named = wanted && wanted[0];
    larder__aws_conf from_files = {0};
    /* A profile that was asked for by name comes before keys that happen to be exported. */
    if (!profile[0])
        take_environment(out);
    int rc = take_files(&from_files, named ? wanted : "default", named);
    if (rc == 0)
        take_key(out, &from_files);
    if (profile[0])
        take_environment(out); /* the rest: region and endpoint */
    if (!out->region[0])
        memcpy(out->region, from_files.region, sizeof out->region);
    if (!out->endpoint[0])
        memcpy(out->endpoint, from_files.endpoint, sizeof out->endpoint);
    explicit_bzero(&from_files, sizeof from_files);
    return rc;
}

int larder__gs_conf_load(larder__aws_conf *out, const char *profile) {
    larder__aws_conf from_files = {0};
    if (!profile[0]) {
        take_pair(out, "GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY");
        return 0;
    }
    int rc = take_files(&from_files, profile, true);
    if (rc == 0 && from_files.key[0] && from_files.secret[0]) {
        memcpy(out->key, from_files.key, sizeof out->key);
        memcpy(out->secret, from_files.secret, sizeof out->secret);
    } else if (rc == 0)
        rc = larder__fail(LARDER_E_ARGS, "profile \"%.60s\" has no pair of keys, as gs: needs",
                          profile);
    explicit_bzero(&from_files, sizeof from_files);
    return rc;
}
