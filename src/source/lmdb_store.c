/* lmdb: a sample a key, in the order of the keys; the value as it lies there. Read-only and without
 * LMDB's lock file, so that a data set on a disk nobody may write to will do; nobody may write to
 * it while it is in use, which is looked for after each read. The file itself is trusted as far as
 * LMDB trusts it. */
#include <larder/plugin.h>

#include "base/err.h"

#if LARDER_HAVE_LMDB

#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/late.h"
#include "base/mem.h"
#include "source/answer.h"
#include "source/content.h"
#include "source/pread_full.h"
#include "source/split.h"

#include <lmdb.h>

#include <limits.h>
#include <stdio.h>

#define CALLS(X)                                                                                   \
    X(mdb_cursor_close)                                                                            \
    X(mdb_cursor_get)                                                                              \
    X(mdb_cursor_open)                                                                             \
    X(mdb_dbi_open)                                                                                \
    X(mdb_env_close)                                                                               \
    X(mdb_env_create)                                                                              \
    X(mdb_env_open)                                                                                \
    X(mdb_get) X(mdb_strerror) X(mdb_txn_abort) X(mdb_txn_begin) X(mdb_txn_commit)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(lmdb, LARDER_LATE_LMDB, CALLS)

typedef struct entry {
    uint64_t key; /* where it begins in `keys` */
    uint32_t key_bytes, bytes;
} entry;

typedef struct store {
    MDB_env *env;
    MDB_dbi dbi;
    char path[PATH_MAX]; /* of the file with the data */
    int fd;
    bool opened; /* fd is one */
    larder__stamp stamp;
    char *keys;
    size_t keys_used, keys_cap;
    entry *entries;
    size_t entries_cap;
    uint64_t count, bytes, skipped;
    char says[120];
} store;

static int failed(const store *s, int err) {
    return larder__fail(err == ENOMEM ? LARDER_E_NOMEM : LARDER_E_FORMAT, "%s: %s", s->path,
                        mdb_strerror(err));
}

/* ---- open and close -------------------------------------------------------------------------- */

static int add_entry(store *s, const MDB_val *key, const MDB_val *value) {
    const char *name = key->mv_data;
    size_t n = key->mv_size;
    if (n > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + n - 2, "__", 2) == 0) {
        s->skipped++; /* __len__ and the like, which writers leave for themselves */
        return 0;
    }
    if (value->mv_size >= UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%s: 4 GiB or more is no sample", s->path);
    int rc = larder__grow(&s->keys, &s->keys_cap, s->keys_used + n, 1);
    if (rc == 0)
        rc = larder__grow(&s->entries, &s->entries_cap, s->count + 1, sizeof *s->entries);
    if (rc < 0)
        return rc;
    memcpy(s->keys + s->keys_used, name, n);
    s->entries[s->count++] = (entry){s->keys_used, (uint32_t)n, (uint32_t)value->mv_size};
    s->keys_used += n;
    s->bytes += value->mv_size;
    return 0;
}

static int list_keys(store *s, MDB_txn *txn) {
    MDB_cursor *at = NULL;
    MDB_val key, value;
    int rc = 0, err = mdb_dbi_open(txn, NULL, 0, &s->dbi);
    if (!err)
        err = mdb_cursor_open(txn, s->dbi, &at);
    while (!err && rc == 0 && !(err = mdb_cursor_get(at, &key, &value, MDB_NEXT)))
        rc = add_entry(s, &key, &value);
    if (at)
        mdb_cursor_close(at);
    if (rc == 0 && err != MDB_NOTFOUND)
        rc = failed(s, err);
    if (rc == 0 && s->count == 0)
        rc = larder__fail(LARDER_E_NOTFOUND, "%s holds no samples", s->path);
    return rc;
}

static int open_env(store *s, const char *where, bool folder) {
    unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | (folder ? 0 : MDB_NOSUBDIR);
    MDB_txn *txn = NULL;
    int rc = larder__late_open(&lmdb_late);
    if (rc < 0)
        return rc;
    int err = mdb_env_create(&s->env);
    if (!err)
        err = mdb_env_open(s->env, where, flags, 0);
    if (!err)
        err = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
    if (err)
        return failed(s, err);
    rc = list_keys(s, txn);
    if (rc == 0)
        mdb_txn_commit(txn); /* the handle of the table lives on */
    else
        mdb_txn_abort(txn);
    return rc;
}

static int store_open(void *st, const char *where, const larder_args *args) {
    store *s = st;
    bool folder = larder__is_folder(where);
    (void)args;
    int n = snprintf(s->path, sizeof s->path, "%s%s", where, folder ? "/data.mdb" : "");
    if (n < 0 || (size_t)n >= sizeof s->path)
        return larder__fail(LARDER_E_ARGS, "the path \"%.60s…\" is too long", where);
    s->fd = larder__open_plain(s->path, &s->stamp);
    if (s->fd < 0)
        return s->fd;
    s->opened = true;
    return open_env(s, where, folder);
}

