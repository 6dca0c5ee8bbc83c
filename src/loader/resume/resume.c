/* Saving and restoring a loader in the middle of an epoch. The state holds what was decided: order,
 * residents, scores, feedback under way, and the batches that were drawn ahead but not taken. Bytes
 * are not saved; they are read again when needed, and counted. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/versions.h"
#include "loader/inside.h"

#include <stdio.h>

/* Then a byte for the format's version, and one for what it is: a list of decisions is a state's
 * first part alone. */
static const char magic[6] = {'l', 'a', 'r', 'd', 'e', 'r'};
enum { STATE = '\n', LIST = 'd', HEAD = sizeof magic + 2 };

static void write_head(larder_writer *w, char what) {
    const char head[2] = {LARDER__STATE_VERSION, what};
    larder_write_bytes(w, magic, sizeof magic);
    larder_write_bytes(w, head, sizeof head);
}

/* ---- batches drawn but not taken ------------------------------------------------------------- */

void larder__kept_free(larder__kept *k) {
    while (k) {
        larder__kept *next = k->next;
        larder__free(k->ids);
        larder__free(k->substitute);
        larder__free(k->form);
        larder__free(k->mark);
        larder__free(k->weights);
        larder__free(k);
        k = next;
    }
}

typedef struct drawn { /* one such batch, in the ring or restored and still kept */
    uint64_t number, epoch, length;
    size_t n;
    bool first, last;
    const larder__planned *plan; /* NULL: kept */
    const larder__kept *kept;
} drawn;

/* Row i, of all ranks where they decide together. */
static larder__decided row_of(const drawn *d, size_t i) {
    if (d->plan && d->plan->whole)
        return d->plan->whole[i];
    if (d->plan) {
        const larder__ticket *t = &d->plan->tickets[i];
        return (larder__decided){.id = d->plan->ids[i],
                                 .key = t->key,
                                 .mark = t->mark,
                                 .weight = d->plan->weights[i],
                                 .substitute = t->kind == LARDER_SUBSTITUTE,
                                 .form = t->form};
    }
    const larder__kept *k = d->kept;
    return (larder__decided){.id = k->ids[i],
                             .key = k->served[i],
                             .mark = k->mark[i],
                             .weight = k->weights[i],
                             .substitute = k->substitute[i],
                             .form = k->form[i]};
}

static void write_drawn(larder_writer *w, const drawn *d) {
    larder_write_u64(w, d->number);
    larder_write_u64(w, d->epoch);
    larder_write_u64(w, d->length);
    larder_write_u32(w, (uint32_t)d->first | (uint32_t)d->last << 1);
    larder_write_u64(w, d->n);
    for (size_t i = 0; i < d->n; i++) {
        larder__decided t = row_of(d, i);
        larder_write_u32(w, (uint32_t)t.id);
        larder_write_u32(w, (uint32_t)t.key);
        larder_write_u32(w, (uint32_t)t.substitute | (uint32_t)t.form << 1);
        if (t.form == LARDER_AUGMENTED)
            larder_write_u64(w, t.mark);
        larder_write_f64(w, (double)t.weight);
    }
}

static void write_all_drawn(larder_loader *l, larder_writer *w) {
    uint32_t count = (uint32_t)(l->planned - l->taken);
    for (const larder__kept *k = l->kept; k; k = k->next)
        count++;
    larder_write_u32(w, count);
    for (uint64_t b = l->taken; b < l->planned; b++) {
        const larder__planned *p = &l->ring[b % l->conf.ahead].plan;
        write_drawn(w, &(drawn){p->number, p->epoch, p->whole_length, p->whole ? p->whole_n : p->n,
                                p->first, p->last, p, NULL});
    }
    for (const larder__kept *k = l->kept; k; k = k->next)
        write_drawn(w, &(drawn){k->number, k->epoch, k->length, k->n, k->first, k->last, NULL, k});
}

