/* SpiderCache: important samples, and hubs that stand in for their neighbours.
 *
 * - The importance part is ordered by score (not known yet: the highest). It changes on a miss of
 *   both parts alone: the newcomer enters while there is room; else if its score is known and above
 *   the lowest, which leaves, until there is room or the lowest is not lower.
 * - The homophily part is a FIFO of hubs. After each batch the signal names the sample with most
 *   neighbours of its own class; if it is no hub yet it becomes one. A request for a missing sample
 *   that a hub has among its neighbours is served by the hub: its data, label and id. A hub that is
 *   resident already changes sides, any other is fetched with the next batch (a background read).
 * - No sample is in both. The shares are targets: ratio of the budget, and the rest. A part may
 *   use what the other leaves free; who leaves to make room comes from the part that is above its
 *   share. So a change of the ratio drops nothing by itself, and later at most the difference.
 * - The ratio follows the elastic manager, once an epoch.
 * - A substitute must be of the same group (class) where groups are known. At most `most` of the
 *   requests of the epoch so far are substitutes, and at most `most_class` of those of each class.
 *   A hub stands in at most hub_epoch times an epoch and hub_batch times a batch: one served for a
 *   hundred others would outweigh what the rest of the epoch says.
 * - Who is substituted is not trained on, so its score grows old and, where that is low, nothing
 *   would ever bring it back. After `again` substitutions running a request is served itself.
 * - The guard (guard.h): when accuracy has fallen by more than `guard`, and by more than chance
 *   explains, nothing is substituted until it has come back, or does not get worse without. */
#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "cache/policy/elastic.h"
#include "cache/policy/guard.h"
#include "cache/policy/neighbours.h"

#include <math.h>

enum { IMPORTANT, HUBS, PARTS };
enum { PENDING = 16 };    /* hubs on their way in at most; the oldest is given up for a new one */
enum { FETCHED_AT = 16 }; /* bits of a saved count; above them is that of fetched ones */
enum { CLASSES = 1024 };  /* counted apart; beyond that some share a count */

typedef struct known { /* of a key */
    larder__neighbour near;
    larder__link queue; /* of hubs, by key */
    uint32_t score;     /* as an integer that orders alike; 0: never scored */
    uint32_t group;     /* of a resident */
    uint32_t lent_in;   /* a hub: the batch it last stood in in */
    uint16_t lent_now;  /* and how often there */
    uint16_t lent;      /* in this epoch */
    uint16_t passed;    /* requests running that a hub was served for; none of the three wraps */
} known;

typedef struct tally { /* of one class in this epoch */
    uint32_t asked, spent;
} tally;

typedef struct spider {
    const larder_slots *slots;
    larder__heap lowest; /* the importance part; place is NO_SLOT for slots that are not in it */
    uint32_t newest, oldest; /* hub, a key; NO_SLOT: there is none */
    larder__neighbours near;
    uint64_t bytes[PARTS];
    uint32_t pending[PENDING]; /* keys of hubs to fetch, oldest first */
    uint32_t fetched[PENDING]; /* keys of hubs being fetched, oldest first */
    uint32_t claimed;          /* a bit each: asked for; hubs or nothing after the batch */
    uint32_t pending_count, fetched_count;
    uint32_t hub_count;
    larder__elastic elastic;
    larder__guard guard;
    double most, most_class;
    uint32_t hub_epoch, hub_batch, again; /* UINT32_MAX: no limit */
    uint32_t batches;                     /* so far */
    uint64_t limited, tired; /* requests of this epoch a hub was not served for, by either limit */
    uint64_t asked, spent;   /* requests and substitutes of this epoch */
    tally *classes;          /* CLASSES of them */
} spider;

