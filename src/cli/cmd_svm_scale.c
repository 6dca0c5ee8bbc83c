/* larder svm-scale: LIBSVM's svm-scale. */
#include "base/err.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "svm/svm_scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Brings every feature of FILE (LIBSVM text, also .xz or .gz) to the range -l to -u and writes "
    "the\n"
    "rows to standard output. The ranges found go to a file with -s; -r takes them from there, so\n"
    "that test rows are scaled as the training rows were.";
static const char examples[] = "  larder svm-scale -l 0 -s ranges train >train.scaled\n"
                               "  larder svm-scale -r ranges test >test.scaled";

static int wrong(const char *why) { return larder__wrong_usage("svm-scale", why); }

/* LIBSVM's -y has two values; taken out of argv here. */
static int take_targets(larder__scale *s, int *argc, char **argv) {
    int to = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "-y") != 0) {
            argv[to++] = argv[i];
            continue;
        }
        char *end[2];
        if (i + 2 >= *argc)
            return wrong("-y wants two values, lower and upper");
        s->y_lower = strtod(argv[i + 1], &end[0]);
        s->y_upper = strtod(argv[i + 2], &end[1]);
        if (*end[0] || *end[1] || !(s->y_lower < s->y_upper))
            return wrong("-y wants two values, the first below the second");
        s->targets = true;
        i += 2;
    }
    *argc = to;
    return 0;
}

static int run(larder__scale *s, const char *file, const char *save, const char *restore) {
    larder_svm_data *data = NULL;
    int rc = larder_svm_read(&data, file, 0);
    if (rc == 0)
        rc = restore ? larder__scale_load(s, restore) : larder__scale_find(s, data);
    if (rc == 0 && save)
        rc = larder__scale_save(s, save);
    if (rc == 0)
        rc = larder__scale_write(s, data, stdout);
    larder_svm_data_close(&data);
    larder__scale_close(s);
    return rc;
}

int larder__cmd_svm_scale(int argc, char **argv) {
    larder__scale s = {.lower = -1, .upper = 1};
    const char *file = NULL, *save = NULL, *restore = NULL;
    size_t words;
    const larder__option table[] = {
        {"l", LARDER__REAL, &s.lower, "X", "lower end of features (-1)"},
        {"u", LARDER__REAL, &s.upper, "X", "upper end of features (1)"},
        {"y", LARDER__TEXT, &file, "L U", "scale targets too, to L..U"},
        {"s", LARDER__TEXT, &save, "FILE", "save the ranges there"},
        {"r", LARDER__TEXT, &restore, "FILE", "take the ranges from there"},
        {0}};
    larder__command command = {"svm-scale", "larder svm-scale [options] FILE", about, examples,
                               table};
    if (take_targets(&s, &argc, argv) < 0)
        return 2;
    int rc = larder__options_parse(&command, argc, argv, &file, 1, &words);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    if (words != 1)
        return -2 * wrong("name the file to scale");
    if (!(s.lower < s.upper) || (save && restore))
        return -2 * wrong(save && restore ? "-s and -r exclude each other" : "-l is below -u");
    return larder__exit_code("svm-scale", run(&s, file, save, restore));
}
