/* The list of all plug-ins: found by name, and a near miss gets a hint. */
#include "check.h"
#include "plugins.h"

#include <string.h>

static void check_hint(const char *wrong, const char *hint) {
    assert_null(larder__policy_find(wrong));
    if (!strstr(larder_errmsg(), hint))
        fail_msg("\"%s\" says: %s", wrong, larder_errmsg());
    assert_non_null(strstr(larder_errmsg(), "lru, minio"));
}

static void test_misspelled(void **st) {
    (void)st;
    check_hint("lur", "did you mean lru?");
    check_hint("beladdy", "did you mean belady?");
    check_hint("seive", "did you mean sieve?");
    check_hint("LRU", "no policy \"LRU\"");
    assert_null(larder__sampler_find("unifrom"));
    assert_non_null(strstr(larder_errmsg(), "did you mean uniform?"));
    assert_null(larder__signal_find("lose"));
    assert_non_null(strstr(larder_errmsg(), "did you mean loss?"));
}

static void test_nothing_near(void **st) {
    (void)st;
    const char *far[] = {"something else", "a name much longer than any that there can ever be"};
    for (int i = 0; i < 2; i++) {
        assert_null(larder__policy_find(far[i]));
        assert_null(strstr(larder_errmsg(), "did you mean"));
    }
    assert_null(larder__policy_find(""));
    larder_recipe space;
    assert_null(larder__recipe_find("no such recipe", &space));
    assert_non_null(strstr(larder_errmsg(), "quiver"));
}

static void test_recipes(void **st) {
    (void)st;
    larder_recipe space;
    for (size_t i = 0; larder__policies[i]; i++) { /* every policy is a recipe, or has one */
        const larder_recipe *r = larder__recipe_find(larder__policies[i]->plugin.name, &space);
        assert_non_null(r);
        assert_string_equal(r->policy, larder__policies[i]->plugin.name);
        if (r == &space)
            assert_string_equal(r->sampler, "uniform");
    }
    for (size_t i = 0; larder__recipes[i]; i++) { /* and what a recipe names is there */
        const larder_recipe *r = larder__recipes[i];
        assert_ptr_equal(larder__recipe_find(r->plugin.name, &space), r);
        assert_non_null(larder__policy_find(r->policy));
        assert_non_null(larder__sampler_find(r->sampler));
        if (r->signal[0])
            assert_non_null(larder__signal_find(r->signal));
    }
}

static void check_plugin(const larder_plugin *p) {
    assert_true(p->name && p->name[0] && p->summary && p->summary[0]);
    assert_int_equal(strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(p->name));
    assert_null(strchr(p->summary, '\n'));
    for (const larder_param *q = p->params; q && q->name; q++)
        assert_true(q->type && q->initial && q->help && q->help[0]);
}

static void test_described(void **st) {
    (void)st;
    for (size_t i = 0; larder__policies[i]; i++)
        check_plugin(&larder__policies[i]->plugin);
    for (size_t i = 0; larder__samplers[i]; i++)
        check_plugin(&larder__samplers[i]->plugin);
    for (size_t i = 0; larder__signals[i]; i++)
        check_plugin(&larder__signals[i]->plugin);
    for (size_t i = 0; larder__sources[i]; i++)
        check_plugin(&larder__sources[i]->plugin);
}

/* Observing in two halves: all of them are there, and none of what cannot go with them. */
static void test_signals(void **st) {
    (void)st;
    for (size_t i = 0; larder__signals[i]; i++) {
        const larder_signal *s = larder__signals[i];
        assert_int_equal(!s->observe, s->prepare != NULL);
        assert_int_equal(!s->prepare, !s->apply);
        assert_int_equal(!s->prepare, !s->result_size);
        assert_int_equal(!s->prepare, !s->check);
        assert_false(s->prepare && s->epoch);
        assert_int_equal(!s->save, !s->load);
        assert_int_equal(!s->figures, !s->figure);
        size_t n = 0;
        for (; s->figures && s->figures[n].name; n++)
            assert_true(s->figures[n].unit && s->figures[n].help);
        assert_true(n <= LARDER_FIGURES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misspelled), cmocka_unit_test(test_nothing_near),
        cmocka_unit_test(test_recipes),    cmocka_unit_test(test_described),
        cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
