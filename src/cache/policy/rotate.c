/* The cache as a slowly rotating sample of the data: a newcomer always enters, and of `tries`
 * random residents the one with the lowest last loss goes. One without a loss yet counts as the
 * highest. `pick` draws for reuse, of eight random residents the one that was served longest ago:
 * all come about equally often and evenly spaced, which trains better than chance alone does
 * (docs/gpu.md). With `prefer=rank` a resident's chance is proportional to its loss rank + R/2
 * (R residents), a mild preference for the hard ones.
 *
 * A sampler that sweeps over all ids says with each request which sweep it serves. Then only
 * residents already served in this sweep may go: the others are still to come and would have to be
 * read again. So without reuse a sweep hits exactly what was resident when it began.
 *
 * The residents stand in a dense row, those that may go in front. Ranks come from counts over 65536
 * bins of the loss, 128 to a factor of two: residents of one bin are ties and share their middle
 * rank, so the ranks always sum to R(R-1)/2. Bins are counted singly, by 64 and by 2048, so that a
 * change is three additions, and the residents below a bin are at most 126 counts, side by side.
 * The draw takes a uniform resident and keeps it with a chance of its weight over the largest
 * possible one, 2 times in 3. */
#include "base/mem.h"

#include <larder/plugin.h>
#include <math.h>

enum { BINS = 1 << 16, FEW = 64, MANY = 2048, RESTED_OF = 8 };
static const uint32_t no_loss = UINT32_MAX;

typedef struct seat {
    larder_slot at; /* place: who stands there */
    uint32_t loss;  /* place: the last loss of who stands there, as an ordered number */
    uint32_t used;  /* place: when who stands there was served last, by the clock below */
    uint32_t where; /* slot: at which place it stands */
} seat;

typedef struct rotate {
    const larder_slots *slots;
    uint32_t *bins; /* residents of each bin, of each FEW bins, of each MANY: one block, or NULL */
    uint32_t *by_few, *by_many;
    uint32_t size;   /* residents */
    uint32_t served; /* the first so many of the row were served in this sweep */
    uint32_t sweep;  /* tag of the newest sweep heard of, 0: none */
    uint32_t clock;  /* ticks with every sample served; wraps, ages are differences */
    uint32_t tries;
    enum { BY_REST, BY_RANK, ALIKE } prefer;
} rotate;

static const larder_param params[] = {
    {"tries", "int", "8", "the victim has the lowest loss of so many random residents", 1, 1024},
    {"prefer", "rest|rank|none", "rest",
     "residents to reuse: served longest ago of eight, by loss rank + R/2, or all alike", 0, 0},
    {0}};

static seat *seats(const rotate *p) { return p->slots->slot_data; }

