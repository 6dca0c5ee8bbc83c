/* larder top: all running jobs of this user, live. */
#include "base/clock.h"
#include "base/err.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/stop.h"
#include "cli/top_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct options {
    bool once, json;
    double every;
} options;

static int parse(options *o, int argc, char **argv) {
    *o = (options){.every = 1};
    const larder__option table[] = {
        {"once", LARDER__FLAG, &o->once, NULL, "print one table and end"},
        {"json", LARDER__FLAG, &o->json, NULL,
         "one JSON object a line and job, with everything there is"},
        {"every", LARDER__REAL, &o->every, "S", "seconds between two looks (1)"},
        {0}};
    const larder__command command = {
        "top", "larder top [--once] [--json] [--every S]",
        "Shows the running jobs and daemons of this user: how fast they are, where samples come\n"
        "from, what training waits for. Jobs are found by themselves and vanish when they end,\n"
        "however they end. Without a terminal it prints one table. LARDER_SEE=0 in a job's\n"
        "environment hides it; NO_COLOR switches colours off.",
        "  larder top\n"
        "  larder top --once\n"
        "  larder top --json --once | python3 -m json.tool",
        table};
    size_t words;
    int rc = larder__options_parse(&command, argc, argv, NULL, 0, &words);
    if (rc == 0 && !(o->every >= 0.1 && o->every <= 3600)) {
        fprintf(stderr, "larder top: --every is 0.1 to 3600 seconds\n");
        return -1;
    }
    return rc;
}

/* ---- without a terminal ---------------------------------------------------------------------- */

static void print_json(const larder__top *t) {
    for (size_t i = 0; i < t->now.count; i++) {
        larder__json j = {.to = stdout};
        larder__job_json(&j, &t->now.at[i]);
    }
}

static int run_plain(const options *o, larder__top *t, int wake) {
    for (;;) {
        int rc = larder__top_look(t, larder__now());
        if (rc < 0)
            return rc;
        if (o->json)
            print_json(t);
        else
            larder__top_print(stdout, t, 0, 4096, false);
        if (fflush(stdout) != 0 || ferror(stdout))
            return larder__fail(LARDER_E_IO, "standard output: %s", strerror(errno));
        if (o->once || !o->json)
            return 0;
        larder__screen none = {.in = -1};
        if (larder__screen_key(&none, o->every, wake) == LARDER__KEY_GONE)
            return 0;
    }
}

/* ---- with one -------------------------------------------------------------------------------- */

static void draw(const larder__screen *s, larder__top *t) {
    size_t columns, lines, n = 0;
    char *page = NULL;
    FILE *to = open_memstream(&page, &n);
    if (!to)
        return;
    larder__screen_size(s, &columns, &lines);
    larder__top_print(to, t, columns, lines, true);
    if (fclose(to) == 0)
        larder__screen_draw(s, page);
    free(page);
}

/* Each step goes to a column that rows can be sorted by. */
static void sort_by_next(larder__top *t, int step) {
    size_t n = larder__top_columns(), was = t->column;
    if (step > 0) {
        t->column++;
        larder__top_sort(t);
        return;
    }
    for (size_t back = 1; back < n; back++) { /* sorting goes forward to one that can be used */
        t->column = was + n - back;
        larder__top_sort(t);
        if (t->column != was)
            return;
    }
}

/* False: the end. */
static bool act(larder__top *t, int key) {
    switch (key) {
    case 'q':
    case 'Q':
    case 3: /* Ctrl-C */
    case LARDER__KEY_GONE:
        return false;
    case '>':
    case 's':
    case LARDER__KEY_RIGHT:
        sort_by_next(t, 1);
        break;
    case '<':
    case 'S':
    case LARDER__KEY_LEFT:
        sort_by_next(t, -1);
        break;
    case 'r':
        t->reverse = !t->reverse;
        larder__top_sort(t);
        break;
    case 'k':
    case LARDER__KEY_UP:
        larder__top_choose(t, -1);
        break;
    case 'j':
    case LARDER__KEY_DOWN:
        larder__top_choose(t, 1);
        break;
    case '\r':
    case '\n':
    case 'd':
        t->detail = !t->detail;
        break;
    default:
        break;
    }
    return true;
}

static int run_live(const options *o, larder__top *t, int wake) {
    larder__screen s;
    int rc = larder__screen_open(&s, STDIN_FILENO, STDOUT_FILENO);
    bool going = rc == 0;
    for (double next = 0; going;) {
        double now = larder__now();
        if (now >= next) {
            if ((rc = larder__top_look(t, now)) < 0)
                break;
            next = now + o->every;
        }
        draw(&s, t);
        going = act(t, larder__screen_key(&s, next - larder__now(), wake));
    }
    larder__screen_close(&s);
    return rc;
}

static void wake_up(void *fd) {
    const uint64_t one = 1;
    ssize_t n = write(*(const int *)fd, &one, sizeof one);
    (void)n;
}

int larder__cmd_top(int argc, char **argv) {
    options o;
    larder__stop stop;
    larder__top t = {0};
    int parsed = parse(&o, argc, argv), code = 0;
    if (parsed != 0)
        return parsed < 0 ? 2 : 0;
    int wake = eventfd(0, EFD_CLOEXEC);
    int rc = wake < 0 ? larder__fail(LARDER_E_IO, "eventfd: %s", strerror(errno))
                      : larder__stop_open(&stop);
    if (rc == 0) {
        larder__stop_tell(&stop, wake_up, &wake);
        bool live = !o.once && !o.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        rc = live ? run_live(&o, &t, wake) : run_plain(&o, &t, wake);
        larder__stop_tell(&stop, NULL, NULL);
        code = larder__stop_code(&stop);
        larder__stop_close(&stop);
    }
    if (rc < 0)
        fprintf(stderr, "larder top: %s\n", larder_errmsg());
    larder__top_close(&t);
    if (wake >= 0)
        close(wake);
    return code ? code : rc < 0 ? 1 : 0;
}
