/* larder list: every plug-in with its parameters, from the table that docs and help use too. */
#include "cli/commands.h"
#include "cli/options.h"
#include "loader/draw/recipe.h"
#include "plugins.h"
#include "source/source.h"

#include <stdio.h>

typedef struct sheet {
    bool markdown;
} sheet;

static void section(const sheet *s, const char *title, const char *about) {
    if (s->markdown)
        printf("\n## %s\n\n%s\n\n| name | what it does | parameters |\n|---|---|---|\n", title,
               about);
    else
        printf("\n%s: %s\n", title, about);
}

/* A cell of a markdown table: a bar would end it. */
static void cell(const char *text) {
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

static void entry(const sheet *s, const char *name, const char *summary,
                  const larder_param *params) {
    if (s->markdown) {
        printf("| `%s` | ", name);
        cell(summary);
        printf(" | ");
        for (size_t i = 0; params && params[i].name; i++) {
            printf("%s`%s` (", i ? "<br>" : "", params[i].name);
            cell(params[i].type);
            printf(", %s): ", params[i].initial[0] ? params[i].initial : "unset");
            cell(params[i].help);
        }
        printf(" |\n");
        return;
    }
    printf("  %-12s %s\n", name, summary);
    for (size_t i = 0; params && params[i].name; i++)
        printf("  %-12s   %s=%s  %s (%s)\n", "", params[i].name, params[i].initial, params[i].help,
               params[i].type);
}

/* Its parameters are those of its parts, which are listed below. */
static void recipe(const sheet *s, const larder_recipe *r) {
    char parts[200];
    const char *q = s->markdown ? "`" : "";
    snprintf(parts, sizeof parts, "those of sampler %s%s%s, policy %s%s%s%s%s%s%s", q, r->sampler,
             q, q, r->policy, q, r->signal[0] ? ", signal " : "", r->signal[0] ? q : "", r->signal,
             r->signal[0] ? q : "");
    if (s->markdown) {
        printf("| `%s` | ", r->plugin.name);
        cell(r->plugin.summary);
        printf(" | %s |\n", parts);
    } else
        printf("  %-12s %s\n  %-12s   parameters: %s\n", r->plugin.name, r->plugin.summary, "",
               parts);
}

static void list_recipes(const sheet *s) {
    section(s, "recipes",
            "what a user picks: a sampler, a cache policy and a signal under one name");
    for (size_t i = 0; larder__recipes[i]; i++)
        recipe(s, larder__recipes[i]);
    for (size_t i = 0; larder__policies[i]; i++)
        if (larder__recipe_is_policy(larder__policies[i]))
            entry(s, larder__policies[i]->plugin.name, larder__policies[i]->plugin.summary,
                  larder__policies[i]->plugin.params);
    entry(s, "(every one)", "takes these too", larder__recipe_params);
}

#define LIST(kind, list, title, about)                                                             \
    static void list_##kind(const sheet *s) {                                                      \
        section(s, title, about);                                                                  \
        for (size_t i = 0; list[i]; i++)                                                           \
            entry(s, list[i]->plugin.name, list[i]->plugin.summary, list[i]->plugin.params);       \
    }
LIST(policies, larder__policies, "policies", "who stays in a cache")
LIST(samplers, larder__samplers, "samplers", "which ids come next")
LIST(signals, larder__signals, "signals", "what training says about samples")
LIST(engines, larder__engines, "engines",
     "what finds neighbours: graph:engine=NAME, and its parameters as tune=key=value/key=value")
LIST(stages, larder__stages, "stages",
     "from bytes to tensors: --augment \"crop:size=32,pad=4|flip\"")

static void list_sources(const sheet *s) {
    section(s, "sources", "where samples live: name:where?parameter=value&…");
    for (size_t i = 0; larder__sources[i]; i++)
        entry(s, larder__sources[i]->plugin.name, larder__sources[i]->plugin.summary,
              larder__sources[i]->plugin.params);
    entry(s, "(every one)", "takes these too", larder__source_params);
}

int larder__cmd_list(int argc, char **argv) {
    sheet s = {0};
    const larder__option options[] = {
        {"markdown", LARDER__FLAG, &s.markdown, NULL, "as docs/guide/plugins.md"}, {0}};
    const larder__command command = {
        .name = "list",
        .usage = "larder list [--markdown]",
        .about =
            "Shows every recipe, policy, sampler, signal, source and stage with its parameters.\n"
            "A name and its parameters are one string everywhere: \"quiver:factor=10\".",
        .options = options};
    const char *words[1];
    size_t count;
    int rc = larder__options_parse(&command, argc, argv, words, 0, &count);
    if (rc)
        return rc > 0 ? 0 : 2;
    if (s.markdown)
        printf("# Plug-ins\n\nMade by `larder list --markdown`; `make docs` writes it again.\n");
    list_recipes(&s);
    list_policies(&s);
    list_samplers(&s);
    list_signals(&s);
    list_engines(&s);
    list_sources(&s);
    list_stages(&s);
    return 0;
}
