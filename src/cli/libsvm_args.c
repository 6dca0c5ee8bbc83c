#include "cli/libsvm_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void larder__svm_args_defaults(larder__svm_args *a) {
    memset(a, 0, sizeof *a);
    a->conf.size = sizeof a->conf;
    larder_svm_defaults(&a->conf);
    a->kernel = LARDER_SVM_RBF;
    a->degree = 3;
    a->shrinking = 1;
    a->seed = 1;
    a->cache_mb = NAN;
    a->multi_class = "ovo";
    a->cache = "auto";
}

void larder__svm_args_warn(void *arg, const char *sentence) {
    fprintf(stderr, "larder %s: warning: %s\n", (const char *)arg, sentence);
}

/* "-w7" and its value. */
static int take_weight(larder__svm_args *a, const char *command, const char *name,
                       const char *value) {
    char *end, *stop;
    long label = strtol(name + 2, &end, 10);
    double weight = value ? strtod(value, &stop) : 0;
    if (!value || end == name + 2 || *end || *stop || stop == value)
        return larder__wrong_usage(command, "a weight is written -w1 0.5: class, then factor of C");
    if (a->conf.weight_count == LARDER__WEIGHTS)
        return larder__wrong_usage(command, "more than 1024 weights");
    if (label < INT32_MIN || label > INT32_MAX)
        return larder__wrong_usage(command, "the class of a weight is a whole number of 32 bits");
    a->weights[a->conf.weight_count++] = (larder_svm_weight){(int)label, weight};
    return 0;
}

static bool is_weight(const char *word) {
    return word[0] == '-' && word[1] == 'w' &&
           (word[2] == '-' || word[2] == '+' || (word[2] >= '0' && word[2] <= '9'));
}

int larder__svm_args_rewrite(larder__svm_args *a, const char *command, int *argc, char **argv) {
    static char shrinking[] = "--shrinking";
    int to = 1;
    for (int i = 1; i < *argc && argv[i]; i++) {
        char *word = argv[i];
        char *next = i + 1 < *argc ? argv[i + 1] : NULL;
        if (is_weight(word)) {
            if (take_weight(a, command, word, next) < 0)
                return -1;
            i++;
            continue;
        }
        bool shrinks = strcmp(word, "-h") == 0 && next && next[0] != '\0' &&
                       strspn(next, "0123456789") == strlen(next);
        argv[to++] = shrinks ? shrinking : word;
    }
    *argc = to;
    return 0;
}

static const char *out_of_range(const larder__svm_args *a) {
    bool steps =
        a->most_steps >= 1 && a->most_steps <= 1e18 && a->most_steps == floor(a->most_steps);
    const struct {
        bool wrong;
        const char *why;
    } all[] = {{a->task > 4, "-s is 0 to 4"},
               {a->kernel > 4, "-t is 0 to 4"},
               {a->degree > 1000, "-d is at most 1000"},
               {a->threads > 1024, "--threads is at most 1024"},
               {!isnan(a->cache_mb) && !(a->cache_mb > 0 && a->cache_mb <= 1e9),
                "-m is above 0 and at most 1000000000 megabytes (--cache off keeps no rows)"},
               {a->shrinking > 1, "-h is 0 or 1"},
               {a->most_steps != 0 && a->most_steps != -1 && !steps,
                "--max-iter is a number of steps, or -1 for no limit"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].wrong)
            return all[i].why;
    return NULL;
}

int larder__svm_args_settle(larder__svm_args *a, const char *command) {
    larder_svm_conf *c = &a->conf;
    const char *why = out_of_range(a);
    if (why)
        return larder__wrong_usage(command, why);
    bool ova = strcmp(a->multi_class, "ova") == 0;
    if (!ova && strcmp(a->multi_class, "ovo") != 0)
        return larder__wrong_usage(command, "--multi-class is ovo or ova");
    bool off = strcmp(a->cache, "off") == 0;
    c->cache_always = strcmp(a->cache, "on") == 0;
    if (!off && !c->cache_always && strcmp(a->cache, "auto") != 0)
        return larder__wrong_usage(command, "--cache is auto, on or off");
    c->policy = a->policy;
    c->device = a->device;
    c->task = (larder_svm_task)a->task;
    c->kernel = (larder_svm_kernel)a->kernel;
    c->degree = (int)a->degree;
    c->shrinking = a->shrinking != 0;
    c->threads = (uint32_t)a->threads;
    c->cache_rows = a->rows;
    c->cache_bytes = !isnan(a->cache_mb) ? (uint64_t)(a->cache_mb * 1048576) : UINT64_MAX;
    if (off)
        c->cache_rows = c->cache_bytes = 0;
    c->most_iterations = a->most_steps < 0 ? UINT64_MAX : (uint64_t)a->most_steps;
    static char name[32];
    snprintf(name, sizeof name, "%s", command);
    c->warn = larder__svm_args_warn;
    c->warn_arg = name;
    c->merge = !a->keep_repeats;
    c->one_vs_all = ova || a->multi_label;
    c->seed = a->seed;
    c->weights = a->weights;
    return 0;
}
