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

enum { MACHINES = 32, HISTORIES = 1 << 14, SAVED = 256, JOURNALS = 16, RECORDS = 1 << 13 };

static struct {
    struct {
        const larder__machine *machine;
        uint64_t history;
        const actor_process *of;
        uint32_t life; /* of that process */
        bool decides;  /* it has no bytes: what it does follows from what it hears alone */
    } of[MACHINES];
    struct {
        uint64_t history, outcome;
        uint32_t round;
    } known[HISTORIES];
    struct {
        uint64_t bytes, history;
    } saved[SAVED];
    struct { /* history[i]: of the first i records, as they lie there now */
        uint64_t generation, history[RECORDS];
    } journals[JOURNALS];
    uint32_t journal_count;
    uint32_t saves, round;
    uint64_t compared;
} t;

void twins_begin(void) {
    memset(t.of, 0, sizeof t.of);
    t.saves = t.journal_count = 0;
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
    h = larder__hash_bytes(mix(h, job << 8 | (uint32_t)o->type), w.bytes, w.size);
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
    return h | 1; /* never 0 */
}

/* Where this history is, or would be; -1: there is no room. */
static int64_t find(uint64_t history) {
    uint32_t at = (uint32_t)history & (HISTORIES - 1);
    for (uint32_t n = 0; n < HISTORIES; n++, at = (at + 1) & (HISTORIES - 1))
        if (t.known[at].round != t.round || t.known[at].history == history)
            return at;
    return -1;
}

static void compare(uint64_t history, uint64_t outcome, const larder__op *o) {
    int64_t at = find(history);
    if (at < 0)
        return;
    if (t.known[at].round != t.round)
        actors_complain("a machine has heard what never was in the journal in this order");
    else if (t.known[at].outcome == 0)
        t.known[at].outcome = outcome;
    else if (++t.compared && t.known[at].outcome != outcome)
        actors_complain("operation %d came to something else than on another machine that had "
                        "heard the same",
                        o->type);
}

static uint64_t first_history(uint64_t generation) { return mix(1, generation); }

/* A record is put into the journal, behind so many others. */
void twins_pushed(uint64_t generation, uint64_t before, const void *record, size_t n) {
    uint32_t j = 0, head;
    while (j < t.journal_count && t.journals[j].generation != generation)
        j++;
    if (j == JOURNALS || before + 1 >= RECORDS) {
        actors_complain("a schedule has more journals or records than fit here");
        return;
    }
    if (j == t.journal_count)
        t.journal_count++;
    t.journals[j].generation = generation;
    t.journals[j].history[0] = first_history(generation);
    memcpy(&head, record, sizeof head);
    uint64_t h = larder__hash_bytes(mix(t.journals[j].history[before], head),
                                    (const char *)record + 8, n - 8);
    t.journals[j].history[before + 1] = h;
    actors_log("record %llu of %llx: operation %u of job %u, %08x", (unsigned long long)before,
               (unsigned long long)generation, head & 0xff, head >> 8, (uint32_t)h);
    int64_t at = find(h);
    if (at < 0 || t.known[at].round == t.round)
        return;
    t.known[at].round = t.round;
    t.known[at].history = h;
    t.known[at].outcome = 0;
}

WRAP(int, larder__machine_apply, larder__machine *m, uint32_t job, const larder__op *o,
     larder__outcome *out) {
    int i = place_of(m);
    if (!actors_current() || i == MACHINES || !t.of[i].decides)
        return __real_larder__machine_apply(m, job, o, out);
    uint64_t history = t.of[i].history = hash_op(t.of[i].history, job, o);
    actors_log("hears operation %d of job %u, %08x", o->type, job, (uint32_t)history);
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
    if (rc < 0 || !actors_current())
        return rc;
    for (int k = 0; k < MACHINES; k++) /* of those who crashed */
        if (t.of[k].machine && t.of[k].of->lives != t.of[k].life)
            t.of[k].machine = NULL;
    int i = place_of(NULL);
    if (i == MACHINES)
        abort();
    t.of[i].machine = *out;
    t.of[i].of = actors_current();
    t.of[i].life = actors_current()->lives;
    t.of[i].decides = !conf->bytes_here;
    t.of[i].history = first_history(conf->generation);
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
