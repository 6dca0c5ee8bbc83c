#include "pack/extract.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parcel.h"
#include "pack/labels.h"
#include "source/found.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AT_ONCE = 64, AT_ONCE_BYTES = 64 << 20, NAME = 4096 };
enum { MEMBERS = 63, NAME_OF_MEMBER = 40 };

typedef struct extract {
    const larder__extract_conf *conf;
    larder__extract_result *out;
    larder__data *data;
    int folder;
    larder__names names; /* under which the samples lie there, so far */
} extract;

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_dots(const char *at, size_t n) {
    return (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.');
}

void larder__extract_name(char *out, size_t cap, const char *name, uint64_t id) {
    const char *colon = strrchr(name, ':'), *at = colon ? colon + 1 : name; /* "shard.tar:x.jpg" */
    size_t n = 0;
    while (*at) {
        size_t len = strcspn(at, "/");
        if (len && !is_dots(at, len) && len < 250 && n + len + 2 < cap) {
            if (n)
                out[n++] = '/';
            for (size_t i = 0; i < len; i++)
                out[n++] =
                    (unsigned char)at[i] < 0x20 || at[i] == 0x7f || at[i] == '\\' ? '_' : at[i];
        }
        at += len + (at[len] == '/');
    }
    out[n] = 0;
    if (n == 0)
        snprintf(out, cap, "%09llu.bin", (unsigned long long)id);
}

/* "a/b.jpg" to "a/b~17.jpg" */
static void with_number(char *out, size_t cap, const char *name, uint64_t id) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    int stem = dot ? (int)(dot - name) : (int)strlen(name);
    snprintf(out, cap, "%.*s~%llu%s", stem, name, (unsigned long long)id, dot ? dot : "");
}

static int asked_to_stop(const extract *x) {
    return x->conf->stop && *x->conf->stop
               ? larder__fail(LARDER_E_CANCELLED, "interrupted; the same command goes on")
               : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int make_folders(const extract *x, const char *name) {
    char path[NAME + 32];
    snprintf(path, sizeof path, "%s", name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdirat(x->folder, path, 0777) != 0 && errno != EEXIST)
            return larder__fail_errno(path, "cannot be made");
        *slash = '/';
    }
    return 0;
}

/* 1: the file is there with these bytes; 0: there is none; -1: it is there and another. */
static int compare_file(const extract *x, const char *name, const unsigned char *bytes,
                        size_t size) {
    unsigned char block[1 << 14];
    int fd = openat(x->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    size_t at = 0;
    ssize_t n;
    while ((n = larder__read_some(fd, block, sizeof block)) > 0 && at + (size_t)n <= size &&
           memcmp(block, bytes + at, (size_t)n) == 0)
        at += (size_t)n;
    close(fd);
    return n == 0 && at == size ? 1 : -1;
}

static int write_file(const extract *x, const char *name, const unsigned char *bytes, size_t size) {
    char half[LARDER__TEMP_BYTES];
    int rc = make_folders(x, name), fd;
    if (rc < 0)
        return rc;
    if ((fd = larder__temp_open(x->folder, half)) < 0)
        return larder__fail_errno(name, "cannot be written");
    if (!larder__write_all(fd, bytes, size))
        rc = larder__fail_errno(name, "cannot be written");
    if (close(fd) != 0 && rc == 0)
        rc = larder__fail_errno(name, "cannot be closed");
    if (rc == 0 && renameat(x->folder, half, x->folder, name) != 0)
        rc = larder__fail_errno(name, "cannot be put in place");
    if (rc < 0)
        unlinkat(x->folder, half, 0);
    return rc;
}

/* One file; `other` is under which name, if not this one. */
static int put_file(extract *x, uint64_t id, const char *name, const unsigned char *bytes,
                    size_t size, char other[NAME + 32]) {
    const char *to = name;
    int rc;
    other[0] = 0;
    int found = compare_file(x, name, bytes, size);
    if (found < 0) {
        with_number(other, NAME + 32, name, id);
        to = other;
        found = compare_file(x, to, bytes, size);
        x->out->renamed++;
    }
    if (found < 0)
        return larder__fail(LARDER_E_STATE, "%s: is there with other bytes", to);
    x->out->there += found == 1;
    x->out->bytes += size;
    if (found == 1)
        return 0;
    rc = write_file(x, to, bytes, size);
    x->out->written += rc == 0;
    return rc;
}

static int put_sample(extract *x, uint64_t id, const larder_read *r) {
    char given[NAME] = "", name[NAME], other[NAME + 32];
    int rc = r->code < 0 ? larder__fail(r->code, "%s", r->why)
                         : larder__data_name(x->data, id, given, sizeof given);
    if (rc < 0)
        return rc;
    larder__extract_name(name, sizeof name, given, id);
    rc = put_file(x, id, name, larder_buf_data(r->buf), larder_buf_size(r->buf), other);
    const char *to = other[0] ? other : name;
    return rc < 0 ? rc : larder__names_add(&x->names, to, strlen(to));
}

/* ---- what lies beside the pictures ----------------------------------------------------------- */

/* All members of a key but the label, which the manifest has. Those that a sample lacks are not
 * missed. */
static int open_beside(const extract *x, larder__data **out) {
    char names[MEMBERS][NAME_OF_MEMBER];
    const char *wanted[MEMBERS], *field;
    size_t n = 0, more = 0;
    *out = NULL;
    for (size_t i = 0; n < MEMBERS && (field = larder__data_field(x->data, i)); i++) {
        if (strcmp(field, "cls") == 0 || strlen(field) + 2 > NAME_OF_MEMBER)
            continue;
        snprintf(names[n], NAME_OF_MEMBER, "%s?", field);
        wanted[n] = names[n];
        n++;
        more += !larder__is_picture(field);
    }
    return more || n > 1 ? larder__data_open_fields(out, x->conf->source, wanted, n) : 0;
}

static int put_members(extract *x, larder__data *d, uint64_t id, larder_buf *buf) {
    char given[NAME] = "", path[NAME + NAME_OF_MEMBER], name[NAME], other[NAME + 32];
    larder__parcel p;
    larder__field f;
    int rc = larder__data_name(d, id, given, sizeof given);
    if (rc == 0)
        rc = larder__parcel_open(&p, larder_buf_data(buf), larder_buf_size(buf));
    const char *colon = strrchr(given, ':'), *key = colon ? colon + 1 : given; /* of a shard */
    size_t n = (size_t)(larder__name_in(key) - key);
    n += strcspn(key + n, ".");
    for (size_t at = 0; rc == 0 && larder__parcel_next(&p, &at, &f);) {
        snprintf(path, sizeof path, "%.*s.%.*s", (int)n, key, (int)f.name_bytes, f.name);
        larder__extract_name(name, sizeof name, path, id);
        uint64_t there = x->out->there, bytes = x->out->bytes;
        rc = put_file(x, id, name, f.data, f.bytes, other);
        if (x->out->there > there && larder__is_picture(larder__ending(name))) {
            x->out->there = there; /* the sample's own, which is counted */
            x->out->bytes = bytes;
        }
    }
    return rc;
}

static int put_beside(extract *x) {
    larder__data *d;
    int rc = open_beside(x, &d);
    for (uint64_t id = 0; d && rc == 0 && id < larder__data_about(d)->count; id++) {
        larder_read read = {0};
        rc = larder__data_read(d, &id, 1, &read);
        if (rc == 0 && read.code < 0)
            rc = larder__fail(read.code, "%s", read.why);
        if (rc == 0)
            rc = put_members(x, d, id, read.buf);
        larder_buf_unref(&read.buf);
        if (x->conf->stop && *x->conf->stop)
            rc = asked_to_stop(x);
    }
    larder__data_close(&d);
    return rc;
}

/* ---- the run --------------------------------------------------------------------------------- */

static int put_some(extract *x, uint64_t first, size_t n) {
    uint64_t ids[AT_ONCE] = {0};
    larder_read reads[AT_ONCE] = {0};
    for (size_t i = 0; i < n; i++)
        ids[i] = first + i;
    int rc = larder__data_read(x->data, ids, n, reads);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            rc = put_sample(x, ids[i], &reads[i]);
        larder_buf_unref(&reads[i].buf);
    }
    return rc;
}

