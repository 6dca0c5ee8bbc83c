/* Commands of the program, in this process: while one of their allocations fails, the first ones
 * and then some further and further apart, or one of their calls to the system, they end with a
 * sentence and an exit code, leak nothing and leave no half-written file. What a signal cuts short
 * they do to the end. All commands refuse what makes no sense in their options; serve,
 * top and dash do no more than that here. */
#include "check.h"

#include "base/mem.h"
#include "cli/commands.h"
#include "failing_calls.h"
#include "pack_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 48, TEXT = 2048 };

static char root[256];
static size_t pictures;

/* ---- running --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
#define LARDER_COMMAND(name, about) {#name, larder__cmd_##name},
#include "cli/commands.def"
#undef LARDER_COMMAND
};

static int call(int argc, char **argv) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, argv[0]) == 0)
            return commands[i].run(argc, argv);
    fail_msg("no command %s", argv[0]);
    return -1;
}

static struct { /* of calls to the system, while a command runs */
    size_t which;
    unsigned at, interrupt;
    bool failed;
} trouble;

static int call_in_trouble(int argc, char **argv) {
    failing_arm(trouble.which, trouble.at);
    failing_interrupt(trouble.interrupt);
    int code = call(argc, argv);
    trouble.failed = failing_did();
    failing_interrupt(0);
    failing_arm(0, 0);
    return code;
}

/* What a line makes is gone before each run, so that every one does all of it. */
static const char *anew; /* below the folder; NULL: nothing is */
static void remove_made(void) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s/%s'", root, anew);
    if (anew)
        assert_int_equal(system(command), 0);
}

/* The command's words with blanks between, "@" for the folder. Its exit code; *said: bytes of what
 * it said on standard error. */
static int run(const char *line, long *said) {
    char text[TEXT], *argv[WORDS + 1];
    size_t used = 0;
    int argc = 0;
    remove_made();
    for (const char *at = line; *at; at++) {
        if (*at == '@')
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", root);
        else
            text[used++] = *at;
        assert_true(used + sizeof root < sizeof text);
    }
    text[used] = '\0';
    for (char *word = strtok(text, " "); word && argc < WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;

    char path[300];
    snprintf(path, sizeof path, "%s/said", root);
    fflush(stdout);
    fflush(stderr);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    int null = open("/dev/null", O_WRONLY), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(out >= 0 && err >= 0 && null >= 0 && file >= 0);
    dup2(null, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    int code = call_in_trouble(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    *said = (long)lseek(file, 0, SEEK_END);
    close(out);
    close(err);
    close(null);
    close(file);
    return code;
}

static void must_pass(const char *line) {
    long said;
    int code = run(line, &said);
    if (code != 0)
        fail_msg("%s: exit code %d, %s", line, code, larder_errmsg());
}

static int count_scraps(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".tmp")) {
            n++;
            unlinkat(dirfd(d), e->d_name, 0);
        }
    if (d)
        closedir(d);
    return n;
}

/* The first few of each call to the system, one at a time. */
static void fail_calls(const char *line) {
    enum { FIRST = 4 };
    for (size_t which = 0; which < failing_count(); which++) {
        const char *name = failing_name(which);
        bool failed = true;
        for (unsigned at = 1; failed && at <= FIRST; at++) {
            long said;
            trouble.which = which;
            trouble.at = at;
            int code = run(line, &said);
            failed = trouble.failed;
            trouble.at = 0;
            int scraps = count_scraps(root);
            if (code < 0 || code > 2 || (code != 0 && said == 0))
                fail_msg("%s: exit code %d, %ld bytes said, when %s fails for the %u. time", line,
                         code, said, name, at);
            if (scraps && strcmp(name, "unlinkat") != 0)
                fail_msg("%s: left something half-written when %s failed for the %u. time", line,
                         name, at);
        }
    }
    for (trouble.interrupt = 2; trouble.interrupt <= 3; trouble.interrupt++)
        must_pass(line);
    trouble.interrupt = 0;
}

/* One by one at first, then further and further apart. */
static void fail_allocations(const char *line, unsigned tries) {
    long said;
    bool failed = true;
    uint64_t at = 1;
    for (unsigned i = 0; failed && i < tries; i++, at += 1 + (i > tries / 2 ? at / 16 : 0)) {
        larder__mem_fail_at(at, 0);
        int code = run(line, &said);
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (code < 0 || code > 2)
            fail_msg("%s: exit code %d when allocation %llu fails", line, code,
                     (unsigned long long)at);
        if (code != 0 && said == 0)
            fail_msg("%s: failed without a word when allocation %llu failed", line,
                     (unsigned long long)at);
        if (count_scraps(root))
            fail_msg("%s: left something half-written when allocation %llu failed", line,
                     (unsigned long long)at);
    }
}

static void fail_everywhere(const char *line, unsigned tries) {
    fail_allocations(line, tries);
    fail_calls(line);
}

/* ---- the commands ---------------------------------------------------------------------------- */

static void write_points(const char *name, int rows) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < rows; i++)
        fprintf(f, "%d 1:%.2f 2:%.2f 4:%.2f\n", i % 3, 0.1 * (i * 7 % 11), 0.2 * (i % 5),
                0.3 * (i % 3));
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    check_write(path, text, strlen(text));
}

