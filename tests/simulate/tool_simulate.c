/* Plays schedules of the made world:
 *
 *     tool_simulate [daemon|group|ranks|far|disk|below|all] [FIRST-LAST | COUNT] [without=BITS]
 * [players=N] [broken=NAME] [tell]
 *
 * A seed that fails is said with the line that repeats it, made as short as it gets. */
#include "schedule.h"
#include "worlds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECONDS_MOST = 60 }; /* of CPU time, of a schedule: most take a few milliseconds */

typedef struct sums {
    uint64_t schedules, failed;
    schedule_result of;
    double seconds;
} sums;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void add(sums *s, const schedule_result *r) {
    s->schedules++;
    s->of.steps += r->steps;
    s->of.mishaps += r->mishaps;
    s->of.served += r->served;
    s->of.hits += r->hits;
    s->of.made += r->made;
    s->of.waited += r->waited;
    s->of.taken_over += r->taken_over;
    s->of.alone += r->alone;
    s->of.stuck += r->stuck;
    s->of.epochs += r->epochs;
    s->of.compared += r->compared;
    s->of.below += r->below;
    s->of.laid += r->laid;
    s->of.unwanted += r->unwanted;
    s->of.pieces += r->pieces;
    s->of.shown += r->shown;
    s->of.shared += r->shared;
    s->of.seconds += r->seconds;
}

static const char *program;

static void complain(schedule_conf c, schedule_result r) {
    printf("FAILED %s %llu: %s\n", schedule_names[c.kind], (unsigned long long)c.seed, r.complaint);
    schedule_shrink(&c, &r);
    printf("  shorter (%llu steps, %llu mishaps): %s\n", (unsigned long long)r.steps,
           (unsigned long long)r.mishaps, r.complaint);
    printf("  again: %s %s %llu-%llu without=%u players=%u%s%s tell\n", program,
           schedule_names[c.kind], (unsigned long long)c.seed, (unsigned long long)c.seed,
           c.without, c.players, broken ? " broken=" : "", broken ? broken : "");
    fflush(stdout);
}

static void show(const char *name, const sums *s) {
    printf(
        "%s: %llu schedules, %llu failed, %.0f a CPU second; %llu steps, %llu mishaps, %.1f days; "
        "%llu epochs, %llu samples, %llu from the cache, %llu from below, %llu read, %llu waited "
        "for, "
        "%llu taken over, %llu without the cache, %llu stuck; %llu decisions compared; of other "
        "users %llu laid, %llu too late, %llu in pieces, "
        "%llu shown, %llu schedules shared\n",
        name, (unsigned long long)s->schedules, (unsigned long long)s->failed,
        (double)s->schedules / s->seconds, (unsigned long long)s->of.steps,
        (unsigned long long)s->of.mishaps, s->of.seconds / 86400, (unsigned long long)s->of.epochs,
        (unsigned long long)s->of.served, (unsigned long long)s->of.hits,
        (unsigned long long)s->of.below, (unsigned long long)s->of.made,
        (unsigned long long)s->of.waited, (unsigned long long)s->of.taken_over,
        (unsigned long long)s->of.alone, (unsigned long long)s->of.stuck,
        (unsigned long long)s->of.compared, (unsigned long long)s->of.laid,
        (unsigned long long)s->of.unwanted, (unsigned long long)s->of.pieces,
        (unsigned long long)s->of.shown, (unsigned long long)s->of.shared);
}

/* False: it is none of them. */
static bool choose(bool of[SCHEDULE_KINDS], const char *name) {
    bool any = false;
    for (int k = 0; k < SCHEDULE_KINDS; k++)
        any |= of[k] = strcmp(name, "all") == 0 || strcmp(name, schedule_names[k]) == 0;
    return any;
}

int main(int argc, char **argv) {
    program = argv[0];
    uint64_t first = 1, last = 1000, failed = 0;
    schedule_conf conf = {0};
    bool of[SCHEDULE_KINDS], tell = false;
    for (int k = 0; k < SCHEDULE_KINDS; k++)
        of[k] = true;
    for (int i = 1; i < argc; i++) {
        char *dash = strchr(argv[i], '-');
        if (strncmp(argv[i], "without=", 8) == 0)
            conf.without = (uint32_t)strtoul(argv[i] + 8, NULL, 10);
        else if (strncmp(argv[i], "players=", 8) == 0)
            conf.players = (uint32_t)strtoul(argv[i] + 8, NULL, 10);
        else if (strncmp(argv[i], "broken=", 7) == 0)
            broken = argv[i] + 7;
        else if (strcmp(argv[i], "tell") == 0)
            tell = true;
        else if (argv[i][0] >= '0' && argv[i][0] <= '9') {
            first = dash ? strtoull(argv[i], NULL, 10) : 1;
            last = strtoull(dash ? dash + 1 : argv[i], NULL, 10);
        } else if (!choose(of, argv[i])) {
            fprintf(stderr, "%s: there is no world \"%s\"\n", program, argv[i]);
            return 2;
        }
    }
    if (first > last) {
        fprintf(stderr, "%s: no seeds from %llu to %llu\n", program, (unsigned long long)first,
                (unsigned long long)last);
        return 2;
    }
    schedule_watch(program, SECONDS_MOST);
    for (int k = 0; k < SCHEDULE_KINDS; k++) {
        sums s = {0};
        double began = now();
        conf.kind = (schedule_kind)k;
        for (uint64_t seed = first; of[k] && seed <= last; seed++) {
            schedule_result r;
            conf.seed = seed;
            if (tell)
                schedule_tell(&conf);
            if (!schedule_run(&conf, &r)) {
                s.failed++;
                complain(conf, r);
            }
            add(&s, &r);
            if (s.failed >= 5)
                break;
        }
        s.seconds = now() - began;
        if (of[k])
            show(schedule_names[k], &s);
        failed += s.failed;
    }
    return failed ? 1 : 0;
}
