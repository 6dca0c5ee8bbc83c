/* The cache as a slowly rotating sample of the data: a newcomer always enters, and of `tries`
 * random residents the one goes that was served most often since it entered, of several such the
 * one that entered first. So all are served about equally often before they leave, hard or easy.
 *
 * `pick` draws for reuse: anybody, or with `rested` of so many random residents the one that was
 * served longest ago. Evenly spaced repeats are learned by heart best, right or wrong: with 40 % of
 * the labels random they cost points that repeats by chance do not (docs/results/gpu.md).
 *
 * A loss may shorten a stay and never lengthens one, and only behind a gate: while more than `gate`
 * of the stream's fresh samples come in learned already, one that is learned goes before those that
 * are not. Fresh is the first that is heard of a resident since it entered: its loss before
 * anything was trained on it again. So data that stays hard, or is labelled wrongly, keeps the gate
 * shut, whatever reuse has learned of it by heart.
 *
 * victim=loss is the first rule, to compare with: the lowest last loss of `tries` goes, and one
 * without a loss counts as the highest. It fills the cache with the hardest samples, which helps on
 * easy data and costs points on hard or wrongly labelled data (docs/results/rotate.md).
 *
 * A sampler that sweeps over all ids says with each request which sweep it serves. Then only
 * residents already served in this sweep may go: the others are still to come and would have to be
 * read again. So without reuse a sweep hits exactly what was resident when it began.
 *
 * The residents stand in a dense row, those that may go in front. */
#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>

enum { UNHEARD, HARD, LEARNED };  /* what was said of a resident last, since it entered */
static const double MEMORY = 512; /* fresh samples after which the share has faded to 1/e */

typedef struct seat {
    larder_slot at; /* place: who stands there */
    uint32_t keep;  /* place: the lower, the sooner who stands there goes: UINT32_MAX less its
                     services since it entered, or its last loss as an ordered number */
    uint32_t used;  /* place: when who stands there was served last, by the clock below */
    uint32_t since; /* place: when it entered */
    uint32_t heard; /* place: UNHEARD, HARD or LEARNED */
    uint32_t where; /* slot: at which place it stands */
} seat;

typedef struct rotate {
    const larder_slots *slots;
    uint32_t size;   /* residents */
    uint32_t served; /* the first so many of the row were served in this sweep */
    uint32_t sweep;  /* tag of the newest sweep heard of, 0: none */
    uint32_t clock;  /* ticks with every sample served; wraps, ages are differences */
    uint32_t tries, rested;
    bool by_loss;
    double gate;    /* open above this share of learned among the fresh */
    double learned; /* a loss below this is learned */
    double share;   /* of learned among the fresh, lately; begins at 0: shut */
} rotate;

static const larder_param params[] = {
    {"tries", "int", "8", "the victim is chosen among so many random residents", 1, 1024},
    {"rested", "int", "1", "who is reused: of so many random residents the one served longest ago",
     1, 1024},
    {"victim", "served|loss", "served",
     "who leaves of these: served most since it entered, or lowest loss (the first rule)", 0, 0},
    {"gate", "text", "off",
     "learned ones leave first while more than this share of fresh samples come in learned (0.3)",
     0, 0},
    {"learned", "text", "",
     "a reported loss below this is learned; not given: a cross entropy of logits below 0.05", 0,
     0},
    {0}};

static seat *seats(const rotate *p) { return p->slots->slot_data; }

