/* larder sim: recipes over an imagined data set or a recorded training, or a raw access sequence
 * through policies. Several of them in one call print a table. */
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/sim_access.h"
#include "cli/sim_replay.h"
#include "cli/sim_show.h"
#include "cli/stop.h"
#include "report/svg.h"
#include "shared/redis_address.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 64 };
#define UNSAID UINT64_MAX

typedef struct names { /* "a,b:x=1,y=2,c" taken apart into a; b:x=1,y=2; c */
    char *at[MANY];
    size_t count;
} names;

typedef struct sim_args {
    larder__texts recipes, caches, policies, entries, lambdas;
    uint64_t n, epochs, batch, seed, size, decoded, row;
    uint64_t given; /* which options, by their place in the table */
    const char *trace, *access, *plot, *data, *augment, *parts, *replay;
    bool json, quiet, analyze;
    names recipe, cache, policy, entry, lambda;
    larder__stop stop;
} sim_args;

/* ---- lists on the command line --------------------------------------------------------------- */

/* A piece such as "y=2" belongs to the plug-in before it: an equals sign and no colon ahead. */
static bool is_parameter(const char *piece, size_t len) {
    const char *equals = memchr(piece, '=', len), *colon = memchr(piece, ':', len);
    return equals && (!colon || colon > equals);
}

static int add_name(names *to, const char *from, size_t len) {
    if (to->count == MANY)
        return larder__fail(LARDER_E_ARGS, "at most %d in one call", MANY);
    char *copy = larder__malloc(len + 1);
    if (!copy)
        return LARDER_E_NOMEM;
    memcpy(copy, from, len);
    copy[len] = 0;
    to->at[to->count++] = copy;
    return 0;
}

static int split(names *to, const larder__texts *given) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < given->count; i++)
        for (const char *at = given->at[i]; rc == 0;) {
            size_t len = strcspn(at, ",");
            if (len == 0)
                return larder__fail(LARDER_E_ARGS,
                                    "\"%.60s\": nothing stands before or after a comma",
                                    given->at[i]);
            while (at[len] == ',' && is_parameter(at + len + 1, strcspn(at + len + 1, ",")))
                len += 1 + strcspn(at + len + 1, ",");
            rc = add_name(to, at, len);
            if (!at[len])
                break;
            at += len + 1;
        }
    return rc;
}

static void free_names(names *n) {
    for (size_t i = 0; i < n->count; i++)
        larder__free(n->at[i]);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void show_progress(void *arg, uint64_t epoch, uint64_t served) {
    static double next;
    const sim_args *a = arg;
    double now = larder__now();
    if (now < next)
        return;
    next = now + 0.2;
    fprintf(stderr, "\r\033[Kepoch %llu of %llu, %.1f million requests",
            (unsigned long long)epoch + 1, (unsigned long long)a->epochs, (double)served / 1e6);
}

static void clear_progress(bool shown) {
    if (shown)
        fprintf(stderr, "\r\033[K");
}

/* A cache size as a share of the data in percent, whatever way it was written. */
static double cache_share(const char *text, double payload) {
    larder__budget b;
    if (larder__parse_budget(text, &b) < 0)
        return 0;
    return b.relative ? 100 * b.fraction : 100 * (double)b.bytes / payload;
}

/* Hit ratio over the cache sizes with several of them, else over the epochs: a line a recipe. */
static int draw_plot(const char *path, const sim_args *a, const larder__sim_result *results) {
    bool over_sizes = a->cache.count > 1;
    size_t points = over_sizes ? a->cache.count : results[0].count;
    larder__series series[MANY] = {0};
    double *xy = larder__calloc(2 * a->recipe.count * points, sizeof *xy);
    if (!xy)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < a->recipe.count; i++) {
        double *x = xy + 2 * i * points, *y = x + points;
        for (size_t k = 0; k < points; k++) {
            const larder__sim_result *r = &results[i * a->cache.count + (over_sizes ? k : 0)];
            x[k] = over_sizes ? cache_share(a->cache.at[k], (double)r->n * (double)a->size)
                              : (double)k + 1;
            y[k] = over_sizes ? 100 * r->hit_ratio
                   : k < r->count && r->epochs[k].served
                       ? 100 * (double)r->epochs[k].hits / (double)r->epochs[k].served
                       : 0;
        }
        series[i] = (larder__series){.name = a->recipe.at[i], .n = points, .x = x, .y = y};
    }
    larder__chart chart = {.kind = LARDER__CHART_LINES,
                           .title = "Hits",
                           .x_label = over_sizes ? "cache size, % of the data" : "epoch",
                           .y_label = "hits, % of served",
                           .series = series,
                           .count = a->recipe.count};
    larder__fresh f;
    int rc = larder__fresh_open(&f, path);
    if (rc == 0 && (rc = larder__chart_write(f.to, &chart)) < 0)
        rc = larder__fail_in(rc, "%s", path);
    larder__free(xy);
    return larder__fresh_close(&f, rc);
}

