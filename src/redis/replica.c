#include "redis/replica.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "daemon/merge.h"
#include "daemon/ods_jobs.h"
#include "plugins.h"

#include <math.h>

typedef struct member {
    bool here;
    uint32_t counted; /* its number where the policy counts jobs */
} member;

struct larder__replica {
    larder__agreement about;
    larder__replica_conf conf;
    larder_args args;
    const larder_policy *policy;
    larder__cache *cache;
    larder__merge *merge;
    member jobs[LARDER__GROUP_JOBS];
    uint32_t job_count;
    bool counts;
    uint64_t now;
    uint64_t *mark;  /* of each key: the making that is resident */
    uint8_t *makers; /* who promised it, + 1; 0: it is made */
    larder_stream stream;
    bool streaming;
    uint32_t doing; /* whose record is being applied */
    larder__doomed *doomed;
    size_t doomed_count, doomed_cap;
    larder_access *accesses; /* room for one record, with what is fetched besides */
    larder__ticket *tickets;
    uint64_t *keys; /* twice: wanted, served */
    double *shares;
    size_t room;
};

/* ---- the agreement --------------------------------------------------------------------------- */

void larder__agreement_write(const larder__agreement *a, larder_writer *w) {
    larder_write_u64(w, a->keys);
    larder_write_u64(w, a->budget);
    larder_write_u64(w, a->seed);
    larder_write_u64(w, a->forms_id);
    for (int f = 0; f < LARDER_FORMS; f++)
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
    for (int f = 0; f < LARDER_FORMS; f++) {
        a->share[f] = larder_read_f64(r);
        all += a->share[f] >= 0 ? a->share[f] : 2;
    }
    a->decoded_ratio = larder_read_f64(r);
    a->decoded_bytes = larder_read_u32(r);
    a->row_bytes = larder_read_u32(r);
    larder__read_text(r, a->policy, sizeof a->policy);
    if (larder_read_status(r) == 0 &&
        (!(all > 0.999 && all < 1.001) || !(a->decoded_ratio >= 0 && a->decoded_ratio < 1e9)))
        return larder_read_reject(r, "the group's agreement makes no sense");
    return larder_read_status(r);
}

/* ---- what happens in the table --------------------------------------------------------------- */

static void watch(void *arg, uint64_t key, larder_form form, const larder_access *by) {
    larder__replica *r = arg;
    if (by) {
        r->mark[key] = by->now;
        r->makers[key] = (uint8_t)(r->doing + 1);
        return;
    }
    if (r->doomed_count == r->doomed_cap) {
        size_t cap = r->doomed_cap ? 2 * r->doomed_cap : 256;
        larder__doomed *more = larder__realloc(r->doomed, cap * sizeof *more);
        if (!more) { /* Redis forgets the value after a while */
            r->makers[key] = 0;
            return;
        }
        r->doomed = more;
        r->doomed_cap = cap;
    }
    r->doomed[r->doomed_count++] = (larder__doomed){key, r->mark[key], (uint8_t)form, false};
    r->makers[key] = 0;
}

static uint32_t size_of(const larder__replica *r, uint64_t key) {
    return r->conf.size ? r->conf.size : r->conf.size_of(r->conf.size_arg, key);
}

