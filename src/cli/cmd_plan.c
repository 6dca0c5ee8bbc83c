/* larder plan: which split of a cache between encoded, decoded and augmented samples feeds training
 * fastest on a machine with these rates, and what would make it faster still. */
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/svg.h"

#include "plan/rates.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PROFILE_MAX = 1 << 20, POINTS = 41 };

typedef struct options {
    const char *profile, *model, *plot, *split;
    larder_split given; /* of --split */
    larder__texts set;
    bool json;
} options;

/* ---- what is known of the machine ------------------------------------------------------------ */

static const char keys_help[] =
#define XX(key, initial, kind, help) "  " #key "\n      " help "\n"
    LARDER_RATES(XX)
#undef XX
    ;

static int parse_options(options *o, int argc, char **argv) {
    *o = (options){.model = "shared"};
    const larder__option table[] = {
        {"profile", LARDER__TEXT, &o->profile, "FILE", "rates of a machine, from larder profile"},
        {"set", LARDER__TEXTS, &o->set, "K=V,…", "rates, also instead of the profile's; see below"},
        {"model", LARDER__TEXT, &o->model, "shared|paper",
         "shared: costs add up on every resource; paper: "
         "Seneca's equations (shared)"},
        {"split", LARDER__TEXT, &o->split, "E/D/A", "also say what this split would feed: 58/42/0"},
        {"plot", LARDER__TEXT, &o->plot, "FILE", "an SVG: rate against the size of the cache"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object for programs"},
        {0}};
    char about[4096];
    snprintf(about, sizeof about,
             "Says how to split a cache between encoded, decoded and augmented samples, how fast\n"
             "training is fed then, by what it is held up, and what more cache, storage or\n"
             "processors would bring. Sizes may be written as 64GiB or 64GB; rates are bytes or\n"
             "samples a second. The keys of --set:\n%s",
             keys_help);
    const larder__command command = {
        "plan", "larder plan [--profile FILE] [--set KEY=VALUE,…] [--model shared|paper] [--json]",
        about,
        "  larder profile photos/ -o machine.json && larder plan --profile machine.json\n"
        "  larder plan --set t_gpu=4550,t_da=2132,t_a=4050,b_storage=500MB,b_cache=1.25GB \\\n"
        "              --set s_cache=64GB,s_data=114KB,m=5.12,n_total=1.3e6",
        table};
    size_t count;
    return larder__options_parse(&command, argc, argv, NULL, 0, &count);
}

/* A person who types s_cache=20 means no 20 bytes; 1e11, and what is wrong, is another's to judge.
 */
static int check_cache(const char *key, const char *value) {
    uint64_t bytes;
    return strcmp(key, "s_cache") == 0 && larder__parse_bytes(value, &bytes) == 0
               ? larder__parse_amount(key, value, &bytes)
               : 0;
}

static int set_list(larder_rates *r, const char *list) {
    for (const char *at = list; *at;) {
        char pair[128];
        size_t n = strcspn(at, ",");
        if (n >= sizeof pair)
            return larder__fail(LARDER_E_ARGS, "--set: \"%.40s…\" is too long", at);
        memcpy(pair, at, n);
        pair[n] = '\0';
        char *equals = strchr(pair, '=');
        if (!equals)
            return larder__fail(LARDER_E_ARGS, "--set wants key=value, not \"%s\"", pair);
        *equals = '\0';
        int rc = check_cache(pair, equals + 1);
        if (rc == 0)
            rc = larder__rates_set(r, pair, equals + 1);
        if (rc < 0)
            return rc;
        at += n + (at[n] == ',');
    }
    return 0;
}

static int read_rates(larder_rates *r, const options *o) {
    larder__rates_defaults(r);
    int rc = 0;
    if (o->profile) {
        unsigned char *text = NULL;
        size_t size;
        rc = larder__file_read(o->profile, PROFILE_MAX, &text, &size);
        if (rc == 0)
            rc = larder__rates_read(r, (const char *)text, o->profile);
        larder__free(text);
    }
    for (size_t i = 0; rc == 0 && i < o->set.count; i++)
        rc = set_list(r, o->set.at[i]);
    return rc;
}

static int read_split(options *o) {
    double share[LARDER_FORMS];
    int rc = larder__parse_split(o->split, share);
    if (rc < 0)
        return rc;
    o->given.encoded = (int)(100 * share[LARDER_ENCODED] + 0.5);
    o->given.decoded = (int)(100 * share[LARDER_DECODED] + 0.5);
    o->given.augmented = 100 - o->given.encoded - o->given.decoded;
    return 0;
}

/* ---- what would help ------------------------------------------------------------------------- */

typedef struct change {
    char name[64];
    double gain; /* of the throughput, as a share */
} change;
enum { CHANGES = 6 };

static double gain_of(const larder_rates *r, larder_plan_model model, double now) {
    larder_plan p;
    return larder__plan_make(&p, r, model) < 0 ? 0 : p.best.throughput / now - 1;
}

static void find_changes(change out[CHANGES], const larder_rates *r, const larder_plan *p) {
    double more = r->s_cache >= 0x1p35 ? 0x1p33 : r->s_cache / 4; /* 8 GiB where that is little */
    larder_rates t[CHANGES] = {*r, *r, *r, *r, *r, *r};
    char bytes[32];
    if (more <= 0)
        more = r->n_total * r->s_data / 10;
    t[0].s_cache += more;
    t[1].b_storage *= 2;
    t[2].t_da *= 2, t[2].t_a *= 2;
    t[3].b_cache *= 2;
    t[4].b_nic *= 2;
    t[5].t_gpu *= 2, t[5].b_pcie *= 2;
    snprintf(out[0].name, sizeof out[0].name, "%s more cache", larder__print_bytes(more, bytes));
    static const char *const names[CHANGES] = {NULL,
                                               "storage twice as fast",
                                               "twice the processors",
                                               "cache twice as fast",
                                               "network twice as fast",
                                               "GPUs and their bus twice as fast"};
    for (int i = 0; i < CHANGES; i++) {
        if (names[i])
            snprintf(out[i].name, sizeof out[i].name, "%s", names[i]);
        out[i].gain = gain_of(&t[i], p->model, p->best.throughput);
    }
}

/* ---- showing it ------------------------------------------------------------------------------ */

static void print_outlook(const char *name, const larder_outlook *o) {
    printf("  %-16s %3d/%d/%d%*s %10.0f samples/s, held up by %s\n", name, o->split.encoded,
           o->split.decoded, o->split.augmented,
           (int)(12 - snprintf(NULL, 0, "%3d/%d/%d", o->split.encoded, o->split.decoded,
                               o->split.augmented)),
           "", o->throughput, larder__resource_name(o->bottleneck));
}

static const struct {
    const char *name;
    larder_split split;
} corners[] = {
    {"all encoded", {100, 0, 0}}, {"all decoded", {0, 100, 0}}, {"all augmented", {0, 0, 100}}};

static void print_text(const options *given, const larder_rates *r, const larder_plan *p,
                       const change *c) {
    char cache[32], all[32];
    printf("cache of %s, data set of %s, model %s\n\n", larder__print_bytes(r->s_cache, cache),
           larder__print_bytes(r->n_total * r->s_data, all),
           p->model == LARDER_PLAN_PAPER ? "paper" : "shared");
    printf("  %-16s %-12s (percent encoded/decoded/augmented)\n", "", "split");
    print_outlook("best", &p->best);
    if (p->ties)
        printf("  %-16s %zu other splits are as fast; of these the one with most encoded, then "
               "most\n  %-16s decoded was taken\n",
               "tie", p->ties, "");
    if (p->runner_up.throughput < p->best.throughput)
        print_outlook("runner-up", &p->runner_up);
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
        larder_outlook o = larder__plan_outlook(r, p->model, corners[i].split);
        print_outlook(corners[i].name, &o);
    }
    if (given->split) {
        larder_outlook o = larder__plan_outlook(r, p->model, given->given);
        print_outlook("as given", &o);
    }
    printf("\n  of the samples %.1f %% lie encoded, %.1f %% decoded and %.1f %% augmented in the "
           "cache,\n  %.1f %% in storage alone\n\n",
           100 * p->best.encoded, 100 * p->best.decoded, 100 * p->best.augmented,
           100 * p->best.stored);
    for (int i = 0; i < CHANGES; i++)
        printf("  %-34s %+6.1f %%\n", c[i].name, 100 * c[i].gain);
}

