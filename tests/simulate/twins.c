/* Machines that have heard the same words have come to the same, whoever runs them and however they
 * got there: every operation that any machine of the world is fed with goes through here, and what
 * it came to is compared with what another machine came to after the same history. A machine that
 * starts from a snapshot has the history of the one that saved it. */
#include "actors.h"
#include "base/hash.h"
#include "shared/machine.h"
#include "worlds.h"

#include <stdlib.h>
#include <string.h>

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

enum { MACHINES = 32, HISTORIES = 1 << 14, SAVED = 256 };

static struct {
    struct {
        const larder__machine *machine;
        uint64_t history;
        bool decides; /* it has no bytes: what it does follows from what it hears alone */
    } of[MACHINES];
    struct {
        uint64_t history, outcome;
        uint32_t round;
    } known[HISTORIES];
    struct {
        uint64_t bytes, history;
    } saved[SAVED];
    uint32_t saves, round;
    uint64_t compared;
} t;

void twins_begin(void) {
    memset(t.of, 0, sizeof t.of);
    t.saves = 0;
    t.compared = 0;
    t.round++;
}

uint64_t twins_compared(void) { return t.compared; }

static int place_of(const larder__machine *m) {
    int i = 0;
    while (i < MACHINES && t.of[i].machine != m)
        i++;
    return i;
}

static uint64_t mix(uint64_t h, uint64_t x) { return larder__hash_bytes(h, &x, sizeof x); }

static uint64_t hash_op(uint64_t h, uint32_t job, const larder__op *o) {
    larder_writer w = {0};
    larder__op_write(o, &w);
    h = larder__hash_bytes(mix(h, (uint64_t)job << 8 | o->type), w.bytes, w.size);
    larder__writer_free(&w);
    return h;
}

static uint64_t hash_outcome(larder__machine *m, int rc, const larder__outcome *o) {
    uint64_t h = mix((uint64_t)(unsigned)rc, o->rows << 32 | o->fetched);
    const larder_slots *s = larder__cache_slots(larder__machine_cache(m));
    for (size_t i = 0; o->keys && i < o->rows && !o->tickets; i++)
        h = mix(h, o->keys[i]);
    for (size_t i = 0; rc == 0 && o->tickets && i < o->fetched + o->rows; i++) {
        const larder__ticket *k = &o->tickets[i];
        h = mix(h, k->key << 16 | (uint64_t)k->kind << 8 | k->kept);
        h = mix(h, k->kept ? k->mark : 0);
    }
    for (size_t i = 0; i < o->left_count; i++)
        h = mix(mix(h, o->left[i].key), o->left[i].mark);
    h = mix(mix(h, s->bytes), s->resident);
    for (uint32_t k = 0; k < played.keys; k++)
        h = mix(h, s->slot_of[k]);
    return h;
}

static void compare(uint64_t history, uint64_t outcome, const larder__op *o) {
    uint32_t at = (uint32_t)history & (HISTORIES - 1);
    for (uint32_t n = 0; n < HISTORIES; n++, at = (at + 1) & (HISTORIES - 1)) {
        if (t.known[at].round != t.round) {
            t.known[at].round = t.round;
            t.known[at].history = history;
            t.known[at].outcome = outcome;
            return;
        }
        if (t.known[at].history != history)
            continue;
        t.compared++;
        if (t.known[at].outcome != outcome)
            actors_complain("operation %d came to something else than on another machine that had "
                            "heard the same",
                            o->type);
        return;
    }
}

WRAP(int, larder__machine_apply, larder__machine *m, uint32_t job, const larder__op *o,
     larder__outcome *out) {
    int i = place_of(m);
    if (!actors_current() || i == MACHINES || !t.of[i].decides)
        return __real_larder__machine_apply(m, job, o, out);
    uint64_t history = t.of[i].history = hash_op(t.of[i].history, job, o);
    int rc = __real_larder__machine_apply(m, job, o, out);
    larder__outcome seen = *out;
    bool batch = o->type == LARDER__OP_CLAIM || o->type == LARDER__OP_EXCHANGE;
    seen.tickets = batch ? out->tickets : NULL;
    compare(history, hash_outcome(m, rc, &seen), o);
    const larder_slots *s = larder__cache_slots(larder__machine_cache(m));
    if (s->bytes > s->budget)
        actors_complain("the group holds %llu bytes of a budget of %llu",
                        (unsigned long long)s->bytes, (unsigned long long)s->budget);
    return rc;
}

WRAP(int, larder__machine_open, larder__machine **out, const larder__machine_conf *conf) {
    int rc = __real_larder__machine_open(out, conf);
    int i = place_of(NULL);
    if (rc < 0 || !actors_current())
        return rc;
    if (i == MACHINES)
        abort();
    t.of[i].machine = *out;
    t.of[i].decides = !conf->bytes_here;
    t.of[i].history = mix(mix(conf->generation, conf->about->budget), conf->about->seed);
    return rc;
}

WRAP(void, larder__machine_close, larder__machine **m) {
    int i = *m ? place_of(*m) : MACHINES;
    if (i < MACHINES)
        t.of[i].machine = NULL;
    __real_larder__machine_close(m);
}

WRAP(void, larder__machine_save, larder__machine *m, larder_writer *w) {
    int i = place_of(m);
    size_t from = w->size;
    __real_larder__machine_save(m, w);
    if (i == MACHINES || !actors_current())
        return;
    uint32_t at = t.saves++ % SAVED;
    t.saved[at].bytes = larder__hash_bytes(1, w->bytes + from, w->size - from);
    t.saved[at].history = t.of[i].history;
}

WRAP(int, larder__machine_load, larder__machine *m, larder_reader *r) {
    int i = place_of(m);
    uint64_t bytes = larder__hash_bytes(1, r->at, (size_t)(r->end - r->at));
    if (i < MACHINES && actors_current()) {
        t.of[i].decides = false; /* unless somebody is known to have saved this */
        for (uint32_t k = 0; k < t.saves && k < SAVED; k++)
            if (t.saved[k].bytes == bytes) {
                t.of[i].history = t.saved[k].history;
                t.of[i].decides = true;
            }
        if (!t.of[i].decides)
            actors_complain("a snapshot is loaded that nobody has saved");
    }
    return __real_larder__machine_load(m, r);
}

/* A snapshot every 32 records instead of 512: schedules are short. */
WRAP(uint64_t, larder__journal_since_snapshot, const void *j) {
    uint64_t n = __real_larder__journal_since_snapshot(j);
    return actors_current() && n < (UINT64_MAX >> 4) ? n * 16 : n;
}
