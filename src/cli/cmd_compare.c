/* larder compare: what differs between two runs, or two groups of seeds, and whether it is more
 * than chance. */
#include "base/err.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/compare_runs.h"

#include <stdio.h>
#include <string.h>

enum { RUNS_MAX = 256 };

typedef struct options {
    const char *words[RUNS_MAX];
    size_t count;
    bool json;
} options;

/* As larder__options_parse: 0, 1 after --help, -1 when wrong. */
static int read_options(options *o, int argc, char **argv) {
    *o = (options){0};
    const larder__option table[] = {{"json", LARDER__FLAG, &o->json, NULL, "one JSON object"}, {0}};
    larder__command command = {
        "compare",
        "larder compare RUN[,RUN...] RUN[,RUN...] [--json]\n       larder compare RUN...",
        "Says what differs between two runs, or between two groups of runs with several seeds\n"
        "each: settings, versions, machine and results, and which results differ by more than the\n"
        "spread over seeds. A run is a folder of larder train --out or a recorded job. With more\n"
        "than two words, runs that differ in nothing but their seed are one group; there must be\n"
        "two of them.",
        "  larder compare runs/minio-1,runs/minio-2,runs/minio-3 "
        "runs/rotate-1,runs/rotate-2,runs/rotate-3\n"
        "  larder compare runs/minio-* runs/rotate-*",
        table};
    int rc = larder__options_parse(&command, argc, argv, o->words, RUNS_MAX, &o->count);
    if (rc == 0 && o->count < 2)
        return larder__wrong_usage("compare", "name two runs, or two groups of runs");
    return rc;
}

typedef struct runs {
    larder__run at[RUNS_MAX];
    size_t count;
} runs;

/* "a,b,c": each of them, or a single run whose name has commas. */
static int read_word(runs *r, const char *word) {
    char name[4096];
    for (const char *at = word;; at++) {
        size_t n = strcspn(at, ",");
        if (r->count == RUNS_MAX || n >= sizeof name)
            return larder__fail(LARDER_E_ARGS, "at most %d runs with names of 4000 bytes",
                                RUNS_MAX);
        memcpy(name, at, n);
        name[n] = 0;
        int rc = larder__run_read(&r->at[r->count], name);
        if (rc < 0)
            return rc;
        r->count++;
        at += n;
        if (!*at)
            return 0;
    }
}

/* All of [from, to) as one group, whatever they differ in. */
static int make_side(larder__seed_groups *out, const runs *r, size_t from, size_t to) {
    int rc = larder__groups_make(out, r->at + from, to - from);
    if (rc == 0 && out->count != 1)
        rc = larder__fail(LARDER_E_ARGS,
                          "%s and %s are not runs of the same settings: a group differs in its "
                          "seeds alone",
                          out->at[0].mean.meta.name, out->at[1].mean.meta.name);
    return rc;
}

static int show(const options *o, const larder__seed_group *a, const larder__seed_group *b) {
    larder__comparison c;
    larder__compare(&c, a, b);
    return o->json ? larder__compare_json(stdout, &c) : larder__compare_text(stdout, &c);
}

static int compare_two(const options *o, runs *r) {
    larder__seed_groups a = {0}, b = {0};
    int rc = read_word(r, o->words[0]);
    size_t first = r->count;
    if (rc == 0)
        rc = read_word(r, o->words[1]);
    if (rc == 0)
        rc = larder__runs_check(r->at, r->count);
    if (rc == 0)
        rc = make_side(&a, r, 0, first);
    if (rc == 0)
        rc = make_side(&b, r, first, r->count);
    if (rc == 0)
        rc = show(o, &a.at[0], &b.at[0]);
    larder__groups_free(&a);
    larder__groups_free(&b);
    return rc;
}

static int compare_many(const options *o, runs *r) {
    larder__seed_groups g = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = read_word(r, o->words[i]);
    if (rc == 0)
        rc = larder__runs_check(r->at, r->count);
    if (rc == 0)
        rc = larder__groups_make(&g, r->at, r->count);
    if (rc == 0 && g.count != 2)
        rc = larder__fail(LARDER_E_ARGS,
                          "these runs are of %zu different settings, and two can be compared: give "
                          "the groups as a1,a2 b1,b2",
                          g.count);
    if (rc == 0)
        rc = show(o, &g.at[0], &g.at[1]);
    larder__groups_free(&g);
    return rc;
}

int larder__cmd_compare(int argc, char **argv) {
    options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    runs *r = larder__calloc(1, sizeof *r);
    rc = !r             ? larder__fail(LARDER_E_NOMEM, "no memory")
         : o.count == 2 ? compare_two(&o, r)
                        : compare_many(&o, r);
    for (size_t i = 0; r && i < r->count; i++)
        larder__run_free(&r->at[i]);
    larder__free(r);
    return larder__exit_code("compare", rc);
}
