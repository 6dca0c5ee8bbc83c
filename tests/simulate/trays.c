/* What jobs of other users hand over, in the made world. Their trays begin a little before the end
 * and before counts overflow, and hold little, so that entries go round it and some find no room;
 * what comes through is counted, and a few versions of it are broken on purpose. */
#include "descriptors.h"
#include "unix/lent_memory.h"
#include "unix/served_set_inside.h"
#include "worlds.h"

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

enum { LINES_TO_END = 6, LINE = 64, ROOM = 512 };

trays_figures trays;

/* The job's count begins there too, once it has seen the mark. */
WRAP(int, larder__served_tray, larder__served *s, uint32_t number) {
    int fd = __real_larder__served_tray(s, number);
    larder__served_job *j = &s->jobs[number];
    if (fd >= 0 && actors_current()) {
        j->taken = 0u - LINES_TO_END * LINE;
        atomic_store(&j->tray->taken, j->taken);
        j->tray->rest[0] = 1;
    }
    return fd;
}

WRAP(bool, larder__tray_lay, larder__tray *t, uint32_t *laid, const void *from, uint32_t n) {
    if (actors_current()) {
        if (t->rest[0])
            *laid = atomic_load(&t->taken);
        t->rest[0] = 0;
        if (*laid - atomic_load(&t->taken) + n > ROOM)
            return false;
    }
    return __real_larder__tray_lay(t, laid, from, n);
}

/* "tray": those who wait are told before the bytes lie there.
 * "unwanted": what nobody wants any more stays where it is.
 * "endless": it never comes back. */
WRAP(void, larder__tray_take, larder__tray *t, uint32_t *taken, void *to, uint32_t n) {
    *(to ? &trays.laid : &trays.unwanted) += 1;
    for (volatile bool ever = true; ever && broken_is("endless");) {
    }
    if (to && broken_is("tray")) {
        _Atomic uint32_t *state = &((larder__block_head *)to - 1)->state;
        atomic_store(state, LARDER__BLOCK_FULL);
        larder__word_wake(state);
        actors_sleep(actors_now() + 1e-4);
    }
    if (to || !broken_is("unwanted"))
        __real_larder__tray_take(t, taken, to, n);
}

WRAP(int, larder__served_bytes, larder__served *s, uint32_t number, larder_reader *r) {
    trays.pieces++;
    return __real_larder__served_bytes(s, number, r);
}

/* "views": what is to be read alone can be written. */
WRAP(int, larder__lent_view, int fd) {
    return broken_is("views") ? descriptor_again(fd, false) : __real_larder__lent_view(fd);
}