static int set_up(void **state) {
    (void)state;
    char path[300];
    check_folder(root);
    snprintf(path, sizeof path, "%s/data", root);
    assert_int_equal(mkdir(path, 0700), 0);
    pictures = kit_pictures(path);
    write_points("points", 30);
    write_text("far", "0 1:0.5 2000000000:1\n1 1:0.1 7:1\n0 3:0.2 2000000000:0.9\n1 7:0.8\n");
    write_text("range-y", "y\n-1 1\n0 2\nx\n-1 1\n1 0 1\n2 0 0.8\n");
    write_text("range-dos", "x\r\n-1 1\r\n1 0 1\r\n2 0 0.8\r\n");
    write_text("range-0", "");
    write_text("range-1", "x\n-1\n");
    write_text("range-2", "x\n-1 1 2\n");
    write_text("range-3", "x\n-1 1\n0 0 1\n");
    write_text("range-4", "x\n-1 1\n1.5 0 1\n");
    write_text("range-5", "x\n-1 1\n4294967296 0 1\n");
    write_text("range-6", "x\n-1 1\n1 1 0\n");
    write_text("range-7", "x\n-1 1\n1 0 one\n");
    write_text("range-8", "y\n-1 1\nx\n-1 1\n");
    write_text("range-9", "y\n-1 1\n0 2\n");
    write_text("range-10", "x\n-1 1\n2147483647 0 1\n");
    write_text("range-11", "x");
    write_text("rates.json", "{\"t_gpu\":900,\"t_da\":400,\"t_a\":1000,\"b_storage\":2e8,"
                             "\"s_cache\":\"1GiB\",\"s_data\":110000,\"m\":5,\"n_total\":100000}");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(root);
    return 0;
}

static void small_commands(void **state) {
    (void)state;
    static const char *const lines[] = {
        "list",
        "list --markdown",
        "ls mem:?n=20&h=4&w=4&c=1",
        "ls mem:?n=20&h=4&w=4&c=1 --json",
        "plan --profile @/rates.json",
        "plan --profile @/rates.json --json --model paper",
        "plan --profile @/rates.json --plot @/plan.svg",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 150);
    }
}

static void simulations(void **state) {
    (void)state;
    static const char *const lines[] = {
        "sim --recipe lru,quiver,seneca -n 60 --epochs 2 --batch 8 --quiet --json",
        ("sim --recipe minio,rotate --cache 10%,30%:50/50/0 -n 60 --epochs 2 --batch 8 --quiet "
         "--plot @/sim.svg"),
        "sim --recipe spider,shade,icache,impact -n 60 --epochs 1 --batch 8 --quiet",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 300);
    }
}

static void trainings(void **state) {
    (void)state;
    must_pass("train mem:?n=40&h=4&w=4&c=1&classes=3 --epochs 2 --batch 8 --threads 1 --test none "
              "--quiet --out @/run --record @/tape --seed 1");
    must_pass("train mem:?n=40&h=4&w=4&c=1&classes=3 --epochs 2 --batch 8 --threads 1 --test none "
              "--quiet --out @/other --recipe rotate:h=0.5 --seed 1");
    static const char *const lines[] = {
        ("train mem:?n=24&h=4&w=4&c=1&classes=3 --epochs 1 --batch 8 --threads 1 --test none "
         "--quiet --record @/again"),
        "sim --replay @/tape --recipe lru,rotate --quiet",
        "sim --replay @/tape --policy lru,belady --cache 20% --quiet --json",
        "suggest @/tape --memory 1MiB --quiet",
        "suggest @/tape --memory 1MiB --quiet --price s3 --json",
        "report @/run @/other -o @/both.html --md @/both.md --svg @/both.svg",
        "report @/run @/tape --json",
        "compare @/run @/other",
        "compare @/run @/other --json",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], i == 0 ? 150 : 300);
    }
}