static const larder_param params[] = {
    {"ratio", "float", "0.9", "share of the cache for important samples; 1: no hubs", 0, 1},
    {"ratio_end", "float", "0.8", "the share it moves to when scores come together", 0, 1},
    {"gamma", "float", "0.01", "accuracy growth an epoch that halves the pace (Eq. 7)", 1e-6, 1},
    {"span", "int", "0", "epochs until ratio_end; 0: those of the run", 0, 1e9},
    {"paper", "fixed|literal", "fixed", "literal: Eq. 5-8 as printed, jumps and all", 0, 0},
    {"most", "float", "1", "at most this share of an epoch's requests is substituted", 0, 1},
    {"most_class", "float", "1", "the same within each class", 0, 1},
    {"hub_epoch", "int", "4", "times a hub stands in an epoch; 0: no limit, as the paper", 0,
     65535},
    {"hub_batch", "int", "1", "the same in a batch; 0: no limit", 0, 65535},
    {"again", "int", "1",
     "substitutions running after which a sample is served itself; 0: no limit", 0, 65535},
    {"guard", "float", "0.02",
     "fall of accuracy, beyond its noise, that withdraws substitution; 0: never", 0, 1},
    {0}};

/* ---- parts ----------------------------------------------------------------------------------- */

static known *know(const spider *p, uint64_t key) { return (known *)p->slots->key_data + key; }

static uint64_t target(const spider *p, int part) {
    uint64_t important = (uint64_t)(p->elastic.ratio * (double)p->slots->budget + 0.5);
    if (important > p->slots->budget)
        important = p->slots->budget;
    return part == IMPORTANT ? important : p->slots->budget - important;
}

static uint32_t limit(const larder_args *args, const char *name) {
    uint32_t value = (uint32_t)larder_args_number(args, name);
    return value ? value : UINT32_MAX;
}

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    spider *p = st;
    p->slots = slots;
    larder__heap_init(&p->lowest, slots->slot_data, slots->keys);
    p->newest = p->oldest = LARDER_NO_SLOT;
    p->near = (larder__neighbours){.of = slots->key_data, .stride = sizeof(known)};
    larder__elastic_init(&p->elastic, args, slots->epochs);
    p->most = larder_args_number(args, "most");
    p->most_class = larder_args_number(args, "most_class");
    p->hub_epoch = limit(args, "hub_epoch");
    p->hub_batch = limit(args, "hub_batch");
    p->again = limit(args, "again");
    larder__guard_init(&p->guard, larder_args_number(args, "guard"));
    p->classes = larder__calloc(CLASSES, sizeof *p->classes);
    return p->classes ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) { larder__free(((spider *)st)->classes); }

