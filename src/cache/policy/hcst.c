/* HCST (Li, Wen and He, "Adaptive Kernel Value Caching for SVM Training"): EFU or LRU, whichever
 * promises more. It begins as EFU. At checkpoints, N_c = max(1, floor(lambda s / q)) rounds apart
 * (s entries fit, q are asked for in a round), it compares the hits it had with what the other way
 * would have had: under EFU, accesses whose reuse interval is below s count as LRU's hits; under
 * LRU, EFU is taken to do as well as it did in the window before the switch.
 *
 * With guard=1 a judge that knows takes the place of the guesses (policy/judge.h), after every
 * round. Where a solver speaks (rows are asked for to be held, and offered afterwards) kkt takes
 * the place of EFU, since it knows whom to keep before anything has come back; once LRU has had
 * more hits, it is LRU for good. Elsewhere LFU and a more patient EFU stand by as well.
 *
 * Residents stay when the rule changes: only who enters and leaves is decided another way. A round
 * is what ends with `batch`. */
#include "cache/policy/by_count.h"
#include "cache/policy/by_distance.h"
#include "cache/policy/judge.h"
#include "cache/policy/room.h"
#include "cache/policy/switches.h"

typedef struct hcst {
    const larder_slots *slots;
    larder__judge *judge; /* NULL without guard */
    larder__by_count by_count;
    larder__by_distance by_distance; /* kept while the rule is kkt */
    double margin;                   /* of kkt */
    larder__link *links;             /* by slot, after by_count's */
    larder__list order;              /* by use */
    uint64_t *last;                  /* by key: request number of the last access + 1, 0: never */
    double lambda;
    uint64_t s;             /* entries that fit, as of the round's beginning; 0: to be found out */
    uint64_t asked;         /* accesses of this round */
    uint64_t round, window; /* rounds so far: in all, and since the checkpoint */
    uint64_t hits, near;    /* of the window: hits, and accesses that LRU would have hit */
    uint64_t saved;         /* EFU's hits in the window that ended with the switch to LRU */
    uint64_t rule;
    larder__switches switches;
} hcst;

static const larder_param params[] = {
    {"lambda", "float", "2", "cache sizes' worth of accesses between checkpoints", 0.001, 1e6},
    {"guard", "bool", "0", "kkt or lru where a solver speaks, else by shadows of all", 0, 0},
    {"sample", "int", "4096", "with guard: entries that a shadow follows, at most", 1, 1e9},
    {"margin", "float", "1.6", "with guard: as kkt's", 1, 1000},
    {0},
};

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    hcst *p = st;
    p->slots = slots;
    p->lambda = larder_args_number(args, "lambda");
    p->rule = LARDER__RULE_EFU;
    p->last = slots->key_data;
    p->links = (larder__link *)(void *)((char *)slots->slot_data +
                                        slots->keys * LARDER__BY_COUNT_SLOT_SIZE);
    p->margin = larder_args_number(args, "margin");
    larder__list_init(&p->order);
    int rc = larder__by_count_init(&p->by_count, slots, slots->slot_data,
                                   (uint32_t *)(void *)(p->last + slots->keys));
    if (rc < 0 || larder_args_number(args, "guard") == 0)
        return rc;
    rc = larder__by_distance_init(&p->by_distance, slots, NULL, p->by_count.counts);
    return rc < 0 ? rc
                  : larder__judge_open(&p->judge, slots->keys, p->lambda,
                                       (uint64_t)larder_args_number(args, "sample"));
}

static void fini(void *st) {
    hcst *p = st;
    larder__judge_close(&p->judge);
    larder__by_distance_fini(&p->by_distance);
    larder__by_count_fini(&p->by_count);
}

static void note_access(hcst *p, const larder_access *a, bool hit) {
    if (p->s == 0)
        p->s = larder__room_entries(p->slots, a);
    if (p->judge && p->round == 0 && p->asked == 0 && a->tag == LARDER_TAG_HELD) {
        p->rule = LARDER__RULE_KKT;
        larder__judge_pair(p->judge);
    }
    p->asked++;
    p->hits += hit;
    p->near += p->last[a->key] && a->now + 1 - p->last[a->key] < p->s;
    p->last[a->key] = a->now + 1;
    if (p->judge)
        larder__judge_access(p->judge, a, p->s, hit);
}

static bool asks_solver(const hcst *p) { return p->rule == LARDER__RULE_KKT; }

static bool admit(void *st, const larder_access *a) {
    hcst *p = st;
    note_access(p, a, false);
    larder__by_count_miss(&p->by_count, a->key);
    return !asks_solver(p) || a->tag != LARDER_TAG_HELD;
}

static bool offer(void *st, const larder_access *a) {
    (void)a;
    return asks_solver(st);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    hcst *p = st;
    larder__by_count_insert(&p->by_count, s, a->key);
    larder__list_push(&p->order, p->links, s);
    if (asks_solver(p))
        larder__by_distance_insert(&p->by_distance, s, a->score);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    hcst *p = st;
    note_access(p, a, a->size <= p->slots->size_of[s]); /* longer: it grows, which is a miss */
    larder__by_count_hit(&p->by_count, s, a->key);
    larder__list_cut(&p->order, p->links, s);
    larder__list_push(&p->order, p->links, s);
    if (asks_solver(p))
        larder__by_distance_hit(&p->by_distance, s);
}

