#include "cli/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double live_every = 0.1, plain_every = 5.0; /* seconds */

static bool set(const char *name) {
    const char *v = getenv(name);
    return v && *v;
}

void larder__progress_open(larder__progress *p, FILE *to) {
    const char *term = getenv("TERM");
    *p = (larder__progress){.to = to};
    p->live = to && isatty(fileno(to)) && !(term && strcmp(term, "dumb") == 0);
    p->colour = p->live && !set("NO_COLOR");
}

/* "1:05:09", "2:07"; a day and more, or nothing known, is "?". */
static void format_left(char out[16], double seconds) {
    if (!(seconds >= 0 && seconds < 86400)) {
        snprintf(out, 16, "?");
        return;
    }
    unsigned s = (unsigned)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 16, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 16, "%u:%02u", s / 60, s % 60);
}

/* part / whole as a whole percentage; 0 before there is anything. */
static int percent(double part, double whole) {
    return whole > 0 ? (int)fmin(fmax(100 * part / whole, 0), 100) : 0;
}

void larder__progress_format(char *out, size_t cap, const larder__progress_view *v) {
    char left[16];
    double rate = v->seconds > 0 ? (double)v->served / v->seconds : 0;
    double bytes = v->seconds > 0 ? (double)v->storage_bytes / v->seconds / 1e6 : 0;
    double asked = v->seconds > 0 ? v->requests / v->seconds : 0;
    double to_go = v->step && v->steps >= v->step
                       ? v->seconds * (double)(v->steps - v->step) / (double)v->step
                       : -1;
    format_left(left, to_go);
    char reuse[32] = "";
    if (!isnan(v->h))
        snprintf(reuse, sizeof reuse, "  h %.2f", fmin(fmax(v->h, 0), 1));
    else if (v->ratio > 0)
        snprintf(reuse, sizeof reuse, "  ratio %.2f", fmin(v->ratio, 1));
    else if (v->planned)
        snprintf(reuse, sizeof reuse, "  split %.0f/%.0f/%.0f", v->encoded, v->decoded,
                 v->augmented);
    char kinds[32] = ""; /* those that most recipes never have are left out */
    if (v->substitutes)
        snprintf(kinds, sizeof kinds, "  subst %d%%",
                 percent((double)v->substitutes, (double)v->served));
    char gap[32] = "";
    if (isfinite(v->gap) && v->gap != 0)
        snprintf(gap, sizeof gap, "  gap %.3g", v->gap);
    /* What may be cut off at the right is what is asked for least. */
    snprintf(
        out, cap,
        "%s epoch %llu/%llu %3d%%  left %s  %.0f/s  stall %d%%  hits %d%%%s  read %.1f MB/s%s%s  "
        "%.0f req/s",
        v->name, (unsigned long long)v->epoch, (unsigned long long)v->epochs,
        percent((double)v->step, (double)v->steps), left, rate,
        percent(v->stall_seconds, v->seconds), percent((double)v->hits, (double)v->served), kinds,
        bytes, reuse, gap, asked);
}

static size_t columns_of(FILE *to) {
    struct winsize size;
    bool known = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

static bool is_time(larder__progress *p, double now) {
    if (!p->to)
        return false;
    if (p->next == 0)
        p->next = now + (p->live ? 0 : plain_every);
    if (now < p->next)
        return false;
    p->next = now + (p->live ? live_every : plain_every);
    return true;
}

static void draw(larder__progress *p, char *line) {
    if (!p->live) {
        fprintf(p->to, "%s\n", line);
        return;
    }
    size_t width = columns_of(p->to);
    if (width > 1 && strlen(line) >= width)
        line[width - 1] = '\0'; /* a wrapped line could not be drawn over */
    fprintf(p->to, "\r\033[K%s%s%s", p->colour ? "\033[36m" : "", line, p->colour ? "\033[0m" : "");
    fflush(p->to);
    p->drawn = true;
}

void larder__progress_show(larder__progress *p, const larder__progress_view *v, double now) {
    char line[512];
    if (!is_time(p, now))
        return;
    larder__progress_format(line, sizeof line, v);
    draw(p, line);
}

void larder__progress_work(larder__progress *p, const larder__work_view *v, double now) {
    enum { BAR = 20 };
    char line[160], left[16], bar[BAR + 1];
    if (!is_time(p, now))
        return;
    int share = percent((double)v->done, (double)v->all);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < share * BAR / 100 ? '#' : '-';
    bar[BAR] = 0;
    double seconds = v->seconds > 0 ? v->seconds : 1e-9;
    format_left(left, v->done && v->all >= v->done
                          ? v->seconds * (double)(v->all - v->done) / (double)v->done
                          : -1);
    snprintf(line, sizeof line, "%s [%s] %3d%%  %llu of %llu  %.0f/s  %.1f MB/s  left %s", v->name,
             bar, share, (unsigned long long)v->done, (unsigned long long)v->all,
             (double)v->done / seconds, (double)v->bytes / seconds / 1e6, left);
    draw(p, line);
}

void larder__progress_clear(larder__progress *p) {
    if (p->drawn)
        fputs("\r\033[K", p->to), fflush(p->to);
    p->drawn = false;
}
