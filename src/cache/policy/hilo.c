/* A cache in parts: important samples by their loss, unimportant ones by the package.
 *
 * Requests carry the sampler's tag, and larder_sampler.tags says the tag of every id (the list).
 * Sizes are bytes; "rest" is the budget less what S holds.
 * - H holds samples asked for as HIGH, ordered by loss (not known yet: the largest). A newcomer
 *   enters while the cache has room or H is below its size, rest x share; then only if its loss is
 *   known and larger than the smallest in H, which leaves, until there is room or the smallest is
 *   not smaller. A HIGH request is never substituted.
 * - L holds unimportant samples. A LOW request that is not resident is served by a random member of
 *   L that is still unimportant by the list and was not served in this epoch; the id asked for is
 *   noted. With no such member left it is read and enters L.
 * - Packages fill L: when the unserved members would not last another batch, as many ids as make up
 *   `package` bytes are fetched, first the noted ones, oldest first, then random ones of the list;
 *   all of them unimportant, not resident, not served in this epoch. They take the place of members
 *   already served, and of H's smallest while H is above its size; what does not fit is not read.
 * - With a scratch folder packages are remembered (groups.h), because the loader writes each down
 *   once and reads it back in one piece. The oldest noted id that may be fetched decides, or with
 * none noted the first of 16 random ones that helps: if it lies in a package of which at least
 * `repack` of the samples may be fetched, all these are; else a new package is made. Random ids of
 * a new one lie in no package; only the last half of the tries takes any.
 * - share starts at 0.9. At the end of an epoch it moves half the way to HIGH / (HIGH + LOW), the
 *   requests of that epoch, unless there was no LOW one. L's size never falls under a package, for
 *   small caches under a tenth of rest or, if that is more, four samples, at most half of rest.
 * - S holds what is tagged KEEP, up to s_share of the budget, for good.
 * - Requests without a tag enter H while there is room in the whole cache and push nobody out.
 * A sample in L that is asked for as HIGH moves to H, which may pass its size until L needs it. A
 * LOW request that finds its sample in H is a hit and changes nothing.
 * low=high and low=read leave L out, to compare with: H may have all of rest, nothing is fetched,
 * and a LOW request that is not resident is served by a random member of H, or read and not kept.
 */
#include "base/err.h"
#include "base/heap.h"
#include "cache/policy/groups.h"

#include <math.h>

enum { H, L, S, PARTS };
enum { NOT_NOTED = 0, LAST_NOTED = 1 };
enum { BY_PACKAGE, BY_HIGH, BY_READ };
#define TAKEN UINT32_MAX

typedef struct trail { /* of a key */
    uint32_t served;   /* the epoch it was last served in, counted from 1 */
    uint32_t next;     /* in the chain of noted keys: key + 2, or one of the three above */
} trail;

typedef struct hilo {
    const larder_slots *slots;
    const uint8_t *tags;
    larder__heap heap; /* H; ranks are loss and key */
    /* The rest stands in a line that uses the heap's array from its other end: members of L not
     * served yet, members of L that were, S. A node there is loss, 0, slot; heap.place is known
     * for all. */
    uint32_t fresh, lined, line_end; /* where the three end */
    uint64_t bytes[PARTS];
    int low_way; /* BY_… */
    uint64_t package;
    double share, s_share;
    uint64_t high, low;          /* requests of this epoch */
    uint32_t epoch;              /* from 1; 0: none has begun */
    uint32_t low_now, low_usual; /* LOW requests of this batch; a slowly forgotten maximum */
    uint32_t first, last;        /* noted keys, as in trail.next */
    larder_rng rng;              /* of packages, seeded by the first LOW request */
    bool grouping, making;       /* packages are remembered; the last fetch was a new one */
    uint32_t again;              /* the last fetch was this group */
    larder__key_groups groups;
    bool seeded;
} hilo;

