#include "see/discover.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/own_user.h"
#include "see/expose.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PROCESSES = 128, NAME_BYTES = 64, JOBS = 256 };

typedef struct caller { /* one process that is asked */
    char name[NAME_BYTES];
    int fd; /* -1: done */
    char *text;
    size_t size, cap;
    bool whole;
} caller;

/* ---- who is there ---------------------------------------------------------------------------- */

/* Behind so many columns, which spaces part; NULL: there are fewer. */
static const char *behind(const char *line, int columns) {
    for (; columns > 0; columns--) {
        line += strspn(line, " ");
        line += strcspn(line, " \n");
        if (*line != ' ')
            return NULL;
    }
    return line;
}

/* "…: 00000002 00000000 00010000 0001 01 4242 @larder.see.1.0.4711.0": of a listening socket. The
 * name is all that stands behind the inode: whoever chooses one can put another's at its end. With
 * a line's end in it they can make up whole lines, so that what is found may not be there, or
 * twice. */
static bool name_in(const char *line, const char *prefix, char out[NAME_BYTES]) {
    static const char LISTENS[] = " 00010000 ";
    enum { FLAGS = 3, PATH = 7 }; /* columns before each */
    const char *flags = behind(line, FLAGS), *path = behind(line, PATH);
    size_t given = strlen(prefix);
    if (!path || strncmp(flags, LISTENS, sizeof LISTENS - 1) != 0)
        return false;
    path++;
    size_t n = strcspn(path, "\n");
    if (n >= NAME_BYTES || strncmp(path, prefix, given) != 0 ||
        given + strspn(path + given, "0123456789.") != n)
        return false;
    memcpy(out, path, n);
    out[n] = 0;
    return true;
}

static bool is_among(const caller *c, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(c[i].name, name) == 0)
            return true;
    return false;
}

static int connect_to(const char *name) { /* its first byte, '@', is a NUL in truth */
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct ucred who;
    socklen_t n = sizeof who;
    size_t length = strlen(name);
    memcpy(a.sun_path + 1, name + 1, length - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    /* Anybody may take such a name: what another user says is not believed. */
    if (connect(fd, (struct sockaddr *)&a, size) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && larder__is_own_user(who.uid))
        return fd;
    close(fd);
    return -1;
}

static size_t call_all(caller *to) {
    char line[512], prefix[NAME_BYTES], name[NAME_BYTES];
    size_t count = 0;
    FILE *f = fopen("/proc/net/unix", "re");
    snprintf(prefix, sizeof prefix, "@" LARDER__SEE_NAME "%ld.", (long)geteuid());
    while (f && count < PROCESSES && fgets(line, sizeof line, f))
        if (name_in(line, prefix, name) && !is_among(to, count, name)) {
            to[count] = (caller){.fd = connect_to(name)};
            memcpy(to[count].name, name, sizeof name);
            count += to[count].fd >= 0;
        }
    if (f)
        fclose(f);
    return count;
}

/* ---- what they say --------------------------------------------------------------------------- */

static void hang_up(caller *c) {
    close(c->fd);
    c->fd = -1;
}

enum { PIECE = 64 << 10 };

static void listen_to(caller *c) {
    if (c->size + PIECE + 1 > c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 4 * PIECE;
        char *grown = cap <= LARDER__JOBS_BYTES ? larder__realloc(c->text, cap) : NULL;
        if (!grown) {
            hang_up(c);
            return;
        }
        c->text = grown;
        c->cap = cap;
    }
    ssize_t n = recv(c->fd, c->text + c->size, PIECE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->size += n > 0 ? (size_t)n : 0;
    c->whole = n == 0 && c->size > 0;
    if (n <= 0)
        hang_up(c);
}

/* What lies there when time is up is heard still: it may be us who stood still. No more than fits:
 * who goes on talking is not heard for ever. */
static void listen_to_all(caller *c, size_t count, double until) {
    struct pollfd p[PROCESSES];
    size_t at[PROCESSES];
    for (size_t late = 0; late <= LARDER__JOBS_BYTES / PIECE;) {
        nfds_t open = 0;
        for (size_t i = 0; i < count; i++)
            if (c[i].fd >= 0) {
                at[open] = i;
                p[open++] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
            }
        double left = until - larder__now();
        late += left <= 0;
        if (open == 0)
            return;
        int n = poll(p, open, left > 0 ? (int)(left * 1e3) + 1 : 0);
        if (n < 0 ? errno != EINTR : n == 0 && left <= 0)
            return;
        for (nfds_t i = 0; n > 0 && i < open; i++)
            if (p[i].revents)
                listen_to(&c[at[i]]);
    }
}

int larder__discover(larder__jobs *out, double seconds) {
    larder__jobs_clear(out);
    caller *c = larder__calloc(PROCESSES, sizeof *c);
    if (!c)
        return LARDER_E_NOMEM;
    size_t count = call_all(c);
    int rc = 0;
    listen_to_all(c, count, larder__now() + seconds);
    for (size_t i = 0; i < count; i++) {
        if (c[i].whole && rc == 0) {
            c[i].text[c[i].size] = 0;
            rc = larder__jobs_read(out, c[i].text, c[i].size, JOBS);
            rc = rc == LARDER_E_NOMEM ? rc : 0; /* what it says makes no sense: it is left out */
        }
        if (c[i].fd >= 0)
            hang_up(&c[i]);
        larder__free(c[i].text);
    }
    larder__free(c);
    larder__jobs_order(out);
    return rc;
}
