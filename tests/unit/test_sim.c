/* The simulator says what a real run does: for the same seed, the loader's ledger is the same. */
#include "loader_kit.h"

#include "plugins.h"
#include "sim/sim.h"

#include <stdio.h>

#define SOURCE "mem:?n=500&h=8&w=8&c=3"
enum { EPOCHS = 4 };

static void same_figures(const char *recipe) {
    larder__sim_conf sim = {.recipe = recipe,
                            .cache = "30%",
                            .data = SOURCE,
                            .epochs = EPOCHS,
                            .batch = 16,
                            .seed = 7,
                            .size = 192};
    larder__sim_result said;
    check_ok(larder__sim_run(&sim, &said));
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.threads = 3;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    uint64_t digests[256];
    kit_run(l, digests, 256);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures real = {.size = sizeof real};
        check_ok(larder_loader_figures(l, e, &real));
        const larder_figures *f = &said.epochs[e];
        if (real.hits != f->hits || real.misses != f->misses || real.repeats != f->repeats ||
            real.substitutes != f->substitutes || real.storage_bytes != f->storage_bytes ||
            real.background_reads != f->background_reads || real.served != f->served ||
            real.touched != f->touched)
            fail_msg("%s, epoch %d: %d hits in the loader, %d in the simulator", recipe, (int)e,
                     (int)real.hits, (int)f->hits);
    }
    larder_loader_close(&l);
    larder__sim_free(&said);
}

static void the_simulator_is_right(void **state) {
    (void)state;
    char recipe[96];
    for (size_t i = 0; larder__policies[i]; i++)
        if (larder__policies[i]->future != LARDER_FUTURE_ALL) {
            const char *samplers[] = {"uniform", "quiver", "rotate,h=0.5", "echo",
                                      "blocks,block=2KiB"};
            for (int k = 0; k < 5;
                 k++) { /* h=auto would follow the clock, and it knows no classes */
                snprintf(recipe, sizeof recipe, "lru:policy=%s,sampler=%s",
                         larder__policies[i]->plugin.name, samplers[k]);
                same_figures(recipe);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_simulator_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