/* ---- running --------------------------------------------------------------------------------- */

/* "read", "keep" or "off"; anything else is none of them. */
static larder_parts parts_of(const char *text) {
    return !text || strcmp(text, "read") == 0 ? LARDER_PARTS_READ
           : strcmp(text, "keep") == 0        ? LARDER_PARTS_KEEP
           : strcmp(text, "off") == 0         ? LARDER_PARTS_OFF
                                              : LARDER_PARTS_OFF + 1;
}

static int run_one(const sim_args *a, const char *recipe, const char *cache, bool first,
                   larder__sim_result *out) {
    bool shown = !a->quiet && !a->json && isatty(2);
    larder__sim_conf conf = {.refuse_unscored = true,
                             .recipe = recipe,
                             .cache = cache,
                             .n = a->n,
                             .epochs = a->epochs,
                             .batch = a->batch,
                             .seed = a->seed,
                             .size = (uint32_t)a->size,
                             .decoded = (uint32_t)a->decoded,
                             .row = (uint32_t)a->row,
                             .trace = a->trace,
                             .data = a->data,
                             .augment = a->augment,
                             .parts = parts_of(a->parts),
                             .stop = &a->stop.signal,
                             .progress = shown ? show_progress : NULL,
                             .progress_arg = (void *)(uintptr_t)a};
    int rc = larder__sim_run(&conf, out);
    clear_progress(shown);
    if (out->says[0])
        fprintf(stderr, "larder sim: %s\n", out->says);
    char said[256];
    larder__cache_mask(cache, said, sizeof said);
    if (rc == 0 || (rc == LARDER_E_CANCELLED && out->count)) {
        if (a->json)
            larder__sim_json(recipe, said, a->seed, out);
        else {
            if (first)
                larder__sim_table_head();
            larder__sim_table_row(recipe, said, out);
        }
    }
    return rc;
}

static int run_recipes(const sim_args *a) {
    size_t runs = a->recipe.count * a->cache.count;
    larder__sim_result *results = larder__calloc(runs, sizeof *results);
    int rc = results ? 0 : LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < runs; i++)
        rc = run_one(a, a->recipe.at[i / a->cache.count], a->cache.at[i % a->cache.count], i == 0,
                     &results[i]);
    if (rc == 0 && a->plot)
        rc = draw_plot(a->plot, a, results);
    for (size_t i = 0; results && i < runs; i++)
        larder__sim_free(&results[i]);
    larder__free(results);
    return rc;
}

static int run_replays(const sim_args *a) {
    larder__sim_access access = {.path = a->access,
                                 .policies = a->policy.at,
                                 .policy_count = a->policy.count,
                                 .entries = a->entry.at,
                                 .entry_count = a->entry.count,
                                 .lambdas = a->lambda.at,
                                 .lambda_count = a->lambda.count,
                                 .batch = a->batch,
                                 .seed = a->seed,
                                 .json = a->json,
                                 .analyze = a->analyze,
                                 .stop = &a->stop.signal};
    return larder__sim_access_run(&access);
}

static int run_tape(const sim_args *a) {
    larder__sim_replay replay = {.path = a->replay,
                                 .recipes = a->recipe.at,
                                 .recipe_count = a->recipe.count,
                                 .policies = a->policy.at,
                                 .policy_count = a->policy.count,
                                 .caches = a->cache.at,
                                 .cache_count = a->cache.count,
                                 .epochs = a->epochs,
                                 .json = a->json,
                                 .stop = &a->stop.signal};
    return larder__sim_replay_run(&replay);
}

/* ---- the command ----------------------------------------------------------------------------- */

static const char *missing(const sim_args *a) {
    if (a->access || a->replay)
        return NULL;
    if (a->analyze || a->lambda.count || a->policy.count || a->entry.count)
        return "--policy, --entries, --lambda and --analyze go with --access";
    if (!a->recipe.count)
        return "give --recipe, or --access";
    if (parts_of(a->parts) > LARDER_PARTS_OFF)
        return "--parts is read, keep or off";
    if ((a->augment || a->parts) && !a->data)
        return "--augment and --parts go with --data";
    if (a->n && (a->data || a->trace))
        return "--n is for imagined data: --data and --trace have samples of their own";
    return a->n == 0 && !a->trace && !a->data
               ? "give --n, the number of samples, or --data, or --trace"
               : NULL;
}

