#include "source/split.h"

#include "base/err.h"

#include <dirent.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

bool larder__is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool larder__is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool larder__is_shard_name(const char *path) {
    size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".tar") == 0;
}

/* A class may well be called "train"; a part is told by what it holds. */
static bool holds_more(const char *folder) {
    DIR *d = opendir(folder);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] == '.')
            continue;
        found = larder__is_shard_name(e->d_name);
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
            found |= larder__is_folder(path);
    }
    if (d)
        closedir(d);
    return found;
}

static const char *const train_names[] = {"train", "training", NULL};
static const char *const test_names[] = {"test", "testing", "val", "valid", "validation", NULL};
static const char *const val_names[] = {"val", "valid", "validation", "test", "testing", NULL};

const char *const *larder__split_names(const char *split) {
    return strcmp(split, "test") == 0  ? test_names
           : strcmp(split, "val") == 0 ? val_names
                                       : train_names;
}

static bool find_part(const char *where, const char *const *names, char *out, size_t cap) {
    for (size_t i = 0; names[i]; i++) {
        int n = snprintf(out, cap, "%s/%s", where, names[i]);
        if (n > 0 && (size_t)n < cap && larder__is_folder(out) && holds_more(out))
            return true;
    }
    return false;
}

int larder__split_folder(const char *where, const char *split, char *out, size_t cap) {
    char other[4096];
    bool parts = find_part(where, train_names, out, cap) &&
                 find_part(where, test_names, other, sizeof other);
    bool automatic = strcmp(split, "auto") == 0;
    if (parts && (automatic || strcmp(split, "train") == 0))
        return 0;
    if (automatic) {
        int n = snprintf(out, cap, "%s", where);
        return n >= 0 && (size_t)n < cap
                   ? 0
                   : larder__fail(LARDER_E_ARGS, "the path \"%.60s…\" is too long", where);
    }
    const char *const *names = larder__split_names(split);
    if (find_part(where, names, out, cap))
        return 0;
    return larder__fail(LARDER_E_NOTFOUND, "%s has no %s part: there is no folder \"%s\" in it",
                        where, split, names[0]);
}

int larder__split_word(const char *name) {
    return strcasestr(name, "train")  ? 1
           : strcasestr(name, "test") ? 2
           : strcasestr(name, "val")  ? 3
                                      : 0;
}

int larder__split_wanted(const size_t words[4], const char *split, const char *where) {
    bool parts = words[1] && (words[2] || words[3]), automatic = strcmp(split, "auto") == 0;
    if (!parts && !automatic)
        return larder__fail(LARDER_E_NOTFOUND,
                            "%.200s: its shards are not named as train and test parts", where);
    if (!parts)
        return 0;
    if (automatic || strcmp(split, "train") == 0)
        return 1;
    return strcmp(split, "test") == 0 ? (words[2] ? 2 : 3) : (words[3] ? 3 : 2);
}
