/* Ranks that decide together hear each other: before each batch they exchange what they measured
 * and what training said, so that all go on from the same. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/draw/draw_inside.h"
#include "loader/draw/rank_talk.h"
#include "shared/relay.h"

#include <math.h>

static const double SAVE_SECONDS = 10; /* that a state may wait for what others say */
enum { TURN = 't', ROWS = 'r', LOSSES = 'e' };

/* ---- opening --------------------------------------------------------------------------------- */

/* Where nothing but the seed decides, there is nothing to tell. */
int larder__draw_open_talk(larder__draw *d) {
    if (d->ranks.world < 2 || !d->conf.beside || !(d->feedback || d->recipe.sampler->pace))
        return 0;
    d->heard = larder__calloc(d->ranks.world, sizeof *d->heard);
    d->turns = larder__calloc(d->ranks.world, sizeof *d->turns);
    return d->heard && d->turns ? larder__draw_open_relay(d) : LARDER_E_NOMEM;
}

void larder__draw_close_talk(larder__draw *d) {
    larder__relay_close(&d->relay);
    larder__free(d->heard);
    larder__free(d->turns);
}

void larder__draw_interrupt(larder__draw *d) {
    if (d->relay)
        larder__relay_interrupt(d->relay);
}

/* ---- exchanging ------------------------------------------------------------------------------ */

static int post(larder__draw *d, char kind, uint64_t number, larder_writer *w) {
    int rc = w->code < 0 ? w->code : larder__relay_post(d->relay, kind, number, w->bytes, w->size);
    larder__writer_free(w);
    return rc;
}

static void free_heard(larder__draw *d) {
    for (uint32_t k = 0; k < d->ranks.world; k++) {
        larder__free(d->heard[k].bytes);
        d->heard[k] = (larder__relayed){0};
    }
}

/* Records of all ranks but this one, of which `wanted` is true. */
static int gather(larder__draw *d, char kind, uint64_t number, const bool *wanted, double seconds) {
    for (uint32_t k = 0; k < d->ranks.world; k++)
        d->heard[k] = (larder__relayed){.size = k != d->ranks.rank && (!wanted || wanted[k])};
    return larder__relay_gather(d->relay, kind, number, seconds, d->heard);
}

static int note_whole(larder__draw *d, uint64_t batch, larder_report *whole, void **memory) {
    larder__losses told = {0};
    whole->batch = batch;
    if (d->watched)
        larder__recent_tell(d->recent, &(larder__ranks){0}, whole, &told);
    return larder__feedback_whole(d->feedback, batch, whole, &told, memory);
}

/* What training said about `batch`: each rank its rows, then one report of all of them. 1: some
 * have not said it in time. */
static int join_rows(larder__draw *d, uint64_t batch, const bool *has, double seconds) {
    uint32_t world = d->ranks.world;
    larder_report *parts = larder__calloc(world, sizeof *parts), whole;
    void **memory = larder__calloc(world, sizeof *memory), *joined = NULL;
    larder_writer mine = {0};
    int rc = !parts || !memory ? LARDER_E_NOMEM : gather(d, ROWS, batch, has, seconds);
    larder__feedback_own(d->feedback, batch, &mine);
    if (rc == 0)
        rc = mine.code;
    for (uint32_t k = 0; rc == 0 && k < world; k++) {
        bool own = k == d->ranks.rank;
        const void *bytes = own ? mine.bytes : d->heard[k].bytes;
        if (bytes)
            rc = larder__rank_rows_read(&parts[k], &memory[k], d->conf.n, bytes,
                                        own ? mine.size : d->heard[k].size);
    }
    size_t rows = larder__draw_rows(d, batch);
    if (rc == 0)
        rc = larder__rank_rows_join(&whole, &joined, parts, world,
                                    larder__ranks_first(&d->ranks, batch, rows), rows);
    if (rc == 0)
        rc = note_whole(d, batch, &whole, &joined);
    for (uint32_t k = 0; memory && k < world; k++)
        larder__free(memory[k]);
    free_heard(d);
    larder__free(joined);
    larder__free(memory);
    larder__free(parts);
    larder__writer_free(&mine);
    return rc;
}

