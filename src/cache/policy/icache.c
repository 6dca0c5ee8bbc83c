/* A cache in parts: important samples by their loss, unimportant ones by the package.
 *
 * Requests carry the sampler's tag, and larder_sampler.tags says the tag of every id (the list).
 * Sizes are bytes; "rest" is the budget less what S holds.
 * - H holds samples asked for as HIGH, ordered by loss (not known yet: the largest). While it is
 *   below its size, rest x share, a newcomer enters; then only if its loss is known and larger than
 *   the smallest in H, which leaves, until there is room or the smallest is not smaller. A HIGH
 *   request is never substituted.
 * - L holds unimportant samples. A LOW request that is not resident is served by a random member of
 *   L that is still unimportant by the list and was not served in this epoch; the id asked for is
 *   noted. With no such member left it is read and enters L.
 * - Packages fill L: when the unserved members would not last another batch, as many ids as make up
 *   `package` bytes are fetched, first the noted ones, oldest first, then random ones of the list;
 *   all of them unimportant, not resident, not served in this epoch. They take the place of members
 *   already served, and of H's smallest while H is above its size; what does not fit is not read.
 * - share starts at 0.9. At the end of an epoch it moves half the way to HIGH / (HIGH + LOW), the
 *   requests of that epoch, unless there was no LOW one. L's size never falls under a package, for
 *   small caches under a tenth of rest or, if that is more, four samples, at most half of rest.
 * - S holds what is tagged KEEP, up to s_share of the budget, for good.
 * - Requests without a tag enter H while there is room in the whole cache and push nobody out.
 * A sample in L that is asked for as HIGH moves to H, which may pass its size until L needs it. A
 * LOW request that finds its sample in H is a hit and changes nothing. */
#include "base/err.h"
#include "base/heap.h"

#include <math.h>

enum { H, L, S, PARTS };
enum { NOT_NOTED = 0, LAST_NOTED = 1, TAKEN = UINT32_MAX };

typedef struct entry { /* of a slot */
    uint32_t at;       /* L: its place in `line` */
    uint32_t size;     /* as counted in `bytes`; a row may have grown since */
    uint32_t part;
    float loss;
} entry;

typedef struct trail { /* of a key */
    uint32_t served;   /* the epoch it was last served in, counted from 1 */
    uint32_t next;     /* in the chain of noted keys: key + 2, or one of the three above */
} trail;

typedef struct icache {
    const larder_slots *slots;
    const uint8_t *tags;
    larder__heap heap;     /* H */
    larder_slot *line;     /* L: first those not served yet (maybe), then the served */
    uint32_t lined, fresh; /* members of L; of these not served */
    uint64_t bytes[PARTS];
    uint64_t package;
    double share, s_share;
    uint64_t high, low; /* requests of this epoch */
    uint32_t epoch;     /* from 1; 0: none has begun */
    uint32_t low_now, low_usual; /* LOW requests of this batch; a slowly forgotten maximum */
    uint32_t first, last;        /* noted keys, as in trail.next */
    larder_rng rng;              /* of packages, seeded by the first LOW request */
    bool seeded;
} icache;

static const larder_param params[] = {
    {"package", "size", "1MiB", "unimportant samples are loaded by so many bytes at least", 0, 0},
    {"s_share", "float", "0.25", "share of the cache for samples that are kept for good", 0, 1},
    {0}};

/* ---- where things lie ------------------------------------------------------------------------ */

static entry *entry_of(const icache *p, larder_slot s) {
    char *behind = (char *)p->slots->slot_data + p->slots->keys * LARDER__HEAP_SLOT_SIZE;
    return (entry *)(void *)behind + s;
}

static trail *trail_of(const icache *p, uint64_t key) { return (trail *)p->slots->key_data + key; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    icache *p = st;
    if (slots->keys > UINT32_MAX - 4)
        return larder__fail(LARDER_E_RANGE, "icache knows a little less than 4 billion samples");
    p->slots = slots;
    p->share = 0.9;
    p->package = (uint64_t)larder_args_number(args, "package");
    p->s_share = larder_args_number(args, "s_share");
    larder__heap_init(&p->heap, slots->slot_data, slots->keys);
    p->line = (larder_slot *)(void *)entry_of(p, (larder_slot)slots->keys);
    p->first = p->last = LAST_NOTED;
    return 0;
}

/* ---- sizes of the parts ------------------------------------------------------------------------ */

static uint64_t mean_size(const icache *p) {
    uint64_t n = p->slots->resident;
    return n ? (p->slots->bytes + n - 1) / n : 1;
}

static uint64_t rest(const icache *p) {
    return p->slots->budget > p->bytes[S] ? p->slots->budget - p->bytes[S] : 0;
}