static void machines(void **state) {
    (void)state;
    must_pass("svm_train -q --threads 1 -b 1 @/points @/model");
    must_pass("svm_scale -r @/range-dos @/points");
    must_pass("svm_train -q --threads 1 @/far @/model7");
    must_pass("svm_train -q --threads 1 --rows 8 --cache on --record @/rows @/points @/model2");
    static const char *const lines[] = {
        "svm_train -q --threads 1 -b 1 @/points @/model3",
        "svm_train -q --threads 1 -s 3 --cache on --rows 5 @/points @/model4",
        ("svm_train -q --threads 1 -s 1 -n 0.1 -t 0 --multi-class ova --stats @/stats @/points "
         "@/model5"),
        "svm_train -q --threads 1 -v 3 @/points",
        "svm_predict -b 1 @/points @/model @/guess",
        "svm_train -q --threads 1 @/far @/model7", /* a map of all features would be too large */
        "svm_predict @/far @/model7 @/guess",
        "svm_train -q --threads 1 -s 4 -b 1 @/points @/model6",
        "svm_train -q --threads 1 -s 2 -t 3 -v 2 @/points",
        "svm_train -q --threads 1 -b 1 -v 2 @/points",
        "svm_scale -s @/range @/points",
        "svm_scale -y -1 1 -s @/range2 @/points",
        "svm_scale -r @/range-y @/points",
        "svm_grid -q --threads 1 --log2c -1,1,2 --log2g -1,1,2 -v 2 @/points",
        "sim --access @/rows --policy lru,efu,lat,hcst --entries 6 --quiet",
        "sim --access @/rows --analyze --quiet",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 250);
    }
}

static void pictures_and_disks(void **state) {
    (void)state;
    if (!pictures)
        skip();
    must_pass("pack @/data @/packed --quiet --jobs 1");
    must_pass("train @/data --augment resize:h=8,w=8 --epochs 2 --batch 8 --threads 1 --test none "
              "--quiet --cache disk:@/disk?budget=4MiB");
    static const char *const lines[] = {
        "ls @/data",      "ls @/packed --json",    "pack --check @/packed --json",
        "disk ls @/disk", "disk ls @/disk --json", "disk check @/disk",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 150);
    }
    must_pass("unpack @/packed @/again.d --quiet");
    fail_everywhere("unpack @/packed @/again.d --quiet", 60);
    static const char *const fresh[] = {
        "unpack @/packed @/fresh --quiet",
        "pack @/data @/fresh --quiet --jobs 1",
        "pack @/data @/fresh --quiet --jobs 2 --max-side 60 --quality 70",
    };
    anew = "fresh";
    for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++) {
        must_pass(fresh[i]);
        fail_everywhere(fresh[i], 25);
    }
    remove_made();
    anew = NULL;
    fail_everywhere("train @/data --augment resize:h=8,w=8 --epochs 1 --batch 8 --threads 1 --test "
                    "none --quiet --cache disk:@/disk?budget=4MiB",
                    60);
    must_pass("disk trim @/disk --budget 2MiB");
    must_pass("disk rm @/disk");
}

/* Where the system has no lock for one, it does not open. */
static void cages(void **state) {
    (void)state;
    static const char line[] = "train @/data --augment resize:h=8,w=8 --epochs 1 --batch 8 "
                               "--threads 1 --test none --quiet --cage on";
    long said;
    if (!pictures || run(line, &said) != 0)
        skip();
    fail_everywhere(line, 40);
}

/* It finds no program to ask, and says of everything else what it can. */
static void doctors(void **state) {
    (void)state;
    static const char *const lines[] = {
        "doctor --seconds 0 --folder @ --redis redis://127.0.0.1:1",
        "doctor --seconds 0 --folder @ --redis redis://127.0.0.1:1 --json",
    };
    const char *usual = getenv("PATH");
    char *path = strdup(usual ? usual : "");
    assert_non_null(path);
    setenv("PATH", root, 1);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 40);
    }
    setenv("PATH", path, 1);
    free(path);
}

static void completions(void **state) {
    (void)state;
    static const char *const lines[] = {"complete bash", "complete zsh", "complete fish"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        must_pass(lines[i]);
        fail_everywhere(lines[i], 20);
    }
}