/* Negative numbers below positive ones, none of them 0. */
static uint32_t ordered(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static float score_of(const known *k) {
    uint32_t bits = k->score >> 31 ? k->score & 0x7fffffffu : ~k->score;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* Not known: above all, since it has just come. */
static uint64_t rank(const known *k) { return (uint64_t)(k->score ? k->score : UINT32_MAX) << 32; }

static int part_of(const spider *p, larder_slot s) {
    return p->lowest.place[s] == LARDER_NO_SLOT ? HUBS : IMPORTANT;
}

static bool is_hub(const spider *p, uint64_t key) {
    larder_slot s = p->slots->slot_of[key];
    return s != LARDER_NO_SLOT && part_of(p, s) == HUBS;
}

/* Has been named and has neighbours, but is not in the homophily part yet. */
static bool is_coming(const spider *p, uint64_t key) {
    return larder__neighbours_any(&p->near, key) && !is_hub(p, key);
}

static void queue_hub(spider *p, uint32_t key) {
    know(p, key)->queue = (larder__link){.newer = LARDER_NO_SLOT, .older = p->newest};
    if (p->newest != LARDER_NO_SLOT)
        know(p, p->newest)->queue.newer = key;
    else
        p->oldest = key;
    p->newest = key;
    p->hub_count++;
}

static void unqueue_hub(spider *p, uint32_t key) {
    larder__link at = know(p, key)->queue;
    *(at.newer != LARDER_NO_SLOT ? &know(p, at.newer)->queue.older : &p->newest) = at.older;
    *(at.older != LARDER_NO_SLOT ? &know(p, at.older)->queue.newer : &p->oldest) = at.newer;
    p->hub_count--;
}

static void sit(spider *p, larder_slot s, int part) {
    uint32_t key = p->slots->key_of[s];
    p->bytes[part] += p->slots->size_of[s];
    if (part == HUBS) {
        p->lowest.place[s] = LARDER_NO_SLOT;
        queue_hub(p, key);
    } else
        larder__heap_push(&p->lowest, s, rank(know(p, key)), key);
}

static void stand_up(spider *p, larder_slot s) {
    int part = part_of(p, s);
    p->bytes[part] -= p->slots->size_of[s];
    if (part == HUBS)
        unqueue_hub(p, p->slots->key_of[s]);
    else
        larder__heap_remove(&p->lowest, s);
}

static void resized(void *st, larder_slot s, uint32_t was) {
    spider *p = st;
    p->bytes[part_of(p, s)] += (uint64_t)p->slots->size_of[s] - was; /* wraps on the way only */
}

/* ---- requests -------------------------------------------------------------------------------- */

static tally *tally_of(const spider *p, const larder_access *a) {
    return &p->classes[a->group % CLASSES];
}

static void count_asked(spider *p, const larder_access *a) {
    p->asked++;
    tally_of(p, a)->asked++;
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)s;
    spider *p = st;
    if (a->tag == LARDER_TAG_FETCH)
        return;
    count_asked(p, a);
    know(p, a->key)->passed = 0;
}

static bool within(double share, uint64_t spent, uint64_t asked) {
    return (double)(spent + 1) <= share * (double)asked;
}

static uint16_t more(uint16_t count) { return (uint16_t)(count + (count < UINT16_MAX)); }

/* May it stand in once more? */
static bool may_lend(const spider *p, const known *hub) {
    bool here = hub->lent_in == p->batches;
    return hub->lent < p->hub_epoch && (!here || hub->lent_now < p->hub_batch);
}

static void lend(const spider *p, known *hub) {
    hub->lent_now = hub->lent_in == p->batches ? more(hub->lent_now) : 1;
    hub->lent_in = p->batches;
    hub->lent = more(hub->lent);
}

/* Its hub, if that is here, of its class, and substitutes are let pass at all. */
static bool find_hub(const spider *p, const larder_access *a, uint64_t *hub) {
    const tally *class = tally_of(p, a);
    return larder__neighbours_find(&p->near, a->key, hub) && is_hub(p, *hub) &&
           know(p, *hub)->group == a->group && !p->guard.withdrawn &&
           within(p->most, p->spent, p->asked) && within(p->most_class, class->spent, class->asked);
}

static void note_claim(spider *p, uint64_t key) {
    for (uint32_t i = 0; i < p->fetched_count; i++)
        if (p->fetched[i] == key)
            p->claimed |= 1u << i;
}

static bool stand_in(void *st, const larder_access *a, uint64_t *other) {
    spider *p = st;
    if (a->tag == LARDER_TAG_FETCH) {
        note_claim(p, a->key);
        return false;
    }
    count_asked(p, a);
    known *k = know(p, a->key);
    bool has = find_hub(p, a, other), tired = has && k->passed >= p->again;
    bool lends = has && !tired && may_lend(p, know(p, *other));
    p->tired += tired;
    p->limited += has && !tired && !lends;
    k->passed = lends ? more(k->passed) : 0;
    if (!lends)
        return false;
    lend(p, know(p, *other));
    p->spent++;
    tally_of(p, a)->spent++;
    return true;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    spider *p = st;
    know(p, a->key)->group = a->group;
    sit(p, s, is_coming(p, a->key) ? HUBS : IMPORTANT);
}

static larder_slot lowest(const spider *p) {
    return p->lowest.size ? larder__heap_top(&p->lowest)->slot : LARDER_NO_SLOT;
}

static larder_slot oldest(const spider *p) {
    return p->hub_count ? p->slots->slot_of[p->oldest] : LARDER_NO_SLOT;
}

static larder_slot victim(void *st, const larder_access *a) {
    spider *p = st;
    larder_slot s = p->slots->slot_of[a->key];
    bool grows = s != LARDER_NO_SLOT;
    uint32_t need = grows ? a->size - p->slots->size_of[s] : a->size;
    int part = grows ? part_of(p, s) : is_coming(p, a->key) ? HUBS : IMPORTANT;
    bool below = p->bytes[part] + need <= target(p, part);
    if (part == HUBS) {
        if (below && p->lowest.size)
            return lowest(p);
        return a->size <= target(p, HUBS) || grows ? oldest(p) : LARDER_NO_SLOT;
    }
    if (below && p->hub_count)
        return oldest(p);
    if (!p->lowest.size || grows)
        return lowest(p);
    const known *k = know(p, a->key);
    return k->score && rank(k) > larder__heap_top(&p->lowest)->high ? lowest(p) : LARDER_NO_SLOT;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    spider *p = st;
    if (part_of(p, s) == HUBS)
        larder__neighbours_drop(&p->near, p->slots->key_of[s]);
    stand_up(p, s);
    p->lowest.place[s] = 0; /* whoever gets the slot is no hub by that */
}

/* ---- hubs ------------------------------------------------------------------------------------ */

static void give_up(spider *p, uint32_t key) {
    if (!is_hub(p, key))
        larder__neighbours_drop(&p->near, key);
}

static void queue_up(spider *p, uint32_t key) {
    if (p->pending_count == PENDING) {
        give_up(p, p->pending[0]);
        memmove(p->pending, p->pending + 1, (PENDING - 1) * sizeof *p->pending);
        p->pending_count--;
    }
    p->pending[p->pending_count++] = key;
}

static bool relate(void *st, uint64_t key, const uint64_t *ids, size_t n) {
    spider *p = st;
    larder_slot s = p->slots->slot_of[key];
    if (n == 0 || is_hub(p, key) || is_coming(p, key) || target(p, HUBS) == 0 ||
        (s != LARDER_NO_SLOT && p->slots->size_of[s] > target(p, HUBS)))
        return false;
    for (size_t i = 0; i < n; i++)
        larder__neighbours_claim(&p->near, key, ids[i]);
    if (s == LARDER_NO_SLOT)
        queue_up(p, (uint32_t)key);
    else {
        stand_up(p, s);
        sit(p, s, HUBS);
    }
    return true;
}

/* Hubs that are in need no note any more, and those that were asked for and are not had no room.
 * The others are of a job that shares this cache and has still to ask. */
static void settle_fetched(spider *p) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < p->fetched_count; i++)
        if (p->claimed >> i & 1)
            give_up(p, p->fetched[i]);
        else if (is_coming(p, p->fetched[i]))
            p->fetched[left++] = p->fetched[i];
    p->fetched_count = left;
    p->claimed = 0;
}

