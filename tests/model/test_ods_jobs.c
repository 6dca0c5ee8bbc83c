#include "jobs_kit.h"
#include <stdio.h>
static void explore(void **st) {
    (void)st;
    const char *splits[] = {"100/0/0", "0/100/0", "58/42/0", "0/0/100", "50/20/30"};
    for (int sp = 0; sp < 5; sp++)
        for (uint32_t J = 1; J <= 4; J++)
            for (int c = 20; c <= 60; c += 20) {
                jobs_kit k;
                jobs_open(&k, 4000, c / 100.0, splits[sp], 1, (uint64_t)4000 * J * 40);
                for (uint32_t j = 0; j < J; j++)
                    jobs_join(&k, j, 64, 100 + j);
                jobs_in_step(&k, J, 1);
                jobs_reads(&k);
                jobs_in_step(&k, J, 6);
                double m = (double)k.misses / (double)k.served,
                       b = (double)k.background / (double)k.served;
                double r = jobs_reads(&k);
                double bound = sp == 3 ? 1.0 / J : (1 - (sp == 4 ? .7 : 1) * c / 100.0) / J;
                printf("%s J=%u c=%d reads %.4f (miss %.4f bg %.4f) bound %.4f ratio %.3f\n",
                       splits[sp], J, c, r, m, b, bound, r / bound);
                jobs_close(&k);
            }
}
static void starts(void **st) {
    (void)st;
    const char *splits[] = {"100/0/0", "0/0/100", "50/20/30"};
    for (int sp = 0; sp < 3; sp++)
        for (uint32_t J = 2; J <= 4; J++)
            for (int c = 20; c <= 60; c += 20) {
                double worst = 0, sum = 0;
                for (int seed = 0; seed < 5; seed++) {
                    jobs_kit k;
                    jobs_open(&k, 4000, c / 100.0, splits[sp], 1, (uint64_t)4000 * J * 60);
                    larder_rng r;
                    larder_rng_seed(&r, (uint64_t)seed, 3);
                    jobs_join(&k, 0, 64, 100);
                    uint32_t joined = 1;
                    uint32_t at[8];
                    for (uint32_t j = 1; j < J; j++)
                        at[j] = larder_rng_below(&r, 63);
                    for (uint32_t t = 0; t < 63; t++) {
                        for (uint32_t j = 1; j < J; j++)
                            if (at[j] == t) {
                                jobs_join(&k, j, 64, 100 + j);
                                joined++;
                            }
                        for (uint32_t j = 0; j < J; j++)
                            if (k.jobs[j].there)
                                jobs_step(&k, j);
                    }
                    for (int t = 0; t < 63 * 2; t++)
                        for (uint32_t j = 0; j < J; j++)
                            jobs_step(&k, j);
                    jobs_reads(&k);
                    for (int t = 0; t < 63 * 8; t++)
                        for (uint32_t j = 0; j < J; j++)
                            jobs_step(&k, j);
                    double x = jobs_reads(&k);
                    sum += x;
                    worst = x > worst ? x : worst;
                    jobs_close(&k);
                }
                double bound = sp == 1 ? 1.0 / J : (1 - (sp == 2 ? .7 : 1) * c / 100.0) / J;
                printf("random start %s J=%u c=%d mean %.4f worst %.4f bound %.4f ratio %.3f alone "
                       "%.3f\n",
                       splits[sp], J, c, sum / 5, worst, bound, sum / 5 / bound, bound * J);
            }
}
int main(void) {
    const struct CMUnitTest t[] = {cmocka_unit_test(explore), cmocka_unit_test(starts)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
