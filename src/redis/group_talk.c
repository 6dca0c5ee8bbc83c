/* Joining a group, and the talk with its journal. */
#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "redis/group_inside.h"

#include <math.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS

static const double RETRY_FIRST = 0.5, RETRY_MOST = 10; /* seconds between two attempts to join */
enum { SNAPSHOT_EVERY = 512 }; /* records, or more where there is more to save */

/* ---- records to send ------------------------------------------------------------------------- */

void larder__group_note_down(larder__left **list, size_t *count, size_t *cap,
                             const larder__left *one) {
    if (larder__grow(list, cap, *count + 1, sizeof **list) == 0) /* else Redis forgets it one day */
        (*list)[(*count)++] = *one;
}

/* A record: whose, how many of theirs came before it, and the operation. */
static void queue(larder__group *g, const larder__op *o) {
    larder_write_u32(&g->queue, (uint32_t)o->type | g->job << 8);
    larder_write_u32(&g->queue, ++g->number);
    larder__op_write(o, &g->queue);
    g->ends[g->queued++] = g->queue.size;
}

static void queue_clear(larder__group *g) {
    g->queue.size = 0;
    g->queue.code = 0;
    g->queued = 0;
}

void larder__group_queue_made(larder__group *g) {
    pthread_mutex_lock(&g->lists);
    size_t n = g->made_count;
    larder__made *made = n ? larder__calloc(n, sizeof *made) : NULL;
    for (size_t i = 0; made && i < n; i++) {
        made[i] = (larder__made){.mark = g->made[i].mark, .key = (uint32_t)g->made[i].key};
        larder__group_note_down(&g->told, &g->told_count, &g->told_cap, &g->made[i]);
    }
    if (made) {
        queue(g, &(larder__op){.type = LARDER__OP_MADE, .n = n, .made = made});
        g->made_count = 0;
    }
    pthread_mutex_unlock(&g->lists);
    larder__free(made);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void lose(larder__group *g) {
    if (!g->machine)
        return;
    pthread_mutex_lock(&g->state);
    larder__machine_close(&g->machine);
    pthread_mutex_unlock(&g->state);
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    queue_clear(g);
    larder__client_lost(g->client);
    g->got = (larder__replies){0};
    g->left_count = g->told_count = 0;
    g->retry_at = larder__world_now() + RETRY_FIRST;
    g->retry_after = RETRY_FIRST;
}

static void note_leaving(larder__group *g, const larder__machine *m, const larder__left *v) {
    if (larder__grow(&g->left, &g->left_cap, g->left_count + 1, sizeof *g->left) == 0)
        g->left[g->left_count++] =
            (larder__leaving){*v, g->records, larder__machine_promised(m, v->key, v->mark)};
}

/* Whoever evicts a value deletes it. */
static void note_left(larder__group *g, const larder__machine *m, uint32_t job,
                      const larder__outcome *o) {
    bool ours = o->for_all ? larder__machine_first(m, g->job) : job == g->job;
    for (size_t i = 0; ours && i < o->left_count; i++)
        note_leaving(g, m, &o->left[i]);
}

static void drop(larder__group *g, const larder__left *d) {
    larder__redis_values_drop(g->far,
                              &(larder__value){.id = d->key, .mark = d->mark, .form = d->form});
}

/* A value may have left before it was made. All that has happened until we told of it is known now:
 * who has left by then is deleted by us, who leaves later by whoever evicts it. */
static void note_late(larder__group *g) {
    for (size_t i = 0; g->machine && i < g->told_count; i++)
        if (!g->told[i].brief &&
            !larder__machine_holds(g->machine, g->told[i].key, g->told[i].mark))
            note_leaving(g, g->machine, &g->told[i]);
    g->told_count = 0;
}

/* A job hears with its next question that a value is made which it was promised, and asks for it
 * before the one after that; with a third Redis has heard it. So a value is wanted until all
 * jobs that were there have asked three since. */
static uint64_t nobody_wants_before(const larder__group *g) {
    uint64_t first = g->records;
    for (uint32_t j = 0; j < LARDER__MACHINE_JOBS; j++)
        if (larder__machine_here(g->machine, j) && g->heard[j][2] < first)
            first = g->heard[j][2];
    return first;
}

/* A job that rests for long is not waited for without end: an eighth of the cache may lie there
 * beside it. */
void larder__group_delete(larder__group *g, bool all) {
    enum { BESIDE = 8 };
    if (!g->machine && !all)
        return;
    uint64_t before = all ? UINT64_MAX : nobody_wants_before(g);
    size_t most =
        all ? 0 : larder__cache_slots(larder__machine_cache(g->machine))->resident / BESIDE;
    size_t n = 0;
    for (; n < g->left_count; n++) {
        larder__left v = g->left[n].value;
        bool full = g->left_count - n > most;
        if (g->left[n].record >= before && !full)
            break;
        if (g->left[n].promised && !full)
            note_leaving(g, g->machine, &v); /* they want it from when it is made */
        else
            drop(g, &v);
    }
    if (n)
        memmove(g->left, g->left + n, (g->left_count - n) * sizeof *g->left);
    g->left_count -= n;
}

/* Questions: other words go together with one. */
static void note_heard(larder__group *g, uint32_t job, larder__op_type type) {
    bool joins = type == LARDER__OP_JOIN;
    if (!joins && type != LARDER__OP_CLAIM && type != LARDER__OP_EXCHANGE &&
        type != LARDER__OP_PICKS && type != LARDER__OP_FETCH)
        return;
    g->heard[job][2] = joins ? g->records : g->heard[job][1];
    g->heard[job][1] = joins ? g->records : g->heard[job][0];
    g->heard[job][0] = g->records;
}

/* What our own question came to. */
static int keep_outcome(larder__group *g, const larder__op *asked, const larder__outcome *o) {
    size_t n = o->rows + o->fetched;
    bool batch = asked->type == LARDER__OP_CLAIM || asked->type == LARDER__OP_EXCHANGE;
    if (batch ? larder__room(&g->answers, &g->answer_room, n, sizeof *g->answers) < 0
              : larder__room(&g->keys, &g->key_room, n, sizeof *g->keys) < 0)
        return LARDER_E_NOMEM;
    for (size_t i = 0; batch && i < n; i++) {
        g->answers[i] = larder__reply_of(&o->tickets[i]);
        g->answers[i].kept = o->tickets[i].kept;
    }
    if (!batch && n)
        memcpy(g->keys, o->keys, n * sizeof *g->keys);
    g->got = (larder__replies){g->answers, g->keys, o->rows, o->fetched};
    return 0;
}

/* E_FORMAT: it makes no sense, and so this machine is of no use any more. */
static int apply(larder__group *g, larder__machine *m, const larder__record *record) {
    larder__op op = {0};
    larder__outcome o = {0};
    larder_reader in = {.at = record->bytes,
                        .end = (const unsigned char *)record->bytes + record->size};
    uint32_t head = larder_read_u32(&in), number = larder_read_u32(&in), job = head >> 8;
    int rc = larder_read_status(&in) < 0
                 ? larder_read_reject(&in, "the group's journal has a record that is cut short")
                 : larder__op_read(&op, head & 0xff, &in, g->mine.keys, &g->room);
    if (rc == 0)
        rc = larder__machine_apply(m, job, &op, &o);
    if (rc < 0)
        return rc == LARDER_E_NOMEM || rc == LARDER_E_FULL ? rc : LARDER_E_FORMAT;
    g->records++;
    note_heard(g, job, op.type);
    note_left(g, m, job, &o);
    bool ours = job == g->job && number == g->number && op.type > LARDER__OP_LEAVE;
    return ours ? keep_outcome(g, &op, &o) : 0;
}

static int apply_all(larder__group *g, larder__machine *m, const larder__history *h) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < h->count; i++)
        rc = apply(g, m, &h->records[i]);
    g->room.code = 0;
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
static int catch_up(larder__group *g, larder__machine *fresh, const larder__history *h) {
    int rc = 0;
    if (h->snapshot_size) {
        larder_reader in = {.at = h->snapshot,
                            .end = (const unsigned char *)h->snapshot + h->snapshot_size};
        rc = larder__machine_load(fresh, &in);
    }
    return rc == 0 ? apply_all(g, fresh, h) : rc;
}

