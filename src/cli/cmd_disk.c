/* larder disk: what lies in the folder of a cache on disk, whether it is sound, and making it
 * smaller. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "disk/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct disk_args {
    const char *words[2]; /* what to do, and where */
    const char *budget;
    bool json;
    larder__progress progress;
    larder__stop stop;
    double begun;
    larder__json out;
} disk_args;

/* ---- ls -------------------------------------------------------------------------------------- */

static void json_set(disk_args *a, const larder__disk_set *s) {
    char identity[24];
    snprintf(identity, sizeof identity, "%016" PRIx64, s->identity);
    larder__json_open(&a->out, NULL, '{');
    larder__json_text(&a->out, "name", s->name);
    larder__json_text(&a->out, "identity", identity);
    larder__json_u64(&a->out, "samples", s->keys);
    larder__json_u64(&a->out, "there", s->entries);
    larder__json_u64(&a->out, "bytes", s->bytes);
    larder__json_f64(&a->out, "used_at", (double)s->used_at);
    larder__json_close(&a->out, '}');
}

static void print_set(void *arg, const larder__disk_set *s) {
    disk_args *a = arg;
    char bytes[32], when[32] = "", name[4 * sizeof s->name];
    time_t at = (time_t)s->used_at;
    struct tm t;
    if (a->json) {
        json_set(a, s);
        return;
    }
    if (localtime_r(&at, &t))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &t);
    larder__shown(name, sizeof name, s->name);
    printf("%10s %9" PRIu64 " of %-9" PRIu64 " %16s  %016" PRIx64 "  %s\n",
           larder__print_bytes((double)s->bytes, bytes), s->entries, s->keys, when, s->identity,
           name);
}

static int list(disk_args *a) {
    larder__disk_figures f = {0};
    char used[32], budget[32];
    int rc = larder__disk_list(a->words[1], &f, NULL, NULL);
    if (rc < 0)
        return rc;
    if (a->json) {
        a->out = (larder__json){.to = stdout};
        larder__json_begin(&a->out);
        larder__json_u64(&a->out, "budget", f.budget);
        larder__json_u64(&a->out, "used_bytes", f.used_bytes);
        larder__json_u64(&a->out, "entries", f.entries);
        larder__json_open(&a->out, "data_sets", '[');
    } else
        printf("%s of %s in use, %" PRIu64 " samples\n\n%10s %-22s %16s  %-16s  %s\n",
               larder__print_bytes((double)f.used_bytes, used),
               larder__print_bytes((double)f.budget, budget), f.entries, "bytes", "  samples of",
               "last used", "identity", "data set");
    rc = larder__disk_list(a->words[1], &f, print_set, a);
    if (a->json) {
        larder__json_close(&a->out, ']');
        larder__json_close(&a->out, '}');
    }
    return rc;
}

/* ---- check, trim, rm ------------------------------------------------------------------------- */

static bool go_on(void *arg, uint64_t done, uint64_t all) {
    disk_args *a = arg;
    double now = larder__now();
    larder__work_view v = {"disk check", done, all, 0, now - a->begun};
    larder__progress_work(&a->progress, &v, now);
    return atomic_load(&a->stop.signal) == 0;
}

static int check(disk_args *a) {
    uint64_t sound = 0, damaged = 0;
    larder__stop_note(&a->stop);
    larder__progress_open(&a->progress, a->json ? NULL : stderr);
    a->begun = larder__now();
    int rc = larder__disk_check(a->words[1], &sound, &damaged, go_on, a);
    larder__progress_clear(&a->progress);
    int stopped = larder__stop_code(&a->stop);
    larder__stop_close(&a->stop);
    if (rc < 0 && !stopped)
        return rc;
    if (a->json)
        printf("{\"sound\":%" PRIu64 ",\"damaged\":%" PRIu64 ",\"complete\":%s}\n", sound, damaged,
               stopped ? "false" : "true");
    else
        printf("%" PRIu64 " samples are sound, %" PRIu64 " were not and are gone%s\n", sound,
               damaged, stopped ? "; interrupted" : "");
    return stopped;
}

static int trim(disk_args *a) {
    larder__budget b = {0};
    uint64_t freed = 0;
    char bytes[32];
    int rc = a->budget ? larder__parse_budget(a->budget, &b) : 0;
    if (rc == 0 && a->budget && (b.relative || b.bytes == 0))
        rc = larder__fail(LARDER_E_ARGS, "--budget %s: a size, as 100GiB", a->budget);
    if (rc == 0)
        rc = larder__disk_trim(a->words[1], b.bytes, &freed);
    if (rc < 0)
        return rc;
    if (a->json)
        printf("{\"freed\":%" PRIu64 "}\n", freed);
    else
        printf("%s given back\n", larder__print_bytes((double)freed, bytes));
    return 0;
}

static int drop(disk_args *a) {
    int rc = larder__disk_remove(a->words[1]);
    if (rc == 0 && a->json)
        printf("{\"removed\":true}\n");
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(disk_args *);
} actions[] = {{"ls", list}, {"check", check}, {"trim", trim}, {"rm", drop}};
enum { ACTIONS = sizeof actions / sizeof *actions };

static int parse_options(disk_args *a, int argc, char **argv, size_t *action) {
    const larder__option table[] = {
        {"budget", LARDER__TEXT, (void *)&a->budget, "SIZE", "trim: make it so small"},
        {"json", LARDER__FLAG, &a->json, NULL, "for programs"},
        {0}};
    const larder__command command = {
        "disk", "larder disk ls|check|trim|rm FOLDER [--budget SIZE] [--json]",
        "Looks after the folder of a cache on a local disk (--cache 8GiB+disk:FOLDER?budget=…):\n"
        "ls shows which data sets it has samples of; check reads all of them and takes out what\n"
        "does not fit its checksum; trim gives back what no running job wants, or with --budget\n"
        "makes the folder smaller for good; rm takes it away. All but the last two may be used\n"
        "while jobs run.",
        "  larder disk ls /mnt/nvme/larder\n"
        "  larder disk trim /mnt/nvme/larder --budget 200GiB",
        table};
    size_t count;
    int rc = larder__options_parse(&command, argc, argv, a->words, 2, &count);
    if (rc != 0)
        return rc;
    if (count < 2)
        return larder__wrong_usage("disk", "what to do, and in which folder? "
                                           "larder disk ls FOLDER");
    for (*action = 0; *action < ACTIONS; ++*action)
        if (strcmp(a->words[0], actions[*action].name) == 0)
            break;
    if (*action == ACTIONS)
        return larder__wrong_usage("disk", "it is ls, check, trim or rm");
    if (a->budget && actions[*action].run != trim)
        return larder__wrong_usage("disk", "--budget goes with trim");
    return 0;
}

int larder__cmd_disk(int argc, char **argv) {
    disk_args a = {0};
    size_t action = 0;
    int rc = parse_options(&a, argc, argv, &action);
    if (rc)
        return rc > 0 ? 0 : 2;
    rc = actions[action].run(&a);
    return rc > 0 ? rc : larder__exit_code("disk", rc);
}