/* What an option does not do must not look as if it were done. */
static int check_ways(const sim_args *a, const larder__command *c) {
    enum { IMAGINED = 1, REPLAY = 2, ACCESS = 4 };
    static const struct {
        const char *name;
        int with;
    } some[] = {{"recipe", IMAGINED | REPLAY},
                {"epochs", IMAGINED | REPLAY},
                {"cache", IMAGINED | REPLAY},
                {"batch", IMAGINED | ACCESS},
                {"seed", IMAGINED | ACCESS},
                {"policy", REPLAY | ACCESS},
                {"entries", ACCESS},
                {"lambda", ACCESS},
                {"analyze", ACCESS},
                {"n", IMAGINED},
                {"size", IMAGINED},
                {"decoded", IMAGINED},
                {"row", IMAGINED},
                {"trace", IMAGINED},
                {"data", IMAGINED},
                {"augment", IMAGINED},
                {"parts", IMAGINED},
                {"plot", IMAGINED},
                {"replay", REPLAY},
                {"access", ACCESS}};
    int way = a->replay ? REPLAY : a->access ? ACCESS : IMAGINED;
    for (size_t i = 0; c->options[i].name; i++)
        for (size_t k = 0; k < sizeof some / sizeof *some; k++)
            if ((a->given >> i & 1) && strcmp(c->options[i].name, some[k].name) == 0 &&
                !(some[k].with & way))
                return larder__fail(
                    LARDER_E_ARGS, "--%s changes nothing with %s", some[k].name,
                    way == REPLAY ? "a recorded job: --replay takes samples and order from its file"
                    : way == ACCESS ? "--access, which replays row by row"
                                    : "imagined data");
    return 0;
}

/* Lists taken apart. */
static int split_all(sim_args *a) {
    int rc = split(&a->recipe, &a->recipes);
    if (rc < 0 || (rc = split(&a->cache, &a->caches)) < 0 ||
        (rc = split(&a->policy, &a->policies)) < 0 || (rc = split(&a->entry, &a->entries)) < 0 ||
        (rc = split(&a->lambda, &a->lambdas)) < 0)
        return rc;
    return a->cache.count || a->replay ? 0 : add_name(&a->cache, "20%", 3);
}

static int check_numbers(const sim_args *a) {
    if (a->batch == 0)
        return larder__fail(LARDER_E_ARGS, "--batch is at least 1");
    if (a->size > UINT32_MAX || a->decoded > UINT32_MAX || a->row > UINT32_MAX)
        return larder__fail(LARDER_E_ARGS, "--size: a sample has less than 4 GiB in any form");
    return a->epochs ? 0 : larder__fail(LARDER_E_ARGS, "--epochs is at least 1");
}

static int run_way(sim_args *a) {
    if (a->batch == UNSAID)
        a->batch = a->access ? 0 : 256;
    if (a->epochs == UNSAID)
        a->epochs = a->replay ? 0 : 5;
    return a->replay ? run_tape(a) : a->access ? run_replays(a) : run_recipes(a);
}

static int run_command(sim_args *a, const larder__command *c) {
    int rc = split_all(a);
    const char *lack = rc == 0 ? missing(a) : NULL;
    if (lack)
        return -2 * larder__wrong_usage("sim", lack);
    if (rc == 0 && (rc = check_ways(a, c)) == 0 && (rc = check_numbers(a)) == 0)
        rc = run_way(a);
    return rc == LARDER_E_CANCELLED ? 1 : larder__exit_code("sim", rc);
}