static void store_close(void *st) {
    store *s = st;
    if (s->env)
        mdb_env_close(s->env);
    if (s->opened)
        close(s->fd);
    larder__free(s->keys);
    larder__free(s->entries);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int find(const store *s, MDB_txn *txn, uint64_t id, MDB_val *out) {
    const entry *e = &s->entries[id];
    MDB_val key = {e->key_bytes, s->keys + e->key};
    int err = mdb_get(txn, s->dbi, &key, out);
    if (err)
        return larder__fail_in(failed(s, err), "sample %llu", (unsigned long long)id);
    return out->mv_size == e->bytes ? 0 : larder__file_changed(s->path);
}

static int read_one(const store *s, MDB_txn *txn, uint64_t id, larder_buf **out) {
    MDB_val value;
    int rc = find(s, txn, id, &value);
    if (rc < 0)
        return rc;
    *out = larder_buf_new(value.mv_size);
    if (!*out)
        return LARDER_E_NOMEM;
    memcpy(larder_buf_data(*out), value.mv_data, value.mv_size);
    return 0;
}

static int store_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    store *s = st;
    MDB_txn *txn = NULL;
    int err = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
    if (err)
        return failed(s, err);
    for (size_t i = 0; i < n; i++) {
        larder_buf *buf = NULL;
        int rc = read_one(s, txn, ids[i], &buf);
        if (rc < 0)
            larder__answer_failure(&out[i], rc);
        else
            larder__answer_buf(&out[i], buf);
    }
    mdb_txn_abort(txn);
    if (n && larder__fd_unchanged(s->fd, s->path, &s->stamp) < 0)
        for (size_t i = 0; i < n; i++) {
            larder_buf_unref(&out[i].buf);
            larder__answer_failure(&out[i], larder__file_changed(s->path));
        }
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct look {
    const store *s;
    MDB_txn *txn;
    uint64_t id;
} look;

static int peek(void *arg, void *out, size_t n, uint64_t at) {
    const look *l = arg;
    MDB_val value;
    int rc = find(l->s, l->txn, l->id, &value);
    if (rc == 0)
        memcpy(out, (const char *)value.mv_data + at, n);
    return rc;
}

static int describe(void *st, larder_dataset *out) {
    store *s = st;
    larder__content c;
    MDB_txn *txn = NULL;
    int err = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
    if (err)
        return failed(s, err);
    *out = (larder_dataset){
        .count = s->count, .bytes = s->bytes, .identity = larder__stamp_hash(0, &s->stamp)};
    larder__content_begin(&c, s->bytes);
    for (uint64_t i = 0; i < s->count; i++) {
        const entry *e = &s->entries[i];
        out->fingerprint =
            larder__hash_bytes(out->fingerprint ^ e->bytes, s->keys + e->key, e->key_bytes);
        larder__content_add(&c, e->bytes, peek, &(look){s, txn, i});
    }
    mdb_txn_abort(txn);
    out->content = c.hash;
    return 0;
}

static int stat_one(void *st, uint64_t id, larder_sample *out) {
    *out = (larder_sample){((store *)st)->entries[id].bytes, -1};
    return 0;
}

/* Keys may be numbers of bytes: what is no letter is shown as its code. */
static int name(void *st, uint64_t id, char *out, size_t cap) {
    const store *s = st;
    const entry *e = &s->entries[id];
    out[0] = 0;
    for (size_t i = 0, at = 0; i < e->key_bytes && at < cap; i++) {
        unsigned char c = (unsigned char)s->keys[e->key + i];
        at += (size_t)snprintf(out + at, cap - at,
                               c > ' ' && c < 127 && c != '\\' ? "%c" : "\\x%02x", c);
    }
    return 0;
}

static const char *store_note(void *st, size_t i) {
    store *s = st;
    if (i || !s->skipped)
        return NULL;
    snprintf(s->says, sizeof s->says, "%llu keys as __len__ are not used",
             (unsigned long long)s->skipped);
    return s->says;
}

static int store_probe(const char *where) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/data.mdb", where);
    return n > 0 && (size_t)n < sizeof path && larder__is_file(path) ? 45 : 0;
}

#define STATE sizeof(store)

#else

static int store_open(void *st, const char *where, const larder_args *args) {
    (void)st, (void)where, (void)args;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build reads no LMDB: liblmdb was missing (apt install liblmdb-dev, "
                        "then build again)");
}
static void store_close(void *st) { (void)st; }
static int describe(void *st, larder_dataset *out) {
    (void)st, (void)out;
    return LARDER_E_UNSUPPORTED;
}
static int stat_one(void *st, uint64_t id, larder_sample *out) {
    (void)st, (void)id, (void)out;
    return LARDER_E_UNSUPPORTED;
}
static int name(void *st, uint64_t id, char *out, size_t cap) {
    (void)st, (void)id, (void)out, (void)cap;
    return LARDER_E_UNSUPPORTED;
}
static int store_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    (void)st, (void)ids, (void)n, (void)out;
    return LARDER_E_UNSUPPORTED;
}
#define store_probe NULL
#define store_note NULL
#define STATE 1

#endif

const larder_source larder__source_lmdb = {
    .plugin = {.name = "lmdb",
               .summary = "an LMDB store, a folder or its file: a sample a key, in their order",
               .state_size = STATE},
    .probe = store_probe,
    .open = store_open,
    .close = store_close,
    .describe = describe,
    .stat = stat_one,
    .name = name,
    .read = store_read,
    .note = store_note,
};