/* The oldest: a job that has not asked for so long has ended. */
static void push_out_fetched(spider *p) {
    give_up(p, p->fetched[0]);
    memmove(p->fetched, p->fetched + 1, (PENDING - 1) * sizeof *p->fetched);
    p->claimed >>= 1;
    p->fetched_count--;
}

static size_t fetch(void *st, uint64_t *keys, size_t max) {
    spider *p = st;
    size_t n = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < p->pending_count; i++) {
        uint32_t key = p->pending[i];
        if (!is_coming(p, key) || p->slots->slot_of[key] != LARDER_NO_SLOT)
            continue; /* it came in by itself, or newer hubs have all it had */
        if (n == max) {
            p->pending[left++] = key;
            continue;
        }
        if (p->fetched_count == PENDING)
            push_out_fetched(p);
        keys[n++] = p->fetched[p->fetched_count++] = key;
    }
    p->pending_count = left;
    return n;
}

/* After a batch: what was fetched for it is in, or there was no room. */
static void batch(void *st) {
    spider *p = st;
    settle_fetched(p);
    p->batches++;
}

/* ---- feedback -------------------------------------------------------------------------------- */

static void ghost(void *st, uint64_t key, float value) {
    if (!isnan(value))
        know(st, key)->score = ordered(value);
}

static void score(void *st, larder_slot s, float value) {
    spider *p = st;
    uint32_t key = p->slots->key_of[s];
    ghost(p, key, value);
    if (part_of(p, s) == IMPORTANT)
        larder__heap_rerank(&p->lowest, s, rank(know(p, key)), key);
}

static void hear_accuracy(void *st, double accuracy) {
    spider *p = st;
    larder__elastic_accuracy(&p->elastic, accuracy);
    larder__guard_watch(&p->guard, accuracy);
}

