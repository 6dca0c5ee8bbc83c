#include "train/parts.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct text { /* a bounded text being put together */
    char *at;
    size_t n;
    bool full;
} text;

static void add(text *t, const char *from, size_t n) {
    if (n >= LARDER__URI_BYTES - t->n) {
        t->full = true;
        return;
    }
    memcpy(t->at + t->n, from, n);
    t->n += n;
    t->at[t->n] = '\0';
}

static void add_all(text *t, const char *from) { add(t, from, strlen(from)); }

static int finish(const text *t, const char *what) {
    return t->full ? larder__fail(LARDER_E_ARGS, "the %s is longer than %d bytes", what,
                                  LARDER__URI_BYTES - 1)
                   : 0;
}

static const char *without_slow(const char *uri) {
    while (strncmp(uri, "slow:", 5) == 0) {
        const char *colon = strchr(uri + 5, ':');
        if (!colon)
            return uri;
        uri = colon + 1;
    }
    return uri;
}

/* Where the query begins, as sources see it: behind the last '?' that a key and '=' follow. */
static const char *query_of(const char *uri) {
    const char *mark = strrchr(uri, '?');
    return mark && strchr(mark, '=') ? mark + 1 : NULL;
}

int larder__parts_test_uri(char out[LARDER__URI_BYTES], const char *uri) {
    text t = {.at = out};
    out[0] = '\0';
    uri = without_slow(uri);
    const char *query = query_of(uri);
    add(&t, uri, query ? (size_t)(query - 1 - uri) : strlen(uri));
    add_all(&t, "?split=test");
    while (query && *query) {
        size_t n = strcspn(query, "&");
        if (n > 0 && strncmp(query, "split=", 6) != 0) {
            add_all(&t, "&");
            add(&t, query, n);
        }
        query += n + (query[n] == '&');
    }
    return finish(&t, "data set's name");
}

int larder__parts_slow_uri(char out[LARDER__URI_BYTES], const char *slow, const char *uri) {
    text t = {.at = out};
    out[0] = '\0';
    if (strchr(slow, ':'))
        return larder__fail(LARDER_E_ARGS,
                            "a storage speed is written like "
                            "bandwidth=20MiB,latency=2ms, not '%.100s'",
                            slow);
    add_all(&t, "slow:");
    add_all(&t, slow);
    add_all(&t, ":");
    add_all(&t, uri);
    return finish(&t, "data set's name");
}

const char *larder__parts_augment(const larder_dataset *about) {
    if (about->raw.h == 0)
        return "rrc:size=64|flip|normalize:preset=imagenet";
    if (about->raw.c == 1)
        return "normalize:preset=fashion";
    if (about->raw.c == 3 && about->raw.h == 32 && about->raw.w == 32)
        return "crop:size=32,pad=4|flip|normalize:preset=cifar10";
    return "normalize:mean=0.5,std=0.25";
}

static bool is_stage(const char *stage, size_t n, const char *name) {
    size_t length = strlen(name);
    return n >= length && strncmp(stage, name, length) == 0 &&
           (n == length || stage[length] == ':');
}

/* The whole picture, brought to 8/7 of the size, and its middle: the usual test of a net that was
 * trained on random parts. */
static int add_centre(text *t, const char *stage, size_t n) {
    char centre[96];
    const char *key = n > 4 ? strstr(stage, "size=") : NULL;
    if (!key || key >= stage + n)
        return larder__fail(LARDER_E_ARGS,
                            "cannot tell how to prepare the test part from "
                            "'%.*s'; say it with --test-augment",
                            (int)n, stage);
    long size = strtol(key + 5, NULL, 10);
    if (size < 1 || size > 1 << 16)
        return larder__fail(LARDER_E_ARGS, "'%.*s' has no usable size", (int)n, stage);
    snprintf(centre, sizeof centre, "resize:size=%ld|centercrop:size=%ld", size * 8 / 7, size);
    add_all(t, centre);
    return 0;
}

int larder__parts_test_augment(char out[LARDER__URI_BYTES], const char *augment) {
    text t = {.at = out};
    out[0] = '\0';
    while (*augment) {
        size_t n = strcspn(augment, "|");
        if (!is_stage(augment, n, "flip") && !is_stage(augment, n, "crop")) {
            if (t.n)
                add_all(&t, "|");
            int rc = 0;
            if (is_stage(augment, n, "rrc"))
                rc = add_centre(&t, augment, n);
            else
                add(&t, augment, n);
            if (rc < 0)
                return rc;
        }
        augment += n + (augment[n] == '|');
    }
    return finish(&t, "preparation");
}
