#include "cache/ods_core.h"

#include "base/err.h"
#include "base/mem.h"

enum { COUNT = 63, RESIDENT = 64, MOST_CREDIT = LARDER__ODS_OFFERS };

#define each_job(o, j)                                                                             \
    for (__typeof__((o)->jobs[0]) *j = (o)->jobs; j < (o)->jobs + (o)->lately; j++)                \
        if (j->joined)

static bool bit(const uint64_t *bits, uint64_t i) { return bits[i >> 6] >> (i & 63) & 1; }
static void bit_set(uint64_t *bits, uint64_t i) { bits[i >> 6] |= (uint64_t)1 << (i & 63); }
static void bit_clear(uint64_t *bits, uint64_t i) { bits[i >> 6] &= ~((uint64_t)1 << (i & 63)); }
static size_t words(uint64_t n) { return n / 64 + 1; }

static uint32_t count_of(const larder__ods *o, uint64_t id) { return o->byte[id] & COUNT; }
static bool is_resident(const larder__ods *o, uint64_t id) { return o->byte[id] & RESIDENT; }
static bool is_augmented(const larder__ods *o, larder_slot s) {
    return o->slots->form_of[s] == LARDER_AUGMENTED;
}

/* ---- which sets a slot or sample belongs to -------------------------------------------------- */

/* Two counts of live jobs: those it is not new to, and those that have used it for good. */
static uint32_t had_by(const larder__ods *o, larder_slot s, uint32_t *used) {
    uint32_t seen = count_of(o, o->slots->key_of[s]), had = seen;
    *used = seen;
    if (!is_augmented(o, s))
        return had;
    had = *used = 0;
    each_job(o, j) if (j->live) {
        had += bit(j->used, s) || bit(j->seen, o->slots->key_of[s]);
        *used += bit(j->used, s);
    }
    return had;
}

static bool is_new(const larder__ods *o, const larder__ods_job *j, larder_slot s) {
    return !bit(j->seen, o->slots->key_of[s]) && !(is_augmented(o, s) && bit(j->used, s));
}

static void put(larder__pickset *set, uint32_t i, bool in) {
    if (in)
        larder__pickset_add(set, i);
    else
        larder__pickset_cut(set, i);
}

static void sort_slot(larder__ods *o, larder_slot s) {
    uint32_t used, had = had_by(o, s, &used);
    put(&o->fresh, s, had == 0);
    put(&o->done, s, used == o->live && !larder__pickset_has(&o->promised, s));
    each_job(o, j) put(&j->touched, s, had && is_new(o, j, s));
}

static void unsort_slot(larder__ods *o, larder_slot s) {
    larder__pickset_cut(&o->fresh, s);
    larder__pickset_cut(&o->done, s);
    each_job(o, j) {
        larder__pickset_cut(&j->touched, s);
        bit_clear(j->used, s);
    }
}

static void sort_sample(larder__ods *o, uint64_t id, bool in) {
    uint32_t k = count_of(o, id);
    if (k < o->few_count)
        put(&o->few[k], (uint32_t)id, in && !is_resident(o, id));
}

static void recount_job(larder__ods *o, larder__ods_job *j) {
    j->served = 0;
    for (size_t w = 0; w < words(o->slots->keys); w++)
        for (uint64_t left = j->seen[w]; left; left &= left - 1) {
            o->byte[w * 64 + (size_t)__builtin_ctzll(left)] += j->live;
            j->served++;
        }
}

/* Everything that follows from the jobs' bits and the table. */
static void recount(larder__ods *o) {
    for (uint64_t id = 0; id < o->slots->keys; id++)
        o->byte[id] &= (uint8_t)~COUNT;
    each_job(o, j) recount_job(o, j);
    for (uint32_t k = 0; k < o->few_count; k++)
        larder__pickset_clear(&o->few[k]);
    for (uint64_t id = 0; o->few_count && id < o->slots->keys; id++) {
        uint32_t k = count_of(o, id);
        if (k < o->few_count && !is_resident(o, id))
            o->few[k].words[id >> 6] |= (uint64_t)1 << (id & 63);
    }
    for (uint32_t k = 0; k < o->few_count; k++)
        larder__pickset_recount(&o->few[k]);
    for (larder_slot s = 0; s < o->slots->used; s++)
        if (o->slots->key_of[s] != UINT32_MAX)
            sort_slot(o, s);
}