static void profiles(void **state) {
    (void)state;
    static const char line[] = "profile mem:?n=40&h=8&w=8&c=3 --seconds 0.01 --threads 1 --quiet "
                               "--t-gpu 9 --dtype u8 --layout nhwc";
    static const char disk[] = "profile mem:?n=40&h=64&w=64&c=3 --seconds 0.01 --threads 1 --quiet "
                               "-o @/p.json --cache disk:@/measured?budget=8MiB";
    must_pass(line);
    fail_everywhere(line, 40);
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/measured", root);
    must_pass(disk); /* in a folder that it makes, and takes away again */
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(mkdir(path, 0700), 0);
    must_pass(disk); /* in one that is there, and stays */
    assert_int_equal(rmdir(path), 0);
    if (pictures)
        fail_allocations("profile @/data --augment rrc:size=24|flip --seconds 0.01 --threads 1 "
                         "--quiet",
                         40);
}

/* ---- what makes no sense --------------------------------------------------------------------- */

static void nonsense_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "list x",
        "ls",
        "ls @/none",
        "ls mem:?n=x",
        "ls mem:?n=4 --nonsense",
        "pack @/data",
        "pack --check",
        "pack --check @/none",
        "pack @/none @/out --quiet",
        "pack @/data @/out --restart x",
        "pack @/data @/out --quality 200",
        "pack @/data @/out --jobs 257",
        "pack @/data @/out --restart 65536",
        "pack @/data @/out --max-side 65536",
        "unpack @/data",
        "unpack @/none @/out",
        "sim",
        "sim --recipe lru",
        "sim --recipe nonsense -n 10",
        "sim --recipe lru -n 10 --cache nonsense",
        "sim --recipe lru -n 10 --batch 0",
        "sim --recipe lru -n 10 --epochs 0",
        "sim --recipe lru -n 10 --cache 20%:50/50",
        "sim --recipe lru -n 10 --plot @/none/x.svg",
        "sim --replay @/none",
        "sim --replay @/points",
        "sim --replay @/points --access @/points",
        "sim --access @/none --policy lru",
        "sim --access @/points --policy lru --entries 0",
        "sim --access @/points --lambda x",
        "sim --trace @/none --recipe lru",
        "sim --recipe lru --data @/none",
        "sim --recipe lru -n 10 --parts maybe",
        "sim --recipe lru -n 10 --parts keep",
        "sim --recipe lru -n 10 --augment flip",
        "sim --recipe lru -n 10 --data mem:?n=4",
        "sim --recipe lru -n 10 --size 5000000000",
        "sim --recipe lru -n 10 --decoded 5000000000",
        "sim --recipe lru -n 10 --row 5000000000",
        "sim --recipe lru -n 10 --analyze",
        "sim --recipe lru -n 10 --lambda 0.5",
        "sim --recipe lru -n 10 --policy lru",
        "sim --recipe lru -n 10 --entries 5",
        "sim --access @/points --policy lru --entries 5%x",
        "sim --access @/points --policy lru --entries %",
        "train",
        "train @/none",
        "train mem:?n=10&h=4&w=4&c=1 --net rnn",
        "train mem:?n=10&h=4&w=4&c=1 --epochs 0",
        "train mem:?n=10&h=4&w=4&c=1 --batch x",
        "train mem:?n=10&h=4&w=4&c=1 --batch 0",
        "train mem:?n=10&h=4&w=4&c=1 --batch 2000000",
        "train mem:?n=10&h=4&w=4&c=1 --epochs 2000000",
        "train mem:?n=10&h=4&w=4&c=1 --threads 1025",
        "train mem:?n=10&h=4&w=4&c=1 --net-threads 1025",
        "train mem:?n=10&h=4&w=4&c=1 --inflight 1025",
        "train mem:?n=10&h=4&w=4&c=1 --ahead 1025",
        "train mem:?n=10&h=4&w=4&c=1 --lr -1",
        "train mem:?n=10&h=4&w=4&c=1 --lr 1001",
        "train mem:?n=10&h=4&w=4&c=1 --decay -1",
        "train mem:?n=10&h=4&w=4&c=1 --decay 2",
        "train mem:?n=10&h=4&w=4&c=1 --lr nan",
        "train mem:?n=10&h=4&w=4&c=1 --on-bad cry",
        "train mem:?n=10&h=4&w=4&c=1 --slow fast",
        "train mem:?n=10&h=4&w=4&c=1 --test @/none --quiet",
        "train mem:?n=10&h=4&w=4&c=1 --replay @/none --test none --quiet",
        "train mem:?n=10&h=4&w=4&c=1 --cache redis: --test none --quiet",
        "train mem:?n=10&h=4&w=4&c=1 --record @/none/x --test none --quiet",
        "train mem:?n=10&h=4&w=4&c=1 --out @/points --test none --quiet",
        "svm_train",
        "svm_train @/none",
        "svm_train -s 9 @/points @/m",
        "svm_train -t 9 @/points @/m",
        "svm_train -c -1 @/points @/m",
        "svm_train -n 2 -s 1 @/points @/m",
        "svm_train -v 1 @/points",
        "svm_train --cache maybe @/points @/m",
        "svm_train --cache-policy nobody @/points @/m",
        "svm_train -q @/points @/none/m",
        "svm_predict @/points",
        "svm_predict @/points @/points @/o",
        "svm_predict @/points @/none @/o",
        "svm_scale",
        "svm_scale -l 1 -u 0 @/points",
        "svm_scale -r @/none @/points",
        "svm_scale -r @/points @/points",
        "svm_scale -r @/range-0 @/points",
        "svm_scale -r @/range-1 @/points",
        "svm_scale -r @/range-2 @/points",
        "svm_scale -r @/range-3 @/points",
        "svm_scale -r @/range-4 @/points",
        "svm_scale -r @/range-5 @/points",
        "svm_scale -r @/range-6 @/points",
        "svm_scale -r @/range-7 @/points",
        "svm_scale -r @/range-8 @/points",
        "svm_scale -r @/range-9 @/points",
        "svm_scale -r @/range-10 @/points",
        "svm_scale -r @/range-11 @/points",
        "svm_scale -y 1 @/points",
        "svm_scale -y 1 0 @/points",
        "svm_scale -y x 1 @/points",
        "svm_scale -y 0 x @/points",
        "svm_scale -s @/range -r @/range-y @/points",
        "svm_train -w1 @/points",
        "svm_train -w 2 @/points @/m",
        "svm_train -wx 2 @/points @/m",
        "svm_train -w1x 2 @/points @/m",
        "svm_train -w1 x @/points @/m",
        "svm_train -w99999999999 2 @/points @/m",
        "svm_train -w-99999999999 2 @/points @/m",
        "svm_train -m 0 @/points @/m",
        "svm_train -m 1e10 @/points @/m",
        "svm_train -d 1001 @/points @/m",
        "svm_train -h 2 @/points @/m",
        "svm_train --threads 1025 @/points @/m",
        "svm_train --max-iter 1.5 @/points @/m",
        "svm_train --max-iter 1e19 @/points @/m",
        "svm_train --max-iter -2 @/points @/m",
        "svm_train --multi-class all @/points @/m",
        "svm_train -t 4 @/points @/m",
        "svm_grid",
        "svm_grid -w1 @/points",
        "svm_grid --log2c x,1,1 @/points",
        "svm_grid --log2c 1,2,nan @/points",
        "svm_grid --log2c 0,1e9,1e-9 @/points",
        "svm_grid --log2c -400,0,100 @/points",
        "svm_grid --log2c 0,400,100 @/points",
        "svm_grid --log2g 0,400,100 @/points",
        "svm_grid -v 1 @/points",
        "svm_grid @/none",
        "svm_grid --log2c 1,2 @/points",
        "svm_grid --log2c 1,2,0 @/points",
        "serve nonsense",
        "serve --budget x",
        "serve --socket @/none/none/s",
        "serve --mode 9",
        "serve --mode x",
        "serve --mode 7777",
        "serve --clients 0",
        "serve --clients 70000",
        "serve --owner root",
        "serve --status --owner nobody-of-that-name",
        "disk",
        "disk ls",
        "disk ls @/none",
        "disk wash @/data",
        "disk trim @/none --budget x",
        "disk trim @/none --budget 20%",
        "disk trim @/none --budget 0",
        "disk rm @/data",
        "top --nonsense",
        "dash --port 99999",
        "dash --nonsense",
        "profile",
        "profile @/none",
        "profile mem:?n=10&h=4&w=4&c=1 --seconds x",
        "profile mem:?n=10&h=4&w=4&c=1 --job 1",
        "profile mem:?n=10&h=4&w=4&c=1 --seconds 99999",
        "profile mem:?n=10&h=4&w=4&c=1 --threads 1025",
        "profile mem:?n=10&h=4&w=4&c=1 --batch 0",
        "profile mem:?n=10&h=4&w=4&c=1 --t-gpu 0",
        "profile mem:?n=10&h=4&w=4&c=1 --t-gpu 5 --job 1",
        "profile mem:?n=10&h=4&w=4&c=1 --dtype u9",
        "profile mem:?n=10&h=4&w=4&c=1 --layout wide",
        "profile mem:?n=10&h=4&w=4&c=1 --cache x",
        "profile mem:?n=10&h=4&w=4&c=1 --run @/none",
        "profile mem:?n=10&h=4&w=4&c=1 --augment nonsense",
        "profile mem:?n=10&h=4&w=4&c=1 --shrink x",
        "profile mem:?n=10&h=4&w=4&c=1 --cache unix:@/none --seconds 0.01 --quiet",
        "profile mem:?n=10&h=4&w=4&c=1 --cache disk:@/points --seconds 0.01 --quiet",
        "profile mem:?n=10&h=4&w=4&c=1 -o @/none/x --seconds 0.01 --quiet",
        "plan --profile @/none",
        "plan --profile @/points",
        "plan --set t_gpu",
        "plan --set t_gpu=x",
        "plan --set t_gpu=-1",
        "plan --set t_gqu=1",
        "plan --set nvlink=7",
        "plan --profile @/rates.json --set m=0",
        "plan --profile @/rates.json --model best",
        "plan --profile @/rates.json --split 50/50",
        "plan --profile @/rates.json --plot @/none/x.svg",
        "suggest",
        "suggest @/none",
        "suggest @/points",
        "suggest @/points --memory x",
        "suggest @/points --price x",
        "report",
        "report @/none",
        "report @/points",
        "compare",
        "compare @/none",
        "compare @/none @/none",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        long said;
        int code = run(lines[i], &said);
        if (code < 1 || code > 2 || said == 0)
            fail_msg("%s: exit code %d, %ld bytes said", lines[i], code, said);
    }
}