static void json_outlook(larder__json *j, const larder_outlook *o) {
    larder__json_open(j, "split", '{');
    larder__json_u64(j, "encoded", (uint64_t)o->split.encoded);
    larder__json_u64(j, "decoded", (uint64_t)o->split.decoded);
    larder__json_u64(j, "augmented", (uint64_t)o->split.augmented);
    larder__json_close(j, '}');
    larder__json_f64(j, "throughput", o->throughput);
    larder__json_text(j, "bottleneck", larder__resource_name(o->bottleneck));
}

static void print_json(const options *given, const larder_rates *r, const larder_plan *p,
                       const change *c) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "model", p->model == LARDER_PLAN_PAPER ? "paper" : "shared");
    json_outlook(&j, &p->best);
    larder__json_u64(&j, "ties", p->ties);
    larder__json_open(&j, "runner_up", '{');
    json_outlook(&j, &p->runner_up);
    larder__json_close(&j, '}');
    if (given->split) {
        larder_outlook o = larder__plan_outlook(r, p->model, given->given);
        larder__json_open(&j, "given", '{');
        json_outlook(&j, &o);
        larder__json_close(&j, '}');
    }
    larder__json_open(&j, "shares", '{');
    larder__json_f64(&j, "encoded", p->best.encoded);
    larder__json_f64(&j, "decoded", p->best.decoded);
    larder__json_f64(&j, "augmented", p->best.augmented);
    larder__json_f64(&j, "storage", p->best.stored);
    larder__json_close(&j, '}');
    larder__json_open(&j, "sensitivity", '[');
    for (int i = 0; i < CHANGES; i++) {
        larder__json_open(&j, NULL, '{');
        larder__json_text(&j, "change", c[i].name);
        larder__json_f64(&j, "gain_percent", 100 * c[i].gain);
        larder__json_close(&j, '}');
    }
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
    putchar('\n');
}