static int note(larder__draw *d, const larder_report *said, const larder_feedback *fb, bool all) {
    larder_writer w = {0};
    larder__losses told = {0};
    bool part = d->relay && !all;
    if (d->watched && !part)
        larder__recent_tell(d->recent, &(larder__ranks){0}, said, &told);
    int rc = larder__feedback_note(d->feedback, said->batch, said->epoch, said->n, said->ids,
                                   said->labels, fb, &told, part ? &w : NULL);
    if (rc == 0 && part)
        return post(d, ROWS, said->batch, &w);
    larder__writer_free(&w);
    return rc;
}

/* Where nobody but a sampler that watches listens, losses are all that is kept and sent. */
static int note_losses(larder__draw *d, const larder_report *said, bool all) {
    float *loss = larder__malloc((said->n + 1) * sizeof *loss);
    if (!loss)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < said->n; i++)
        loss[i] = larder__recent_loss(said, i);
    int rc = note(d, said, &(larder_feedback){.loss = loss}, all);
    larder__free(loss);
    return rc;
}

int larder__draw_note(larder__draw *d, uint64_t number, uint64_t epoch, size_t n,
                      const uint64_t *served, const int64_t *labels, const larder_feedback *fb,
                      bool all) {
    larder_report said = {.batch = number,
                          .epoch = epoch,
                          .n = n,
                          .classes = fb->logits ? fb->classes : 0,
                          .ids = served,
                          .labels = labels,
                          .loss = fb->loss,
                          .logits = fb->logits};
    return d->signal ? note(d, &said, fb, all) : note_losses(d, &said, all);
}

int larder__draw_join_all(larder__draw *d) {
    uint64_t batch;
    int rc = 0;
    while (rc == 0 && d->relay && d->feedback && larder__feedback_open_own(d->feedback, &batch))
        rc = join_rows(d, batch, NULL, SAVE_SECONDS);
    return rc < 0 ? rc : 0;
}

static int compare(const larder__draw *d, uint64_t number) {
    for (uint32_t k = 0; k < d->ranks.world; k++)
        if (d->turns[k].digest != d->turns[d->ranks.rank].digest)
            return larder__fail(LARDER_E_STATE,
                                "before batch %llu rank %u had decided something else than rank "
                                "%u: all ranks have to have the same recipe, seed, data and state, "
                                "and to report the same way",
                                (unsigned long long)number, k, d->ranks.rank);
    return 0;
}

static int exchange_turns(larder__draw *d, uint64_t due) {
    larder__rank_turn *mine = &d->turns[d->ranks.rank];
    larder_writer w = {0};
    *mine = (larder__rank_turn){.digest = d->digest, .accuracy = (double)NAN, .pace = d->pace};
    if (d->feedback)
        mine->said = larder__feedback_said(d->feedback, due, &mine->accuracy);
    larder__rank_turn_write(mine, &w);
    int rc = post(d, TURN, d->number, &w);
    if (rc == 0)
        rc = gather(d, TURN, d->number, NULL, (double)INFINITY);
    for (uint32_t k = 0; rc == 0 && k < d->ranks.world; k++)
        if (k != d->ranks.rank)
            rc = larder__rank_turn_read(&d->turns[k], d->heard[k].bytes, d->heard[k].size);
    free_heard(d);
    if (rc < 0)
        return rc;
    if (d->number > d->conf.lag) { /* all have been here: nobody needs what is older */
        larder__relay_forget(d->relay, TURN, d->number - 1);
        larder__relay_forget(d->relay, ROWS, due - 1);
    }
    return compare(d, d->number);
}

