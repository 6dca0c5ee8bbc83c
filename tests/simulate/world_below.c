/* A daemon and jobs that attach to it, with a disk below: whoever has to make a value looks for it
 * there before it asks storage. */
#include "world_disk.h"

/* The folder is the daemon's user's: others have none. */
static int open_below(larder__disk **out, uint32_t number) {
    *out = NULL;
    return played.users[number] == PLAY_OWN_USER ? world_disk_open(out, number) : 0;
}

static void begin(void) {
    world_disk_begin();
    played.sets = 1; /* of jobs that share */
    world_daemon.begin();
    played.open_below = open_below;
}

static void heal(void) {
    world_daemon.heal();
    world_disk_heal();
}

static void check(void) {
    world_daemon.check();
    world_disk_check();
}

static void ending(void) {
    world_daemon.ending();
    world_disk_ending();
}

static void back(const mishap *m) { world_daemon.back(m); }

static void server_back(void *arg) {
    if (!actors_process(WORLD_SERVER)->alive)
        back(arg);
}

static void happen(uint32_t own, const mishap *m) {
    world_disk_happen(own, m);
    fate_later(m->seconds, server_back, NULL); /* if the power was cut */
}

const world world_below = {.name = "below",
                           .large = true,
                           .slow = 4,
                           .own = WORLD_DISK_MISHAPS,
                           .own_names = world_disk_mishaps,
                           .play = player_main,
                           .begin = begin,
                           .happen = happen,
                           .back = back,
                           .heal = heal,
                           .check = check,
                           .ending = ending,
                           .end = world_disk_end};
