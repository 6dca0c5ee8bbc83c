/* Plug-ins from outside: looked at closely before they are believed, then listed like larder's own.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* ---- what each sort has to have: NULL, or what is wrong with it ------------------------------ */

static bool all_or_none(size_t have, size_t of) { return have == 0 || have == of; }

static const char *policy_lacks(const void *plugin) {
    const larder_policy *p = plugin;
    if (!p->init || !p->insert || !p->hit || !p->victim || !p->remove)
        return "it needs init, insert, hit, victim and remove";
    if (!p->save != !p->load)
        return "save and load come together";
    if (p->hears && !p->hears->score &&
        (p->hears->ghost || p->hears->offer || p->hears->listens || p->hears->needs_scores))
        return "who hears of scores at all has score";
    if (p->brings && !p->brings->fetch)
        return "what it brings comes by fetch";
    if (p->shows && p->shows->figures && !p->shows->figure)
        return "its figures have no values: figure is missing";
    return NULL;
}

static const char *sampler_lacks(const void *plugin) {
    const larder_sampler *s = plugin;
    if (!s->init || !s->epoch || !s->draw || !s->length || !s->save || !s->load)
        return "it needs init, epoch, draw, length, save and load";
    if (!all_or_none((size_t) !!s->turns + !!s->past + !!s->follow, 3))
        return "turns, past and follow come together";
    if (!s->brings != !s->brings_most)
        return "brings and brings_most come together";
    return !s->shown_name != !s->shown ? "shown_name and shown come together" : NULL;
}

static const char *signal_lacks(const void *plugin) {
    const larder_signal *s = plugin;
    size_t halves = (size_t) !!s->result_size + !!s->prepare + !!s->apply + !!s->check;
    if (!s->init || !s->observe == !s->prepare || !all_or_none(halves, 4))
        return "it needs init, and observe, or instead result_size, prepare, apply and check";
    if (s->prepare && s->epoch)
        return "epoch does not go with prepare";
    if (!s->save != !s->load)
        return "save and load come together";
    return !s->figures != !s->figure ? "figures and figure come together" : NULL;
}

static const char *engine_lacks(const void *plugin) {
    const larder_engine *e = plugin;
    if (!e->open || !e->close || !e->update || !e->count || !e->nearest || !e->rows || !e->bytes ||
        !e->save || !e->load)
        return "it needs open, close, update, count, nearest, rows, bytes, save and load";
    return strlen(e->plugin.name) > LARDER__ENGINE_LETTERS ? "its name has at most eight letters"
                                                           : NULL;
}

static const char *source_lacks(const void *plugin) {
    const larder_source *s = plugin;
    if (!s->open || !s->close || !s->describe || !s->stat || !s->name || !s->read)
        return "it needs open, close, describe, stat, name and read";
    if (!all_or_none((size_t) !!s->extent + !!s->part_bytes + !!s->read_parts, 3))
        return "extent, part_bytes and read_parts come together";
    if (s->wraps && (!s->plugin.params || !s->plugin.params[0].name))
        return "a source around another has a parameter";
    return !s->figures != !s->figure ? "figures and figure come together" : NULL;
}

static const char *stage_lacks(const void *plugin) {
    const larder_stage *s = plugin;
    return !s->init ||
                   !!s->place + !!s->pixels + !!s->tone + !!s->canvas + !!s->late + !!s->mix != 1
               ? "it needs init and exactly one of place, pixels, tone, canvas, late and mix"
               : NULL;
}

static const char *recipe_lacks(const void *plugin) {
    const larder_recipe *r = plugin;
    if (!r->sampler || !larder__plugin_named(LARDER_SORT_SAMPLER, r->sampler))
        return "there is no sampler of the name it gives";
    if (!r->policy || !larder__plugin_named(LARDER_SORT_POLICY, r->policy))
        return "there is no policy of the name it gives";
    if (!r->signal || (r->signal[0] && !larder__plugin_named(LARDER_SORT_SIGNAL, r->signal)))
        return "there is no signal of the name it gives (\"\": none)";
    return NULL;
}

static const char *(*const lacks[LARDER_SORTS])(const void *) = {
    [LARDER_SORT_POLICY] = policy_lacks, [LARDER_SORT_SAMPLER] = sampler_lacks,
    [LARDER_SORT_SIGNAL] = signal_lacks, [LARDER_SORT_ENGINE] = engine_lacks,
    [LARDER_SORT_SOURCE] = source_lacks, [LARDER_SORT_STAGE] = stage_lacks,
    [LARDER_SORT_RECIPE] = recipe_lacks};

/* ---- names and parameters -------------------------------------------------------------------- */

static int check_name(const char *sort, const char *name) {
    enum { LONGEST = 31 };
    size_t n = name ? strlen(name) : 0;
    if (n >= 1 && n <= LONGEST && name[0] >= 'a' && name[0] <= 'z' &&
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n)
        return 0;
    return larder__fail(
        LARDER_E_ARGS,
        "%s \"%.40s\": a name is 1 to %d small letters, digits and _, a letter first", sort,
        name ? name : "", LONGEST);
}

/* Whoever asks for a recipe may mean a policy: one name for both only where both mean the same. */
static bool is_taken(larder_sort sort, const larder_plugin *p) {
    if (larder__plugin_named(sort, p->name))
        return true;
    if (sort == LARDER_SORT_RECIPE)
        return larder__plugin_named(LARDER_SORT_POLICY, p->name) &&
               strcmp(((const larder_recipe *)p)->policy, p->name) != 0;
    const larder_plugin *r =
        sort == LARDER_SORT_POLICY ? larder__plugin_named(LARDER_SORT_RECIPE, p->name) : NULL;
    return r && strcmp(((const larder_recipe *)r)->policy, p->name) != 0;
}