/* Floats in their order as unsigned numbers; none at all is the highest. */
static uint32_t ordered(float loss) {
    uint32_t bits;
    if (isnan(loss))
        return UINT32_MAX;
    memcpy(&bits, &loss, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static bool chooses_by_loss(const larder_args *args) {
    return strcmp(larder_args_text(args, "victim"), "loss") == 0;
}

static const char *needs_signal(const larder_args *args) {
    return chooses_by_loss(args) ? "loss" : NULL;
}

/* "off" is 1: no share is above it. */
static bool read_gate(const char *text, double *out) {
    char *end;
    *out = 1;
    if (strcmp(text, "off") == 0)
        return true;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out >= 0 && *out <= 1;
}

static bool keeps_shut(const larder_args *args) {
    double gate;
    return !read_gate(larder_args_text(args, "gate"), &gate) || gate >= 1 || chooses_by_loss(args);
}

/* The floor of a loss is known of a plain cross entropy alone; the user may know another's. */
static const char *likes_signal(const larder_args *args) {
    return keeps_shut(args) ? NULL : *larder_args_text(args, "learned") ? "loss" : "plain";
}

static bool as_said(const larder_args *args) { return !chooses_by_loss(args); }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    rotate *p = st;
    const char *gate = larder_args_text(args, "gate"), *learned = larder_args_text(args, "learned");
    char *end = NULL;
    p->slots = slots;
    p->tries = (uint32_t)larder_args_number(args, "tries");
    p->rested = (uint32_t)larder_args_number(args, "rested");
    p->by_loss = chooses_by_loss(args);
    if (!read_gate(gate, &p->gate))
        return larder_fail(LARDER_E_ARGS, "gate=%.40s: a share from 0 to 1, or off", gate);
    if (p->by_loss && strcmp(gate, "off") != 0)
        return larder_fail(LARDER_E_ARGS, "gate= does not go with victim=loss, which keeps who is "
                                          "not learned anyway");
    if (*learned && keeps_shut(args))
        return larder_fail(LARDER_E_ARGS, "learned=%.40s is of the gate, which is shut: gate=0.3",
                           learned);
    p->learned = *learned ? strtod(learned, &end) : 0.05;
    if (*learned && (*end || !isfinite(p->learned)))
        return larder_fail(LARDER_E_ARGS, "learned=%.40s: the loss below which a sample is learned",
                           learned);
    return 0;
}

/* ---- the row --------------------------------------------------------------------------------- */

static void stand(rotate *p, seat who, uint32_t place) {
    seats(p)[place].at = who.at;
    seats(p)[place].keep = who.keep;
    seats(p)[place].used = who.used;
    seats(p)[place].since = who.since;
    seats(p)[place].heard = who.heard;
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

/* By the number of services `keep` counts down from the top, never below 0. */
static void note_served(rotate *p, larder_slot s, uint32_t tag) {
    seat *place = &seats(p)[seats(p)[s].where];
    place->used = p->clock++;
    if (!p->by_loss && place->keep)
        place->keep--;
    note_sweep(p, tag);
    if (p->sweep && tag == p->sweep && seats(p)[s].where >= p->served)
        swap_to(p, s, p->served++);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    rotate *p = st;
    uint32_t keep = p->by_loss ? ordered(a->score) : UINT32_MAX;
    stand(p, (seat){.at = s, .keep = keep, .since = p->clock}, p->size++);
    note_served(p, s, a->tag);
}

static void hit(void *st, larder_slot s, const larder_access *a) { note_served(st, s, a->tag); }

static bool is_open(const rotate *p) { return p->share > p->gate; }

static bool goes_before(const rotate *p, const seat *a, const seat *b) {
    bool learned = a->heard == LEARNED;
    if (is_open(p) && learned != (b->heard == LEARNED))
        return learned;
    if (a->keep != b->keep)
        return a->keep < b->keep;
    return !p->by_loss && p->clock - a->since > p->clock - b->since;
}

static larder_slot victim(void *st, const larder_access *incoming) {
    rotate *p = st;
    const seat *row = seats(p);
    note_sweep(p, incoming->tag);
    uint32_t among = is_sweep(incoming->tag) ? p->served : p->size;
    if (!among)
        return LARDER_NO_SLOT;
    const seat *first = &row[larder_rng_below(incoming->rng, among)];
    for (uint32_t i = 1; i < p->tries; i++) {
        const seat *other = &row[larder_rng_below(incoming->rng, among)];
        if (goes_before(p, other, first))
            first = other;
    }
    return first->at;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    rotate *p = st;
    if (seats(p)[s].where < p->served)
        swap_to(p, s, --p->served);
    seat last = seats(p)[--p->size]; /* takes its place */
    stand(p, last, seats(p)[s].where);
}

/* One of which nothing is known counts as not learned. */
static void score(void *st, larder_slot s, float loss) {
    rotate *p = st;
    seat *place = &seats(p)[seats(p)[s].where];
    if (p->by_loss) {
        place->keep = ordered(loss);
        return;
    }
    bool learned = (double)loss < p->learned;
    if (place->heard == UNHEARD)
        p->share += ((learned ? 1 : 0) - p->share) / MEMORY;
    place->heard = learned ? LEARNED : HARD;
}

/* Whoever is drawn counts as served at once, so that it does not come first again for this batch.
 */
static uint32_t draw_rested(rotate *p, larder_rng *rng) {
    seat *row = seats(p);
    uint32_t best = larder_rng_below(rng, p->size);
    for (uint32_t i = 1; i < p->rested; i++) {
        uint32_t other = larder_rng_below(rng, p->size);
        if (p->clock - row[other].used > p->clock - row[best].used)
            best = other;
    }
    row[best].used = p->clock++;
    return best;
}

static bool pick(void *st, larder_rng *rng, uint64_t *key) {
    rotate *p = st;
    if (p->size == 0)
        return false;
    *key = p->slots->key_of[seats(p)[draw_rested(p, rng)].at];
    return true;
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const rotate *p = st;
    larder_write_u32(w, p->sweep);
    larder_write_u32(w, p->served);
    larder_write_u32(w, p->clock);
    larder_write_f64(w, p->share);
    for (uint32_t i = 0; i < p->size; i++) {
        larder_write_u32(w, seats(p)[i].at);
        larder_write_u32(w, seats(p)[i].keep);
        larder_write_u32(w, seats(p)[i].used);
        larder_write_u32(w, seats(p)[i].since);
        larder_write_u32(w, seats(p)[i].heard);
    }
}

static int load(void *st, larder_reader *r) {
    rotate *p = st;
    p->sweep = larder_read_u32(r);
    p->served = larder_read_u32(r);
    p->clock = larder_read_u32(r);
    p->share = larder_read_f64(r);
    p->size = 0;
    if (!(p->share >= 0 && p->share <= 1)) {
        p->share = 0;
        return larder_read_reject(r, "rotate's share of learned samples is no share");
    }
    if (p->served > p->slots->resident || (p->sweep && !is_sweep(p->sweep)))
        return larder_read_reject(r, "rotate knows more served residents than there are");
    for (larder_slot s = 0; s < p->slots->used; s++)
        seats(p)[s].where = UINT32_MAX;
    while (p->size < p->slots->resident) {
        seat who = {.at = larder_read_index(r, p->slots->used, false)};
        who.keep = larder_read_u32(r);
        who.used = larder_read_u32(r);
        who.since = larder_read_u32(r);
        who.heard = larder_read_index(r, LEARNED + 1, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (p->slots->key_of[who.at] == UINT32_MAX || seats(p)[who.at].where != UINT32_MAX)
            return larder_read_reject(r, "a row names a slot twice or an empty one");
        stand(p, who, p->size++);
    }
    return larder_read_status(r);
}

/* ---- shown ----------------------------------------------------------------------------------- */

static const larder_figure figures[] = {
    {"fresh_learned", "", "share of the fresh samples that came in learned, lately"},
    {"gate_open", "", "1 while learned residents leave first"},
    {0}};

static double figure(const void *st, size_t i) {
    const rotate *p = st;
    return i == 0 ? p->share : is_open(p);
}

const larder_policy larder__policy_rotate = {
    .plugin = {.name = "rotate",
               .summary = "lets everyone in; of a few random residents the most served goes",
               .params = params,
               .state_size = sizeof(rotate)},
    .slot_size = sizeof(seat),
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
    .hears =
        &(const larder_policy_hears){
            .signal = needs_signal, .score = score, .likes = likes_signal, .as_said = as_said},
    .lends = &(const larder_policy_lends){.pick = pick},
    .shows = &(const larder_policy_shows){.figures = figures, .figure = figure},
};