/* Rate against the size of the cache: the best split of each size, and the three corners. */
static int plot(const char *path, const larder_rates *given, larder_plan_model model) {
    double x[POINTS], y[4][POINTS];
    larder_rates r = *given;
    for (int i = 0; i < POINTS; i++) {
        larder_plan p;
        r.s_cache = given->s_cache * 2 * i / (POINTS - 1);
        x[i] = r.s_cache / 0x1p30;
        int rc = larder__plan_make(&p, &r, model);
        if (rc < 0)
            return rc;
        y[0][i] = p.best.throughput;
        for (int c = 0; c < 3; c++)
            y[c + 1][i] = larder__plan_outlook(&r, model, corners[c].split).throughput;
    }
    const larder__series series[] = {{.name = "best split", .n = POINTS, .x = x, .y = y[0]},
                                     {.name = "all encoded", .n = POINTS, .x = x, .y = y[1]},
                                     {.name = "all decoded", .n = POINTS, .x = x, .y = y[2]},
                                     {.name = "all augmented", .n = POINTS, .x = x, .y = y[3]}};
    const larder__chart chart = {.kind = LARDER__CHART_LINES,
                                 .title = "What a cache of this size feeds",
                                 .x_label = "cache, GiB",
                                 .y_label = "samples/s",
                                 .series = series,
                                 .count = 4};
    larder__fresh file;
    int rc = larder__fresh_open(&file, path);
    return rc < 0 ? rc : larder__fresh_close(&file, larder__chart_write(file.to, &chart));
}

int larder__cmd_plan(int argc, char **argv) {
    options o;
    larder_rates rates;
    larder_plan p;
    change changes[CHANGES];
    int parsed = parse_options(&o, argc, argv);
    if (parsed != 0)
        return parsed < 0 ? 2 : 0;
    bool paper = strcmp(o.model, "paper") == 0;
    if (!paper && strcmp(o.model, "shared") != 0) {
        fprintf(stderr, "larder plan: --model is shared or paper, not \"%s\"\n", o.model);
        return 2;
    }
    larder_plan_model model = paper ? LARDER_PLAN_PAPER : LARDER_PLAN_SHARED;
    int rc = read_rates(&rates, &o);
    if (rc == 0 && o.split)
        rc = read_split(&o);
    if (rc == 0)
        rc = larder__plan_make(&p, &rates, model);
    if (rc == 0 && o.plot)
        rc = plot(o.plot, &rates, model);
    if (rc < 0)
        return larder__exit_code("plan", rc);
    find_changes(changes, &rates, &p);
    if (o.json)
        print_json(&o, &rates, &p, changes);
    else
        print_text(&o, &rates, &p, changes);
    return 0;
}
