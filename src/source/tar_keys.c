#include "source/tar_keys.h"

#include "base/file.h"
#include "base/grow.h"

#include <ctype.h>
#include <strings.h>

/* Returns the ending after the key, or NULL. */
static const char *split_key(const char *path, size_t *key_size) {
    const char *dot = strchr(larder__name_in(path), '.');
    *key_size = dot ? (size_t)(dot - path) : strlen(path);
    return dot ? dot + 1 : NULL;
}

static int parse_label(larder__tar *t, const larder__tar_member *m, int32_t *out) {
    const unsigned char *text;
    size_t n = (size_t)m->bytes, i = 0;
    uint64_t v = 0;
    int rc = m->bytes == 0 || m->bytes > 64 ? LARDER_E_FORMAT
                                            : larder__tar_bytes(t, m->offset, n, &text);
    if (rc == 0) {
        while (n > 0 && isspace(text[n - 1]))
            n--;
        for (; i < n && isdigit(text[i]) && v <= INT32_MAX; i++)
            v = v * 10 + (uint64_t)(text[i] - '0');
        if (n > 0 && i == n && v <= INT32_MAX) {
            *out = (int32_t)v;
            return 0;
        }
    }
    return larder__fail(LARDER_E_FORMAT,
                        "%s: %.200s at byte %llu is not a class number of 0 to 2147483647",
                        t->label, m->path, (unsigned long long)m->header);
}

int larder__tar_ending(larder__names *endings, const char *ending, uint32_t *number) {
    enum { LONGEST = 31 };
    size_t n = ending ? strlen(ending) : 0;
    int rc = endings->count == 0 ? larder__names_add(endings, "", 0) : 0;
    const char *at = endings->bytes;
    *number = 0;
    if (rc < 0 || n == 0 || n > LONGEST)
        return rc;
    for (uint32_t i = 0; i < endings->count; i++, at += strlen(at) + 1)
        if (strcmp(at, ending) == 0) {
            *number = i;
            return 0;
        }
    if (endings->count == LARDER__TAR_ENDINGS)
        return 0;
    rc = larder__names_add(endings, ending, n);
    *number = rc < 0 ? 0 : (uint32_t)endings->count - 1;
    return rc;
}

static int add_key(larder__tar_keys *x, const char *key, size_t n) {
    uint64_t i = x->keys.count;
    int rc = larder__grow(&x->labels, &x->labels_cap, i + 1, sizeof *x->labels);
    if (rc == 0)
        rc = larder__grow(&x->firsts, &x->firsts_cap, i + 2, sizeof *x->firsts);
    if (rc == 0)
        rc = larder__names_add(&x->keys, key, n);
    if (rc < 0)
        return rc;
    x->labels[i] = -1;
    x->firsts[i] = x->firsts[i + 1] = x->part_count;
    return 0;
}

bool larder__is_class(const char *ending) { return ending && strcasecmp(ending, "cls") == 0; }

/* To the key that was added last. There are fewer parts than blocks. */
static int take_member(larder__tar_keys *x, larder__tar *t, const larder__tar_member *m,
                       const char *ending) {
    int32_t *label = &x->labels[x->keys.count - 1];
    uint32_t number = 0;
    int rc = 0;
    if (m->offset / LARDER__TAR_BLOCK > UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: a shard of more than 2 TiB", t->label);
    if (larder__is_class(ending)) {
        if (*label >= 0)
            return larder__fail(LARDER_E_FORMAT, "%s: %.200s is there twice, again at byte %llu",
                                t->label, m->path, (unsigned long long)m->header);
        rc = parse_label(t, m, label);
    }
    if (rc == 0)
        rc = larder__tar_ending(&x->endings, ending, &number);
    if (rc == 0)
        rc = larder__grow(&x->parts, &x->parts_cap, (size_t)x->part_count + 1, sizeof *x->parts);
    if (rc < 0)
        return rc;
    x->parts[x->part_count++] =
        (larder__tar_part){(uint32_t)(m->offset / LARDER__TAR_BLOCK),
                           m->bytes < UINT32_MAX ? (uint32_t)m->bytes : UINT32_MAX, number};
    x->firsts[x->keys.count] = x->part_count;
    return 0;
}

int larder__tar_keys_scan(larder__tar_keys *x, larder__tar *t) {
    larder__tar_member *m = larder__malloc(sizeof *m);
    char *key = larder__malloc(LARDER__TAR_PATH);
    size_t size = SIZE_MAX; /* of the key: there is none yet */
    int rc = m && key ? 0 : LARDER_E_NOMEM;
    while (rc == 0 && (rc = larder__tar_next(t, m)) > 0) {
        size_t n;
        const char *ending = split_key(m->path, &n);
        rc = 0;
        if (size != n || memcmp(key, m->path, n) != 0) {
            memcpy(key, m->path, n);
            size = n;
            rc = add_key(x, key, n);
        }
        if (rc == 0)
            rc = take_member(x, t, m, ending);
    }
    larder__free(m);
    larder__free(key);
    return rc;
}

void larder__tar_keys_free(larder__tar_keys *x) {
    larder__names_free(&x->keys);
    larder__names_free(&x->endings);
    larder__free(x->labels);
    larder__free(x->firsts);
    larder__free(x->parts);
    *x = (larder__tar_keys){0};
}