/* Standard deviation of all known scores; NAN: fewer than two. */
static double deviation(const spider *p) {
    double n = 0, mean = 0, squares = 0;
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        const known *at = know(p, k);
        double value = (double)score_of(at);
        if (!at->score || !isfinite(value))
            continue;
        n++;
        double off = value - mean;
        mean += off / n;
        squares += off * (value - mean);
    }
    return n < 2 ? (double)NAN : sqrt(squares / n);
}

static void epoch(void *st, uint64_t e) {
    spider *p = st;
    larder__elastic_epoch(&p->elastic, e, deviation(p));
    p->asked = p->spent = p->limited = p->tired = 0;
    for (uint64_t k = 0; k < p->slots->keys; k++)
        know(p, k)->lent = 0;
    memset(p->classes, 0, CLASSES * sizeof *p->classes);
}

/* ---- what it shows --------------------------------------------------------------------------- */

static const larder_figure figures[] = {
    {"ratio", "", "share of the cache for important samples"},
    {"sigma", "", "standard deviation of all scores at the start of the epoch"},
    {"slope", "1/epoch", "of sigma, smoothed"},
    {"beta", "", "1: scores have begun to come together, the ratio moves"},
    {"u", "", "how much the growth of accuracy holds the ratio back"},
    {"hubs", "samples", "that stand in for others"},
    {"covered", "samples", "that have a hub, in the cache or on its way"},
    {"withdrawn", "", "1: nothing is substituted, because accuracy has fallen"},
    {"hub_limited", "requests", "of this epoch, read because their hub had stood in often enough"},
    {"served_again", "requests", "of this epoch, read because a hub was served before"},
    {0}};

static double figure(const void *st, size_t i) {
    const spider *p = st;
    const double all[] = {p->elastic.ratio,
                          p->elastic.sigma,
                          p->elastic.slope,
                          p->elastic.beta,
                          p->elastic.u,
                          (double)p->hub_count,
                          (double)p->near.claimed,
                          (double)p->guard.withdrawn,
                          (double)p->limited,
                          (double)p->tired};
    return i < sizeof all / sizeof *all ? all[i] : (double)NAN;
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save_tallies(const spider *p, larder_writer *w) {
    uint32_t n = CLASSES;
    while (n && !p->classes[n - 1].asked)
        n--;
    larder_write_u32(w, n);
    for (uint32_t i = 0; i < n; i++) {
        larder_write_u32(w, p->classes[i].asked);
        larder_write_u32(w, p->classes[i].spent);
    }
    larder_write_u64(w, p->asked);
    larder_write_u64(w, p->spent);
    larder_write_u64(w, p->limited);
    larder_write_u64(w, p->tired);
}

static void save(const void *st, larder_writer *w) {
    const spider *p = st;
    larder_write_u32(w, p->hub_count);
    for (uint32_t k = p->oldest; k != LARDER_NO_SLOT; k = know(p, k)->queue.newer)
        larder_write_u32(w, k);
    /* Fetched ones are there only where several jobs share it: between a job's two words. */
    larder_write_u32(w, p->pending_count | p->fetched_count << FETCHED_AT);
    for (uint32_t i = 0; i < p->pending_count; i++)
        larder_write_u32(w, p->pending[i]);
    for (uint32_t i = 0; i < p->fetched_count; i++)
        larder_write_u32(w, p->fetched[i]);
    larder_write_u32(w, p->claimed);
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        const known *at = know(p, k);
        larder_write_u32(w, at->score);
        larder_write_u32(w, at->near.hub);
        larder_write_u32(w, at->passed | (uint32_t)at->lent << 16);
        larder_write_u32(w, at->lent_in == p->batches ? at->lent_now : 0);
        if (p->slots->slot_of[k] != LARDER_NO_SLOT)
            larder_write_u32(w, at->group);
    }
    save_tallies(p, w);
    larder__guard_save(&p->guard, w);
    larder__elastic_save(&p->elastic, w);
}

