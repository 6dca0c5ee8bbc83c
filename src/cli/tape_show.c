#include "cli/tape_show.h"

#include "base/escape.h"
#include "base/spec.h"

#include <math.h>
#include <stdio.h>

void larder__tape_print(const larder__tape *t, const larder__feed_rates *r) {
    const larder__tape_job *j = &t->job;
    char all[32], each[32], rate[32];
    fputs("recorded: ", stdout);
    larder__shown_print(stdout, j->source);
    printf(", %llu samples, %s, batches of %llu, seed %llu; recipe ",
           (unsigned long long)j->samples, larder__print_bytes((double)j->payload, all),
           (unsigned long long)j->batch, (unsigned long long)j->seed);
    larder__shown_print(stdout, j->recipe);
    fputs(", cache ", stdout);
    larder__shown_print(stdout, j->cache);
    printf("\n          %llu epochs, %llu batches, %llu losses; larder ",
           (unsigned long long)t->epoch_count, (unsigned long long)t->count,
           (unsigned long long)t->losses);
    larder__shown_print(stdout, j->version);
    fputs(" on ", stdout);
    larder__shown_print(stdout, j->machine);
    putchar('\n');
    if (isfinite(r->bytes_per_second))
        printf("measured: storage gave %s/s, %.1f us for a sample of %s;",
               larder__print_bytes(r->bytes_per_second, rate), 1e6 * r->read_seconds,
               larder__print_bytes(r->bytes_per_second * r->read_seconds, each));
    else
        printf("measured: storage was not asked for anything;");
    if (isfinite(r->step_seconds))
        printf(" training took %.1f us for one\n", 1e6 * r->step_seconds);
    else
        printf(" training was not measured\n");
    if (j->parts)
        printf("          samples were read in parts; a replay reads them whole\n");
}