static bool is_type(const char *type) {
    static const char *const types[] = {"int", "float", "bool", "size", "time", "text"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return strchr(type, '|') != NULL;
}

static int check_params(const char *sort, const larder_plugin *p) {
    for (const larder_param *q = p->params; q && q->name; q++) {
        if (!q->type || !q->initial || !q->help)
            return larder__fail(LARDER_E_ARGS, "%s %s: parameter %s lacks type, initial or help",
                                sort, p->name, q->name);
        if (!is_type(q->type))
            return larder__fail(LARDER_E_ARGS,
                                "%s %s: parameter %s has the type \"%.20s\"; it is int, float, "
                                "bool, size, time, text or a choice a|b|c",
                                sort, p->name, q->name, q->type);
    }
    larder_args args; /* do the initial values pass for values? */
    int rc = larder__args_parse(&args, sort, p, "", ',', NULL);
    if (rc == 0)
        larder__args_free(&args);
    return rc;
}

static int check(larder_sort sort, const larder_plugin *p) {
    const char *kind = larder__sorts[sort].name;
    int rc = check_name(kind, p->name);
    if (rc < 0)
        return rc;
    if (!p->summary || !p->summary[0] || strchr(p->summary, '\n'))
        return larder__fail(LARDER_E_ARGS, "%s %s: its summary is one line", kind, p->name);
    const char *lack = lacks[sort](p);
    if (lack)
        return larder__fail(LARDER_E_ARGS, "%s %s: %s", kind, p->name, lack);
    if (is_taken(sort, p))
        return larder__fail(LARDER_E_ARGS, "%s %s: there is one of this name already", kind,
                            p->name);
    return check_params(kind, p);
}

/* ---- structs of another size ----------------------------------------------------------------- */

/* As this larder knows the struct: what an older one did not have is NULL. NULL with a sentence: a
 * newer one has more than this larder knows, and it is in use. */
static void *as_known(const void *from, size_t size, size_t known) {
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)from)[i]) {
            larder__say("it asks for something that larder " LARDER_VERSION " does not know yet");
            return NULL;
        }
    void *copy = larder__calloc(1, known);
    if (copy)
        memcpy(copy, from, size < known ? size : known);
    else
        larder__say("no memory for a plug-in");
    return copy;
}

static const struct {
    size_t at, size;
} groups[LARDER_POLICY_GROUPS] = {
    {offsetof(larder_policy, hears), sizeof(larder_policy_hears)},
    {offsetof(larder_policy, brings), sizeof(larder_policy_brings)},
    {offsetof(larder_policy, lends), sizeof(larder_policy_lends)},
    {offsetof(larder_policy, shares), sizeof(larder_policy_shares)},
    {offsetof(larder_policy, shows), sizeof(larder_policy_shows)},
};

static void *group_of(const void *policy, size_t i) {
    void *group;
    memcpy(&group, (const char *)policy + groups[i].at, sizeof group);
    return group;
}

static void forget(larder_sort sort, larder_plugin *p) {
    for (size_t i = 0; p && sort == LARDER_SORT_POLICY && i < LARDER_POLICY_GROUPS; i++)
        larder__free(group_of(p, i));
    larder__free(p);
}

static larder_plugin *copy_of(const larder_registration *r) {
    larder_sort sort = (larder_sort)r->sort;
    char *copy = as_known(r->plugin, r->size, larder__sorts[sort].size);
    bool whole = copy != NULL;
    for (size_t i = 0; copy && sort == LARDER_SORT_POLICY && i < LARDER_POLICY_GROUPS; i++) {
        void *group = group_of(copy, i);
        if (group && whole)
            group = as_known(group, r->groups[i], groups[i].size);
        else
            group = NULL; /* after a failure none is left that is not ours */
        whole &= group || !group_of(copy, i);
        memcpy(copy + groups[i].at, &group, sizeof group);
    }
    if (whole)
        return (larder_plugin *)copy;
    forget(sort, (larder_plugin *)copy);
    return NULL;
}

int larder_register(const larder_registration *r) {
    if (!r || !r->plugin || r->sort >= LARDER_SORTS || r->size < sizeof(larder_plugin))
        return larder__fail(LARDER_E_ARGS,
                            "a registration names a sort and a plug-in of that sort");
    if (r->abi != LARDER_PLUGIN_ABI)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "%s \"%.40s\": made for plug-in version %u of larder, this one has %d; "
                            "compile it again with this larder's headers",
                            larder__sorts[r->sort].name, ((const larder_plugin *)r->plugin)->name,
                            r->abi, LARDER_PLUGIN_ABI);
    larder_sort sort = (larder_sort)r->sort;
    larder_plugin *copy = copy_of(r);
    if (!copy)
        return larder__fail_in(LARDER_E_UNSUPPORTED, "%s \"%.40s\"", larder__sorts[sort].name,
                               ((const larder_plugin *)r->plugin)->name);
    pthread_mutex_lock(&one_at_a_time);
    int rc = check(sort, copy);
    if (rc == 0 && (rc = larder__sorts[sort].append(copy)) < 0)
        larder__say("%s %s: more than %d of a sort", larder__sorts[sort].name, copy->name,
                    LARDER__PLUGINS_MOST);
    pthread_mutex_unlock(&one_at_a_time);
    if (rc < 0)
        forget(sort, copy);
    return rc;
}