static int load_hubs(spider *p, larder_reader *r) {
    uint32_t n = larder_read_u32(r);
    if (n > p->slots->resident)
        return larder_read_reject(r, "it has more hubs than entries");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = larder_read_index(r, p->slots->keys, false);
        larder_slot s = larder_read_status(r) < 0 ? LARDER_NO_SLOT : p->slots->slot_of[key];
        if (s == LARDER_NO_SLOT || is_hub(p, key))
            return larder_read_reject(r, "a hub is not in the cache, or twice");
        sit(p, s, HUBS);
    }
    uint32_t both = larder_read_u32(r), fetched = both >> FETCHED_AT,
             pending = both & ((1u << FETCHED_AT) - 1);
    if (pending > PENDING || fetched > PENDING)
        return larder_read_reject(r, "more hubs are on their way than can be");
    for (; p->pending_count < pending; p->pending_count++)
        p->pending[p->pending_count] = larder_read_index(r, p->slots->keys, false);
    for (; p->fetched_count < fetched; p->fetched_count++)
        p->fetched[p->fetched_count] = larder_read_index(r, p->slots->keys, false);
    p->claimed = larder_read_u32(r);
    return larder_read_status(r);
}

static bool may_have_keys(const spider *p, uint64_t hub) {
    bool fine = is_hub(p, hub);
    for (uint32_t i = 0; i < p->pending_count && !fine; i++)
        fine = p->pending[i] == hub;
    for (uint32_t i = 0; i < p->fetched_count && !fine; i++)
        fine = p->fetched[i] == hub;
    return fine;
}

static int load_keys(spider *p, larder_reader *r) {
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        known *at = know(p, k);
        at->score = larder_read_u32(r);
        uint32_t hub = larder_read_u32(r);
        uint32_t both = larder_read_u32(r);
        at->passed = (uint16_t)both;
        at->lent = (uint16_t)(both >> 16);
        at->lent_now =
            (uint16_t)larder_read_u32(r); /* of the batch under way, which a load calls 0 */
        if (p->slots->slot_of[k] != LARDER_NO_SLOT)
            at->group = larder_read_u32(r);
        if (hub > p->slots->keys || hub == k + 1 || (hub && !may_have_keys(p, hub - 1)))
            return larder_read_reject(r, "a sample has a hub that is none");
        if (hub)
            larder__neighbours_claim(&p->near, hub - 1, k);
    }
    return larder_read_status(r);
}

static int load_tallies(spider *p, larder_reader *r) {
    uint32_t n = larder_read_u32(r);
    if (n > CLASSES)
        return larder_read_reject(r, "more classes than are counted");
    for (uint32_t i = 0; i < n; i++) {
        p->classes[i].asked = larder_read_u32(r);
        p->classes[i].spent = larder_read_u32(r);
    }
    p->asked = larder_read_u64(r);
    p->spent = larder_read_u64(r);
    p->limited = larder_read_u64(r);
    p->tired = larder_read_u64(r);
    return larder_read_status(r);
}

static int load(void *st, larder_reader *r) {
    spider *p = st;
    for (larder_slot s = 0; s < p->slots->used; s++)
        p->lowest.place[s] = 0; /* nobody is a hub yet */
    int rc = load_hubs(p, r);
    if (rc < 0 || (rc = load_keys(p, r)) < 0)
        return rc;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX && part_of(p, s) == IMPORTANT)
            sit(p, s, IMPORTANT);
    if ((rc = load_tallies(p, r)) < 0 || (rc = larder__guard_load(&p->guard, r)) < 0)
        return rc;
    return larder__elastic_load(&p->elastic, r);
}

const larder_policy larder__policy_spider = {
    .plugin = {.name = "spider",
               .summary = "keeps high scores, and hubs that stand in for their neighbours",
               .params = params,
               .state_size = sizeof(spider)},
    .slot_size = LARDER__HEAP_SLOT_SIZE,
    .key_size = sizeof(known),
    .init = init,
    .fini = fini,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .resized = resized,
    .batch = batch,
    .save = save,
    .load = load,
    .hears = &(const larder_policy_hears){.needs_scores = true,
                                          .score = score,
                                          .ghost = ghost,
                                          .accuracy = hear_accuracy,
                                          .epoch = epoch},
    .brings = &(const larder_policy_brings){.fetch = fetch},
    .lends = &(const larder_policy_lends){.by_group = true, .stand_in = stand_in, .relate = relate},
    .shows = &(const larder_policy_shows){.figures = figures, .figure = figure},
};