int larder__draw_hear(larder__draw *d) {
    if (!d->relay || d->number < d->conf.lag)
        return 0;
    uint64_t due = d->number - d->conf.lag;
    uint32_t world = d->ranks.world;
    int rc = exchange_turns(d, due);
    bool any = false, *has = rc == 0 ? larder__calloc(world, sizeof *has) : NULL;
    if (!has)
        return rc < 0 ? rc : LARDER_E_NOMEM;
    for (uint32_t k = 0; k < world; k++)
        any |= has[k] = d->turns[k].said == LARDER__SAID_OWN;
    if (any && d->turns[d->ranks.rank].said != LARDER__SAID_ALL)
        rc = join_rows(d, due, has, (double)INFINITY);
    larder__free(has);
    double accuracy = larder__rank_turns_accuracy(d->turns, world);
    if (rc == 0 && d->feedback && !isnan(accuracy))
        rc = larder__feedback_note_accuracy(d->feedback, due, accuracy);
    d->agreed = larder__rank_turns_pace(d->turns, world);
    return rc;
}

void larder__draw_note_digest(larder__draw *d) {
    const larder__planned *p = &d->all;
    for (size_t i = 0; d->relay && i < p->n; i++) {
        uint64_t row[] = {p->ids[i], p->tickets[i].key, p->tickets[i].form};
        d->digest = larder__hash_bytes(d->digest, row, sizeof row);
    }
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct losses { /* that one rank gave */
    uint64_t *ids;
    float *loss;
    size_t n, at;
} losses;

/* In the order of the batch, as one process would hear them: rows are dealt out one by one, and
 * those that could not be read are missing. */
static int score_in_order(larder__draw *d, const larder__planned *p, losses *said) {
    uint32_t world = d->ranks.world, first = larder__ranks_first(&d->ranks, p->number, p->whole_n);
    for (size_t row = 0; row < p->whole_n; row++) {
        losses *of = &said[(row + first) % world];
        if (of->at < of->n && of->ids[of->at] == p->whole[row].key) {
            larder__draw_score(d, &of->ids[of->at], &of->loss[of->at], 1);
            of->at++;
        }
    }
    for (uint32_t k = 0; k < world; k++)
        if (said[k].at < said[k].n)
            return larder__fail(LARDER_E_STATE,
                                "rank %u evaluated sample %llu, which rank %u had not decided: all "
                                "ranks have to have the same recipe, seed, data and state",
                                k, (unsigned long long)said[k].ids[said[k].at], d->ranks.rank);
    return 0;
}

int larder__draw_evaluated_all(larder__draw *d, const larder__planned *p, const uint64_t *ids,
                               const float *loss, size_t n) {
    uint64_t turn = d->evaluations++;
    larder_writer w = {0};
    losses *said = larder__calloc(d->ranks.world, sizeof *said);
    if (!said)
        return LARDER_E_NOMEM;
    larder__rank_losses_write(&w, ids, loss, n);
    losses *own = &said[d->ranks.rank];
    int rc = w.code < 0 ? w.code
                        : larder__rank_losses_read(&own->ids, &own->loss, &own->n, d->conf.n,
                                                   w.bytes, w.size);
    int posted = post(d, LOSSES, turn, &w);
    rc = rc < 0 ? rc : posted;
    if (rc == 0)
        rc = gather(d, LOSSES, turn, NULL, (double)INFINITY);
    for (uint32_t k = 0; rc == 0 && k < d->ranks.world; k++)
        if (k != d->ranks.rank)
            rc = larder__rank_losses_read(&said[k].ids, &said[k].loss, &said[k].n, d->conf.n,
                                          d->heard[k].bytes, d->heard[k].size);
    if (rc == 0)
        rc = score_in_order(d, p, said);
    for (uint32_t k = 0; k < d->ranks.world; k++) {
        larder__free(said[k].ids);
        larder__free(said[k].loss);
    }
    larder__free(said);
    free_heard(d);
    if (rc == 0 && turn)
        larder__relay_forget(d->relay, LOSSES, turn - 1);
    return rc;
}
