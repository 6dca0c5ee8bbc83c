/* What commands draw on a terminal, a made one: the progress line and the page of larder top. Keys
 * come whole, strange bytes are not passed on, and the terminal is afterwards as it was. */
#include "check.h"

#include "cli/progress.h"
#include "cli/screen.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- a terminal ------------------------------------------------------------------------------ */

typedef struct terminal {
    int user, program; /* its two ends */
} terminal;

static bool open_terminal(terminal *t, unsigned short columns, unsigned short lines) {
    struct winsize size = {.ws_col = columns, .ws_row = lines};
    t->program = -1;
    t->user = posix_openpt(O_RDWR | O_NOCTTY);
    if (t->user >= 0 && grantpt(t->user) == 0 && unlockpt(t->user) == 0)
        t->program = open(ptsname(t->user), O_RDWR | O_NOCTTY);
    if (t->program < 0) {
        close(t->user);
        return false;
    }
    assert_int_equal(ioctl(t->user, TIOCSWINSZ, &size), 0);
    assert_int_equal(fcntl(t->user, F_SETFL, O_NONBLOCK), 0);
    return true;
}

static void close_terminal(terminal *t) {
    close(t->user);
    close(t->program);
}

/* All that stands there for the user. */
static char *seen(const terminal *t) {
    static char text[1 << 14];
    size_t n = 0;
    for (ssize_t got; (got = read(t->user, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    return text;
}

static void type(const terminal *t, const char *keys, size_t n) {
    assert_int_equal(write(t->user, keys, n), n);
}

/* ---- the progress line ----------------------------------------------------------------------- */

static const larder__progress_view view = {.name = "minio",
                                           .epoch = 2,
                                           .epochs = 4,
                                           .step = 100,
                                           .steps = 400,
                                           .served = 10000,
                                           .hits = 2000,
                                           .seconds = 10,
                                           .h = NAN,
                                           .gap = 0.25,
                                           .ratio = 0.5};

static char *drawn(unsigned short columns, const char *term, const char *no_colour) {
    static char text[1 << 14];
    terminal t;
    larder__progress p;
    if (!open_terminal(&t, columns, 20))
        return NULL;
    FILE *to = fdopen(dup(t.program), "w");
    assert_non_null(to);
    term ? setenv("TERM", term, 1) : unsetenv("TERM");
    no_colour ? setenv("NO_COLOR", no_colour, 1) : unsetenv("NO_COLOR");
    larder__progress_open(&p, to);
    larder__progress_show(&p, &view, 1000);
    larder__progress_show(&p, &view, 1001);
    larder__progress_show(&p, &view, 1010);
    larder__progress_clear(&p);
    fclose(to);
    snprintf(text, sizeof text, "%s", seen(&t));
    close_terminal(&t);
    return text;
}

static void lines_are_drawn_over(void **state) {
    (void)state;
    static const struct {
        unsigned short columns;
        const char *term, *no_colour;
        bool live, colour;
    } cases[] = {
        {200, "xterm", NULL, true, true}, {200, NULL, "", true, true},
        {200, "xterm", "1", true, false}, {200, "dumb", NULL, false, false},
        {30, "xterm", "1", true, false},  {0, "xterm", "1", true, false},
        {1, "xterm", "1", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = drawn(cases[i].columns, cases[i].term, cases[i].no_colour);
        if (!text)
            skip();
        assert_int_equal(strstr(text, "\r\033[K") != NULL, cases[i].live);
        assert_int_equal(strstr(text, "\033[36m") != NULL, cases[i].colour);
        assert_non_null(strstr(text, "minio epoch 2/4"));
        if (cases[i].columns == 200) {
            assert_non_null(strstr(text, "gap 0.25"));
            assert_non_null(strstr(text, "left 0:30"));
        }
        if (cases[i].columns == 30) /* drawn over thrice, each time at most 29 wide */
            for (const char *at = text; (at = strstr(at, "\r\033[K")); at += 4)
                assert_true(strcspn(at + 4, "\r") < 30);
    }
    unsetenv("TERM");
    unsetenv("NO_COLOR");
}

static void work_has_a_bar(void **state) {
    (void)state;
    static const struct {
        larder__work_view view;
        const char *shown;
    } cases[] = {
        {{"pack", 0, 100, 0, 0}, "[--------------------]   0%  0 of 100"},
        {{"pack", 50, 100, 5000000, 5},
         "[##########----------]  50%  50 of 100  10/s  1.0 MB/s  left 0:05"},
        {{"pack", 100, 100, 0, 7300}, "[####################] 100%  100 of 100"},
        {{"pack", 1, 3, 0, 3600}, "left 2:00:00"},
        {{"pack", 1, 100, 0, 86400}, "left ?"},
        {{"pack", 5, 0, 0, 1}, "0%  5 of 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512] = "";
        FILE *f = tmpfile();
        assert_non_null(f);
        larder__progress p;
        larder__progress_open(&p, f);
        for (int k = 0; k < 3; k++)
            larder__progress_work(&p, &cases[i].view, 1000 + k * 4);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        if (!strstr(text, cases[i].shown))
            fail_msg("\"%s\" is not in: %s", cases[i].shown, text);
    }
    larder__progress silent;
    larder__progress_open(&silent, NULL);
    larder__progress_work(&silent, &cases[0].view, 1);
    assert_false(silent.drawn);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void keys_come_whole(void **state) {
    (void)state;
    static const struct {
        const char *typed;
        int key;
    } cases[] = {
        {"q", 'q'},
        {"\033[A", LARDER__KEY_UP},
        {"\033[B", LARDER__KEY_DOWN},
        {"\033OC", LARDER__KEY_RIGHT},
        {"\033OD", LARDER__KEY_LEFT},
        {"\033[Z", LARDER__KEY_NONE},
        {"\033xA", LARDER__KEY_NONE},
        {"\033", LARDER__KEY_NONE},
        {"\003", 3},
    };
    terminal t;
    larder__screen s;
    if (!open_terminal(&t, 40, 5))
        skip();
    struct termios before, after;
    tcgetattr(t.program, &before);
    check_ok(larder__screen_open(&s, t.program, t.program));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        type(&t, cases[i].typed, strlen(cases[i].typed));
        int key = larder__screen_key(&s, 10, -1);
        if (key != cases[i].key)
            fail_msg("case %zu: key %d, wanted %d", i, key, cases[i].key);
        while (larder__screen_key(&s, 0, -1) != LARDER__KEY_NONE) /* what was no arrow */
            ;
    }
    int wake[2];
    assert_int_equal(pipe(wake), 0);
    assert_int_equal(write(wake[1], "x", 1), 1);
    assert_int_equal(larder__screen_key(&s, 10, wake[0]), LARDER__KEY_GONE);
    close(wake[0]);
    close(wake[1]);
    larder__screen_close(&s);
    larder__screen_close(&s); /* once is enough */
    tcgetattr(t.program, &after);
    assert_int_equal(before.c_lflag, after.c_lflag);
    check_ok(larder__screen_open(&s, t.program, t.program));
    close(t.user); /* the window is closed */
    assert_int_equal(larder__screen_key(&s, 10, -1), LARDER__KEY_GONE);
    larder__screen_draw(&s, "nobody sees it\n");
    larder__screen_close(&s);
    close(t.program);
}

static void pages_are_cut_and_clean(void **state) {
    (void)state;
    static const struct {
        const char *page, *shown, *not_shown;
    } cases[] = {
        {"one\ntwo\n", "two", NULL},
        {"0123456789012345678901234567890123456789 beyond\n", "0123456789", "beyond"},
        {"1\n2\n3\n4\n5\nsixth\n", "5", "sixth"},
        {"a\033[31mb\n", "a?[31mb", "\033[31m"},
        {"bell \a, delete \177\n", "bell ?, delete ?", "\a"},
        {"caf\303\251 \342\202\254\n", "caf\303\251 \342\202\254", NULL},
        {"alone \200, C1 \302\233\n", "alone ?, C1 ?", "\302\233"},
        {"\001head\002 text\n", "\033[1;36mhead\033[0m text", "\001"},
        {"no end of line", "no end of line", NULL},
    };
    terminal t;
    larder__screen s;
    if (!open_terminal(&t, 40, 5))
        skip();
    unsetenv("NO_COLOR");
    check_ok(larder__screen_open(&s, t.program, t.program));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        seen(&t);
        larder__screen_draw(&s, cases[i].page);
        const char *text = seen(&t);
        if (!strstr(text, cases[i].shown) ||
            (cases[i].not_shown && strstr(text, cases[i].not_shown)))
            fail_msg("case %zu: %s", i, text);
    }
    larder__screen_close(&s);
    setenv("NO_COLOR", "1", 1);
    check_ok(larder__screen_open(&s, t.program, t.program));
    larder__screen_draw(&s, "\001head\002\n");
    assert_non_null(strstr(seen(&t), "\033[1mhead\033[0m"));
    larder__screen_close(&s);
    unsetenv("NO_COLOR");
    close_terminal(&t);
}

static void what_is_no_terminal(void **state) {
    (void)state;
    larder__screen s;
    int null = open("/dev/null", O_RDWR);
    size_t columns = 0, lines = 0;
    assert_int_equal(larder__screen_open(&s, null, null), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "this is no terminal"));
    larder__screen_size(&s, &columns, &lines);
    assert_true(columns == 80 && lines == 24);
    larder__screen_close(&s);
    close(null);
    terminal t;
    static const unsigned short sizes[][2] = {{0, 5}, {40, 0}, {40, 5}};
    for (size_t i = 0; i < 3; i++) {
        if (!open_terminal(&t, sizes[i][0], sizes[i][1]))
            skip();
        s = (larder__screen){.in = t.program, .out = t.program};
        larder__screen_size(&s, &columns, &lines);
        assert_int_equal(columns, i < 2 ? 80 : 40);
        assert_int_equal(lines, i < 2 ? 24 : 5);
        close_terminal(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_drawn_over), cmocka_unit_test(work_has_a_bar),
        cmocka_unit_test(keys_come_whole),      cmocka_unit_test(pages_are_cut_and_clean),
        cmocka_unit_test(what_is_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