static int read_drawn(larder_loader *l, larder_reader *r, larder__kept **out, uint64_t number,
                      uint64_t batch) {
    uint64_t samples = larder__data_about(l->data)->count;
    larder__kept *k = *out = larder__calloc(1, sizeof *k);
    if (!k)
        return LARDER_E_NOMEM;
    k->number = larder_read_u64(r);
    k->epoch = larder_read_u64(r);
    k->length = larder_read_u64(r);
    uint32_t flags = larder_read_u32(r);
    k->first = flags & 1;
    k->last = flags >> 1 & 1;
    uint64_t n = larder_read_u64(r);
    if (n == 0 || n > batch || n > larder__read_left(r) || k->number != number)
        return larder_read_reject(r, "a batch drawn ahead is out of place");
    k->ids = larder__calloc(2 * n, sizeof *k->ids);
    k->substitute = larder__calloc(n, 1);
    k->form = larder__calloc(n, 1);
    k->mark = larder__calloc(n, sizeof *k->mark);
    k->weights = larder__calloc(n, sizeof *k->weights);
    if (!k->ids || !k->substitute || !k->form || !k->mark || !k->weights)
        return LARDER_E_NOMEM;
    k->served = k->ids + n;
    for (; k->n < n && larder_read_status(r) == 0; k->n++) {
        k->ids[k->n] = larder_read_index(r, samples, false);
        k->served[k->n] = larder_read_index(r, samples, false);
        uint32_t how = larder_read_index(r, LARDER_FORMS * 2, false);
        k->substitute[k->n] = how & 1;
        k->form[k->n] = (uint8_t)(how >> 1);
        if (k->form[k->n] == LARDER_AUGMENTED)
            k->mark[k->n] = larder_read_u64(r);
        k->weights[k->n] = (float)larder_read_f64(r);
    }
    return larder_read_status(r);
}

/* ---- whose state it is ----------------------------------------------------------------------- */

static uint64_t cache_budget(larder_loader *l) {
    larder__cache_figures f;
    larder__cache_read_figures(larder__draw_cache(l->draw), &f);
    return f.elsewhere ? 0 : f.budget;
}

static void write_identity(larder_loader *l, larder_writer *w) {
    const larder_dataset *about = larder__data_about(l->data);
    larder_write_u64(w, about->count);
    larder_write_u64(w, about->fingerprint);
    larder__write_text(w, l->conf.recipe);
    larder_write_u64(w, l->conf.seed);
    /* Ranks that decide together have the state of one process that does it all. */
    bool together = larder__draw_ranks(l->draw);
    larder_write_u64(w, larder__draw_batch(l->draw));
    larder_write_u32(w, together ? 0 : l->conf.rank);
    larder_write_u32(w, together ? 1 : l->conf.world);
    larder__feedback *heard = larder__draw_feedback(l->draw);
    larder_write_u32(w, heard && larder__feedback_heard(heard) ? l->conf.lag : 0);
    larder_write_u32(w, (uint32_t)l->conf.drop_last | (uint32_t)larder__parts_keep(l->parts) << 1);
    larder_write_u64(w, cache_budget(l));
}

static int differs(larder_reader *r, const char *what) {
    char why[128];
    snprintf(why, sizeof why, "it was made with another %s", what);
    return larder_read_reject(r, why);
}

/* Another rank, world or batch size will do where all ranks have one order in common. */
static int check_ranks(const larder_loader *l, larder_reader *r, larder__division *v) {
    v->batch = larder_read_u64(r);
    uint32_t rank = larder_read_u32(r);
    v->world = larder_read_u32(r);
    if (larder_read_status(r) < 0)
        return LARDER_E_FORMAT;
    if (v->batch == 0 || v->batch > 1u << 24 || v->world == 0 || v->world > 1u << 20 ||
        rank >= v->world)
        return larder_read_reject(r, "its rank or batch size makes no sense");
    bool together = larder__draw_ranks(l->draw);
    uint32_t own_rank = together ? 0 : l->conf.rank, own_world = together ? 1 : l->conf.world;
    if (v->batch == larder__draw_batch(l->draw) && rank == own_rank && v->world == own_world) {
        v->world = 0; /* goes on as it is */
        return 0;
    }
    if (larder__draw_sampler(l->draw)->divide)
        return 0;
    char why[256];
    snprintf(why, sizeof why,
             "it was made by rank %u of %llu with batches of %llu, this is rank %u of %u with "
             "batches of %zu: with sampler %s each rank has an order of its own, so it goes on as "
             "it was",
             rank, (unsigned long long)v->world, (unsigned long long)v->batch, own_rank, own_world,
             (size_t)larder__draw_batch(l->draw), larder__draw_sampler(l->draw)->plugin.name);
    return larder_read_reject(r, why);
}

static int check_identity(larder_loader *l, larder_reader *r, larder__division *v) {
    const larder_dataset *about = larder__data_about(l->data);
    char recipe[LARDER__RECIPE_CHARS + 1];
    if (larder_read_u64(r) != about->count || larder_read_u64(r) != about->fingerprint)
        return differs(r, "data set (or the data set has changed since)");
    larder__read_text(r, recipe, sizeof recipe);
    if (larder_read_status(r) == 0 && strcmp(recipe, l->conf.recipe) != 0)
        return differs(r, "recipe");
    if (larder_read_u64(r) != l->conf.seed)
        return differs(r, "seed");
    int rc = check_ranks(l, r, v);
    if (rc < 0)
        return rc;
    uint32_t lag = larder_read_u32(r);
    uint32_t ways = larder_read_u32(r);
    if ((ways & 1) != l->conf.drop_last)
        return differs(r, "drop_last");
    if (ways >> 1 != larder__parts_keep(l->parts))
        return differs(r, "way of keeping parts");
    uint64_t budget = larder_read_u64(r);
    if (budget != cache_budget(l)) {
        char why[128];
        snprintf(why, sizeof why, "it was made with a cache of %llu bytes, this one has %llu",
                 (unsigned long long)budget, (unsigned long long)cache_budget(l));
        return larder_read_reject(r, why);
    }
    if (lag && lag != l->conf.lag) /* 0: nothing was reported, so it acts on nothing */
        return differs(r, "lag; set `lag` to the one of the run that saved it");
    return larder_read_status(r);
}

