#include "shared/machine.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "shared/merge.h"
#include "shared/ods_jobs.h"

#include <math.h>

enum {
    FETCH_MOST = 65536,  /* entries that one operation may bring in, and residents picked */
    PLEDGE_MOST = 65536, /* remembered; more are read by whoever wants them */
};

typedef struct member {
    bool here;
    bool related;     /* a sample of its was made a stand-in since its last batch */
    uint32_t counted; /* its number where the policy counts jobs */
    uint64_t kept;    /* promises; not saved */
} member;

typedef struct pledge { /* to make what has left in the meantime */
    uint64_t mark;
    uint32_t key, job;
} pledge;

struct larder__machine {
    larder__agreement about;
    larder__machine_conf conf;
    larder_args args;
    const larder_policy *policy;
    larder__cache *cache;
    larder__merge *merge;
    member jobs[LARDER__MACHINE_JOBS];
    uint32_t job_count;
    bool counts;
    uint64_t now;
    uint32_t *sizes; /* bytes of every sample, where SIZES tells them; NULL: nobody needs to know */
    uint64_t sized;  /* so many are known, from the first on */
    uint64_t *mark;  /* of each key: the making that is resident; NULL with bytes_here */
    uint8_t *makers; /* who promised it, + 1; 0: it is made; likewise */
    pledge *pledges; /* not saved: whoever comes later was promised none of it */
    size_t pledge_count, pledge_cap;
    larder_stream stream;
    bool streaming;
    uint32_t doing; /* whose operation is being applied */
    larder__left *left;
    size_t left_count, left_cap;
    larder_access *accesses; /* room for one operation, with what is fetched besides */
    larder__ticket *tickets;
    uint64_t *keys; /* twice: wanted, served */
    size_t room;
};

/* ---- the agreement --------------------------------------------------------------------------- */

void larder__agreement_write(const larder__agreement *a, larder_writer *w) {
    larder_write_u64(w, a->keys);
    larder_write_u64(w, a->budget);
    larder_write_u64(w, a->seed);
    larder_write_u64(w, a->forms_id);
    for (int f = 0; f < LARDER__SPLIT_FORMS; f++) /* shared ones are not shrunk */
        larder_write_f64(w, a->share[f]);
    larder_write_f64(w, a->decoded_ratio);
    larder_write_u32(w, a->decoded_bytes);
    larder_write_u32(w, a->row_bytes);
    larder__write_text(w, a->policy);
}

int larder__agreement_read(larder__agreement *a, larder_reader *r) {
    double all = 0;
    *a = (larder__agreement){.keys = larder_read_u64(r)};
    a->budget = larder_read_u64(r);
    a->seed = larder_read_u64(r);
    a->forms_id = larder_read_u64(r);
    for (int f = 0; f < LARDER__SPLIT_FORMS; f++) {
        a->share[f] = larder_read_f64(r);
        all += a->share[f] >= 0 ? a->share[f] : 2;
    }
    a->decoded_ratio = larder_read_f64(r);
    a->decoded_bytes = larder_read_u32(r);
    a->row_bytes = larder_read_u32(r);
    larder__read_text(r, a->policy, sizeof a->policy);
    bool sane = all > 0.999 && all < 1.001 && a->decoded_ratio >= 0 && a->decoded_ratio < 1e9;
    if (!sane || (a->forms_id == 0 && a->share[LARDER_ENCODED] < 1))
        larder_read_reject(r, "its cache is shared out between forms in a way that makes no sense");
    return larder_read_status(r);
}

/* ---- what happens in the table --------------------------------------------------------------- */

static void watch(void *arg, uint64_t key, larder_form form, const larder_access *by) {
    larder__machine *m = arg;
    if (by) {
        m->mark[key] = by->now;
        m->makers[key] = (uint8_t)(m->doing + 1);
        return;
    }
    if (m->makers[key] && m->pledge_count < PLEDGE_MOST &&
        larder__grow(&m->pledges, &m->pledge_cap, m->pledge_count + 1, sizeof *m->pledges) == 0)
        m->pledges[m->pledge_count++] = (pledge){m->mark[key], (uint32_t)key, m->makers[key] - 1u};
    m->makers[key] = 0;
    if (larder__grow(&m->left, &m->left_cap, m->left_count + 1, sizeof *m->left) < 0)
        return; /* whoever holds its bytes forgets them after a while */
    m->left[m->left_count++] = (larder__left){key, m->mark[key], (uint8_t)form, false};
}

