/* Joining a group, and the talk with its journal. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "redis/group_inside.h"

#include <math.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS

static const double RETRY_FIRST = 0.5, RETRY_MOST = 10; /* seconds between two attempts to join */
enum { SNAPSHOT_EVERY = 512 }; /* records, or more where there is more to save */

/* ---- records to send ------------------------------------------------------------------------- */

void larder__group_note_down(larder__doomed **list, size_t *count, size_t *cap,
                             const larder__doomed *one) {
    if (*count == *cap) {
        size_t room = *cap ? 2 * *cap : 256;
        larder__doomed *more = larder__realloc(*list, room * sizeof *more);
        if (!more)
            return; /* Redis forgets it after a while */
        *list = more;
        *cap = room;
    }
    (*list)[(*count)++] = *one;
}

larder_writer *larder__group_begin(larder__group *g, larder__rec_type type) {
    larder__record_head(&g->queue, type, g->job, ++g->number);
    return &g->queue;
}

void larder__group_end(larder__group *g) { g->ends[g->queued++] = g->queue.size; }

static void queue_clear(larder__group *g) {
    g->queue.size = 0;
    g->queue.code = 0;
    g->queued = 0;
}

void larder__group_queue_made(larder__group *g) {
    pthread_mutex_lock(&g->lists);
    if (g->made_count) {
        larder_writer *w = larder__group_begin(g, LARDER__REC_MADE);
        for (size_t i = 0; i < g->made_count; i++) {
            larder_write_u32(w, (uint32_t)g->made[i].key);
            larder_write_u64(w, g->made[i].mark);
            larder__group_note_down(&g->told, &g->told_count, &g->told_cap, &g->made[i]);
        }
        larder__group_end(g);
    }
    g->made_count = 0;
    pthread_mutex_unlock(&g->lists);
}

void larder__group_queue_epoch(larder__group *g) {
    larder_writer *w = larder__group_begin(g, LARDER__REC_EPOCH);
    larder_write_u64(w, g->epoch);
    if (g->seen)
        larder_write_bytes(w, g->seen, larder__group_seen_words(g) * sizeof *g->seen);
    larder__group_end(g);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void lose(larder__group *g) {
    if (!g->replica)
        return;
    pthread_mutex_lock(&g->state);
    larder__replica_close(&g->replica);
    pthread_mutex_unlock(&g->state);
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    queue_clear(g);
    g->rows = g->fetched = g->picked = g->pick_at = g->key_count = 0;
    g->doomed_count = g->doomed_old = g->told_count = 0;
    g->retry_at = larder__now() + RETRY_FIRST;
    g->retry_after = RETRY_FIRST;
}

/* Whoever evicts a value deletes it. */
static void doom(larder__group *g, const larder__replica *r, const larder__outcome *o) {
    bool ours = o->for_all ? larder__replica_first(r, g->job) : o->job == g->job;
    for (size_t i = 0; ours && i < o->doomed_count; i++)
        larder__group_note_down(&g->doomed, &g->doomed_count, &g->doomed_cap, &o->doomed[i]);
}

static void drop(larder__group *g, const larder__doomed *d) {
    larder__far_drop(g->far, &(larder__value){.id = d->key, .mark = d->mark, .form = d->form});
}

/* A value may have left while it was written, and then it came after its deletion. All that has
 * happened until we told of it is known now: who has left by then is deleted here, who leaves later
 * by whoever evicts it. */
static void drop_late(larder__group *g) {
    for (size_t i = 0; g->replica && i < g->told_count; i++)
        if (!g->told[i].brief &&
            !larder__replica_holds(g->replica, g->told[i].key, g->told[i].mark))
            drop(g, &g->told[i]);
    g->told_count = 0;
}

/* Values that left before the last question: whoever was promised them has asked by now. */
void larder__group_delete(larder__group *g) {
    for (size_t i = 0; i < g->doomed_old; i++)
        drop(g, &g->doomed[i]);
    if (g->doomed_old)
        memmove(g->doomed, g->doomed + g->doomed_old,
                (g->doomed_count - g->doomed_old) * sizeof *g->doomed);
    g->doomed_count -= g->doomed_old;
    g->doomed_old = g->doomed_count;
}

/* What our own record came to. */
static int keep_outcome(larder__group *g, const larder__outcome *o) {
    size_t n = o->rows + o->fetched;
    if (o->type == LARDER__REC_CLAIM || o->type == LARDER__REC_EXCHANGE) {
        if (n > g->answer_room) {
            larder__ticket *more = larder__realloc(g->answers, n * sizeof *more);
            if (!more)
                return LARDER_E_NOMEM;
            g->answers = more;
            g->answer_room = n;
        }
        if (n)
            memcpy(g->answers, o->tickets, n * sizeof *g->answers);
        g->rows = o->rows;
        g->fetched = o->fetched;
    } else if (o->type == LARDER__REC_PICKS) {
        g->picked = o->rows < LARDER__PICKS_AT_ONCE ? o->rows : LARDER__PICKS_AT_ONCE;
        g->pick_at = 0;
        memcpy(g->picks, o->keys, g->picked * sizeof *g->picks);
        memcpy(g->shares, o->shares, g->picked * sizeof *g->shares);
    } else if (o->type == LARDER__REC_FETCH) {
        g->key_count = o->rows;
        uint64_t *more = larder__realloc(g->keys, (o->rows + 1) * sizeof *more);
        if (!more)
            return LARDER_E_NOMEM;
        g->keys = more;
        memcpy(g->keys, o->keys, o->rows * sizeof *more);
    }
    return 0;
}

static int apply_all(larder__group *g, larder__replica *r, const larder__history *h) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < h->count; i++) {
        larder__outcome o;
        rc = larder__replica_apply(r, h->records[i].bytes, h->records[i].size, &o);
        if (rc < 0)
            break;
        doom(g, r, &o);
        if (o.job == g->job && o.number == g->number && o.type > LARDER__REC_LEAVE)
            rc = keep_outcome(g, &o);
    }
    return rc;
}

