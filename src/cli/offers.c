#include "cli/offers.h"

#include "cli/command_table.h"
#include "loader/draw/recipe.h"
#include "plugins.h"
#include "source/source.h"

#include <ctype.h>
#include <string.h>

static const char *typed(const larder__answer *a) { return a->word + a->kept; }

static void offer(const larder__answer *a, const char *name, size_t len, const char *end,
                  const char *help) {
    size_t have = strlen(typed(a));
    if (have <= len && strncmp(name, typed(a), have) == 0)
        fprintf(a->to, "%.*s%.*s%s\t%s\n", (int)a->kept, a->word, (int)len, name, end,
                help ? help : "");
}

void larder__offer_word(const larder__answer *a, const char *name, const char *end,
                        const char *help) {
    offer(a, name, strlen(name), end, help);
}

void larder__offer_files(const larder__answer *a) { fprintf(a->to, ":files\t%zu\n", a->kept); }

larder__answer larder__offer_after(const larder__answer *a, const char *here) {
    return (larder__answer){a->to, a->word, (size_t)(here - a->word)};
}

/* ---- plug-ins -------------------------------------------------------------------------------- */

static void offer_sort(const larder__answer *a, larder_sort sort, const char *end) {
    const larder_plugin *p;
    for (size_t i = 0; (p = larder__sorts[sort].nth(i)); i++)
        larder__offer_word(a, p->name, end, p->summary);
}

/* Parameters of several plug-ins, with who takes their values. */
enum { LISTS = 4 };
typedef struct params {
    const larder_param *at[LISTS];
    size_t count;
} params;

static void add_params(params *all, const larder_param *list) {
    if (list && all->count < LISTS)
        all->at[all->count++] = list;
}

static const larder_param *find_param(const params *all, const char *name, size_t len) {
    for (size_t k = 0; k < all->count; k++)
        for (const larder_param *p = all->at[k]; p->name; p++)
            if (strlen(p->name) == len && memcmp(p->name, name, len) == 0)
                return p;
    return NULL;
}

static void offer_choices(const larder__answer *a, const char *choices) {
    for (const char *at = choices; *at; at += strspn(at, "|")) {
        size_t n = strcspn(at, "|");
        offer(a, at, n, "", "");
        at += n;
    }
}

static void offer_value(const larder__answer *a, const larder_param *p) {
    static const struct {
        const char *name;
        larder_sort sort;
    } parts[] = {{"sampler", LARDER_SORT_SAMPLER},
                 {"policy", LARDER_SORT_POLICY},
                 {"signal", LARDER_SORT_SIGNAL},
                 {"engine", LARDER_SORT_ENGINE}};
    if (strchr(p->type, '|'))
        offer_choices(a, p->type);
    else if (strcmp(p->type, "bool") == 0)
        offer_choices(a, "true|false");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(p->type, "text") == 0 && strcmp(p->name, parts[i].name) == 0)
            offer_sort(a, parts[i].sort, "");
}

/* The last of key=value,key=value. */
static void offer_pairs(const larder__answer *a, const params *all, char between) {
    const char *cut = strrchr(typed(a), between), *from = cut ? cut + 1 : typed(a);
    const char *equals = strchr(from, '=');
    larder__answer rest = larder__offer_after(a, from);
    if (equals) {
        const larder_param *p = find_param(all, from, (size_t)(equals - from));
        larder__answer value = larder__offer_after(a, equals + 1);
        if (p)
            offer_value(&value, p);
        return;
    }
    for (size_t k = 0; k < all->count; k++)
        for (const larder_param *p = all->at[k]; p->name; p++)
            larder__offer_word(&rest, p->name, "=", p->help);
}

static const larder_plugin *plugin_of(larder_sort sort, const char *name, size_t len) {
    char whole[64];
    snprintf(whole, sizeof whole, "%.*s", (int)len, name);
    return len < sizeof whole ? larder__plugin_named(sort, whole) : NULL;
}

/* The value of `key` among pairs, or `usual`. */
static const larder_plugin *chosen_part(larder_sort sort, const char *pairs, const char *key,
                                        const char *usual) {
    size_t len = strlen(key);
    for (const char *at = pairs; *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        if (n > len && strncmp(at, key, len) == 0 && at[len] == '=')
            return plugin_of(sort, at + len + 1, n - len - 1);
        at += n;
    }
    return plugin_of(sort, usual, strlen(usual));
}

static params params_of_recipe(const char *name, size_t len, const char *pairs) {
    params all = {0};
    char whole[64];
    larder_recipe space;
    snprintf(whole, sizeof whole, "%.*s", (int)len, name);
    const larder_recipe *r = len < sizeof whole ? larder__recipe_find(whole, &space) : NULL;
    const larder_plugin *parts[] = {
        r ? chosen_part(LARDER_SORT_SAMPLER, pairs, "sampler", r->sampler) : NULL,
        r ? chosen_part(LARDER_SORT_POLICY, pairs, "policy", r->policy) : NULL,
        r ? chosen_part(LARDER_SORT_SIGNAL, pairs, "signal", r->signal) : NULL};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            add_params(&all, parts[i]->params);
    if (r)
        add_params(&all, larder__recipe_params);
    return all;
}

static void offer_recipes(const larder__answer *a) {
    offer_sort(a, LARDER_SORT_RECIPE, "");
    for (size_t i = 0; larder__policies[i]; i++)
        if (larder__recipe_is_policy(larder__policies[i]))
            larder__offer_word(a, larder__policies[i]->plugin.name, "",
                               larder__policies[i]->plugin.summary);
}