static void score(void *st, larder_slot s, float dist) {
    hcst *p = st;
    if (asks_solver(p))
        larder__by_distance_score(&p->by_distance, s, dist);
}

/* Not before it is known whether a solver speaks: the first round is taken as a yes. */
static bool listens(const void *st) {
    const hcst *p = st;
    return p->judge && (asks_solver(p) || p->round == 0);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    hcst *p = st;
    switch (p->rule) {
    case LARDER__RULE_KKT:
        return larder__by_distance_farther(&p->by_distance, incoming, p->margin);
    case LARDER__RULE_LRU:
        return p->order.oldest;
    case LARDER__RULE_LFU:
        return larder__by_count_least(&p->by_count);
    default:
        return larder__by_count_lesser(&p->by_count, incoming->key,
                                       p->rule == LARDER__RULE_PATIENT);
    }
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    hcst *p = st;
    larder__by_count_remove(&p->by_count, s);
    larder__list_cut(&p->order, p->links, s);
    if (asks_solver(p))
        larder__by_distance_remove(&p->by_distance, s);
}

static void follow(hcst *p, uint64_t rule, double was, double other) {
    if (rule == p->rule)
        return;
    p->rule = rule;
    larder__switches_note(&p->switches, p->round, rule, (uint64_t)was, (uint64_t)other);
}

static void checkpoint(hcst *p) {
    bool lru = p->rule == LARDER__RULE_LRU;
    uint64_t other = lru ? p->saved : p->near;
    if (p->hits < other) {
        if (!lru)
            p->saved = p->hits;
        follow(p, lru ? LARDER__RULE_EFU : LARDER__RULE_LRU, (double)p->hits, (double)other);
    }
    p->window = p->hits = p->near = 0;
}

static void batch(void *st) {
    hcst *p = st;
    if (p->asked == 0)
        return;
    p->round++;
    p->window++;
    double apart = p->lambda * (double)p->s / (double)p->asked, was, other;
    if (p->judge) {
        uint32_t rule =
            larder__judge_round(p->judge, (uint32_t)p->rule, p->asked, p->s, &was, &other);
        follow(p, rule, was, other);
    } else if ((double)p->window >= (apart < 1 ? 1 : (double)(uint64_t)apart))
        checkpoint(p);
    p->asked = p->s = 0;
}

static bool switched(const void *st, uint64_t i, larder_switch *out) {
    return larder__switches_get(&((const hcst *)st)->switches, i, out);
}

static void save(const void *st, larder_writer *w) {
    const hcst *p = st;
    const uint64_t counts[] = {p->s,    p->asked, p->round, p->window,
                               p->hits, p->near,  p->saved, p->rule};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        larder_write_u64(w, counts[i]);
    larder__switches_save(&p->switches, w);
    for (uint64_t k = 0; k < p->slots->keys; k++)
        larder_write_u64(w, p->last[k]);
    larder__by_count_save(&p->by_count, w);
    larder__list_save(&p->order, p->links, w);
    if (p->judge)
        larder__judge_save(p->judge, w);
    if (asks_solver(p))
        larder__by_distance_save(&p->by_distance, w);
}

static int load(void *st, larder_reader *r) {
    hcst *p = st;
    uint64_t *const counts[] = {&p->s,    &p->asked, &p->round, &p->window,
                                &p->hits, &p->near,  &p->saved, &p->rule};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] = larder_read_u64(r);
    if (p->rule >= LARDER__RULES || (asks_solver(p) && !p->judge))
        return larder_read_reject(r, "hcst follows a rule that there is not");
    int rc = larder__switches_load(&p->switches, r);
    if (rc < 0)
        return rc;
    for (uint64_t k = 0; k < p->slots->keys; k++)
        p->last[k] = larder_read_u64(r);
    if ((rc = larder__by_count_load(&p->by_count, r)) < 0 ||
        (rc = larder__list_load(&p->order, p->links, p->slots, r)) < 0 || !p->judge ||
        (rc = larder__judge_load(p->judge, r)) < 0)
        return rc;
    return asks_solver(p) ? larder__by_distance_load(&p->by_distance, r) : 0;
}

const larder_policy larder__policy_hcst = {
    .plugin = {.name = "hcst",
               .summary = "switches between efu and lru by the hits each had or would have had",
               .params = params,
               .state_size = sizeof(hcst)},
    .slot_size = LARDER__BY_COUNT_SLOT_SIZE + sizeof(larder__link),
    .key_size = sizeof(uint64_t) + sizeof(uint32_t),
    .init = init,
    .fini = fini,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .batch = batch,
    .save = save,
    .load = load,
    .hears = &(const larder_policy_hears){.score = score, .offer = offer, .listens = listens},
    .shows = &(const larder_policy_shows){.switched = switched},
};