/* ---- jobs come and go ------------------------------------------------------------------------ */

/* Room for few[k], k < (J + 1) / 2. */
static int few_reserve(larder__ods *o, uint32_t live) {
    uint32_t want = (live + 1) / 2;
    if (want <= o->few_cap)
        return 0;
    larder__pickset *grown = larder__realloc(o->few, want * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    o->few = grown;
    while (o->few_cap < want) {
        int rc = larder__pickset_open(&o->few[o->few_cap], (uint32_t)o->slots->keys);
        if (rc < 0)
            return rc;
        o->few_cap++;
    }
    return 0;
}

static void set_live(larder__ods *o, larder__ods_job *j, bool live) {
    o->live += (uint32_t)live - (uint32_t)j->live;
    j->live = live;
    o->few_count = (o->live + 1) / 2;
    o->credit = 0; /* its unit has changed */
    recount(o);
}

static void job_free(larder__ods_job *j) {
    larder__free(j->seen);
    larder__free(j->used);
    larder__pickset_close(&j->touched);
    *j = (larder__ods_job){0};
}

static int job_open(larder__ods *o, larder__ods_job *j) {
    uint64_t n = o->slots->keys;
    j->seen = larder__calloc(words(n), sizeof *j->seen);
    j->used = larder__calloc(words(n), sizeof *j->used);
    int rc = j->seen && j->used ? larder__pickset_open(&j->touched, (uint32_t)n) : LARDER_E_NOMEM;
    if (rc < 0)
        job_free(j);
    return rc;
}

int larder__ods_join(larder__ods *o, uint32_t *job) {
    uint32_t at = 0;
    while (at < LARDER__ODS_JOBS && o->jobs[at].joined)
        at++;
    if (at == LARDER__ODS_JOBS)
        return larder__fail(LARDER_E_FULL, "%d jobs share this cache already; it takes no more",
                            LARDER__ODS_JOBS);
    uint32_t joined = 1; /* those that rest may wake */
    each_job(o, j) joined++;
    int rc = few_reserve(o, joined);
    if (rc == 0)
        rc = job_open(o, &o->jobs[at]);
    if (rc < 0)
        return rc;
    o->jobs[at].joined = true;
    o->lately = at + 1 > o->lately ? at + 1 : o->lately;
    set_live(o, &o->jobs[at], true);
    *job = at;
    return 0;
}

static larder__ods_job *find_job(larder__ods *o, uint32_t job) {
    return job < o->lately && o->jobs[job].joined ? &o->jobs[job] : NULL;
}

void larder__ods_leave(larder__ods *o, uint32_t job) {
    larder__ods_job *j = find_job(o, job);
    if (!j)
        return;
    set_live(o, j, false);
    job_free(j);
    while (o->lately && !o->jobs[o->lately - 1].joined)
        o->lately--;
}

void larder__ods_rest(larder__ods *o, uint32_t job, bool rests) {
    larder__ods_job *j = find_job(o, job);
    if (j && j->live == rests)
        set_live(o, j, !rests);
}

void larder__ods_epoch(larder__ods *o, uint32_t job, const uint8_t *left_out) {
    larder__ods_job *j = find_job(o, job);
    if (!j)
        return;
    memset(j->seen, 0, words(o->slots->keys) * sizeof *j->seen);
    for (uint64_t id = 0; left_out && id < o->slots->keys; id++)
        if ((left_out[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            bit_set(j->seen, id);
    recount(o);
}

void larder__ods_resume(larder__ods *o, uint32_t job, const uint64_t *seen) {
    larder__ods_job *j = find_job(o, job);
    uint64_t n = o->slots->keys;
    if (!j)
        return;
    memcpy(j->seen, seen, words(n) * sizeof *j->seen);
    j->seen[n / 64] &= ((uint64_t)1 << (n % 64)) - 1;
    recount(o);
}

void larder__ods_had_all(larder__ods *o, uint32_t job) {
    larder__ods_job *j = find_job(o, job);
    for (larder_slot s = 0; j && s < o->slots->used; s++)
        if (o->slots->key_of[s] != UINT32_MAX && is_augmented(o, s)) {
            bit_set(j->used, s);
            sort_slot(o, s);
        }
}

/* ---- a batch --------------------------------------------------------------------------------- */

static void earn(larder__ods *o, int64_t more) {
    int64_t most = MOST_CREDIT * (int64_t)o->slots->keys * o->live;
    o->credit += more;
    o->credit = o->credit < 0 ? 0 : o->credit < most ? o->credit : most;
}

static void note_seen(larder__ods *o, larder__ods_job *j, uint64_t id) {
    if (bit(j->seen, id))
        return;
    sort_sample(o, id, false);
    bit_set(j->seen, id);
    j->served++;
    o->byte[id] += j->live;
    sort_sample(o, id, true);
    if (j->live)
        earn(o, (int64_t)o->slots->keys - o->stays);
}

static void forget_promises(larder__ods *o) {
    while (o->promised.count) {
        larder_slot s = larder__pickset_at(&o->promised, 0);
        larder__pickset_cut(&o->promised, s);
        sort_slot(o, s);
    }
}

/* Is each sample wanted once and new? Marks them on the way and takes the marks back. */
static int check_wanted(const larder__ods *o, larder__ods_job *j, const uint64_t *wanted,
                        size_t n) {
    size_t good = 0;
    while (good < n && wanted[good] < o->slots->keys && !bit(j->seen, wanted[good]))
        bit_set(j->seen, wanted[good++]);
    bool twice = false;
    for (size_t i = 0; good < n && i < good; i++)
        twice |= wanted[i] == wanted[good];
    for (size_t i = 0; i < good; i++)
        bit_clear(j->seen, wanted[i]);
    if (good == n)
        return 0;
    return larder__fail(LARDER_E_ARGS, "sample %llu %s", (unsigned long long)wanted[good],
                        wanted[good] >= o->slots->keys ? "does not exist"
                        : twice                        ? "is wanted twice in a batch"
                                                       : "was served in this epoch already");
}

static void promise(larder__ods *o, larder__ods_job *j, larder_slot s) {
    larder__pickset_add(&o->promised, s);
    note_seen(o, j, o->slots->key_of[s]);
    sort_slot(o, s);
}

/* A list gives its k-th at once, where the set has to look for it: with many jobs these draws are
 * most of what deciding costs. Taking one out moves those behind it, so it must not be long. */
static void list_near(larder__ods *o, const larder__ods_job *j, size_t rows) {
    enum { A_ROW = 32 };
    o->near_count = 0;
    if (j->touched.count > LARDER__ODS_NEAR || j->touched.count > A_ROW * rows)
        return;
    larder__pickset_list(&j->touched, o->near);
    o->near_count = j->touched.count;
}

static larder_slot touched_at(const larder__ods *o, const larder__ods_job *j, uint32_t k) {
    return o->near_count ? o->near[k] : larder__pickset_at(&j->touched, k);
}

static larder_slot choose_slot(larder__ods *o, const larder__ods_job *j, larder_rng *rng) {
    if (!j->touched.count)
        return o->fresh.count ? larder__pickset_draw(&o->fresh, rng) : LARDER_NO_SLOT;
    uint32_t at = larder_rng_below(rng, j->touched.count);
    larder_slot best = touched_at(o, j, at);
    for (uint32_t i = 1; i < LARDER__ODS_LOOKS * o->live; i++) {
        uint32_t k = larder_rng_below(rng, j->touched.count);
        larder_slot s = touched_at(o, j, k);
        if (count_of(o, o->slots->key_of[s]) > count_of(o, o->slots->key_of[best])) {
            best = s;
            at = k;
        }
    }
    if (o->near_count) /* it is served now, and so not touched any more */
        memmove(o->near + at, o->near + at + 1, (--o->near_count - at) * sizeof *o->near);
    return best;
}

int larder__ods_batch(larder__ods *o, uint32_t job, larder_rng *rng, const uint64_t *wanted,
                      size_t n, uint64_t *served) {
    larder__ods_job *j = find_job(o, job);
    if (!j || !j->live)
        return larder__fail(LARDER_E_STATE, "job %u has not joined, or rests", job);
    forget_promises(o); /* of a batch that did not come to ask */
    int rc = check_wanted(o, j, wanted, n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        larder_slot s = o->slots->slot_of[wanted[i]];
        served[i] = UINT64_MAX;
        if (s == LARDER_NO_SLOT || !is_new(o, j, s))
            continue;
        promise(o, j, s);
        served[i] = wanted[i];
    }
    list_near(o, j, n);
    for (size_t i = 0; i < n; i++) {
        if (served[i] != UINT64_MAX)
            continue;
        larder_slot s = choose_slot(o, j, rng);
        served[i] = s == LARDER_NO_SLOT ? wanted[i] : o->slots->key_of[s];
        if (s == LARDER_NO_SLOT)
            note_seen(o, j, wanted[i]);
        else
            promise(o, j, s);
    }
    return 0;
}

/* ---- bringing in ----------------------------------------------------------------------------- */

/* About how many entries could enter now. */
static uint64_t room(const larder__ods *o) {
    const larder_slots *s = o->slots;
    if (!s->resident || !s->bytes)
        return UINT64_MAX;
    uint64_t left = s->budget > s->bytes ? s->budget - s->bytes : 0;
    return o->done.count + left / (s->bytes / s->resident + 1);
}

static size_t at_most(size_t a, uint64_t b) { return a < b ? a : (size_t)b; }

size_t larder__ods_refill(larder__ods *o, uint64_t *ids, size_t max) {
    while (o->offered_count)
        sort_sample(o, o->offered[--o->offered_count], true);
    int64_t each = (int64_t)o->slots->keys * o->live;
    if (!o->live || o->credit < each)
        return 0;
    max = at_most(at_most(max, (uint64_t)(o->credit / each)), LARDER__ODS_OFFERS);
    max = at_most(max, room(o));
    size_t n = 0;
    for (uint32_t k = 0; k < o->few_count; k++)
        while (n < max && o->few[k].count) {
            uint32_t id = larder__pickset_draw(&o->few[k], &o->rng);
            larder__pickset_cut(&o->few[k], id); /* none twice */
            o->offered[o->offered_count++] = id;
            ids[n++] = id;
        }
    return n;
}

/* ---- what became of it ----------------------------------------------------------------------- */

void larder__ods_missed(larder__ods *o, const larder_access *a) {
    larder__ods_job *j = find_job(o, a->job);
    if (a->tag == LARDER_TAG_FETCH || !j)
        return;
    note_seen(o, j, a->key);
}

void larder__ods_entered(larder__ods *o, larder_slot s, const larder_access *a) {
    larder__ods_job *j = find_job(o, a->job);
    sort_sample(o, a->key, false);
    o->byte[a->key] |= RESIDENT;
    o->stays += !is_augmented(o, s);
    if (a->tag == LARDER_TAG_FETCH)
        earn(o, -(int64_t)o->slots->keys * o->live);
    else if (j && is_augmented(o, s))
        bit_set(j->used, s); /* it is the row that this job gets */
    sort_slot(o, s);
}

void larder__ods_hit(larder__ods *o, larder_slot s, const larder_access *a) {
    larder__ods_job *j = find_job(o, a->job);
    larder__pickset_cut(&o->promised, s);
    if (j) {
        note_seen(o, j, a->key);
        if (is_augmented(o, s))
            bit_set(j->used, s);
    }
    sort_slot(o, s);
}

void larder__ods_left(larder__ods *o, larder_slot s) {
    uint64_t id = o->slots->key_of[s];
    unsort_slot(o, s);
    larder__pickset_cut(&o->promised, s);
    o->stays -= !is_augmented(o, s);
    o->byte[id] &= COUNT;
    sort_sample(o, id, true);
}

bool larder__ods_serves(const larder__ods *o, larder_slot s, uint32_t job) {
    return !is_augmented(o, s) || job >= o->lately || !o->jobs[job].joined ||
           !bit(o->jobs[job].used, s);
}

bool larder__ods_spent(const larder__ods *o, larder_slot s) {
    uint32_t used;
    had_by(o, s, &used);
    return used == o->live;
}

uint32_t larder__ods_forms(const larder__ods *o, const larder_access *a) {
    bool wasted = a->tag != LARDER_TAG_FETCH && count_of(o, a->key) >= o->live;
    return wasted ? 1u << LARDER_ENCODED | 1u << LARDER_DECODED : UINT32_MAX;
}

larder_slot larder__ods_victim(const larder__ods *o, const larder_access *a) {
    if (!o->done.count || count_of(o, a->key) >= o->live)
        return LARDER_NO_SLOT;
    return larder__pickset_draw(&o->done, a->rng);
}

/* ---- opening, closing, saving ---------------------------------------------------------------- */

int larder__ods_open(larder__ods *o, const larder_slots *slots, uint8_t *byte) {
    *o = (larder__ods){.slots = slots, .byte = byte};
    larder_rng_seed(&o->rng, 0, 0x0d5);
    o->offered = larder__calloc(LARDER__ODS_OFFERS, sizeof *o->offered);
    o->near = larder__calloc(LARDER__ODS_NEAR, sizeof *o->near);
    int rc = o->offered && o->near ? 0 : LARDER_E_NOMEM;
    larder__pickset *sets[] = {&o->fresh, &o->done, &o->promised};
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = larder__pickset_open(sets[i], (uint32_t)slots->keys);
    return rc;
}

void larder__ods_close(larder__ods *o) {
    each_job(o, j) job_free(j);
    for (uint32_t k = 0; k < o->few_cap; k++)
        larder__pickset_close(&o->few[k]);
    larder__pickset_close(&o->fresh);
    larder__pickset_close(&o->done);
    larder__pickset_close(&o->promised);
    larder__free(o->few);
    larder__free(o->offered);
    larder__free(o->near);
    *o = (larder__ods){0};
}

static void write_words(larder_writer *w, const uint64_t *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        larder_write_u64(w, at[i]);
}

void larder__ods_save(const larder__ods *o, larder_writer *w) {
    larder_write_u64(w, (uint64_t)o->credit);
    write_words(w, o->rng.s, 4);
    larder_write_u32(w, o->lately);
    for (uint32_t i = 0; i < o->lately; i++) {
        const larder__ods_job *j = &o->jobs[i];
        larder_write_u32(w, (uint32_t)j->joined | (uint32_t)j->live << 1);
        if (!j->joined)
            continue;
        write_words(w, j->seen, words(o->slots->keys));
        write_words(w, j->used, words(o->slots->used));
    }
}

static int load_bits(larder_reader *r, uint64_t *to, uint64_t n) {
    for (size_t i = 0; i < words(n); i++)
        to[i] = larder_read_u64(r);
    if (to[n / 64] >> (n % 64)) {
        to[n / 64] = 0;
        return larder_read_reject(r, "a job has seen what does not exist");
    }
    return larder_read_status(r);
}

static int load_job(larder__ods *o, larder_reader *r, larder__ods_job *j) {
    uint32_t flags = larder_read_u32(r);
    if (flags > 3 || flags == 2)
        return larder_read_reject(r, "a job is neither there nor gone");
    int rc = flags ? job_open(o, j) : larder_read_status(r);
    if (rc < 0 || !flags)
        return rc;
    j->joined = true;
    j->live = flags >> 1;
    o->live += j->live;
    if ((rc = load_bits(r, j->seen, o->slots->keys)) < 0)
        return rc;
    return load_bits(r, j->used, o->slots->used);
}

/* Marks on slots that hold no augmented entry would count for whoever comes there next. */
static void drop_stale_marks(larder__ods *o) {
    for (larder_slot s = 0; s < o->slots->used; s++)
        if (o->slots->key_of[s] == UINT32_MAX || !is_augmented(o, s))
            each_job(o, j) bit_clear(j->used, s);
}

int larder__ods_load(larder__ods *o, larder_reader *r) {
    o->credit = (int64_t)larder_read_u64(r);
    for (int i = 0; i < 4; i++)
        o->rng.s[i] = larder_read_u64(r);
    uint32_t jobs = larder_read_u32(r);
    if (o->credit < 0 || jobs > LARDER__ODS_JOBS || !(o->rng.s[0] | o->rng.s[1] | o->rng.s[2]))
        return larder_read_reject(r, "its jobs or their credit make no sense");
    each_job(o, j) job_free(j);
    o->live = 0;
    o->lately = jobs;
    for (uint32_t i = 0; i < jobs; i++) {
        int rc = load_job(o, r, &o->jobs[i]);
        if (rc < 0)
            return rc;
    }
    int rc = few_reserve(o, jobs);
    if (rc < 0)
        return rc;
    o->few_count = (o->live + 1) / 2;
    o->stays = 0;
    for (larder_slot s = 0; s < o->slots->used; s++)
        if (o->slots->key_of[s] != UINT32_MAX) {
            o->byte[o->slots->key_of[s]] = RESIDENT;
            o->stays += !is_augmented(o, s);
        }
    drop_stale_marks(o);
    earn(o, 0);
    recount(o);
    return larder_read_status(r);
}