/* What is rarely asked for, once each. */
static void rare_ways(void **state) {
    (void)state;
    static const char *const lines[] = {
        "svm_train -q --threads 1 -w1 2 -w-1 0.5 -w+2 3 -h 0 -m 1 --max-iter -1 @/points @/rare",
        "svm_train -q --threads 1 -t 0 -h 1 --keep-repeats --max-iter 1000 @/points @/rare",
        "svm_train -q --threads 1 -t 1 -d 2 -r 1 -b 1 @/points @/rare",
        "svm_predict -b 1 @/points @/rare @/guess",
        "svm_predict --values @/points @/rare @/guess",
        "svm_predict -q --values @/points @/rare @/guess",
        "svm_train -q --threads 1 -s 3 -b 1 -p 0.2 @/points @/rare",
        "svm_predict -b 1 @/points @/rare @/guess",
        "svm_train -q --threads 1 -s 2 -n 0.2 @/points @/rare",
        "svm_predict @/points @/rare @/guess",
        "svm_train --threads 1 -s 4 -v 3 @/points",
        "svm_grid --threads 1 -s 3 --log2c -1,1,2 --log2g -1,1,2 -v 2 --json @/points",
        "svm_grid --threads 1 -t 0 --log2c -1,1,1 -v 2 --stats @/stats @/points",
        "sim --recipe lru,rotate:h=0.5,strata=class -n 60 --batch 8 --row 10 --decoded 20",
        "sim --recipe lru --data mem:?n=60&h=4&w=4&c=1 --batch 8 --json",
        "sim --recipe lru --data mem:?n=60&h=4&w=4&c=1 --parts off --augment flip --batch 8",
        "ls csv:@/table.csv?target=y",
        "ls csv:@/table.csv?target=word --json",
        "list --",
    };
    write_text("table.csv", "a,word,y\n1,one,0.5\n2,two,1.5\n3,one,2\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        must_pass(lines[i]);
}

static void help_is_there(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s --help", commands[i].name);
        must_pass(line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rare_ways),
        cmocka_unit_test(help_is_there),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(small_commands),
        cmocka_unit_test(simulations),
        cmocka_unit_test(trainings),
        cmocka_unit_test(machines),
        cmocka_unit_test(pictures_and_disks),
        cmocka_unit_test(cages),
        cmocka_unit_test(doctors),
        cmocka_unit_test(completions),
        cmocka_unit_test(profiles),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