static const larder_param params[] = {
    {"package", "size", "1MiB", "unimportant samples are loaded by so many bytes at least", 0, 0},
    {"s_share", "float", "0.25", "share of the cache for samples that are kept for good", 0, 1},
    {"scratch", "text", "", "folder where packages are laid down; LARDER_SCRATCH if not given", 0,
     0},
    {"scratch_limit", "size", "0", "bytes that packages may take there; 0: no limit", 0, 0},
    {"repack", "float", "0.3", "share of a package that is of use when it is read again", 0.01, 1},
    {"low", "package|high|read", "package",
     "a missing unimportant sample: packages and stand-ins, an important stand-in, or read", 0, 0},
    {0}};

/* ---- where things lie ------------------------------------------------------------------------ */

/* The node of a place in the line. */
static larder__heap_node *in_line(const hilo *p, uint32_t at) {
    return &p->heap.nodes[p->slots->keys - 1 - at];
}

static uint32_t place_in_line(const hilo *p, larder_slot s) {
    return (uint32_t)p->slots->keys - 1 - p->heap.place[s];
}

static uint32_t part_of(const hilo *p, larder_slot s) {
    if (p->heap.place[s] < p->heap.size)
        return H;
    return place_in_line(p, s) < p->lined ? L : S;
}

static trail *trail_of(const hilo *p, uint64_t key) { return (trail *)p->slots->key_data + key; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    hilo *p = st;
    if (slots->keys > UINT32_MAX - 4)
        return larder__fail(LARDER_E_RANGE, "hilo knows a little less than 4 billion samples");
    p->slots = slots;
    p->share = 0.9;
    p->package = (uint64_t)larder_args_number(args, "package");
    p->s_share = larder_args_number(args, "s_share");
    const char *low = larder_args_text(args, "low");
    p->low_way = strcmp(low, "high") == 0   ? BY_HIGH
                 : strcmp(low, "read") == 0 ? BY_READ
                                            : BY_PACKAGE;
    larder__heap_init(&p->heap, slots->slot_data, slots->keys);
    p->first = p->last = LAST_NOTED;
    p->again = LARDER__NO_GROUP;
    p->grouping = larder_args_text(args, "scratch")[0] && p->low_way == BY_PACKAGE;
    return !p->grouping
               ? 0
               : larder__groups_open(&p->groups, slots->keys, larder_args_number(args, "repack"),
                                     (uint64_t)larder_args_number(args, "scratch_limit"));
}

static void fini(void *st) { larder__groups_close(&((hilo *)st)->groups); }

/* ---- sizes of the parts ---------------------------------------------------------------------- */

static uint64_t mean_size(const hilo *p) {
    uint64_t n = p->slots->resident;
    return n ? (p->slots->bytes + n - 1) / n : 1;
}

static uint64_t rest(const hilo *p) {
    return p->slots->budget > p->bytes[S] ? p->slots->budget - p->bytes[S] : 0;
}

static uint64_t low_size(const hilo *p) {
    if (p->low_way != BY_PACKAGE)
        return 0;
    uint64_t all = rest(p), least = p->package < all / 10 ? p->package : all / 10;
    if (least < 4 * mean_size(p))
        least = 4 * mean_size(p) < all / 2 ? 4 * mean_size(p) : all / 2;
    uint64_t size = all - (uint64_t)(p->share * (double)all);
    return size > least ? size : least;
}

static uint64_t high_size(const hilo *p) { return rest(p) - low_size(p); }

static bool tagged(const larder_access *a) { return a->tag & (LARDER_TAG_RANK | LARDER_TAG_KEEP); }

/* The part a request's sample belongs to. */
static uint32_t part_for(const hilo *p, const larder_access *a) {
    if (a->tag == LARDER_TAG_FETCH)
        return L;
    if (a->tag & LARDER_TAG_KEEP &&
        (double)(p->bytes[S] + a->size) <= p->s_share * (double)p->slots->budget)
        return S;
    return (a->tag & LARDER_TAG_RANK) == LARDER_TAG_LOW ? L : H;
}

/* ---- members of a part ----------------------------------------------------------------------- */

