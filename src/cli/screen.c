#include "cli/screen.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void put(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR)
            return; /* the terminal is gone: reading will tell */
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void say(const larder__screen *s, const char *text) { put(s->out, text, strlen(text)); }

/* Only so that waiting for a key ends when the window changes. */
static void on_resize(int number) { (void)number; }

int larder__screen_open(larder__screen *s, int in, int out) {
    const char *no = getenv("NO_COLOR");
    *s = (larder__screen){.in = in, .out = out, .colour = !(no && *no)};
    if (tcgetattr(in, &s->before) < 0)
        return larder__fail(LARDER_E_IO, "this is no terminal: %s", strerror(errno));
    struct termios raw = s->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(in, TCSAFLUSH, &raw) < 0)
        return larder__fail(LARDER_E_IO, "the terminal cannot be read key by key: %s",
                            strerror(errno));
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resize}, NULL);
    s->open = true;
    say(s, "\033[?1049h\033[?25l");
    return 0;
}

void larder__screen_close(larder__screen *s) {
    if (!s->open)
        return;
    say(s, "\033[0m\033[?25h\033[?1049l");
    tcsetattr(s->in, TCSAFLUSH, &s->before);
    s->open = false;
}

void larder__screen_size(const larder__screen *s, size_t *columns, size_t *lines) {
    struct winsize w = {0};
    bool known = ioctl(s->out, TIOCGWINSZ, &w) == 0 && w.ws_col && w.ws_row;
    *columns = known ? w.ws_col : 80;
    *lines = known ? w.ws_row : 24;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* An arrow is ESC [ A or ESC O A; of what else begins with ESC three bytes are swallowed. */
static int read_key(const larder__screen *s) {
    static const char arrows[] = "ABDC";
    unsigned char byte = 0, rest[2];
    ssize_t n = read(s->in, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return LARDER__KEY_NONE;
    if (n <= 0)
        return LARDER__KEY_GONE;
    if (byte != 27)
        return byte;
    struct pollfd p = {.fd = s->in, .events = POLLIN};
    n = poll(&p, 1, 20) > 0 ? read(s->in, rest, sizeof rest) : 0;
    const char *at =
        n >= 2 && (rest[0] == '[' || rest[0] == 'O') && rest[1] ? strchr(arrows, rest[1]) : NULL;
    return at ? LARDER__KEY_UP + (int)(at - arrows) : LARDER__KEY_NONE;
}

int larder__screen_key(const larder__screen *s, double seconds, int wake) {
    struct pollfd p[2] = {{.fd = s->in, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    int n = poll(p, wake >= 0 ? 2 : 1, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
    if (n > 0 && p[1].revents && wake >= 0)
        return LARDER__KEY_GONE;
    if (n > 0 && p[0].revents & POLLIN)
        return read_key(s);
    return n > 0 && p[0].revents ? LARDER__KEY_GONE : LARDER__KEY_NONE;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Bytes of one character, counted as one column. */
static size_t letter(const char *s) {
    size_t n = 1;
    while ((s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

static void put_line(FILE *to, const larder__screen *s, const char *line, size_t n, size_t width) {
    size_t column = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)line[i],
                      next = (unsigned char)(i + 1 < n ? line[i + 1] : 0);
        size_t bytes = c >= 0xc0 ? letter(line + i) : 1;
        if (c == 1 || c == 2)
            fputs(c == 2 ? "\033[0m" : s->colour ? "\033[1;36m" : "\033[1m", to);
        else if (column++ < width) {
            bool plain = c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xc0);
            if (plain && !(c == 0xc2 && next < 0xa0) && i + bytes <= n)
                fwrite(line + i, 1, bytes, to);
            else
                fputc('?', to);
        }
        i += bytes;
    }
    fputs("\033[0m\033[K", to);
}

void larder__screen_draw(const larder__screen *s, const char *page) {
    size_t columns, lines, n = 0;
    char *text = NULL;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return;
    larder__screen_size(s, &columns, &lines);
    fputs("\033[H", to);
    for (size_t i = 0; i < lines && *page; i++) {
        size_t length = strcspn(page, "\n");
        if (i)
            fputs("\r\n", to);
        put_line(to, s, page, length, columns);
        page += length + (page[length] == '\n');
    }
    fputs("\033[J", to);
    if (fclose(to) == 0)
        put(s->out, text, n);
    free(text);
}