/* What has to agree, as one number. */
static uint64_t core_of(const larder__agreement *a) {
    const uint64_t about[] = {a->keys, a->forms_id};
    return larder__hash_bytes(larder__hash_bytes(1, about, sizeof about), a->policy,
                              strlen(a->policy));
}

static int disagree(const larder__group *g, const larder__agreement *agreed) {
    if (agreed->keys != g->mine.keys || agreed->forms_id != g->mine.forms_id)
        return larder__fail(LARDER_E_ARGS, "the jobs of this group train on something else: name "
                                           "another group in shared=");
    return larder__fail(LARDER_E_ARGS,
                        "this group's cache is ruled by %.60s, not by %.60s: name another group in "
                        "shared=",
                        agreed->policy, g->mine.policy);
}

static void say_budget(const larder__group *g, const larder__agreement *agreed) {
    char holds[32], wants[32];
    if (agreed->budget != g->mine.budget)
        larder__note(g->stats,
                     "this group's cache in Redis holds %s, as the job asked that came first, and "
                     "not the %s that this one asks for",
                     larder__print_bytes((double)agreed->budget, holds),
                     larder__print_bytes((double)g->mine.budget, wants));
}

/* Comes to where the group is: what it has saved, and what happened since. */
static int catch_up(larder__group *g, larder__replica *fresh, const larder__history *h) {
    int rc = 0;
    if (h->snapshot_size) {
        larder_reader in = {.at = h->snapshot,
                            .end = (const unsigned char *)h->snapshot + h->snapshot_size};
        rc = larder__replica_load(fresh, &in);
    }
    return rc == 0 ? apply_all(g, fresh, h) : rc;
}

static int join_once(larder__group *g, larder__replica **fresh, larder__membership *joined) {
    larder__agreement agreed = {0};
    larder_writer mine = {0};
    larder__agreement_write(&g->mine, &mine);
    int rc = mine.code < 0
                 ? mine.code
                 : larder__journal_join(g->journal, g->again, &mine, core_of(&g->mine), joined);
    larder__writer_free(&mine);
    bool heard = rc == 0 || rc == LARDER_E_ARGS;
    if (heard && joined->agreement.at) {
        int read = larder__agreement_read(&agreed, &joined->agreement);
        rc = read < 0 ? read : rc == LARDER_E_ARGS ? disagree(g, &agreed) : 0;
    }
    g->job = joined->job;
    g->replica_conf.agreement = &agreed;
    g->replica_conf.generation = joined->generation;
    if (rc == 0)
        rc = larder__replica_open(fresh, &g->replica_conf);
    if (rc == 0)
        say_budget(g, &agreed);
    if (rc == 0)
        rc = catch_up(g, *fresh, &joined->history);
    if (rc < 0) {
        larder__replica_close(fresh);
        memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    }
    if (rc == LARDER_E_FORMAT) /* agreement, snapshot or records */
        larder__journal_condemn(g->journal);
    return rc;
}