/* Sorts like the loss, unknown ones above all. */
static uint32_t weigh(float loss) {
    uint32_t bits;
    if (isnan(loss))
        return UINT32_MAX;
    memcpy(&bits, &loss, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static void line_put(hilo *p, uint32_t at, larder__heap_node n) {
    *in_line(p, at) = n;
    p->heap.place[n.slot] = (uint32_t)p->slots->keys - 1 - at;
}

static void line_swap(hilo *p, uint32_t a, uint32_t b) {
    larder__heap_node n = *in_line(p, a);
    line_put(p, a, *in_line(p, b));
    line_put(p, b, n);
}

/* The member at `at` becomes the first of those served. */
static void mark_served(hilo *p, uint32_t at) {
    if (at < p->fresh)
        line_swap(p, at, --p->fresh);
}

static void join(hilo *p, larder_slot s, uint32_t part, uint32_t loss) {
    p->bytes[part] += p->slots->size_of[s];
    if (part == H) {
        larder__heap_push(&p->heap, s, (uint64_t)loss << 32 | p->slots->key_of[s], 0);
        return;
    }
    line_put(p, p->line_end++, (larder__heap_node){loss, 0, s});
    if (part == L) {
        line_swap(p, p->line_end - 1, p->lined++);
        line_swap(p, p->lined - 1, p->fresh++);
    }
}

/* Returns its loss. */
static uint32_t part_with(hilo *p, larder_slot s) {
    uint32_t part = part_of(p, s), at = place_in_line(p, s);
    larder__heap_node was = p->heap.nodes[p->heap.place[s]];
    p->bytes[part] -= p->slots->size_of[s];
    if (part == H) {
        larder__heap_remove(&p->heap, s);
        return (uint32_t)(was.high >> 32);
    }
    if (part == L) {
        mark_served(p, at);
        line_swap(p, place_in_line(p, s), --p->lined);
        at = p->lined;
    }
    line_put(p, at, *in_line(p, --p->line_end));
    return (uint32_t)was.high;
}

static void resized(void *st, larder_slot s, uint32_t was) {
    hilo *p = st;
    p->bytes[part_of(p, s)] += (uint64_t)p->slots->size_of[s] - was; /* wraps on the way only */
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_low(const hilo *p, uint64_t key) {
    if (!p->tags)
        return true;
    uint8_t rank = p->tags[key] & LARDER_TAG_RANK;
    return rank == LARDER_TAG_LOW || rank == LARDER_TAG_LEFT;
}

static void count(hilo *p, const larder_access *a) {
    bool low = (a->tag & LARDER_TAG_RANK) == LARDER_TAG_LOW;
    p->low += low;
    p->low_now += low;
    p->high += (a->tag & LARDER_TAG_RANK) == LARDER_TAG_HIGH;
}

static void note(hilo *p, uint64_t key) {
    trail *t = trail_of(p, key);
    if (t->next != NOT_NOTED)
        return;
    t->next = LAST_NOTED;
    uint32_t link = (uint32_t)key + 2;
    *(p->last == LAST_NOTED ? &p->first : &trail_of(p, p->last - 2)->next) = link;
    p->last = link;
}

/* low=high: any of the important ones, whether it was served or not. */
static bool stand_in_high(const hilo *p, const larder_access *a, uint64_t *other) {
    if (p->low_way != BY_HIGH || !p->heap.size)
        return false;
    *other = p->slots->key_of[p->heap.nodes[larder_rng_below(a->rng, p->heap.size)].slot];
    trail_of(p, *other)->served = p->epoch;
    return true;
}

/* Every missing entry passes here first. */
static bool stand_in(void *st, const larder_access *a, uint64_t *other) {
    hilo *p = st;
    if (a->tag == LARDER_TAG_FETCH)
        return false;
    count(p, a);
    if ((a->tag & LARDER_TAG_RANK) != LARDER_TAG_LOW || part_for(p, a) == S)
        return false;
    if (p->low_way != BY_PACKAGE)
        return stand_in_high(p, a, other);
    if (!p->seeded)
        larder_rng_seed(&p->rng, larder_rng_next(a->rng), 0x9ac4a6e);
    p->seeded = true;
    while (p->fresh) {
        uint32_t at = larder_rng_below(a->rng, p->fresh);
        uint32_t key = p->slots->key_of[in_line(p, at)->slot];
        mark_served(p, at);
        if (!is_low(p, key) || trail_of(p, key)->served == p->epoch)
            continue;
        trail_of(p, key)->served = p->epoch;
        note(p, a->key);
        *other = key;
        return true;
    }
    return false;
}

static bool admit(void *st, const larder_access *a) {
    const hilo *p = st;
    return p->low_way == BY_PACKAGE || part_for(p, a) != L;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    hilo *p = st;
    uint32_t part = part_for(p, a);
    join(p, s, part, weigh(a->score));
    if (a->tag == LARDER_TAG_FETCH) {
        if (p->making)
            larder__groups_add(&p->groups, (uint32_t)a->key, a->size);
        return;
    }
    trail_of(p, a->key)->served = p->epoch;
    if (part == L)
        mark_served(p, place_in_line(p, s));
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    hilo *p = st;
    if (a->tag == LARDER_TAG_FETCH)
        return;
    count(p, a);
    trail_of(p, a->key)->served = p->epoch;
    uint32_t from = part_of(p, s), to = part_for(p, a);
    if (from == S)
        return;
    if (to == S || (to == H && from == L && tagged(a)))
        join(p, s, to, part_with(p, s));
    else if (from == L)
        mark_served(p, place_in_line(p, s));
}

/* The longest served of L; when all are still to be served, `any` of them. */
static larder_slot leave_low(const hilo *p, bool any) {
    return p->lined > (any ? 0 : p->fresh) ? in_line(p, p->lined - 1)->slot : LARDER_NO_SLOT;
}

static larder_slot leave_high(const hilo *p) {
    return p->heap.size ? larder__heap_top(&p->heap)->slot : LARDER_NO_SLOT;
}

static larder_slot victim(void *st, const larder_access *in) {
    const hilo *p = st;
    uint32_t part = part_for(p, in);
    if (!tagged(in))
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
                weigh(in->score) > larder__heap_top(&p->heap)->high >> 32;
    return more ? leave_high(p) : LARDER_NO_SLOT;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    hilo *p = st;
    part_with(p, s);
}

static void score(void *st, larder_slot s, float loss) {
    hilo *p = st;
    larder__heap_node *n = &p->heap.nodes[p->heap.place[s]];
    if (part_of(p, s) != H)
        n->high = weigh(loss);
    else
        larder__heap_rerank(&p->heap, s, (uint64_t)weigh(loss) << 32 | p->slots->key_of[s], 0);
}

/* ---- packages -------------------------------------------------------------------------------- */

static bool fits_package(const hilo *p, uint64_t key) {
    const trail *t = trail_of(p, key);
    return p->slots->slot_of[key] == LARDER_NO_SLOT && is_low(p, key) && t->next != TAKEN &&
           (t->served != p->epoch || p->epoch == 0);
}

static uint64_t next_noted(hilo *p) {
    uint64_t key = p->first - 2;
    trail *t = trail_of(p, key);
    p->first = t->next;
    t->next = NOT_NOTED;
    if (p->first == LAST_NOTED)
        p->last = LAST_NOTED;
    return key;
}

static size_t package_count(const hilo *p, size_t max) {
    uint32_t a_batch = p->low_now > p->low_usual ? p->low_now : p->low_usual;
    if (a_batch == 0 || p->fresh >= a_batch + a_batch / 4)
        return 0;
    uint64_t mean = mean_size(p), fresh = p->fresh * mean, size = low_size(p);
    uint64_t room = size > fresh ? (size - fresh) / mean : 0, want = (p->package + mean - 1) / mean;
    want = want < room ? want : room;
    return want < max ? (size_t)want : max;
}

/* The useful keys of a group, if they are enough; each group is asked once a fetch. */
static size_t useful(hilo *p, uint32_t at, uint64_t *keys, size_t max) {
    larder__key_groups *g = &p->groups;
    if (at == LARDER__NO_GROUP || g->all[at].looked_at == g->looks)
        return 0;
    size_t n = 0;
    g->all[at].looked_at = g->looks;
    for (uint32_t k = g->all[at].members.oldest; k != LARDER_NO_SLOT && n < max;
         k = g->mates[k].newer)
        if (fits_package(p, k))
            keys[n++] = k;
    return (double)n < g->share * (double)g->all[at].count ? 0 : n;
}

/* A package that is worth reading again, or 0. */
static size_t fetch_again(hilo *p, uint64_t *keys, size_t max) {
    p->groups.looks++;
    while (p->first != LAST_NOTED && !fits_package(p, p->first - 2))
        next_noted(p);
    bool noted = p->first != LAST_NOTED;
    for (int tries = noted ? 1 : p->tags ? 16 : 0; tries; tries--) {
        uint32_t key = noted ? p->first - 2 : larder_rng_below(&p->rng, (uint32_t)p->slots->keys);
        uint32_t at = p->groups.group_of[key];
        size_t n = useful(p, at, keys, max);
        if (n) {
            p->again = at;
            return n;
        }
    }
    return 0;
}

static bool lies_in_package(const hilo *p, uint64_t key) {
    return p->grouping && p->groups.group_of[key] != LARDER__NO_GROUP;
}

static size_t fetch(void *st, uint64_t *keys, size_t max) {
    hilo *p = st;
    size_t n = 0, want = p->seeded ? package_count(p, max) : 0;
    if (p->making) /* nobody asked which package the last one was */
        larder__groups_finish(&p->groups);
    p->making = false;
    p->again = LARDER__NO_GROUP;
    if (want && p->grouping && (n = fetch_again(p, keys, max)))
        return n;
    p->making = p->grouping;
    while (n < want && p->first != LAST_NOTED) {
        uint64_t key = next_noted(p);
        if (!fits_package(p, key))
            continue;
        trail_of(p, key)->next = TAKEN;
        keys[n++] = key;
    }
    for (size_t tries = 16 * want; p->tags && n < want && tries; tries--) {
        uint64_t key = larder_rng_below(&p->rng, (uint32_t)p->slots->keys);
        if (!fits_package(p, key) || (tries > 8 * want && lies_in_package(p, key)))
            continue; /* a noted one cannot come here: none are left */
        trail_of(p, key)->next = TAKEN;
        keys[n++] = key;
    }
    for (size_t i = 0; i < n; i++)
        trail_of(p, keys[i])->next = NOT_NOTED;
    return n;
}

static larder_package package(void *st) {
    hilo *p = st;
    uint32_t at = p->making ? larder__groups_finish(&p->groups) : p->again;
    larder_package out = {.again = !p->making && at != LARDER__NO_GROUP};
    if (at != LARDER__NO_GROUP) {
        out.number = p->groups.all[at].number;
        out.bytes = p->groups.all[at].bytes;
    }
    p->making = false;
    p->again = LARDER__NO_GROUP;
    return out;
}

static size_t dropped(void *st, uint64_t *numbers, size_t max) {
    hilo *p = st;
    return p->grouping ? larder__groups_dropped(&p->groups, numbers, max) : 0;
}

static void batch(void *st) {
    hilo *p = st;
    uint32_t less = p->low_usual - (p->low_usual + 7) / 8;
    p->low_usual = p->low_now > less ? p->low_now : less;
    p->low_now = 0;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void list(void *st, const uint8_t *tags) { ((hilo *)st)->tags = tags; }

static void epoch(void *st, uint64_t e) {
    hilo *p = st;
    if (p->low)
        p->share += ((double)p->high / (double)(p->high + p->low) - p->share) / 2;
    p->high = p->low = 0;
    p->epoch = (uint32_t)e + 1;
    p->fresh = p->lined; /* whose importance grew is passed over when its turn comes */
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save_member(larder_writer *w, larder__heap_node n) {
    larder_write_u32(w, n.slot);
    larder_write_u32(w, (uint32_t)n.high);
}

static void save(const void *st, larder_writer *w) {
    const hilo *p = st;
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
    larder_write_u32(w, p->heap.size);
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX && part_of(p, s) == H) {
            larder__heap_node n = p->heap.nodes[p->heap.place[s]];
            save_member(w, (larder__heap_node){n.high >> 32, 0, s});
        }
    larder_write_u32(w, p->fresh);
    larder_write_u32(w, p->lined);
    larder_write_u32(w, p->line_end);
    for (uint32_t i = 0; i < p->line_end; i++)
        save_member(w, *in_line(p, i));
    for (uint32_t at = p->first; at != LAST_NOTED; at = trail_of(p, at - 2)->next)
        larder_write_u32(w, at - 2);
    larder_write_u32(w, UINT32_MAX);
    larder_write_u32(w, p->grouping);
    if (p->grouping)
        larder__groups_save(&p->groups, w);
}

/* Each resident once: `place` is UINT32_MAX until its slot has come. */
static int load_member(hilo *p, larder_reader *r, larder__heap_node *out) {
    out->slot = larder_read_index(r, p->slots->used, false);
    out->high = larder_read_u32(r);
    out->low = 0;
    if (larder_read_status(r) < 0)
        return larder_read_status(r);
    if (p->slots->key_of[out->slot] == UINT32_MAX || p->heap.place[out->slot] != UINT32_MAX)
        return larder_read_reject(r, "hilo names a slot twice or an empty one");
    return 0;
}

static int load_members(hilo *p, larder_reader *r, uint32_t in_heap) {
    larder__heap_node n;
    int rc = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        p->heap.place[s] = UINT32_MAX;
    for (uint32_t i = 0; rc == 0 && i < in_heap; i++)
        if ((rc = load_member(p, r, &n)) == 0) {
            p->bytes[H] += p->slots->size_of[n.slot];
            larder__heap_push(&p->heap, n.slot, n.high << 32 | p->slots->key_of[n.slot], 0);
        }
    uint32_t fresh = larder_read_u32(r), lined = larder_read_u32(r), end = larder_read_u32(r);
    if (rc == 0 && (fresh > lined || lined > end || end != p->slots->resident - in_heap))
        rc = larder_read_reject(r, "the line of hilo makes no sense");
    for (uint32_t i = 0; rc == 0 && i < end; i++)
        if ((rc = load_member(p, r, &n)) == 0) {
            p->bytes[i < lined ? L : S] += p->slots->size_of[n.slot];
            line_put(p, i, n);
        }
    if (rc == 0)
        p->fresh = fresh, p->lined = lined, p->line_end = end;
    return rc < 0 ? rc : larder_read_status(r);
}

static int load(void *st, larder_reader *r) {
    hilo *p = st;
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
        return larder_read_reject(r, "the figures of hilo make no sense");
    for (uint64_t k = 0; k < p->slots->keys; k++)
        trail_of(p, k)->served = larder_read_u32(r);
    int rc = load_members(p, r, larder_read_index(r, (uint64_t)p->slots->resident + 1, false));
    for (uint32_t key; rc == 0;) {
        key = larder_read_index(r, p->slots->keys, true);
        if ((rc = larder_read_status(r)) < 0 || key == UINT32_MAX)
            break;
        if (trail_of(p, key)->next != NOT_NOTED)
            rc = larder_read_reject(r, "hilo noted a sample twice");
        note(p, key);
    }
    bool grouped = larder_read_u32(r) == 1;
    if (rc == 0 && (rc = larder_read_status(r)) == 0 && grouped != p->grouping)
        rc =
            larder_read_reject(r, p->grouping ? "it was made without a scratch folder"
                                              : "it was made with a scratch folder; name one, any, "
                                                "by scratch= or LARDER_SCRATCH");
    return rc == 0 && p->grouping ? larder__groups_load(&p->groups, r) : rc;
}

const larder_policy larder__policy_hilo = {
    .plugin = {.name = "hilo",
               .summary = "important samples by loss, unimportant ones by the package",
               .params = params,
               .state_size = sizeof(hilo)},
    .slot_size = LARDER__HEAP_SLOT_SIZE,
    .key_size = sizeof(trail),
    .init = init,
    .fini = fini,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .resized = resized,
    .batch = batch,
    .save = save,
    .load = load,
    .hears =
        &(const larder_policy_hears){
            .needs_scores = true, .score = score, .list = list, .epoch = epoch},
    .brings = &(const larder_policy_brings){.fetch = fetch, .package = package, .dropped = dropped},
    .lends = &(const larder_policy_lends){.stand_in = stand_in},
};
