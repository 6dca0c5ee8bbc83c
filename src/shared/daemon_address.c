#include "shared/daemon_address.h"

#include "base/err.h"
#include "base/own_user.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders --------------------------------------------------------------------------------- */

/* Nobody else reads or writes there; a link may lead anywhere, so it does not count. */
static bool is_own(const char *folder) {
    struct stat st;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && larder__is_own_user(st.st_uid) &&
           (st.st_mode & 077) == 0;
}

static int own_folder(char *out, size_t cap, bool make) {
    struct stat st;
    snprintf(out, cap, "/tmp/larder-%lu", (unsigned long)geteuid());
    if (make && mkdir(out, 0700) < 0 && errno != EEXIST)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", out, strerror(errno));
    if ((!make && lstat(out, &st) < 0 && errno == ENOENT) || is_own(out))
        return 0; /* without the folder there is no daemon either, and connecting says so */
    return larder__fail(LARDER_E_ARGS,
                        "%s is not a folder of yours alone (mode 700, no link), so whoever listens "
                        "in it is not believed: remove it, set XDG_RUNTIME_DIR, or name a socket",
                        out);
}

/* ---- the usual one --------------------------------------------------------------------------- */

int larder__door_owner(const char *user, uint32_t *out) {
    struct passwd entry, *found = NULL;
    char room[4096], *end;
    errno = 0;
    unsigned long uid = strtoul(user, &end, 10);
    if (user[0] >= '0' && user[0] <= '9' && !*end && errno == 0 && uid < UINT32_MAX) {
        *out = (uint32_t)uid;
        return 0;
    }
    if (!*user || getpwnam_r(user, &entry, room, sizeof room, &found) != 0 || !found)
        return larder__fail(LARDER_E_ARGS, "owner=%s: there is no such user here", user);
    *out = entry.pw_uid;
    return 0;
}

static int from_environment(larder__door *out, const char *given) {
    static const char OPTION[] = "?owner=";
    size_t n = strcspn(given, "?");
    if (n == 0 || n >= sizeof out->path)
        return larder__fail(LARDER_E_ARGS, "LARDER_SOCKET is a path of at most %zu bytes",
                            sizeof out->path - 1);
    memcpy(out->path, given, n);
    if (!given[n])
        return 0;
    return strncmp(given + n, OPTION, sizeof OPTION - 1) == 0
               ? larder__door_owner(given + n + sizeof OPTION - 1, &out->owner)
               : larder__fail(LARDER_E_ARGS,
                              "LARDER_SOCKET=\"%s\": after the path comes "
                              "?owner=USER, or nothing",
                              given);
}

int larder__door_usual(larder__door *out, bool make) {
    const char *given = getenv("LARDER_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
    char folder[64];
    *out = (larder__door){.owner = 0};
    if (given && *given)
        return from_environment(out, given);
    if (run && *run && strlen(run) < sizeof out->path - sizeof "/larder.sock" && is_own(run)) {
        snprintf(out->path, sizeof out->path, "%s/larder.sock", run);
        return 0;
    }
    out->usual = true;
    int rc = own_folder(folder, sizeof folder, make);
    snprintf(out->path, sizeof out->path, "%s/larder.sock", folder);
    return rc;
}

larder__door larder__door_at(const char *path) {
    larder__door out = {.owner = 0};
    snprintf(out.path, sizeof out.path, "%s", path);
    return out;
}

/* ---- who answers ----------------------------------------------------------------------------- */

static void name_of(uid_t uid, char *out, size_t cap) {
    struct passwd entry, *found = NULL;
    char room[4096];
    if (getpwuid_r(uid, &entry, room, sizeof room, &found) == 0 && found)
        snprintf(out, cap, "%s", entry.pw_name);
    else
        snprintf(out, cap, "%lu", (unsigned long)uid);
}

int larder__door_check(int fd, const char *path, uint32_t owner) {
    struct ucred who;
    socklen_t n = sizeof who;
    char name[64];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
        return larder__fail(LARDER_E_IO, "%s: whose daemon it is cannot be told: %s", path,
                            strerror(errno));
    if (larder__is_own_or_root(who.uid) || who.uid == owner)
        return 0;
    name_of(who.uid, name, sizeof name);
    return larder__fail(
        LARDER_E_ARGS,
        "%s: the daemon there is user %s's, neither yours nor root's%s: it would see "
        "your samples and hand out others; if you trust that user, say "
        "?owner=%s behind the path, or --owner %s to larder serve --status",
        path, name, larder__why_not_own(who.uid), name, name);
}