/* Whoever begins a generation sees to what the one before has left. */
static void begin_anew(larder__group *g, larder__began began) {
    if (began == LARDER__WAS_THERE || (began == LARDER__BEGAN && !g->again))
        return; /* it was there, or never was */
    larder__group_count(g, g->renewed);
    larder__far_say(g->far, "the group's keys in Redis were gone or damaged (evicted, deleted, "
                            "cut): it has begun anew");
    larder__far_sweep(g->far, LARDER__MARK_GENERATION, g->replica_conf.generation);
}

int larder__group_join(larder__group *g) {
    larder__replica *fresh = NULL;
    larder__membership joined = {0};
    int rc = LARDER_E_FORMAT;
    for (int tries = 0; tries < 3 && rc == LARDER_E_FORMAT; tries++)
        rc = join_once(g, &fresh, &joined);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&g->state);
    g->replica = fresh;
    pthread_mutex_unlock(&g->state);
    begin_anew(g, joined.began);
    queue_clear(g);
    g->doomed_count = g->doomed_old = 0; /* whoever wrote those deletes them */
    g->streaming = larder__replica_stream(g->replica, &g->stream);
    if (!g->streaming) {
        larder_writer *w = larder__group_begin(g, LARDER__REC_STREAM);
        larder_write_u64(w, g->mine.seed);
        larder_write_u64(w, 0);
        larder_write_u64(w, 0);
        larder__group_end(g);
    }
    if (g->epoch_begun)
        larder__group_queue_epoch(g);
    pthread_mutex_lock(&g->lists);
    g->made_count = 0;
    pthread_mutex_unlock(&g->lists);
    g->again = true;
    g->retry_after = RETRY_FIRST;
    if (g->stats)
        larder__stat_add(g->stats, g->joined, 1);
    return 0;
}

/* Is there a group to ask? Looks for it now and then, and only where Redis is there. */
static bool there(larder__group *g) {
    if (g->replica && larder__far_away(g->far)) {
        lose(g);
        return false;
    }
    if (g->replica)
        return true;
    if (larder__now() < g->retry_at || larder__far_away(g->far))
        return false;
    if (larder__group_join(g) == 0)
        return true;
    larder__far_say(g->far, larder_errmsg());
    double after = fmax(g->retry_after, RETRY_FIRST);
    g->retry_at = larder__now() + after;
    g->retry_after = fmin(after * 2, RETRY_MOST);
    return false;
}

static void save_now_and_then(larder__group *g) {
    uint64_t every = g->mine.keys / 64 > SNAPSHOT_EVERY ? g->mine.keys / 64 : SNAPSHOT_EVERY;
    if (larder__journal_since_snapshot(g->journal) < every ||
        !larder__replica_first(g->replica, g->job))
        return;
    larder_writer w = {0};
    larder__replica_save(g->replica, &w);
    if (larder__journal_snapshot(g->journal, &w) < 0)
        lose(g);
    larder__writer_free(&w);
}

/* Sends what is queued, of which the last is the question, and hears what came of it. */
bool larder__group_step(larder__group *g) {
    larder__record records[8];
    larder__history h;
    for (size_t i = 0; i < g->queued; i++) {
        size_t from = i ? g->ends[i - 1] : 0;
        records[i] = (larder__record){g->queue.bytes + from, g->ends[i] - from};
    }
    int rc = g->queue.code;
    if (rc == 0)
        rc = larder__journal_step(g->journal, records, g->queued, &h);
    queue_clear(g);
    larder__group_delete(g);
    if (rc == 0) {
        pthread_mutex_lock(&g->state);
        rc = apply_all(g, g->replica, &h);
        pthread_mutex_unlock(&g->state);
    }
    if (rc == 0)
        drop_late(g);
    if (rc < 0) {
        larder__far_say(g->far, larder_errmsg());
        if (rc == LARDER_E_FORMAT)
            larder__journal_condemn(g->journal);
        lose(g);
        /* It is there, but without us, or makes no sense: join again at once. */
        if (rc == LARDER_E_CHANGED || rc == LARDER_E_FORMAT)
            g->retry_at = 0;
        return false;
    }
    save_now_and_then(g);
    return g->replica != NULL;
}

/* Asks; where the group has gone on without us, once more. `question` writes the record. */
bool larder__group_ask(larder__group *g, void (*question)(larder__group *, const void *, size_t),
                       const void *arg, size_t n) {
    for (int tries = 0; tries < 2; tries++) {
        if (!there(g))
            return false;
        question(g, arg, n);
        if (larder__group_step(g))
            return true;
    }
    return false;
}

/* A word that needs no answer goes with the next question, or at once where many have come. */
bool larder__group_room(larder__group *g) {
    if (!g->replica)
        return false;
    if (g->queued >= 5)
        larder__group_step(g);
    return g->replica != NULL;
}
#endif