static uint64_t low_size(const icache *p) {
    uint64_t all = rest(p), least = p->package < all / 10 ? p->package : all / 10;
    if (least < 4 * mean_size(p))
        least = 4 * mean_size(p) < all / 2 ? 4 * mean_size(p) : all / 2;
    uint64_t size = all - (uint64_t)(p->share * (double)all);
    return size > least ? size : least;
}

static uint64_t high_size(const icache *p) { return rest(p) - low_size(p); }

/* The part a request's sample belongs to. */
static uint32_t part_for(const icache *p, const larder_access *a) {
    if (a->tag == LARDER_TAG_FETCH)
        return L;
    if (a->tag & LARDER_TAG_KEEP &&
        (double)(p->bytes[S] + a->size) <= p->s_share * (double)p->slots->budget)
        return S;
    return (a->tag & LARDER_TAG_RANK) == LARDER_TAG_LOW ? L : H;
}

/* ---- members of a part --------------------------------------------------------------------------- */

/* Sorts like the loss, unknown ones above all. */
static uint32_t weigh(float loss) {
    uint32_t bits;
    if (isnan(loss))
        return UINT32_MAX;
    memcpy(&bits, &loss, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static void line_put(icache *p, uint32_t at, larder_slot s) {
    p->line[at] = s;
    entry_of(p, s)->at = at;
}

static void line_swap(icache *p, uint32_t a, uint32_t b) {
    larder_slot s = p->line[a];
    line_put(p, a, p->line[b]);
    line_put(p, b, s);
}

static void mark_served(icache *p, larder_slot s) {
    if (entry_of(p, s)->at < p->fresh)
        line_swap(p, entry_of(p, s)->at, --p->fresh);
}

static void join(icache *p, larder_slot s, uint32_t part) {
    entry *e = entry_of(p, s);
    e->part = part;
    e->size = p->slots->size_of[s];
    p->bytes[part] += e->size;
    if (part == H)
        larder__heap_push(&p->heap, s, weigh(e->loss), p->slots->key_of[s]);
    else if (part == L) {
        line_put(p, p->lined++, s);
        line_swap(p, p->lined - 1, p->fresh++);
    }
}

static void part_with(icache *p, larder_slot s) {
    entry *e = entry_of(p, s);
    p->bytes[e->part] -= e->size;
    if (e->part == H)
        larder__heap_remove(&p->heap, s);
    else if (e->part == L) {
        mark_served(p, s); /* among the served any of them may fill the gap */
        line_put(p, e->at, p->line[--p->lined]);
    }
}

/* ---- requests --------------------------------------------------------------------------------------- */

static bool is_low(const icache *p, uint64_t key) {
    if (!p->tags)
        return true;
    uint8_t rank = p->tags[key] & LARDER_TAG_RANK;
    return rank == LARDER_TAG_LOW || rank == LARDER_TAG_LEFT;
}

static void count(icache *p, const larder_access *a) {
    bool low = (a->tag & LARDER_TAG_RANK) == LARDER_TAG_LOW;
    p->low += low;
    p->low_now += low;
    p->high += (a->tag & LARDER_TAG_RANK) == LARDER_TAG_HIGH;
}

static void note(icache *p, uint64_t key) {
    trail *t = trail_of(p, key);
    if (t->next != NOT_NOTED)
        return;
    t->next = LAST_NOTED;
    uint32_t link = (uint32_t)key + 2;
    *(p->last == LAST_NOTED ? &p->first : &trail_of(p, p->last - 2)->next) = link;
    p->last = link;
}

/* Every missing entry passes here first. */
static bool stand_in(void *st, const larder_access *a, uint64_t *other) {
    icache *p = st;
    if (a->tag == LARDER_TAG_FETCH)
        return false;
    count(p, a);
    if ((a->tag & LARDER_TAG_RANK) != LARDER_TAG_LOW || part_for(p, a) == S)
        return false;
    if (!p->seeded)
        larder_rng_seed(&p->rng, larder_rng_next(a->rng), 0x9ac4a6e);
    p->seeded = true;
    while (p->fresh) {
        larder_slot s = p->line[larder_rng_below(a->rng, p->fresh)];
        uint32_t key = p->slots->key_of[s];
        mark_served(p, s);
        if (!is_low(p, key) || trail_of(p, key)->served == p->epoch)
            continue;
        trail_of(p, key)->served = p->epoch;
        note(p, a->key);
        *other = key;
        return true;
    }
    return false;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    icache *p = st;
    uint32_t part = part_for(p, a);
    entry_of(p, s)->loss = a->score;
    join(p, s, part);
    if (a->tag == LARDER_TAG_FETCH)
        return;
    trail_of(p, a->key)->served = p->epoch;
    if (part == L)
        mark_served(p, s);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    icache *p = st;
    entry *e = entry_of(p, s);
    if (a->tag == LARDER_TAG_FETCH)
        return;
    count(p, a);
    trail_of(p, a->key)->served = p->epoch;
    p->bytes[e->part] += p->slots->size_of[s] - e->size; /* may wrap on the way, not at the end */
    e->size = p->slots->size_of[s];
    if (e->part == S)
        return;
    uint32_t part = part_for(p, a);
    if (part == S || (part == H && e->part == L && a->tag)) {
        part_with(p, s);
        join(p, s, part);
    } else if (e->part == L)
        mark_served(p, s);
}

/* The longest served of L; when all are still to be served, `any` of them. */
static larder_slot leave_low(const icache *p, bool any) {
    return p->lined > (any ? 0 : p->fresh) ? p->line[p->lined - 1] : LARDER_NO_SLOT;
}

static larder_slot leave_high(const icache *p) {
    return p->heap.size ? larder__heap_top(&p->heap)->slot : LARDER_NO_SLOT;
}

static larder_slot victim(void *st, const larder_access *in) {
    const icache *p = st;
    uint32_t part = part_for(p, in);
    if (in->tag == 0)
        return LARDER_NO_SLOT;
    if (part == L) {
        bool over = p->bytes[L] + in->size > low_size(p);
        return over || !p->heap.size ? leave_low(p, false) : leave_high(p);
    }
    if (part == S) {
        bool low = p->bytes[L] > low_size(p) || !p->heap.size;
        return low ? leave_low(p, true) : leave_high(p);
    }
    if (p->bytes[H] + in->size <= high_size(p))
        return leave_low(p, true);
    bool more = p->heap.size && !isnan(in->score) &&
                weigh(in->score) > larder__heap_top(&p->heap)->high;
    return more ? leave_high(p) : LARDER_NO_SLOT;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    part_with(st, s);
}

static void score(void *st, larder_slot s, float loss) {
    icache *p = st;
    entry_of(p, s)->loss = loss;
    if (entry_of(p, s)->part == H)
        larder__heap_rerank(&p->heap, s, weigh(loss), p->slots->key_of[s]);
}

/* ---- packages ------------------------------------------------------------------------------------------ */

static bool fits_package(const icache *p, uint64_t key) {
    const trail *t = trail_of(p, key);
    return p->slots->slot_of[key] == LARDER_NO_SLOT && is_low(p, key) && t->next != TAKEN &&
           (t->served != p->epoch || p->epoch == 0);
}

static uint64_t next_noted(icache *p) {
    uint64_t key = p->first - 2;
    trail *t = trail_of(p, key);
    p->first = t->next;
    t->next = NOT_NOTED;
    if (p->first == LAST_NOTED)
        p->last = LAST_NOTED;
    return key;
}

static size_t package_count(const icache *p, size_t max) {
    uint32_t a_batch = p->low_now > p->low_usual ? p->low_now : p->low_usual;
    if (a_batch == 0 || p->fresh >= a_batch + a_batch / 4)
        return 0;
    uint64_t mean = mean_size(p), fresh = p->fresh * mean, size = low_size(p);
    uint64_t room = size > fresh ? (size - fresh) / mean : 0, want = (p->package + mean - 1) / mean;
    want = want < room ? want : room;
    return want < max ? (size_t)want : max;
}

static size_t fetch(void *st, uint64_t *keys, size_t max) {
    icache *p = st;
    size_t n = 0, want = p->seeded ? package_count(p, max) : 0;
    while (n < want && p->first != LAST_NOTED) {
        uint64_t key = next_noted(p);
        if (!fits_package(p, key))
            continue;
        trail_of(p, key)->next = TAKEN;
        keys[n++] = key;
    }
    for (size_t tries = 16 * want; p->tags && n < want && tries; tries--) {
        uint64_t key = larder_rng_below(&p->rng, (uint32_t)p->slots->keys);
        if (!fits_package(p, key))
            continue; /* a noted one cannot come here: none are left */
        trail_of(p, key)->next = TAKEN;
        keys[n++] = key;
    }
    for (size_t i = 0; i < n; i++)
        trail_of(p, keys[i])->next = NOT_NOTED;
    return n;
}

static void batch(void *st) {
    icache *p = st;
    uint32_t less = p->low_usual - (p->low_usual + 7) / 8;
    p->low_usual = p->low_now > less ? p->low_now : less;
    p->low_now = 0;
}

/* ---- epochs ------------------------------------------------------------------------------------------------ */

static void list(void *st, const uint8_t *tags) { ((icache *)st)->tags = tags; }

static void epoch(void *st, uint64_t e) {
    icache *p = st;
    if (p->low)
        p->share += ((double)p->high / (double)(p->high + p->low) - p->share) / 2;
    p->high = p->low = 0;
    p->epoch = (uint32_t)e + 1;
    p->fresh = p->lined; /* whose importance grew is passed over when its turn comes */
}

/* ---- saved state -------------------------------------------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const icache *p = st;
    larder_write_f64(w, p->share);
    larder_write_u64(w, p->high);
    larder_write_u64(w, p->low);
    larder_write_u32(w, p->epoch);
    larder_write_u32(w, p->low_now);
    larder_write_u32(w, p->low_usual);
    larder_write_u32(w, p->seeded);
    for (int i = 0; i < 4; i++)
        larder_write_u64(w, p->rng.s[i]);
    for (uint64_t k = 0; k < p->slots->keys; k++)
        larder_write_u32(w, trail_of(p, k)->served);
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX) {
            uint32_t bits;
            memcpy(&bits, &entry_of(p, s)->loss, sizeof bits);
            larder_write_u32(w, entry_of(p, s)->part);
            larder_write_u32(w, bits);
            larder_write_u32(w, entry_of(p, s)->size);
        }
    larder_write_u32(w, p->fresh);
    for (uint32_t i = 0; i < p->lined; i++)
        larder_write_u32(w, p->line[i]);
    for (uint32_t at = p->first; at != LAST_NOTED; at = trail_of(p, at - 2)->next)
        larder_write_u32(w, at - 2);
    larder_write_u32(w, UINT32_MAX);
}

static int load_members(icache *p, larder_reader *r) {
    for (larder_slot s = 0; s < p->slots->used; s++) {
        entry *e = entry_of(p, s);
        *e = (entry){.at = UINT32_MAX, .part = PARTS};
        if (p->slots->key_of[s] == UINT32_MAX)
            continue;
        e->part = larder_read_index(r, PARTS, false);
        uint32_t bits = larder_read_u32(r);
        memcpy(&e->loss, &bits, sizeof bits);
        e->size = larder_read_u32(r);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        p->bytes[e->part] += e->size;
        p->lined += e->part == L;
        if (e->part == H)
            larder__heap_push(&p->heap, s, weigh(e->loss), p->slots->key_of[s]);
    }
    p->fresh = larder_read_index(r, (uint64_t)p->lined + 1, false);
    for (uint32_t i = 0; i < p->lined; i++) {
        larder_slot s = larder_read_index(r, p->slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (entry_of(p, s)->part != L || entry_of(p, s)->at != UINT32_MAX)
            return larder_read_reject(r, "the line of icache names a slot twice or a wrong one");
        line_put(p, i, s);
    }
    return larder_read_status(r);
}

static int load(void *st, larder_reader *r) {
    icache *p = st;
    p->share = larder_read_f64(r);
    p->high = larder_read_u64(r);
    p->low = larder_read_u64(r);
    p->epoch = larder_read_u32(r);
    p->low_now = larder_read_u32(r);
    p->low_usual = larder_read_u32(r);
    p->seeded = larder_read_u32(r) == 1;
    for (int i = 0; i < 4; i++)
        p->rng.s[i] = larder_read_u64(r);
    if (!(p->share >= 0 && p->share <= 1) || p->high > (uint64_t)1 << 60 ||
        p->low > (uint64_t)1 << 60 || p->low_now > 1u << 30 || p->low_usual > 1u << 30)
        return larder_read_reject(r, "the figures of icache make no sense");
    for (uint64_t k = 0; k < p->slots->keys; k++)
        trail_of(p, k)->served = larder_read_u32(r);
    int rc = load_members(p, r);
    for (uint32_t key; rc == 0;) {
        key = larder_read_index(r, p->slots->keys, true);
        if ((rc = larder_read_status(r)) < 0 || key == UINT32_MAX)
            break;
        if (trail_of(p, key)->next != NOT_NOTED)
            rc = larder_read_reject(r, "icache noted a sample twice");
        note(p, key);
    }
    return rc;
}

const larder_policy larder__policy_icache = {
    .plugin = {.name = "icache",
               .summary = "important samples by loss, unimportant ones by the package",
               .params = params,
               .state_size = sizeof(icache)},
    .slot_size = LARDER__HEAP_SLOT_SIZE + sizeof(entry) + sizeof(larder_slot),
    .key_size = sizeof(trail),
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .score = score,
    .fetch = fetch,
    .stand_in = stand_in,
    .batch = batch,
    .list = list,
    .epoch = epoch,
    .save = save,
    .load = load,
};