/* ---- save and restore ------------------------------------------------------------------------ */

static void write_state(larder_loader *l, larder_writer *w) {
    write_head(w, STATE);
    write_identity(l, w);
    larder__draw_effects(l->draw, w);
    larder_write_u64(w, l->taken);
    larder_write_u64(w, l->epoch_length);
    const larder__ranks *ranks = larder__draw_ranks(l->draw);
    larder_write_u32(w, (uint32_t)l->epoch_over | (uint32_t)(l->divided_taken > 0) << 1 |
                            (uint32_t)(ranks != NULL) << 2);
    if (l->divided_taken) {
        larder_write_u64(w, l->divided_epoch);
        larder_write_u64(w, l->divided_taken);
    }
    if (ranks) {
        larder_write_u32(w, ranks->rank);
        larder_write_u32(w, ranks->world);
    }
    larder_write_u64(w, (uint64_t)l->audit);
    larder__write_text(w, l->audit_says);
    write_all_drawn(l, w);
    larder__draw_save(l->draw, w);
    larder__ledger_save(l->ledger, w);
}

static void write_decisions(larder_loader *l, larder_writer *w) {
    write_head(w, LIST);
    write_identity(l, w);
    larder__draw_effects(l->draw, w);
}

/* By one of these, between two draws, and with a checksum at its end. */
static int write_out(larder_loader *l, void (*write)(larder_loader *, larder_writer *),
                     void **bytes, size_t *size) {
    larder_writer w = {0};
    while (larder__decided_elsewhere(
        l)) /* a batch is being drawn: its state is neither before nor after */
        pthread_cond_wait(&l->ready, &l->lock);
    if (l->torn)
        return larder__fail(LARDER_E_STATE, "there is no state to go on from: %.400s", l->why);
    if (l->evaluation.halted || l->evaluation.asking)
        return larder__fail(LARDER_E_STATE,
                            "the evaluator %s in the middle of its samples: "
                            "a state is saved when it has seen them all, or before",
                            l->evaluation.asking ? "is" : "broke off");
    write(l, &w);
    larder_write_u64(&w, larder__hash_bytes(0, w.bytes, w.code ? 0 : w.size));
    if (w.code < 0) {
        larder__writer_free(&w);
        return w.code;
    }
    *bytes = w.bytes;
    *size = w.size;
    return 0;
}