static int join_once(larder__group *g, larder__machine **fresh, larder__membership *joined) {
    larder__agreement agreed = {0};
    larder_writer mine = {0}, join = {0};
    larder__agreement_write(&g->mine, &mine);
    larder__op_write(&(larder__op){.type = LARDER__OP_JOIN, .number = {g->again, g->mine.seed}},
                     &join);
    int rc = mine.code < 0 ? mine.code : join.code;
    if (rc == 0)
        rc = larder__journal_join(g->journal, &join, &mine, core_of(&g->mine), joined);
    larder__writer_free(&mine);
    larder__writer_free(&join);
    bool heard = rc == 0 || rc == LARDER_E_ARGS;
    if (heard && joined->agreement.at) {
        /* The agreement and its sum lie apart, and either may be damaged. Our tables are as large
         * as our data set: so a sum that is ours does not do. */
        int read = larder__agreement_read(&agreed, &joined->agreement);
        bool ours = read == 0 && core_of(&agreed) == core_of(&g->mine);
        if (read == 0 && ours != (rc == 0))
            read = larder__fail(LARDER_E_FORMAT, "the group's agreement is not what it was");
        rc = read < 0 ? read : ours ? 0 : disagree(g, &agreed);
    }
    g->job = joined->job;
    g->machine_conf.about = &agreed;
    g->machine_conf.generation = joined->generation;
    if (rc == 0)
        rc = larder__machine_open(fresh, &g->machine_conf);
    if (rc == 0)
        say_budget(g, &agreed);
    if (rc == 0)
        rc = catch_up(g, *fresh, &joined->history);
    if (rc < 0) {
        larder__machine_close(fresh);
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
    larder__redis_values_say(g->far,
                             "the group's keys in Redis were gone or damaged (evicted, deleted, "
                             "cut): it has begun anew");
    larder__redis_values_sweep(g->far, LARDER__MARK_GENERATION, g->machine_conf.generation);
}

int larder__group_join(larder__group *g) {
    larder__machine *fresh = NULL;
    larder__membership joined = {0};
    int rc = LARDER_E_FORMAT;
    for (int tries = 0; tries < 3 && rc == LARDER_E_FORMAT; tries++)
        rc = join_once(g, &fresh, &joined);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&g->state);
    g->machine = fresh;
    pthread_mutex_unlock(&g->state);
    begin_anew(g, joined.began);
    queue_clear(g);
    g->left_count = 0; /* whoever wrote those deletes them */
    pthread_mutex_lock(&g->lists);
    g->made_count = 0;
    pthread_mutex_unlock(&g->lists);
    g->again = true;
    g->retry_after = RETRY_FIRST;
    if (g->stats)
        larder__stat_add(g->stats, g->joined, 1);
    larder_stream stream;
    larder__client_joined(g->client, larder__machine_stream(g->machine, &stream) ? &stream : NULL);
    return 0;
}