int larder__cmd_sim(int argc, char **argv) {
    sim_args a = {.epochs = UNSAID, .batch = UNSAID, .size = 3072};
    const larder__option options[] = {
        {"recipe", LARDER__TEXTS, &a.recipes, "RECIPE,…", "recipes to run; larder list shows all"},
        {"n", LARDER__NUMBER, &a.n, "N", "samples of the data set"},
        {"epochs", LARDER__NUMBER, &a.epochs, "E", "epochs (5, or as many as were recorded)"},
        {"batch", LARDER__NUMBER, &a.batch, "B", "batch size (256); with --access: look-up batch"},
        {"cache", LARDER__TEXTS, &a.caches, "X,…",
         "cache sizes, 20% of the data or 8GiB, maybe :58/42/0 (20%)"},
        {"seed", LARDER__NUMBER, &a.seed, "S", "every run repeats from its seed (0)"},
        {"size", LARDER__NUMBER, &a.size, "BYTES", "bytes of a sample (3072)"},
        {"decoded", LARDER__NUMBER, &a.decoded, "BYTES", "of its pixels, for split caches (size)"},
        {"row", LARDER__NUMBER, &a.row, "BYTES", "of its row of a batch, for the same (size)"},
        {"trace", LARDER__TEXT, &a.trace, "DIR",
         "a recorded training: losses, embeddings; n comes from it"},
        {"data", LARDER__TEXT, &a.data, "URI", "samples and sizes of this data set"},
        {"augment", LARDER__TEXT, &a.augment, "STAGES",
         "with --data of packed shards: crops, of which the bytes read follow"},
        {"parts", LARDER__TEXT, &a.parts, "read|keep|off", "of packed shards (read)"},
        {"replay", LARDER__TEXT, &a.replay, "FILE",
         "a recorded job (larder train --record): other recipes, policies, sizes"},
        {"access", LARDER__TEXT, &a.access, "FILE", "replay recorded row accesses, or u32 ids"},
        {"policy", LARDER__TEXTS, &a.policies, "POLICY,…",
         "with --access or --replay: policies for the same requests"},
        {"entries", LARDER__TEXTS, &a.entries, "K,…", "with --access: 5000 entries, 10% of all"},
        {"lambda", LARDER__TEXTS, &a.lambdas, "L,…", "with --access: hcst with each of these"},
        {"analyze", LARDER__FLAG, &a.analyze, NULL, "with --access: reuse, by quarter of the run"},
        {"plot", LARDER__TEXT, &a.plot, "FILE", "an SVG: hits over cache sizes or epochs"},
        {"json", LARDER__FLAG, &a.json, NULL, "one JSON object a run"},
        {"quiet", LARDER__FLAG, &a.quiet, NULL, "no progress"},
        {0}};
    const larder__command command = {
        .name = "sim",
        .usage =
            "larder sim --recipe RECIPE --n N [--epochs E] [--batch B] [--cache X] [--seed S]\n"
            "       larder sim --replay FILE [--recipe RECIPE] [--policy POLICY] [--cache X]\n"
            "       larder sim --access FILE [--policy POLICY] [--entries K] [--batch Q]\n"
            "       larder sim --access FILE --analyze | --lambda L",
        .about =
            "Runs the loader's own sampler, cache policy and ledger without reading a byte, and\n"
            "says what would have been hits, substitutes, repeats, misses and storage bytes.\n"
            "Percentages are shares of the samples served, epoch 1 (cold) included.\n\n"
            "--replay takes a recorded job. --recipe asks a recipe for its own order, and "
            "training\n"
            "answers with the recorded losses; --policy keeps the recorded requests. Times follow\n"
            "from the speed of storage and training that the job measured.\n\n"
            "--access takes what svm-train recorded: a round is looked up whole before its misses\n"
            "enter. Plain u32 ids (little-endian, also .zst) are replayed one by one, or --batch\n"
            "at a time.",
        .examples =
            "  larder sim --recipe lru,minio,quiver --n 50000 --cache 10%,20%,40% --plot hits.svg\n"
            "  larder sim --recipe belady --n 50000 --epochs 10 --json\n"
            "  larder sim --replay job.tape --recipe minio,rotate --cache 10%,20%,40%\n"
            "  larder sim --access adult.rows --entries 5000,10%\n"
            "  larder sim --access adult.rows --lambda 0.25,0.5,1,2,4,8 --entries 5000\n"
            "  larder sim --access adult.rows --analyze\n"
            "  larder sim --recipe seneca --n 50000 --cache 20%:58/42/0 --decoded 12288\n"
            "  larder sim --access rows.u32 --policy lru,lfu,belady --entries 1000,5000",
        .options = options};
    const char *words[1];
    size_t count;
    int rc = larder__options_parse_noting(&command, argc, argv, words, 0, &count, &a.given);
    if (rc)
        return rc > 0 ? 0 : 2;
    larder__stop_note(&a.stop);
    rc = run_command(&a, &command);
    int stopped = larder__stop_code(&a.stop);
    larder__stop_close(&a.stop);
    free_names(&a.recipe);
    free_names(&a.cache);
    free_names(&a.policy);
    free_names(&a.entry);
    free_names(&a.lambda);
    return stopped ? stopped : rc;
}