int larder_loader_save(larder_loader *l, larder_saved what, void **bytes, size_t *size) {
    *bytes = NULL;
    *size = 0;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    if (what == LARDER_DECISIONS)
        rc = write_out(l, write_decisions, bytes, size);
    else if ((rc = larder__ranks_settle(l)) == 0)
        rc = write_out(l, write_state, bytes, size);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* Which batches had been drawn ahead: what they hold of the epoch under way was not taken. */
static void note_kept(const larder_loader *l, larder__division *v) {
    const larder__kept *first = l->kept;
    if (!first)
        return;
    v->kept = true;
    v->epoch = first->epoch;
    v->length = first->length;
    for (const larder__kept *k = first; k; k = k->next)
        v->kept_ids += k->epoch == first->epoch ? k->n : 0;
}

/* Goes on where all ranks together were: nobody knows here what the others had drawn ahead. */
static int divide(larder_loader *l, larder_reader *r, larder__division *v) {
    v->known_epoch = l->divided_epoch;
    v->known = l->divided_taken;
    note_kept(l, v);
    int rc = larder__draw_divide(l->draw, r, v, &l->divided_taken);
    if (rc < 0)
        return rc;
    larder__kept_free(l->kept);
    l->kept = NULL;
    l->divided_epoch = larder__draw_epoch(l->draw);
    l->epoch_length = larder__draw_length(l->draw);
    l->taken = l->planned = larder__draw_number(l->draw);
    return 0;
}

/* The ledger is another rank's: what is left of the epoch gets a page of its own. */
static void open_page(larder_loader *l) {
    larder__division v = {0};
    uint64_t begun = larder__draw_between(l->draw) ? 0 : larder__draw_drawn(l->draw);
    note_kept(l, &v);
    bool same = !v.kept || (v.epoch == larder__draw_epoch(l->draw) && begun);
    uint64_t all = same ? begun : v.length;
    l->page_due = true;
    l->page_epoch = v.kept ? v.epoch : larder__draw_epoch(l->draw);
    l->page_gone = all > v.kept_ids ? all - v.kept_ids : 0;
}

/* Batches that were drawn and not taken. */
static int read_kept(larder_loader *l, larder_reader *r, uint64_t batch, uint32_t *count) {
    larder__kept **tail = &l->kept;
    int rc = 0;
    *count = larder_read_u32(r);
    for (uint32_t i = 0; i < *count && rc == 0; i++) {
        rc = read_drawn(l, r, tail, l->taken + i, batch);
        if (*tail)
            tail = &(*tail)->next;
    }
    return rc;
}

/* Was it another rank of those that decide together who saved it? */
static bool is_others(const larder_loader *l, uint32_t rank, uint32_t world) {
    const larder__ranks *ranks = larder__draw_ranks(l->draw);
    return rank != (ranks ? ranks->rank : 0) || world != (ranks ? ranks->world : 1);
}

static int restore_body(larder_loader *l, larder_reader *r) {
    larder__division v = {0};
    int rc = check_identity(l, r, &v);
    if (rc < 0 || (rc = larder__draw_past(l->draw, r)) < 0)
        return rc;
    l->taken = l->planned = larder_read_u64(r);
    if (l->taken > UINT64_MAX / 2) /* counting on must not wrap around */
        return larder_read_reject(r, "more batches than anybody can have taken");
    l->epoch_length = larder_read_u64(r);
    uint32_t flags = larder_read_u32(r);
    l->epoch_over = flags & 1;
    if (flags & 2) {
        l->divided_epoch = larder_read_u64(r);
        l->divided_taken = larder_read_u64(r);
    }
    uint32_t rank = flags & 4 ? larder_read_u32(r) : 0, world = flags & 4 ? larder_read_u32(r) : 1;
    bool others = !v.world && is_others(l, rank, world);
    l->audit = (int64_t)larder_read_u64(r);
    larder__read_text(r, l->audit_says, sizeof l->audit_says);
    uint32_t count;
    if ((rc = read_kept(l, r, v.batch, &count)) < 0 ||
        (rc = v.world ? divide(l, r, &v) : larder__draw_load(l->draw, r)) < 0 ||
        (rc = larder__ledger_load(l->ledger, r)) < 0)
        return rc;
    if (others)
        open_page(l);
    if (!v.world && larder__draw_number(l->draw) != l->taken + count)
        return larder_read_reject(r, "its batches do not follow each other");
    return larder__read_left(r) == 0 ? larder_read_status(r)
                                     : larder_read_reject(r, "there is something after its end");
}

/* A fresh loader, and bytes that are a whole state of somebody; or, if that will do, a list. */
static int check_state(const larder_loader *l, const unsigned char *b, size_t size, bool list) {
    if (l->running || l->taken || l->planned || l->failed || l->restored)
        return larder__fail(LARDER_E_STATE, "a state is restored right after open, once");
    bool is = b && size >= HEAD + 8 && memcmp(b, magic, sizeof magic) == 0 &&
              (b[HEAD - 1] == STATE || (list && b[HEAD - 1] == LIST));
    if (!is)
        return larder__fail(LARDER_E_FORMAT, "saved state: not a state that larder saved");
    int rc = larder__version_check(LARDER__FORMAT_STATE, "saved state", b[HEAD - 2]);
    if (rc < 0)
        return rc;
    larder_reader tail = {.at = b + size - 8, .end = b + size};
    if (larder_read_u64(&tail) != larder__hash_bytes(0, b, size - 8))
        return larder__fail(LARDER_E_FORMAT, "saved state: damaged (its checksum is wrong)");
    return 0;
}

static int follow(larder_loader *l, larder_reader *r) {
    larder__division v = {0};
    int rc = check_identity(l, r, &v);
    if (rc == 0 && v.world)
        rc = larder__fail(LARDER_E_ARGS, "a run repeats with the same ranks and batches alone");
    return rc < 0 ? rc : larder__draw_follow(l->draw, r);
}

static int go_on(larder_loader *l, larder_reader *r) {
    l->restored = true;
    int rc = restore_body(l, r);
    if (rc < 0) { /* half-restored is no state to train from */
        l->torn = true;
        larder__loader_fail(l, rc);
    }
    return rc;
}

int larder_loader_restore(larder_loader *l, larder_saved what, const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    bool list = what == LARDER_DECISIONS;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    if ((rc = check_state(l, b, size, list)) == 0) {
        larder_reader r = {.at = b + HEAD, .end = b + size - 8};
        rc = list ? follow(l, &r) : go_on(l, &r);
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}