/* Is there a group to ask? Looks for it now and then, and only where Redis is there. */
bool larder__group_there(void *st) {
    larder__group *g = st;
    if (g->machine && larder__redis_values_away(g->far)) {
        lose(g);
        return false;
    }
    if (g->machine)
        return true;
    if (larder__world_now() < g->retry_at || larder__redis_values_away(g->far))
        return false;
    if (larder__group_join(g) == 0)
        return true;
    larder__redis_values_say(g->far, larder_errmsg());
    double after = fmax(g->retry_after, RETRY_FIRST);
    g->retry_at = larder__world_now() + after;
    g->retry_after = fmin(after * 2, RETRY_MOST);
    return false;
}

static void save_now_and_then(larder__group *g) {
    uint64_t every = g->mine.keys / 64 > SNAPSHOT_EVERY ? g->mine.keys / 64 : SNAPSHOT_EVERY;
    if (larder__journal_since_snapshot(g->journal) < every ||
        !larder__machine_first(g->machine, g->job))
        return;
    larder_writer w = {0};
    larder__machine_save(g->machine, &w);
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
    larder__group_delete(g, false);
    if (rc == 0) {
        pthread_mutex_lock(&g->state);
        rc = apply_all(g, g->machine, &h);
        pthread_mutex_unlock(&g->state);
    }
    if (rc == 0) {
        note_late(g);
        larder__group_collect(g);
    }
    if (rc < 0) {
        larder__redis_values_say(g->far, larder_errmsg());
        if (rc == LARDER_E_FORMAT)
            larder__journal_condemn(g->journal);
        lose(g);
        /* It is there, but without us, or makes no sense: join again at once. */
        if (rc == LARDER_E_CHANGED || rc == LARDER_E_FORMAT)
            g->retry_at = 0;
        return false;
    }
    save_now_and_then(g);
    return g->machine != NULL;
}

/* A question; where the group has gone on without us, once more. */
bool larder__group_ask(void *st, const larder__op *o, larder__replies *out) {
    larder__group *g = st;
    for (int tries = 0; tries < 2 && larder__group_there(g); tries++) {
        g->got = (larder__replies){0};
        larder__group_queue_made(g);
        queue(g, o);
        if (larder__group_step(g)) {
            *out = g->got;
            return true;
        }
    }
    return false;
}

/* Goes with the next question, or at once where many have come. */
void larder__group_tell(void *st, const larder__op *o) {
    enum { ENOUGH = 5 }; /* so that a question and what was made fit behind them */
    larder__group *g = st;
    if (!g->machine)
        return;
    queue(g, o);
    if (g->queued >= ENOUGH)
        larder__group_step(g);
}
#endif