/* As many of the samples from `first` on as are read together: enough for a store that answers
 * late, and no more than memory should hold. */
static size_t size_some(const extract *x, uint64_t first, uint64_t all) {
    uint64_t bytes = 0;
    size_t n = 0;
    while (first + n < all && n < AT_ONCE && (n == 0 || bytes < AT_ONCE_BYTES)) {
        larder_sample s = {0};
        larder__data_stat(x->data, first + n, &s);
        bytes += s.bytes;
        n++;
    }
    return n;
}

static void show_progress(const extract *x, uint64_t done, uint64_t all) {
    if (x->conf->progress)
        x->conf->progress(x->conf->arg, done, all, x->out->bytes);
}

static int open_extract(extract *x) {
    const char *folder = x->conf->folder;
    int rc = larder__data_open(&x->data, x->conf->source);
    if (rc < 0)
        return rc;
    if (x->conf->opened)
        x->conf->opened(x->conf->arg, x->data);
    if (larder__data_about(x->data)->raw.h)
        return larder__fail(LARDER_E_UNSUPPORTED, "%s: holds raw pixels, not files",
                            x->conf->source);
    rc = larder__folder_make(folder, 0777);
    if (rc < 0)
        return rc;
    x->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return x->folder < 0 ? larder__fail_errno(folder, "cannot be opened") : 0;
}

int larder__extract_run(const larder__extract_conf *conf, larder__extract_result *out) {
    *out = (larder__extract_result){0};
    extract x = {.conf = conf, .out = out, .folder = -1};
    int rc = open_extract(&x);
    uint64_t all = rc == 0 ? larder__data_about(x.data)->count : 0;
    if (rc == 0)
        show_progress(&x, 0, all);
    for (uint64_t at = 0; rc == 0 && at < all;) {
        size_t n = size_some(&x, at, all);
        rc = put_some(&x, at, n);
        at += n;
        show_progress(&x, at, all);
        int stop = at < all || rc < 0 ? asked_to_stop(&x) : 0;
        rc = stop < 0 ? stop : rc; /* what failed was perhaps interrupted */
    }
    if (rc == 0)
        rc = put_beside(&x);
    if (rc == 0)
        rc = larder__labels_keep(x.data, &x.names, conf->folder, &out->manifest);
    if (rc == 0)
        syncfs(x.folder); /* once for all: a file system that cannot is not worth failing */
    if (x.folder >= 0)
        close(x.folder);
    if (conf->opened)
        conf->opened(conf->arg, NULL);
    larder__data_close(&x.data);
    larder__names_free(&x.names);
    return rc;
}
