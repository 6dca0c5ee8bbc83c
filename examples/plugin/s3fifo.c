/* S3-FIFO (Yang et al., SOSP 2023) as a plug-in from outside: `make`, then
 *
 *     larder --plugin ./s3fifo.so sim --recipe s3fifo --n 10000 --epochs 3 --cache 20%
 *
 * Newcomers enter a small queue. Who is asked for again there moves on to the main queue, the rest
 * leaves and is remembered for a while; who comes back in that time enters the main queue at once.
 * In the main queue each hit is worth one more round. */
#include <larder/plugin.h>

enum { NOWHERE, SMALL, MAIN }; /* `queue` of a slot; and of a key: where it goes when it comes */
enum { MOST_USES = 3 };

typedef struct entry { /* of a slot */
    larder_slot older, newer;
    uint8_t queue, uses;
} entry;

typedef struct queue {
    larder_slot oldest, newest;
    uint64_t bytes;
} queue;

typedef struct s3fifo {
    const larder_slots *slots;
    double small;    /* share of the budget */
    queue queues[3]; /* NOWHERE's is not used */
    uint64_t left;   /* entries that left the small queue so far */
} s3fifo;

static const larder_param params[] = {
    {"small", "float", "0.1", "share of the cache for newcomers", 0.01, 0.9},
    {0},
};

static entry *entries(const s3fifo *p) { return p->slots->slot_data; }
static uint64_t *left_at(const s3fifo *p) { return p->slots->key_data; } /* of a key; 0: never */

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    s3fifo *p = st;
    p->slots = slots;
    p->small = larder_args_number(args, "small");
    for (int q = SMALL; q <= MAIN; q++)
        p->queues[q] = (queue){LARDER_NO_SLOT, LARDER_NO_SLOT, 0};
    return 0;
}

static void push(s3fifo *p, larder_slot s, uint8_t where) {
    queue *q = &p->queues[where];
    entries(p)[s] = (entry){.older = q->newest, .newer = LARDER_NO_SLOT, .queue = where};
    *(q->newest == LARDER_NO_SLOT ? &q->oldest : &entries(p)[q->newest].newer) = s;
    q->newest = s;
    q->bytes += p->slots->size_of[s];
}

static void pull(s3fifo *p, larder_slot s) {
    entry e = entries(p)[s];
    queue *q = &p->queues[e.queue];
    *(e.older == LARDER_NO_SLOT ? &q->oldest : &entries(p)[e.older].newer) = e.newer;
    *(e.newer == LARDER_NO_SLOT ? &q->newest : &entries(p)[e.newer].older) = e.older;
    q->bytes -= p->slots->size_of[s];
}

/* Remembered while no more have left since than there are residents. */
static bool is_remembered(const s3fifo *p, uint64_t key) {
    return left_at(p)[key] && p->left - left_at(p)[key] < p->slots->resident;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    push(st, s, is_remembered(st, a->key) ? MAIN : SMALL);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    entry *e = &entries(st)[s];
    e->uses += e->uses < MOST_USES;
}

static void resized(void *st, larder_slot s, uint32_t was) {
    s3fifo *p = st;
    p->queues[entries(p)[s].queue].bytes += (uint64_t)p->slots->size_of[s] - was;
}

/* Ends: who moves on loses its uses, so each entry moves a few times at most. */
static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    s3fifo *p = st;
    for (;;) {
        const queue *small = &p->queues[SMALL], *main = &p->queues[MAIN];
        bool from_small = main->oldest == LARDER_NO_SLOT ||
                          (small->oldest != LARDER_NO_SLOT &&
                           (double)small->bytes > p->small * (double)p->slots->budget);
        larder_slot s = from_small ? small->oldest : main->oldest;
        uint8_t uses = entries(p)[s].uses;
        if (uses == 0)
            return s;
        pull(p, s);
        push(p, s, MAIN);
        entries(p)[s].uses = from_small ? 0 : (uint8_t)(uses - 1);
    }
}

static void leave(void *st, larder_slot s, bool evicted) {
    s3fifo *p = st;
    if (evicted && entries(p)[s].queue == SMALL)
        left_at(p)[p->slots->key_of[s]] = ++p->left;
    pull(p, s);
}

/* The queues oldest first, so that loading is pushing again. */
static void save(const void *st, larder_writer *w) {
    const s3fifo *p = st;
    larder_write_u64(w, p->left);
    for (uint64_t k = 0; k < p->slots->keys; k++)
        larder_write_u64(w, left_at(p)[k]);
    for (int q = SMALL; q <= MAIN; q++) {
        for (larder_slot s = p->queues[q].oldest; s != LARDER_NO_SLOT; s = entries(p)[s].newer) {
            larder_write_u32(w, s);
            larder_write_u32(w, entries(p)[s].uses);
        }
        larder_write_u32(w, LARDER_NO_SLOT);
    }
}

static int load(void *st, larder_reader *r) {
    s3fifo *p = st;
    uint32_t count = 0;
    p->left = larder_read_u64(r);
    for (uint64_t k = 0; k < p->slots->keys; k++)
        if ((left_at(p)[k] = larder_read_u64(r)) > p->left)
            return larder_read_reject(r, "an entry of s3fifo left in the future");
    for (uint8_t q = SMALL; q <= MAIN; q++)
        for (larder_slot s; (s = larder_read_index(r, p->slots->used, true)) != LARDER_NO_SLOT;) {
            uint32_t uses = larder_read_u32(r);
            if (larder_read_status(r) < 0 || p->slots->key_of[s] == UINT32_MAX ||
                entries(p)[s].queue != NOWHERE || uses > MOST_USES)
                return larder_read_reject(r, "a queue of s3fifo makes no sense");
            push(p, s, q);
            entries(p)[s].uses = (uint8_t)uses;
            count++;
        }
    if (count != p->slots->resident)
        return larder_read_reject(r, "the queues of s3fifo do not hold all residents");
    return larder_read_status(r);
}

static const larder_policy s3fifo_policy = {
    .plugin = {.name = "s3fifo",
               .summary = "newcomers pass through a small queue; who is used again stays",
               .params = params,
               .state_size = sizeof(s3fifo)},
    .slot_size = sizeof(entry),
    .key_size = sizeof(uint64_t),
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .resized = resized,
    .save = save,
    .load = load,
};

int larder_plugin_load(void) { return larder_register_policy(&s3fifo_policy); }