static int reserve(larder__replica *r, size_t n) {
    if (n <= r->room)
        return 0;
    larder_access *a = larder__realloc(r->accesses, n * sizeof *a);
    r->accesses = a ? a : r->accesses;
    larder__ticket *t = larder__realloc(r->tickets, n * sizeof *t);
    r->tickets = t ? t : r->tickets;
    uint64_t *k = larder__realloc(r->keys, 2 * n * sizeof *k);
    r->keys = k ? k : r->keys;
    double *s = larder__realloc(r->shares, n * sizeof *s);
    r->shares = s ? s : r->shares;
    if (!a || !t || !k || !s)
        return LARDER_E_NOMEM;
    r->room = n;
    return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

void larder__record_head(larder_writer *w, larder__rec_type type, uint32_t job, uint32_t number) {
    larder_write_u32(w, (uint32_t)type | job << 8);
    larder_write_u32(w, number);
}

/* Decides about accesses[from..from+n). */
static int decide(larder__replica *r, size_t from, size_t n) {
    int rc = larder__cache_claim(r->cache, r->accesses + from, n, r->tickets + from);
    for (size_t i = from; rc == 0 && i < from + n; i++) {
        larder__ticket *t = &r->tickets[i];
        if (!t->kept)
            t->mark = 0;
        else if (t->kind == LARDER_MISS || t->form != LARDER_AUGMENTED)
            t->mark = r->mark[t->key];
        t->size = larder__cache_entry_size(r->cache, (larder_form)t->make, size_of(r, t->key));
    }
    return rc;
}

static larder_access request(larder__replica *r, uint32_t job, uint64_t key, uint32_t tag,
                             float score) {
    return (larder_access){.key = key,
                           .now = ++r->now,
                           .next_use = LARDER_UNKNOWN,
                           .size = size_of(r, key),
                           .job = r->counts ? r->jobs[job].counted : job,
                           .tag = tag,
                           .group = LARDER_NO_GROUP,
                           .score = score};
}

static int read_rows(larder__replica *r, larder_reader *in, uint32_t job, size_t *n) {
    *n = larder__read_left(in) / sizeof(larder__rec_row);
    if (*n > LARDER__RECORD_ROWS || larder__read_left(in) % sizeof(larder__rec_row) != 0)
        return larder_read_reject(in, "a record of another length");
    for (size_t i = 0; i < *n; i++) {
        larder__rec_row row;
        larder_read_bytes(in, &row, sizeof row);
        if (row.key >= r->about.keys)
            return larder_read_reject(in, "a sample that does not exist");
        r->accesses[i] = request(r, job, row.key, row.tag, row.score);
        if (row.size)
            r->accesses[i].size = row.size;
    }
    return 0;
}

static int apply_claim(larder__replica *r, larder_reader *in, uint32_t job, larder__outcome *out) {
    int rc = read_rows(r, in, job, &out->rows);
    if (rc == 0)
        rc = decide(r, 0, out->rows);
    out->tickets = r->tickets;
    larder__cache_batch(r->cache);
    return rc;
}

static int apply_exchange(larder__replica *r, larder_reader *in, uint32_t job,
                          larder__outcome *out) {
    uint32_t fetch = larder_read_index(in, 65536, false);
    int rc = read_rows(r, in, job, &out->rows);
    size_t n = out->rows;
    if (rc == 0)
        rc = reserve(r, n + fetch);
    if (rc < 0)
        return rc;
    uint64_t *wanted = r->keys, *served = r->keys + n;
    for (size_t i = 0; i < n; i++)
        wanted[i] = r->accesses[i].key;
    larder__cache_exchange(r->cache, r->jobs[job].counted, wanted, n, served);
    for (size_t i = 0; i < n; i++) {
        r->accesses[i].key = served[i];
        r->accesses[i].size = size_of(r, served[i]);
    }
    if ((rc = decide(r, 0, n)) < 0)
        return rc;
    out->fetched = larder__cache_fetch(r->cache, r->keys, fetch);
    for (size_t i = 0; i < out->fetched; i++)
        r->accesses[n + i] = request(r, job, r->keys[i], LARDER_TAG_FETCH, NAN);
    rc = decide(r, n, out->fetched);
    out->tickets = r->tickets;
    larder__cache_batch(r->cache);
    return rc;
}

static int apply_scores(larder__replica *r, larder_reader *in, uint32_t job) {
    while (larder__read_left(in)) {
        float score, merged;
        uint32_t key = larder_read_index(in, r->about.keys, false);
        larder_read_bytes(in, &score, sizeof score);
        if (larder_read_status(in) < 0)
            return larder_read_status(in);
        if (!isfinite(score))
            continue;
        int rc = larder__merge_add(r->merge, job, r->job_count, key, score, &merged);
        if (rc < 0)
            return rc;
        larder__cache_score(r->cache, &(uint64_t){key}, &merged, 1);
    }
    return 0;
}

static int apply_join(larder__replica *r, larder_reader *in, uint32_t job) {
    uint32_t again = larder_read_u32(in);
    if (larder_read_status(in) < 0 || r->jobs[job].here)
        return larder_read_reject(in, "a job joins twice");
    int rc = r->counts ? larder__ods_jobs_join(r->cache, again == 1, &r->jobs[job].counted) : 0;
    if (rc < 0)
        return rc;
    r->jobs[job].here = true;
    r->job_count++;
    return 0;
}

static void apply_leave(larder__replica *r, uint32_t job) {
    if (!r->jobs[job].here)
        return;
    r->jobs[job].here = false;
    r->job_count--;
    larder__merge_leave(r->merge, job);
    if (r->counts)
        larder__ods_jobs_leave(r->cache, r->jobs[job].counted);
    for (uint64_t k = 0; k < r->about.keys; k++) /* its promises are void */
        if (r->makers[k] == job + 1)
            r->makers[k] = 0;
    if (r->job_count == 0)
        r->streaming = false;
}

static int apply_epoch(larder__replica *r, larder_reader *in, uint32_t job) {
    uint64_t epoch = larder_read_u64(in), *seen = NULL;
    size_t bytes = larder__read_left(in), words = (size_t)(r->about.keys / 64 + 1);
    if (larder_read_status(in) < 0 || (bytes && bytes != words * sizeof *seen))
        return larder_read_reject(in, "an epoch of another length");
    if (!r->counts) {
        larder__cache_epoch(r->cache, epoch);
        return 0;
    }
    if (bytes) {
        if (!(seen = larder__malloc(bytes)))
            return LARDER_E_NOMEM;
        larder_read_bytes(in, seen, bytes);
    }
    larder__ods_jobs_epoch(r->cache, r->jobs[job].counted, seen);
    larder__free(seen);
    return 0;
}

static void apply_stream(larder__replica *r, larder_reader *in) {
    larder_stream at = {.seed = larder_read_u64(in)}, *here = &r->stream;
    at.sweep = larder_read_u64(in);
    at.at = larder_read_u64(in);
    bool begun = r->streaming && (here->sweep || here->at);
    bool ahead = at.sweep > here->sweep || (at.sweep == here->sweep && at.at > here->at);
    if (larder_read_status(in) < 0 || at.at > r->about.keys ||
        (begun && (at.seed != here->seed || !ahead)))
        return;
    *here = at;
    r->streaming = true;
}

static int apply_picks(larder__replica *r, larder_reader *in, larder__outcome *out) {
    uint32_t most = larder_read_index(in, 65536, false);
    larder_rng rng;
    larder_rng_seed(&rng, larder_read_u64(in), 0x91c5);
    int rc = larder_read_status(in);
    if (rc == 0)
        rc = reserve(r, most);
    for (uint32_t i = 0; rc == 0 && i < most; i++, out->rows++)
        if (!larder__cache_pick(r->cache, &rng, &r->keys[i], &r->shares[i]))
            break;
    out->keys = r->keys;
    out->shares = r->shares;
    return rc;
}

static int apply_fetch(larder__replica *r, larder_reader *in, larder__outcome *out) {
    uint32_t most = larder_read_index(in, 65536, false);
    int rc = larder_read_status(in);
    if (rc == 0)
        rc = reserve(r, most);
    out->rows = rc == 0 ? larder__cache_fetch(r->cache, r->keys, most) : 0;
    out->keys = r->keys;
    return rc;
}

static int apply_made(larder__replica *r, larder_reader *in, uint32_t job) {
    while (larder__read_left(in)) {
        uint32_t key = larder_read_index(in, r->about.keys, false);
        uint64_t mark = larder_read_u64(in);
        if (larder_read_status(in) < 0)
            return larder_read_status(in);
        if (r->makers[key] == job + 1 && r->mark[key] == mark)
            r->makers[key] = 0;
    }
    return 0;
}

static int apply(larder__replica *r, larder_reader *in, larder__outcome *out) {
    uint32_t job = out->job;
    switch (out->type) {
    case LARDER__REC_JOIN:
        return apply_join(r, in, job);
    case LARDER__REC_LEAVE:
        apply_leave(r, job);
        return 0;
    case LARDER__REC_EPOCH:
        return apply_epoch(r, in, job);
    case LARDER__REC_CLAIM:
        return apply_claim(r, in, job, out);
    case LARDER__REC_EXCHANGE:
        return apply_exchange(r, in, job, out);
    case LARDER__REC_SCORES:
        return apply_scores(r, in, job);
    case LARDER__REC_ACCURACY:
        larder__cache_accuracy(r->cache, larder_read_f64(in));
        return larder_read_status(in);
    case LARDER__REC_STREAM:
        apply_stream(r, in);
        return 0;
    case LARDER__REC_PICKS:
        return apply_picks(r, in, out);
    case LARDER__REC_FETCH:
        return apply_fetch(r, in, out);
    default:
        return apply_made(r, in, job);
    }
}

int larder__replica_apply(larder__replica *r, const void *record, size_t size,
                          larder__outcome *out) {
    larder_reader in = {.at = record, .end = (const unsigned char *)record + size};
    uint32_t head = larder_read_u32(&in), type = head & 0xff, job = head >> 8;
    *out = (larder__outcome){.type = (uint8_t)type, .number = larder_read_u32(&in)};
    if (larder_read_status(&in) < 0 || type == 0 || type >= LARDER__REC_END ||
        job >= LARDER__GROUP_JOBS || (type != LARDER__REC_JOIN && !r->jobs[job].here))
        return larder_read_reject(&in, "the group's journal has a record that does not fit");
    out->job = (uint8_t)job;
    out->for_all = type == LARDER__REC_LEAVE;
    r->doing = job;
    r->doomed_count = 0;
    int rc = reserve(r, larder__read_left(&in) / sizeof(larder__rec_row) + 1);
    if (rc == 0)
        rc = apply(r, &in, out);
    out->doomed = r->doomed;
    out->doomed_count = r->doomed_count;
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

void larder__replica_save(larder__replica *r, larder_writer *w) {
    larder_write_u64(w, r->now);
    for (uint32_t j = 0; j < LARDER__GROUP_JOBS; j++)
        larder_write_u32(w, r->jobs[j].here ? r->jobs[j].counted + 1 : 0);
    larder_write_u32(w, r->streaming);
    larder_write_u64(w, r->stream.seed);
    larder_write_u64(w, r->stream.sweep);
    larder_write_u64(w, r->stream.at);
    larder__cache_save(r->cache, w);
    const larder_slots *s = larder__cache_slots(r->cache);
    for (larder_slot i = 0; i < s->used; i++)
        if (s->key_of[i] != UINT32_MAX) {
            larder_write_u64(w, r->mark[s->key_of[i]]);
            larder_write_u32(w, r->makers[s->key_of[i]]);
        }
    larder__merge_save(r->merge, w);
}

int larder__replica_load(larder__replica *r, larder_reader *in) {
    r->now = larder_read_u64(in);
    for (uint32_t j = 0; j < LARDER__GROUP_JOBS; j++) {
        uint32_t counted = larder_read_index(in, 256, false);
        r->jobs[j] = (member){counted > 0, counted ? counted - 1 : 0};
        r->job_count += counted > 0;
    }
    r->streaming = larder_read_u32(in) == 1;
    r->stream.seed = larder_read_u64(in);
    r->stream.sweep = larder_read_u64(in);
    r->stream.at = larder_read_u64(in);
    if (r->stream.at > r->about.keys)
        return larder_read_reject(in, "its stream is too long");
    int rc = larder__cache_load(r->cache, in);
    const larder_slots *s = larder__cache_slots(r->cache);
    for (larder_slot i = 0; rc == 0 && i < s->used; i++)
        if (s->key_of[i] != UINT32_MAX) {
            r->mark[s->key_of[i]] = larder_read_u64(in);
            r->makers[s->key_of[i]] = (uint8_t)larder_read_index(in, LARDER__GROUP_JOBS + 1, false);
        }
    return rc < 0 ? rc : larder__merge_load(r->merge, in);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_policy(larder__replica *r) {
    char name[64];
    const char *rest;
    int rc = larder__spec_name(r->about.policy, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    if (!(r->policy = larder__policy_find(name)))
        return LARDER_E_ARGS;
    if (r->policy->needs_future || r->policy->needs_order || r->policy->needs_group)
        return larder__fail(LARDER_E_ARGS,
                            "policy %s has to know one job's order or classes: it cannot be shared",
                            name);
    return larder__args_parse(&r->args, "policy", &r->policy->plugin, rest, ',', NULL);
}

int larder__replica_open(larder__replica **out, const larder__replica_conf *conf) {
    *out = NULL;
    larder__replica *r = larder__calloc(1, sizeof *r);
    if (!r)
        return LARDER_E_NOMEM;
    r->conf = *conf;
    r->about = *conf->agreement;
    r->conf.agreement = NULL;
    r->now = conf->generation & LARDER__MARK_GENERATION;
    larder__forms forms = {.decoded_ratio = r->about.decoded_ratio,
                           .decoded_bytes = r->about.decoded_bytes,
                           .row_bytes = r->about.row_bytes};
    memcpy(forms.share, r->about.share, sizeof forms.share);
    int rc = open_policy(r);
    if (rc == 0)
        rc = larder__merge_open(&r->merge, r->about.keys, LARDER__GROUP_JOBS);
    if (rc == 0 && (!(r->mark = larder__calloc(r->about.keys, sizeof *r->mark)) ||
                    !(r->makers = larder__calloc(r->about.keys, sizeof *r->makers))))
        rc = LARDER_E_NOMEM;
    larder__cache_conf cache = {.policy = r->policy,
                                .args = &r->args,
                                .store = &larder__store_null,
                                .keys = r->about.keys,
                                .budget = r->about.budget,
                                .forms = &forms,
                                .seed = r->about.seed,
                                .slot_of = conf->slot_of,
                                .watch = watch,
                                .watch_arg = r};
    if (rc == 0)
        rc = larder__cache_open(&r->cache, &cache);
    r->counts = rc == 0 && strcmp(r->policy->plugin.name, "ods") == 0;
    if (r->counts)
        rc = larder__ods_jobs_begin(r->cache);
    if (rc < 0)
        larder__replica_close(&r);
    *out = r;
    return rc;
}

void larder__replica_close(larder__replica **pr) {
    larder__replica *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    larder__cache_close(&r->cache);
    larder__merge_close(&r->merge);
    larder__args_free(&r->args);
    larder__free(r->mark);
    larder__free(r->makers);
    larder__free(r->doomed);
    larder__free(r->accesses);
    larder__free(r->tickets);
    larder__free(r->keys);
    larder__free(r->shares);
    larder__free(r);
}

/* ---- looking in ------------------------------------------------------------------------------ */

larder__cache *larder__replica_cache(larder__replica *r) { return r->cache; }
const larder_policy *larder__replica_policy(const larder__replica *r) { return r->policy; }
uint32_t larder__replica_jobs(const larder__replica *r) { return r->job_count; }

bool larder__replica_first(const larder__replica *r, uint32_t job) {
    uint32_t first = 0;
    while (first < LARDER__GROUP_JOBS && !r->jobs[first].here)
        first++;
    return first == job;
}

bool larder__replica_holds(const larder__replica *r, uint64_t key, uint64_t mark) {
    return larder__cache_resident(r->cache, key) && r->mark[key] == mark;
}

uint32_t larder__replica_maker(const larder__replica *r, uint64_t key) {
    return r->makers[key] ? r->makers[key] - 1u : UINT32_MAX;
}

bool larder__replica_stream(const larder__replica *r, larder_stream *out) {
    *out = r->stream;
    return r->streaming;
}
