/* "name:key=value,…" for every kind of plug-in: found and parsed, or a sentence. */
#include "base/spec.h"
#include "plugins.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *kind, const larder_plugin *p, const char *rest, char separator) {
    larder_args a;
    if (larder__args_parse(&a, kind, p, rest, separator, NULL) < 0)
        return;
    for (const larder_param *q = p->params; q && q->name; q++)
        if (!larder_args_text(&a, q->name) ||
            (q->max > q->min && !(larder_args_number(&a, q->name) <= q->max)))
            abort();
    larder__args_free(&a);
}

static const larder_param all_types[] = {
    {"count", "int", "10", "how many", 1, 1000}, {"rate", "float", "0.5", "how fast", 0, 1},
    {"on", "bool", "0", "whether", 0, 0},        {"size", "size", "64KiB", "how large", 0, 0},
    {"wait", "time", "5ms", "how long", 0, 0},   {"way", "a|bb|c", "bb", "which", 0, 0},
    {"name", "text", "", "who", 0, 0},           {0}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[512], name[32];
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    if (n)
        memcpy(text, data, n);
    text[n] = 0;
    const larder_plugin made_up = {"test", "all types of parameters", all_types, 0};
    parse("test", &made_up, text, ',');
    parse("test", &made_up, text, '&');
    const char *rest;
    if (larder__spec_name(text, name, sizeof name, &rest) < 0)
        return 0;
    larder_recipe space;
    const larder_recipe *recipe = larder__recipe_find(name, &space);
    const larder_policy *policy = larder__policy_find(name);
    const larder_sampler *sampler = larder__sampler_find(name);
    if (policy && !recipe)
        abort(); /* every policy is a recipe */
    if (policy)
        parse("policy", &policy->plugin, rest, ',');
    if (sampler)
        parse("sampler", &sampler->plugin, rest, ',');
    return 0;
}