/* 0: not known yet. */
static uint32_t size_of(const larder__machine *m, uint64_t key) {
    if (m->conf.size)
        return m->conf.size;
    if (m->conf.size_of)
        return m->conf.size_of(m->conf.size_arg, key);
    return m->sizes && key < m->sized ? m->sizes[key] : 0;
}

static bool all_sized(const larder__machine *m) {
    return m->conf.size || m->conf.size_of || m->sized == m->about.keys;
}

int larder__machine_reserve(larder__machine *m, size_t n) {
    if (n <= m->room)
        return 0;
    larder_access *a = larder__realloc(m->accesses, n * sizeof *a);
    m->accesses = a ? a : m->accesses;
    larder__ticket *t = larder__realloc(m->tickets, n * sizeof *t);
    m->tickets = t ? t : m->tickets;
    uint64_t *k = larder__realloc(m->keys, 2 * n * sizeof *k);
    m->keys = k ? k : m->keys;
    if (!a || !t || !k)
        return LARDER_E_NOMEM;
    m->room = n;
    return 0;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Are scores of several jobs to be brought together? Else the policy does so, or wants none. */
static bool merges(const larder__machine *m) {
    return LARDER_HAS(m->policy, hears, score) &&
           !(LARDER_HAS(m->policy, hears, as_said) && m->policy->hears->as_said(&m->args));
}

/* After a word of `job`, or if that has left, of the first who is there. */
static void rescale(larder__machine *m, uint32_t job) {
    while (m->job_count && !m->jobs[job].here)
        job = (job + 1) % LARDER__MACHINE_JOBS;
    if (!larder__merge_rescales(m->merge, m->job_count, job))
        return;
    for (uint64_t key = 0; key < m->about.keys; key++) {
        float merged = larder__merge_value(m->merge, (uint32_t)key);
        if (!isnan(merged))
            larder__cache_score(m->cache, &key, &merged, 1);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Not through the cache at all: the job makes it for itself, or if nobody asked, not at all. */
static larder__ticket alone(const larder_access *a) {
    bool asked = a->tag != LARDER_TAG_FETCH;
    return (larder__ticket){.key = a->key,
                            .size = a->size,
                            .kind = asked ? LARDER_MISS : LARDER_HIT,
                            .task = asked ? LARDER__MAKE : LARDER__READY};
}

/* Without bytes: which making it is, and what it reserves. */
static void name_value(const larder__machine *m, larder__ticket *t) {
    if (!t->kept)
        t->mark = 0;
    else if (t->kind == LARDER_MISS || t->form != LARDER_AUGMENTED)
        t->mark = m->mark[t->key];
    t->size = larder__cache_entry_size(m->cache, (larder_form)t->make, size_of(m, t->key));
}

/* Of a job that may not have everything: one after the other. */
static void decide_some(larder__machine *m, larder__may may, size_t from, size_t n) {
    for (size_t i = from; i < from + n; i++) {
        larder_access *a = &m->accesses[i];
        bool asks = may == LARDER__MAY_HITS && larder__cache_resident(m->cache, a->key);
        if (!asks || larder__cache_claim(m->cache, a, 1, &m->tickets[i]) < 0)
            m->tickets[i] = alone(a);
    }
}

/* Decides about accesses[from..from+n). */
static int decide(larder__machine *m, uint32_t job, size_t from, size_t n) {
    larder__may may = m->conf.may ? m->conf.may(m->conf.may_arg, job) : LARDER__MAY_ALL;
    int rc = 0;
    if (may == LARDER__MAY_ALL)
        rc = larder__cache_claim(m->cache, m->accesses + from, n, m->tickets + from);
    else
        decide_some(m, may, from, n);
    for (size_t i = from; rc == 0 && !m->conf.bytes_here && i < from + n; i++)
        name_value(m, &m->tickets[i]);
    return rc;
}

static larder_access request(larder__machine *m, uint32_t job, const larder__row *row) {
    return (larder_access){
        .key = row->key,
        .now = ++m->now,
        .next_use = LARDER_UNKNOWN,
        .size = row->size ? row->size : size_of(m, row->key),
        .job = m->counts ? m->jobs[job].counted : job,
        .tag = row->tag,
        .group = row->group,
        .score = merges(m) ? larder__merge_view(m->merge, job, row->key, row->score) : row->score};
}

static int apply_claim(larder__machine *m, uint32_t job, const larder__op *o,
                       larder__outcome *out) {
    larder__merge_asked(m->merge, job, o->n);
    for (size_t i = 0; i < o->n; i++)
        m->accesses[i] = request(m, job, &o->rows[i]);
    int rc = decide(m, job, 0, o->n);
    if (rc == 0)
        out->rows = o->n;
    larder__cache_batch(m->cache);
    return rc;
}

static int apply_touch(larder__machine *m, uint32_t job, const larder__op *o) {
    larder__merge_asked(m->merge, job, o->n);
    int rc = larder__cache_touch(m->cache, o->touched, o->n, job, m->now);
    m->now += o->n;
    if (rc == 0)
        larder__cache_batch(m->cache);
    return rc;
}

/* What it wants besides what is asked for: nothing before it is known how large all of them are. */
static int bring_in(larder__machine *m, uint32_t job, size_t n, size_t most, larder__outcome *out) {
    bool may = !m->conf.may || m->conf.may(m->conf.may_arg, job) != LARDER__MAY_NOTHING;
    size_t fetched = may && all_sized(m) ? larder__cache_fetch(m->cache, m->keys, most) : 0;
    for (size_t i = 0; i < fetched; i++)
        m->accesses[n + i] = request(m, job,
                                     &(larder__row){.key = (uint32_t)m->keys[i],
                                                    .tag = LARDER_TAG_FETCH,
                                                    .group = LARDER_NO_GROUP,
                                                    .score = NAN});
    int rc = decide(m, job, n, fetched);
    if (rc == 0)
        out->fetched = fetched;
    return rc;
}

static int apply_exchange(larder__machine *m, uint32_t job, const larder__op *o,
                          larder__outcome *out) {
    size_t most = o->number[0] < FETCH_MOST ? (size_t)o->number[0] : FETCH_MOST, n = o->n;
    uint64_t *wanted = m->keys, *served = m->keys + n;
    for (size_t i = 0; i < n; i++)
        wanted[i] = o->rows[i].key;
    larder__cache_exchange(m->cache, m->jobs[job].counted, wanted, n, served);
    for (size_t i = 0; i < n; i++) {
        larder__row row = o->rows[i];
        if (all_sized(m) || row.key != served[i]) /* another one is resident: its size is known */
            row.size = 0;
        row.key = (uint32_t)served[i];
        m->accesses[i] = request(m, job, &row);
    }
    int rc = decide(m, job, 0, n);
    if (rc == 0) {
        out->rows = n;
        rc = bring_in(m, job, n, most, out);
    }
    larder__cache_batch(m->cache);
    return rc;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int apply_scores(larder__machine *m, uint32_t job, const larder__op *o) {
    if (!LARDER_HAS(m->policy, hears, score))
        return 0; /* nobody has reckoned with the memory they take */
    if (!merges(m)) {
        larder__cache_score(m->cache, o->ids, o->scores, o->n);
        return 0;
    }
    for (size_t i = 0; i < o->n; i++) {
        uint32_t key = (uint32_t)o->ids[i];
        int rc = isfinite(o->scores[i]) ? larder__merge_add(m->merge, job, key, o->scores[i]) : 0;
        if (rc < 0)
            return rc;
        float merged = larder__merge_value(m->merge, key);
        if (isfinite(o->scores[i]))
            larder__cache_score(m->cache, &o->ids[i], &merged, 1);
    }
    rescale(m, job);
    return 0;
}

/* Of those that come between two batches of a job, the first one that the policy wants. */
static int apply_relate(larder__machine *m, uint32_t job, const larder__op *o) {
    if (!m->jobs[job].related && o->n)
        m->jobs[job].related = larder__cache_relate(m->cache, o->number[0], o->ids, o->n);
    return 0;
}

static bool ahead(const larder_stream *a, const larder_stream *b) {
    return a->sweep > b->sweep || (a->sweep == b->sweep && a->at > b->at);
}

/* The place of who is farthest; of another order only where nobody has begun. */
static void apply_stream(larder__machine *m, const larder__op *o) {
    larder_stream at = {o->number[0], o->number[1], o->number[2]};
    bool begun = m->streaming && (m->stream.sweep || m->stream.at);
    if (at.at > m->about.keys || (begun && (at.seed != m->stream.seed || !ahead(&at, &m->stream))))
        return;
    m->stream = at;
    m->streaming = true;
}

static int apply_join(larder__machine *m, uint32_t job, const larder__op *o) {
    member j = {.here = true};
    int rc = m->counts ? larder__ods_jobs_join(m->cache, o->number[0] == 1, &j.counted) : 0;
    if (rc < 0)
        return rc;
    m->jobs[job] = j;
    m->job_count++;
    rescale(m, job);
    if (!m->streaming)
        apply_stream(m, &(larder__op){.number = {o->number[1]}});
    return 0;
}

static void apply_leave(larder__machine *m, uint32_t job) {
    m->jobs[job].here = false;
    m->job_count--;
    larder__merge_leave(m->merge, job);
    rescale(m, job);
    if (m->counts)
        larder__ods_jobs_leave(m->cache, m->jobs[job].counted);
    for (uint64_t k = 0; m->makers && k < m->about.keys; k++) /* its promises are void */
        if (m->makers[k] == job + 1)
            m->makers[k] = 0;
    for (size_t i = m->pledge_count; i-- > 0;)
        if (m->pledges[i].job == job)
            m->pledges[i] = m->pledges[--m->pledge_count];
    if (m->job_count == 0)
        m->streaming = false;
}

static int apply_epoch(larder__machine *m, uint32_t job, const larder__op *o) {
    if (o->n && o->n != m->about.keys / 64 + 1)
        return larder__fail(LARDER_E_FORMAT, "an epoch in which %zu words of samples are done with",
                            o->n);
    if (m->counts)
        larder__ods_jobs_epoch(m->cache, m->jobs[job].counted, o->n ? o->words : NULL);
    else
        larder__cache_epoch(m->cache, o->number[0]);
    return 0;
}

static int apply_sizes(larder__machine *m, const larder__op *o) {
    if (o->number[0] > m->about.keys || o->n > m->about.keys - o->number[0])
        return larder__fail(LARDER_E_RANGE, "sizes of %zu samples from %llu on: there are %llu",
                            o->n, (unsigned long long)o->number[0],
                            (unsigned long long)m->about.keys);
    if (!m->sizes || o->number[0] != m->sized || o->n == 0)
        return 0; /* another job has told it */
    memcpy(m->sizes + m->sized, o->sizes, o->n * sizeof *o->sizes);
    m->sized += o->n;
    return 0;
}

static void apply_picks(larder__machine *m, uint32_t job, const larder__op *o,
                        larder__outcome *out) {
    larder_rng rng;
    larder_rng_seed(&rng, o->number[1], job);
    while (out->rows < o->number[0] && larder__cache_pick(m->cache, &rng, &m->keys[out->rows]))
        out->rows++;
}

static pledge *find_pledge(const larder__machine *m, uint64_t key, uint64_t mark) {
    for (size_t i = 0; i < m->pledge_count; i++)
        if (m->pledges[i].mark == mark && m->pledges[i].key == key)
            return &m->pledges[i];
    return NULL;
}

static void apply_made(larder__machine *m, uint32_t job, const larder__op *o) {
    m->jobs[job].kept += o->n;
    for (size_t i = 0; m->makers && i < o->n; i++) {
        uint32_t key = o->made[i].key;
        pledge *left = find_pledge(m, key, o->made[i].mark);
        if (m->makers[key] == job + 1 && m->mark[key] == o->made[i].mark)
            m->makers[key] = 0;
        else if (left && left->job == job)
            *left = m->pledges[--m->pledge_count];
    }
}

static int apply_shares(larder__machine *m, const larder__op *o) {
    double sum = 0;
    for (int f = 0; f < LARDER_FORMS; f++)
        sum += o->value[f] >= 0 ? o->value[f] : 2;
    if (!m->conf.movable || !(sum > 0.999 && sum < 1.001))
        return larder__fail(LARDER_E_FORMAT, "shares of forms that make no sense here");
    larder__cache_share_out(m->cache, o->value);
    return 0;
}

static int apply(larder__machine *m, uint32_t job, const larder__op *o, larder__outcome *out) {
    switch (o->type) {
    case LARDER__OP_JOIN:
        return apply_join(m, job, o);
    case LARDER__OP_LEAVE:
        out->for_all = true;
        apply_leave(m, job);
        return 0;
    case LARDER__OP_REST:
        if (m->counts)
            larder__ods_jobs_rest(m->cache, m->jobs[job].counted, o->number[0] == 1);
        return 0;
    case LARDER__OP_CLAIM:
        return apply_claim(m, job, o, out);
    case LARDER__OP_EXCHANGE:
        return apply_exchange(m, job, o, out);
    case LARDER__OP_TOUCH:
        return apply_touch(m, job, o);
    case LARDER__OP_PICKS:
        apply_picks(m, job, o, out);
        return 0;
    case LARDER__OP_FETCH:
        out->rows = larder__cache_fetch(m->cache, m->keys, (size_t)o->number[0]);
        return 0;
    case LARDER__OP_MADE:
        apply_made(m, job, o);
        return 0;
    case LARDER__OP_SIZES:
        return apply_sizes(m, o);
    case LARDER__OP_STREAM:
        apply_stream(m, o);
        return 0;
    case LARDER__OP_SHARES:
        return apply_shares(m, o);
    case LARDER__OP_SCORES:
        return apply_scores(m, job, o);
    case LARDER__OP_RELATE:
        return apply_relate(m, job, o);
    case LARDER__OP_EPOCH:
        return apply_epoch(m, job, o);
    default:
        larder__cache_tell(m->cache, o);
        return 0;
    }
}

/* Rows that an operation may come to, its answer and what it brings in. */
static size_t rows_of(const larder__op *o) {
    bool fetches = o->type == LARDER__OP_EXCHANGE || o->type == LARDER__OP_FETCH ||
                   o->type == LARDER__OP_PICKS;
    bool batch = o->type == LARDER__OP_EXCHANGE || o->type == LARDER__OP_CLAIM;
    return (batch ? o->n : 0) + (fetches ? (size_t)o->number[0] : 0) + 1;
}

int larder__machine_apply(larder__machine *m, uint32_t job, const larder__op *o,
                          larder__outcome *out) {
    *out = (larder__outcome){0};
    bool joins = o->type == LARDER__OP_JOIN;
    if (job >= LARDER__MACHINE_JOBS || m->jobs[job].here == joins)
        return larder__fail(LARDER_E_FORMAT,
                            joins ? "a job joins twice" : "a job that is not there says something");
    bool asks = o->type == LARDER__OP_EXCHANGE || o->type == LARDER__OP_FETCH ||
                o->type == LARDER__OP_PICKS;
    if (asks && o->number[0] > FETCH_MOST)
        return larder__fail(LARDER_E_FORMAT, "it asks for more than there can be at once");
    if (o->type == LARDER__OP_CLAIM || o->type == LARDER__OP_EXCHANGE ||
        o->type == LARDER__OP_TOUCH)
        m->jobs[job].related = false;
    m->doing = job;
    m->left_count = 0;
    int rc = larder__machine_reserve(m, rows_of(o));
    if (rc == 0)
        rc = apply(m, job, o, out);
    out->tickets = m->tickets;
    out->keys = m->keys;
    out->left = m->left;
    out->left_count = m->left_count;
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

void larder__machine_save(larder__machine *m, larder_writer *w) {
    larder_write_u64(w, m->now);
    for (uint32_t j = 0; j < LARDER__MACHINE_JOBS; j++) {
        larder_write_u32(w, m->jobs[j].here ? m->jobs[j].counted + 1 : 0);
        larder_write_u32(w, m->jobs[j].related);
    }
    larder_write_u32(w, m->streaming);
    larder_write_u64(w, m->stream.seed);
    larder_write_u64(w, m->stream.sweep);
    larder_write_u64(w, m->stream.at);
    larder__cache_save(m->cache, w);
    const larder_slots *s = larder__cache_slots(m->cache);
    for (larder_slot i = 0; m->mark && i < s->used; i++)
        if (s->key_of[i] != UINT32_MAX) {
            larder_write_u64(w, m->mark[s->key_of[i]]);
            larder_write_u32(w, m->makers[s->key_of[i]]);
        }
    larder__merge_save(m->merge, w);
}

int larder__machine_load(larder__machine *m, larder_reader *in) {
    m->now = larder_read_u64(in);
    for (uint32_t j = 0; j < LARDER__MACHINE_JOBS; j++) {
        uint32_t counted = larder_read_index(in, 256, false);
        m->jobs[j] = (member){.here = counted > 0, .counted = counted ? counted - 1 : 0};
        m->jobs[j].related = larder_read_index(in, 2, false) == 1;
        m->job_count += counted > 0;
    }
    m->streaming = larder_read_u32(in) == 1;
    m->stream.seed = larder_read_u64(in);
    m->stream.sweep = larder_read_u64(in);
    m->stream.at = larder_read_u64(in);
    if (m->stream.at > m->about.keys)
        return larder_read_reject(in, "its stream is too long");
    int rc = larder__cache_load(m->cache, in);
    const larder_slots *s = larder__cache_slots(m->cache);
    for (larder_slot i = 0; rc == 0 && m->mark && i < s->used; i++)
        if (s->key_of[i] != UINT32_MAX) {
            m->mark[s->key_of[i]] = larder_read_u64(in);
            m->makers[s->key_of[i]] =
                (uint8_t)larder_read_index(in, LARDER__MACHINE_JOBS + 1, false);
        }
    return rc < 0 ? rc : larder__merge_load(m->merge, in);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_policy(larder__machine *m) {
    char name[64];
    const char *rest;
    int rc = larder__spec_name(m->about.policy, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    if (!(m->policy = larder__policy_find(name)))
        return LARDER_E_ARGS;
    if (m->policy->future != LARDER_FUTURE_NONE)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s has to know one job's order: it cannot be shared", name);
    return larder__args_parse(&m->args, "policy", &m->policy->plugin, rest, ',', NULL);
}

static int open_cache(larder__machine *m) {
    larder__forms forms = {.decoded_ratio = m->about.decoded_ratio,
                           .decoded_bytes = m->about.decoded_bytes,
                           .row_bytes = m->about.row_bytes,
                           .movable = m->conf.movable};
    memcpy(forms.share, m->about.share, sizeof forms.share);
    if (m->about.forms_id == 0)
        forms = (larder__forms){.share = {1}};
    bool here = m->conf.bytes_here;
    larder__cache_conf cache = {.policy = m->policy,
                                .args = &m->args,
                                .store = here ? &larder__store_heap : &larder__store_null,
                                .keys = m->about.keys,
                                .budget = m->about.budget,
                                .forms = &forms,
                                .seed = m->about.seed,
                                .slot_of = m->conf.slot_of,
                                .watch = here ? NULL : watch,
                                .watch_arg = m};
    return larder__cache_open(&m->cache, &cache);
}

static int open_tables(larder__machine *m) {
    bool sizes = LARDER_HAS(m->policy, shares, exchange) && !m->conf.size && !m->conf.size_of;
    if (!m->conf.bytes_here && (!(m->mark = larder__calloc(m->about.keys, sizeof *m->mark)) ||
                                !(m->makers = larder__calloc(m->about.keys, sizeof *m->makers))))
        return LARDER_E_NOMEM;
    if (sizes && !(m->sizes = larder__calloc(m->about.keys, sizeof *m->sizes)))
        return LARDER_E_NOMEM;
    return larder__merge_open(&m->merge, m->about.keys, LARDER__MACHINE_JOBS);
}

int larder__machine_open(larder__machine **out, const larder__machine_conf *conf) {
    *out = NULL;
    if (conf->about->keys == 0 || conf->about->keys >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "a data set of %llu samples cannot be shared",
                            (unsigned long long)conf->about->keys);
    larder__machine *m = larder__calloc(1, sizeof *m);
    if (!m)
        return LARDER_E_NOMEM;
    m->conf = *conf;
    m->about = *conf->about;
    m->conf.about = NULL;
    m->now = conf->generation & LARDER__MARK_GENERATION;
    int rc = open_policy(m);
    if (rc == 0)
        rc = open_tables(m);
    if (rc == 0)
        rc = open_cache(m);
    m->counts = rc == 0 && strcmp(m->policy->plugin.name, "ods") == 0;
    if (m->counts)
        rc = larder__ods_jobs_begin(m->cache);
    if (rc < 0)
        larder__machine_close(&m);
    *out = m;
    return rc;
}

void larder__machine_close(larder__machine **pm) {
    larder__machine *m = *pm;
    *pm = NULL;
    if (!m)
        return;
    larder__cache_close(&m->cache);
    larder__merge_close(&m->merge);
    larder__args_free(&m->args);
    larder__free(m->sizes);
    larder__free(m->mark);
    larder__free(m->makers);
    larder__free(m->pledges);
    larder__free(m->left);
    larder__free(m->accesses);
    larder__free(m->tickets);
    larder__free(m->keys);
    larder__free(m);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__cache *larder__machine_cache(larder__machine *m) { return m->cache; }
const larder_policy *larder__machine_policy(const larder__machine *m) { return m->policy; }
bool larder__machine_counts(const larder__machine *m) { return m->counts; }
uint32_t larder__machine_jobs(const larder__machine *m) { return m->job_count; }

bool larder__machine_wants_sizes(const larder__machine *m) {
    return m->sizes && m->sized < m->about.keys;
}

uint32_t larder__machine_free_job(const larder__machine *m) {
    uint32_t job = 0;
    while (job < LARDER__MACHINE_JOBS && m->jobs[job].here)
        job++;
    return job;
}

bool larder__machine_first(const larder__machine *m, uint32_t job) {
    uint32_t first = 0;
    while (first < LARDER__MACHINE_JOBS && !m->jobs[first].here)
        first++;
    return first == job;
}

bool larder__machine_stream(const larder__machine *m, larder_stream *out) {
    *out = m->stream;
    return m->streaming;
}

bool larder__machine_holds(const larder__machine *m, uint64_t key, uint64_t mark) {
    return larder__cache_resident(m->cache, key) && m->mark[key] == mark;
}

bool larder__machine_promised(const larder__machine *m, uint64_t key, uint64_t mark) {
    if (larder__machine_holds(m, key, mark))
        return m->makers[key];
    return find_pledge(m, key, mark);
}

uint64_t larder__machine_progress(const larder__machine *m, uint64_t key, uint64_t mark) {
    const pledge *left = find_pledge(m, key, mark);
    if (left)
        return m->jobs[left->job].kept + 1;
    return larder__machine_holds(m, key, mark) && m->makers[key]
               ? m->jobs[m->makers[key] - 1].kept + 1
               : 0;
}

bool larder__machine_here(const larder__machine *m, uint32_t job) {
    return job < LARDER__MACHINE_JOBS && m->jobs[job].here;
}
