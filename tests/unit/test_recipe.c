/* Recipe texts: what their parameters go to, and what is said of those that nobody takes. */
#include "check.h"
#include "loader/draw/recipe.h"

#include <stdio.h>
#include <string.h>

static void refused(const char *text, const char *const *says) {
    larder__recipe r;
    if (larder__recipe_parse(&r, text) != LARDER_E_ARGS)
        fail_msg("\"%s\" was taken", text);
    for (; *says; says++)
        if (!strstr(larder_errmsg(), *says))
            fail_msg("\"%s\": %s\n(no \"%s\")", text, larder_errmsg(), *says);
}
#define REFUSED(text, ...) refused(text, (const char *const[]){__VA_ARGS__, NULL})

static void test_parts_share_one_text(void **st) {
    (void)st;
    larder__recipe r;
    check_ok(larder__recipe_parse(&r, "rotate:h=0.5,scoring=wait"));
    assert_true(larder_args_number(&r.sampler_args, "h") == 0.5 || /* auto makes it a text */
                strcmp(larder_args_text(&r.sampler_args, "h"), "0.5") == 0);
    assert_true(r.wait);
    larder__recipe_free(&r);
}

/* Those of all parts, whichever of them was looked at first. */
static void test_unknown_parameters(void **st) {
    (void)st;
    REFUSED("rotate:hh=1", "recipe rotate has no parameter \"hh\"", "h, ", "signal", "scoring");
    REFUSED("shade:repaet=3", "recipe shade has no parameter", "did you mean repeat?", "It has");
    REFUSED("spider:raduis=3", "recipe spider has no parameter", "did you mean radius?");
    REFUSED("minio:h=0.5", "recipe minio has no parameter \"h\"; it has sampler, policy");
    REFUSED("minio:smapler=rotate", "did you mean sampler?");
    REFUSED("minio:sampler=rotat", "did you mean rotate?");
    REFUSED("minio:plan=atuo", "is none of fixed|auto; did you mean auto?");
    REFUSED("minio:h", "recipe minio", "is not key=value");
    REFUSED("mino", "no recipe \"mino\"; did you mean minio?");
}

static void check_named(const char *recipe, const larder_param *p) {
    for (; p && p->name; p++)
        if (!strstr(larder_errmsg(), p->name) && !strstr(larder_errmsg(), "larder list shows all"))
            fail_msg("%s of %s is not named: %s", p->name, recipe, larder_errmsg());
}

static void test_every_recipe_names_what_it_takes(void **st) {
    (void)st;
    for (size_t i = 0; larder__recipes[i]; i++) {
        const larder_recipe *r = larder__recipes[i];
        const larder_signal *signal = r->signal[0] ? larder__signal_find(r->signal) : NULL;
        char text[80];
        larder__recipe parsed;
        snprintf(text, sizeof text, "%s:zebra=3", r->plugin.name);
        assert_int_equal(larder__recipe_parse(&parsed, text), LARDER_E_ARGS);
        char said[600];
        snprintf(said, sizeof said, "recipe %s has no parameter \"zebra\"; it has ",
                 r->plugin.name);
        assert_memory_equal(larder_errmsg(), said, strlen(said));
        check_named(r->plugin.name, larder__sampler_find(r->sampler)->plugin.params);
        check_named(r->plugin.name, larder__policy_find(r->policy)->plugin.params);
        check_named(r->plugin.name, signal ? signal->plugin.params : NULL);
        check_named(r->plugin.name, larder__recipe_params);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_share_one_text),
        cmocka_unit_test(test_unknown_parameters),
        cmocka_unit_test(test_every_recipe_names_what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