/* The last of one,two:key=value,key=value: a piece with "=" belongs to the one before it. */
static const char *last_of_list(const char *list) {
    const char *from = list;
    for (const char *at = list; (at = strchr(at, ','));) {
        at++;
        size_t n = strcspn(at, ",");
        if (at[n] == ',' && !memchr(at, '=', n))
            from = at;
        const char *colon = memchr(at, ':', n), *equals = memchr(at, '=', n);
        if (colon && (!equals || colon < equals))
            from = at;
    }
    return from;
}

static void offer_recipe(const larder__answer *a, bool many) {
    const char *from = many ? last_of_list(typed(a)) : typed(a);
    const char *colon = strchr(from, ':'), *comma = many ? strrchr(from, ',') : NULL;
    if (comma && !strchr(comma, '=')) {
        larder__answer next = larder__offer_after(a, comma + 1);
        offer_recipes(&next);
    } else if (!colon) {
        larder__answer first = larder__offer_after(a, from);
        offer_recipes(&first);
    }
    if (colon) {
        larder__answer pairs = larder__offer_after(a, colon + 1);
        params all = params_of_recipe(from, (size_t)(colon - from), colon + 1);
        offer_pairs(&pairs, &all, ',');
    }
}

/* name:key=value,key=value of one sort. */
static void offer_spec(const larder__answer *a, larder_sort sort) {
    const char *colon = strchr(typed(a), ':');
    const larder_plugin *p = colon ? plugin_of(sort, typed(a), (size_t)(colon - typed(a))) : NULL;
    if (!colon) {
        offer_sort(a, sort, "");
    } else if (p) {
        larder__answer pairs = larder__offer_after(a, colon + 1);
        params all = {0};
        add_params(&all, p->params);
        offer_pairs(&pairs, &all, ',');
    }
}

static void offer_policies(const larder__answer *a, bool many) {
    const char *from = many ? last_of_list(typed(a)) : typed(a);
    const char *comma = many ? strrchr(from, ',') : NULL;
    larder__answer one = larder__offer_after(a, comma && !strchr(comma, '=') ? comma + 1 : from);
    offer_spec(&one, LARDER_SORT_POLICY);
}

static void offer_stages(const larder__answer *a) {
    const char *bar = strrchr(typed(a), '|');
    larder__answer last = larder__offer_after(a, bar ? bar + 1 : typed(a));
    offer_spec(&last, LARDER_SORT_STAGE);
}

/* --slow: a preset, or figures as those of the source of that name. */
static void offer_storage(const larder__answer *a) {
    const larder_plugin *slow = larder__plugin_named(LARDER_SORT_SOURCE, "slow");
    params all = {0};
    add_params(&all, slow->params);
    const larder_param *preset = find_param(&all, "preset", 6);
    if (preset && !strchr(typed(a), ',') && !strchr(typed(a), '='))
        offer_choices(a, preset->type);
    offer_pairs(a, &all, ',');
}

static void offer_source(const larder__answer *a) {
    const char *colon = strchr(typed(a), ':'), *mark = strchr(typed(a), '?');
    const larder_plugin *p =
        colon ? plugin_of(LARDER_SORT_SOURCE, typed(a), (size_t)(colon - typed(a))) : NULL;
    if (mark) {
        params all = {0};
        larder__answer pairs = larder__offer_after(a, mark + 1);
        add_params(&all, p ? p->params : NULL);
        add_params(&all, larder__source_params);
        offer_pairs(&pairs, &all, '&');
    } else if (p && strncmp(colon, "://", 3) != 0) {
        larder__answer where = larder__offer_after(a, colon + 1);
        larder__offer_files(&where);
    } else if (!colon) {
        offer_sort(a, LARDER_SORT_SOURCE, ":");
        larder__offer_files(a);
    }
}

void larder__offer_commands(const larder__answer *a) {
    const larder__entry *e;
    for (size_t i = 0; (e = larder__command_nth(i)); i++)
        larder__offer_word(a, e->name, "", e->about);
}

/* What stands for a value in help says what is offered: RECIPE, or one of a|b|c. */
static void offer_kind(const larder__answer *a, const char *kind, size_t len) {
    static const char *const files[] = {"FILE", "FOLDER", "DIR", "PATH", "RUN", "MODEL", "OUTPUT"};
    bool many = len < strlen(kind) && kind[len] == ',';
    if (!isupper((unsigned char)kind[0])) {
        offer(a, kind, len, "", "");
        return;
    }
#define IS(name) (len == sizeof name - 1 && memcmp(kind, name, len) == 0)
    if (IS("RECIPE"))
        offer_recipe(a, many);
    else if (IS("POLICY"))
        offer_policies(a, many);
    else if (IS("STAGES"))
        offer_stages(a);
    else if (IS("STORAGE"))
        offer_storage(a);
    else if (IS("URI"))
        offer_source(a);
#undef IS
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strlen(files[i]) == len && memcmp(kind, files[i], len) == 0)
            larder__offer_files(a);
}

void larder__offer_kinds(const larder__answer *a, const char *kinds, size_t len) {
    for (const char *at = kinds; at < kinds + len;) {
        size_t n = strcspn(at, "|[],. \n");
        if (at + n > kinds + len)
            n = (size_t)(kinds + len - at);
        if (n > 0)
            offer_kind(a, at, n);
        if (at[n] != '|')
            return;
        at += n + 1;
    }
}