/* Floats in their order as unsigned numbers. */
static uint32_t ordered(float loss) {
    uint32_t bits;
    if (isnan(loss))
        return no_loss;
    memcpy(&bits, &loss, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static uint32_t bin_of(uint32_t loss) { return loss >> 16; }

/* ---- how many residents have which loss ------------------------------------------------------ */

static void count(rotate *p, uint32_t loss, uint32_t more) { /* more: 1, or -1 as it wraps */
    if (p->prefer != BY_RANK)
        return;
    uint32_t bin = bin_of(loss);
    p->bins[bin] += more;
    p->by_few[bin / FEW] += more;
    p->by_many[bin / MANY] += more;
}

static uint32_t sum_of(const uint32_t *v, uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

static uint32_t below(const rotate *p, uint32_t bin) {
    uint32_t few = bin / FEW, many = bin / MANY;
    return sum_of(p->by_many, many) +
           sum_of(p->by_few + many * (MANY / FEW), few - many * (MANY / FEW)) +
           sum_of(p->bins + few * FEW, bin - few * FEW);
}

/* Twice the rank, so that the middle of an even number of ties is a whole number. */
static uint64_t rank_twice(const rotate *p, uint32_t loss) {
    uint64_t from = below(p, bin_of(loss));
    return 2 * from + p->bins[bin_of(loss)] - 1;
}

/* ---- the row --------------------------------------------------------------------------------- */

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    rotate *p = st;
    p->slots = slots;
    p->tries = (uint32_t)larder_args_number(args, "tries");
    const char *prefer = larder_args_text(args, "prefer");
    p->prefer = strcmp(prefer, "rest") == 0   ? BY_REST
                : strcmp(prefer, "rank") == 0 ? BY_RANK
                                              : ALIKE;
    if (p->prefer != BY_RANK)
        return 0;
    p->bins = larder__calloc(BINS + BINS / FEW + BINS / MANY, sizeof *p->bins);
    if (!p->bins)
        return LARDER_E_NOMEM;
    p->by_few = p->bins + BINS;
    p->by_many = p->by_few + BINS / FEW;
    return 0;
}

static void fini(void *st) { larder__free(((rotate *)st)->bins); }

static void stand(rotate *p, seat who, uint32_t place) {
    seats(p)[place].at = who.at;
    seats(p)[place].loss = who.loss;
    seats(p)[place].used = who.used;
    seats(p)[who.at].where = place;
}

static void swap_to(rotate *p, larder_slot s, uint32_t where) {
    uint32_t from = seats(p)[s].where;
    seat there = seats(p)[where], mine = seats(p)[from];
    stand(p, there, from);
    stand(p, mine, where);
}

static bool is_sweep(uint32_t tag) { return tag != LARDER_TAG_FETCH && tag >> 3 && !(tag & 7); }

static void note_sweep(rotate *p, uint32_t tag) {
    if (!is_sweep(tag) || tag <= p->sweep)
        return;
    p->sweep = tag;
    p->served = 0;
}

static void note_served(rotate *p, larder_slot s, uint32_t tag) {
    seats(p)[seats(p)[s].where].used = p->clock++;
    note_sweep(p, tag);
    if (p->sweep && tag == p->sweep && seats(p)[s].where >= p->served)
        swap_to(p, s, p->served++);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    rotate *p = st;
    uint32_t loss = ordered(a->score);
    stand(p, (seat){.at = s, .loss = loss}, p->size++);
    count(p, loss, 1);
    note_served(p, s, a->tag);
}

static void hit(void *st, larder_slot s, const larder_access *a) { note_served(st, s, a->tag); }

static larder_slot victim(void *st, const larder_access *incoming) {
    rotate *p = st;
    const seat *row = seats(p);
    note_sweep(p, incoming->tag);
    uint32_t among = is_sweep(incoming->tag) ? p->served : p->size;
    uint32_t easiest = UINT32_MAX;
    for (uint32_t i = 0; among && i < p->tries; i++) {
        uint32_t place = larder_rng_below(incoming->rng, among);
        if (easiest == UINT32_MAX || row[place].loss < row[easiest].loss)
            easiest = place;
    }
    return easiest == UINT32_MAX ? LARDER_NO_SLOT : row[easiest].at;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    rotate *p = st;
    count(p, seats(p)[seats(p)[s].where].loss, UINT32_MAX);
    if (seats(p)[s].where < p->served)
        swap_to(p, s, --p->served);
    seat last = seats(p)[--p->size]; /* takes its place */
    stand(p, last, seats(p)[s].where);
}

static void score(void *st, larder_slot s, float loss) {
    rotate *p = st;
    uint32_t *mine = &seats(p)[seats(p)[s].where].loss;
    count(p, *mine, UINT32_MAX);
    *mine = ordered(loss);
    count(p, *mine, 1);
}

/* Whoever is drawn counts as served at once, so that it does not come first again for this batch.
 */
static uint32_t draw_rested(rotate *p, larder_rng *rng) {
    seat *row = seats(p);
    uint32_t best = larder_rng_below(rng, p->size);
    for (int i = 1; i < RESTED_OF; i++) {
        uint32_t other = larder_rng_below(rng, p->size);
        if (p->clock - row[other].used > p->clock - row[best].used)
            best = other;
    }
    row[best].used = p->clock++;
    return best;
}

/* Weights are kept fourfold whole: 4 (rank + R/2) = 2 rank_twice + 2R, of at most 6R - 4. */
static uint32_t draw_by_rank(const rotate *p, larder_rng *rng, double *share) {
    uint64_t r = p->size, weight;
    uint32_t place;
    do {
        place = larder_rng_below(rng, p->size);
        weight = 2 * rank_twice(p, seats(p)[place].loss) + 2 * r;
    } while (larder_rng_unit(rng) * (double)(6 * r - 4) >= (double)weight);
    *share = (double)weight / (double)(4 * r - 2); /* the mean weight, fourfold, is 4R - 2 */
    return place;
}

static bool pick(void *st, larder_rng *rng, uint64_t *key, double *share) {
    rotate *p = st;
    if (p->size == 0)
        return false;
    *share = 1;
    uint32_t place = p->prefer == BY_REST   ? draw_rested(p, rng)
                     : p->prefer == BY_RANK ? draw_by_rank(p, rng, share)
                                            : larder_rng_below(rng, p->size);
    *key = p->slots->key_of[seats(p)[place].at];
    return true;
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const rotate *p = st;
    larder_write_u32(w, p->sweep);
    larder_write_u32(w, p->served);
    larder_write_u32(w, p->clock);
    for (uint32_t i = 0; i < p->size; i++) {
        larder_write_u32(w, seats(p)[i].at);
        larder_write_u32(w, seats(p)[i].loss);
        larder_write_u32(w, seats(p)[i].used);
    }
}

static int load(void *st, larder_reader *r) {
    rotate *p = st;
    p->sweep = larder_read_u32(r);
    p->served = larder_read_u32(r);
    p->clock = larder_read_u32(r);
    p->size = 0;
    if (p->served > p->slots->resident || (p->sweep && !is_sweep(p->sweep)))
        return larder_read_reject(r, "rotate knows more served residents than there are");
    for (larder_slot s = 0; s < p->slots->used; s++)
        seats(p)[s].where = UINT32_MAX;
    while (p->size < p->slots->resident) {
        seat who = {.at = larder_read_index(r, p->slots->used, false)};
        who.loss = larder_read_u32(r);
        who.used = larder_read_u32(r);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (p->slots->key_of[who.at] == UINT32_MAX || seats(p)[who.at].where != UINT32_MAX)
            return larder_read_reject(r, "a row names a slot twice or an empty one");
        stand(p, who, p->size++);
        count(p, who.loss, 1);
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_rotate = {
    .plugin = {.name = "rotate",
               .summary = "lets everyone in; of a few random residents the easiest goes",
               .params = params,
               .state_size = sizeof(rotate)},
    .slot_size = sizeof(seat),
    .init = init,
    .fini = fini,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .score = score,
    .pick = pick,
    .save = save,
    .load = load,
};
