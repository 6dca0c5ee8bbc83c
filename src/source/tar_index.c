#include "source/tar_index.h"

#include "base/err.h"
#include "base/mem.h"
#include "source/ranges.h"

#include <stdio.h>
#include <strings.h>

/* ---- shards ---------------------------------------------------------------------------------- */

int larder__tar_index_open(larder__tar_index *x, uint64_t shards) {
    x->shards = larder__calloc(shards, sizeof *x->shards);
    x->firsts = larder__calloc(shards + 1, sizeof *x->firsts);
    return x->shards && x->firsts ? 0 : LARDER_E_NOMEM;
}

int larder__tar_index_add(larder__tar_index *x, larder__tar_block *block) {
    larder__tar_shard *s = &x->shards[x->shard_count++];
    s->block = *block;
    *block = (larder__tar_block){0};
    const char *at = s->block.endings;
    s->endings = larder__malloc(s->block.ending_count + 1);
    int rc = s->endings ? 0 : LARDER_E_NOMEM;
    for (uint32_t i = 0; rc == 0 && i < s->block.ending_count; i++, at += strlen(at) + 1) {
        uint32_t number;
        rc = larder__tar_ending(&x->endings, at, &number);
        s->endings[i] = (uint8_t)number;
    }
    return rc;
}

void larder__tar_index_free(larder__tar_index *x) {
    for (uint64_t i = 0; i < x->shard_count; i++) {
        larder__tar_block_free(&x->shards[i].block);
        larder__free(x->shards[i].endings);
        larder__free(x->shards[i].samples);
    }
    for (size_t i = 0; i < x->wanted_count; i++)
        larder__free(x->wanted[i]);
    larder__names_free(&x->endings);
    larder__free(x->shards);
    larder__free(x->firsts);
    *x = (larder__tar_index){0};
}

/* ---- one key --------------------------------------------------------------------------------- */

/* Asked after what was read of a block, before it is believed. */
static int check_kept(const larder__tar_shard *s) {
    return larder__keep_lost(&s->block.kept)
               ? larder__fail(LARDER_E_IO,
                              "its index in the cache folder cannot be read any more (that disk "
                              "fails, or somebody made the file shorter); begin again")
               : 0;
}

typedef struct members { /* of a key */
    const larder__tar_part *from, *to;
} members;

static members members_of(const larder__tar_shard *s, uint32_t key) {
    const larder__tar_block *b = &s->block;
    return (members){b->parts + larder__tar_block_first(b, key),
                     b->parts + larder__tar_block_first(b, (uint64_t)key + 1)};
}

/* Of two forms of an image the first counts. */
static const larder__tar_part *find_image(const larder__tar_index *x, const larder__tar_shard *s,
                                          members m) {
    for (; m.from < m.to; m.from++)
        if (x->picture[s->endings[m.from->ending]])
            return m.from;
    return NULL;
}

/* The parts that the wanted fields are; NULL where there is none. Returns how many there are. */
static size_t find_parts(const larder__tar_index *x, const larder__tar_shard *s, members m,
                         const larder__tar_part **out) {
    size_t found = 0;
    for (size_t w = 0; w < x->wanted_count; w++) {
        uint8_t best = 0;
        out[w] = NULL;
        for (const larder__tar_part *p = m.from; p < m.to; p++) {
            uint8_t rank = x->rank[w][s->endings[p->ending]];
            if (rank && (!best || rank < best)) {
                best = rank;
                out[w] = p;
            }
        }
        found += best != 0;
    }
    return found;
}

/* Those that are there, moved together; returns how many. */
static size_t name_fields(const larder__tar_index *x, const larder__tar_part **parts,
                          larder__field *out) {
    size_t n = 0;
    for (size_t w = 0; w < x->wanted_count; w++) {
        if (!parts[w])
            continue;
        out[n] = (larder__field){.kind = LARDER__FIELD_BYTES,
                                 .dtype = LARDER_U8,
                                 .name = x->wanted[w],
                                 .name_bytes = strlen(x->wanted[w]),
                                 .bytes = parts[w]->bytes};
        parts[n++] = parts[w];
    }
    return n;
}

typedef struct chosen {            /* what a key is as a sample */
    const larder__tar_part *first; /* NULL: none */
    uint64_t offset;               /* of that, */
    uint8_t ending;                /* and the index's number of its ending */
    uint32_t bytes;                /* of the sample; UINT32_MAX: too many */
} chosen;

static chosen as_chosen(const larder__tar_shard *s, const larder__tar_part *first, uint64_t bytes) {
    return (chosen){.first = first,
                    .offset = (uint64_t)first->block * LARDER__TAR_BLOCK,
                    .ending = s->endings[first->ending],
                    .bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX};
}

static chosen choose_key(const larder__tar_index *x, const larder__tar_shard *s, uint32_t key) {
    members m = members_of(s, key);
    if (x->wanted_count == 0) {
        const larder__tar_part *image = find_image(x, s, m);
        return image ? as_chosen(s, image, image->bytes) : (chosen){0};
    }
    const larder__tar_part *parts[LARDER__TAR_WANTED];
    larder__field fields[LARDER__TAR_WANTED];
    if (find_parts(x, s, m, parts) == 0)
        return (chosen){0};
    uint64_t bytes = larder__parcel_bytes(fields, name_fields(x, parts, fields));
    return as_chosen(s, parts[0], bytes ? bytes : UINT32_MAX);
}

static void put_name(const larder__tar_index *x, const char *key, const chosen *c,
                     char out[LARDER__TAR_NAME]) {
    snprintf(out, LARDER__TAR_NAME, "%s.%s", key, larder__names_get(&x->endings, c->ending));
}

/* ---- all of them, once ----------------------------------------------------------------------- */

/* Which endings will do for "jpg|png", the first one best. */
static void rank_endings(larder__tar_index *x, size_t w) {
    uint8_t rank = 1;
    for (const char *at = x->wanted[w]; at[0] && rank < UINT8_MAX; rank++) {
        size_t n = strcspn(at, "|");
        for (uint64_t i = 1; i < x->endings.count; i++) {
            const char *ending = larder__names_get(&x->endings, i);
            if (strlen(ending) == n && strncasecmp(ending, at, n) == 0 && !x->rank[w][i])
                x->rank[w][i] = rank;
        }
        at += n + (at[n] == '|');
    }
}

static int want_fields(larder__tar_index *x, const char *const *names, size_t n) {
    if (n > LARDER__TAR_WANTED)
        return larder__fail(LARDER_E_ARGS, "%zu fields; at most %d members make a sample", n,
                            LARDER__TAR_WANTED);
    for (size_t w = 0; w < n; w++) {
        if (!(x->wanted[w] = larder__strdup(names[w])))
            return LARDER_E_NOMEM;
        size_t length = strlen(names[w]);
        x->optional[w] = length > 1 && names[w][length - 1] == '?';
        if (x->optional[w])
            x->wanted[w][length - 1] = 0;
        x->wanted_count++;
        rank_endings(x, w);
    }
    return 0;
}

/* Members that are no part of a sample, by their ending. */
static void count_unused(const larder__tar_index *x, const larder__tar_shard *s, uint32_t key,
                         const chosen *c, uint64_t unused[LARDER__TAR_ENDINGS]) {
    const larder__tar_part *parts[LARDER__TAR_WANTED];
    members m = members_of(s, key);
    find_parts(x, s, m, parts);
    for (const larder__tar_part *p = m.from; p < m.to; p++) {
        uint8_t ending = s->endings[p->ending];
        bool used = x->wanted_count == 0 && (p == c->first || x->label[ending]);
        for (size_t w = 0; !used && w < x->wanted_count; w++)
            used = parts[w] == p;
        unused[ending] += !used;
    }
}

/* A key without a picture (a README, a .json alone) is no sample. */
static int check_key(larder__tar_index *x, const larder__tar_shard *s, uint32_t key,
                     const chosen *c) {
    bool fields = x->wanted_count > 0;
    const char *name = larder__names_get(&s->block.keys, key);
    char path[LARDER__TAR_NAME];
    if (!c->first)
        return fields || s->block.labels[key] < 0
                   ? 0
                   : larder__fail(LARDER_E_FORMAT,
                                  "%.200s has a .cls and no image; fields= takes other members",
                                  name);
    put_name(x, name, c, path);
    if (c->bytes == UINT32_MAX)
        return larder__fail(LARDER_E_FORMAT, "%.200s: 4 GiB or more is no sample",
                            fields ? name : path);
    if (!fields)
        larder__found_sample(&x->found, path);
    return 0;
}

/* Keys before this one are samples, and it is none: from here on they are listed. */
static int list_samples(larder__tar_shard *s, uint32_t before) {
    s->samples = larder__malloc((s->block.keys.count + 1) * sizeof *s->samples);
    for (uint32_t i = 0; s->samples && i < before; i++)
        s->samples[i] = i;
    return s->samples ? 0 : LARDER_E_NOMEM;
}

static int choose_shard(larder__tar_index *x, larder__tar_shard *s, const bool *plain,
                        uint64_t *unused, uint32_t *count) {
    int rc = 0;
    *count = 0;
    for (uint32_t k = 0; rc == 0 && k < s->block.keys.count; k++) {
        chosen c = choose_key(x, s, k);
        count_unused(x, s, k, &c, unused);
        if (!c.first || !plain[c.ending] || c.bytes == UINT32_MAX)
            rc = check_key(x, s, k, &c);
        if (rc == 0 && !c.first && !s->samples)
            rc = list_samples(s, k);
        if (c.first && s->samples)
            s->samples[*count] = k;
        *count += c.first != NULL;
    }
    return rc;
}

int larder__tar_index_choose(larder__tar_index *x, const char *const *names, size_t n,
                             larder__tar_label_fn label, void *arg) {
    bool plain[LARDER__TAR_ENDINGS] = {0}; /* nothing is to be said of samples with such a first */
    uint64_t unused[LARDER__TAR_ENDINGS] = {0};
    int rc = want_fields(x, names, n);
    for (uint64_t i = 0; i < x->endings.count; i++) {
        const char *ending = larder__names_get(&x->endings, i);
        x->picture[i] = larder__is_picture(ending);
        x->label[i] = larder__is_class(ending);
        plain[i] = n > 0 || larder__is_decoded(ending);
    }
    for (uint64_t i = 0; rc == 0 && i < x->shard_count; i++) {
        uint32_t count;
        rc = choose_shard(x, &x->shards[i], plain, unused, &count);
        if (check_kept(&x->shards[i]) < 0)
            rc = LARDER_E_IO;
        if (rc < 0)
            return larder__fail_in(rc, "%s", label(arg, i));
        x->firsts[i + 1] = x->firsts[i] + count;
    }
    for (uint64_t i = 0; rc == 0 && i < x->endings.count; i++)
        larder__found_unused(&x->found, "", larder__names_get(&x->endings, i), unused[i]);
    return rc;
}

/* ---- questions ------------------------------------------------------------------------------- */

uint64_t larder__tar_index_count(const larder__tar_index *x) { return x->firsts[x->shard_count]; }

static uint32_t key_at(const larder__tar_shard *s, uint64_t i) {
    return s->samples ? s->samples[i] : (uint32_t)i;
}

static const larder__tar_shard *find(const larder__tar_index *x, uint64_t id, uint32_t *key) {
    uint64_t i = larder__range_of(x->firsts, x->shard_count, id);
    *key = key_at(&x->shards[i], id - x->firsts[i]);
    return &x->shards[i];
}

uint64_t larder__tar_index_shard(const larder__tar_index *x, uint64_t id) {
    return larder__range_of(x->firsts, x->shard_count, id);
}

int larder__tar_index_sample(const larder__tar_index *x, uint64_t id, larder__tar_sample *out) {
    uint32_t key;
    const larder__tar_shard *s = find(x, id, &key);
    chosen c = choose_key(x, s, key);
    *out = (larder__tar_sample){.shard = (uint64_t)(s - x->shards),
                                .offset = c.offset,
                                .bytes = c.bytes,
                                .label = s->block.labels[key]};
    return check_kept(s);
}

void larder__tar_index_name(const larder__tar_index *x, uint64_t id, char out[LARDER__TAR_NAME]) {
    uint32_t key;
    const larder__tar_shard *s = find(x, id, &key);
    chosen c = choose_key(x, s, key);
    put_name(x, larder__names_get(&s->block.keys, key), &c, out);
}

const char *larder__tar_index_field(const larder__tar_index *x, size_t i) {
    return i + 1 < x->endings.count ? larder__names_get(&x->endings, i + 1) : NULL;
}

int larder__tar_index_parts(const larder__tar_index *x, uint64_t id, larder__field *fields,
                            larder__tar_part *copies, size_t *n) {
    uint32_t key;
    const larder__tar_shard *s = find(x, id, &key);
    const larder__tar_part *parts[LARDER__TAR_WANTED];
    char name[LARDER__TAR_NAME];
    size_t found = find_parts(x, s, members_of(s, key), parts);
    for (size_t w = 0; found < x->wanted_count && w < x->wanted_count; w++)
        if (!parts[w] && !x->optional[w] && !larder__keep_lost(&s->block.kept)) {
            larder__tar_index_name(x, id, name);
            return larder__fail(LARDER_E_NOTFOUND, "%.120s has no member \"%.60s\"", name,
                                x->wanted[w]);
        }
    *n = name_fields(x, parts, fields);
    for (size_t i = 0; i < *n; i++)
        copies[i] = *parts[i];
    return check_kept(s);
}

/* ---- what they are together ------------------------------------------------------------------ */

static uint64_t count_of(const larder__tar_index *x, uint64_t shard) {
    return x->firsts[shard + 1] - x->firsts[shard];
}

typedef struct summary {
    larder_dataset about;
    int32_t highest;
    uint64_t hash, name_bytes;         /* of all names, with a zero behind each */
    size_t after[LARDER__TAR_ENDINGS]; /* bytes of ".jpg" and its zero */
} summary;

static void sum_up(const larder__tar_index *x, uint64_t shard, summary *sum) {
    const larder__tar_shard *s = &x->shards[shard];
    const larder__tar_block *b = &s->block;
    for (uint64_t i = 0; i < count_of(x, shard); i++) {
        uint32_t key = key_at(s, i);
        chosen c = choose_key(x, s, key);
        sum->about.bytes += c.bytes;
        sum->highest = b->labels[key] > sum->highest ? b->labels[key] : sum->highest;
        sum->name_bytes += sum->after[c.ending] - 1;
        if (s->samples)
            sum->name_bytes += strlen(larder__names_get(&b->keys, key)) + 1;
        /* Which fields are read of them does not make other samples of them. */
        uint64_t bytes = sum->about.parcels ? 0 : c.bytes;
        sum->hash = larder__mix64(sum->hash ^ (bytes << 32 | (uint32_t)b->labels[key]));
    }
    if (!s->samples)
        sum->name_bytes += b->keys.size;
}

static void hash_names(const larder__tar_index *x, uint64_t shard, const summary *sum,
                       larder__hashing *h) {
    const larder__tar_shard *s = &x->shards[shard];
    const char *at = s->block.keys.bytes;
    uint64_t left = count_of(x, shard), i = 0;
    for (uint32_t k = 0; i < left; k++) {
        size_t n = strlen(at);
        if (k == key_at(s, i)) {
            uint8_t ending = choose_key(x, s, k).ending;
            larder__hashing_add(h, at, n);
            larder__hashing_add(h, ".", 1);
            larder__hashing_add(h, larder__names_get(&x->endings, ending), sum->after[ending] - 1);
            i++;
        }
        at += n + 1;
    }
}

int larder__tar_index_about(const larder__tar_index *x, larder_dataset *out) {
    int rc = 0;
    summary sum = {.about = {.count = larder__tar_index_count(x), .parcels = x->wanted_count > 0},
                   .highest = -1};
    larder__hashing names;
    sum.hash = sum.about.count;
    for (uint64_t i = 0; i < x->endings.count; i++)
        sum.after[i] = strlen(larder__names_get(&x->endings, i)) + 2;
    for (uint64_t i = 0; i < x->shard_count; i++)
        sum_up(x, i, &sum);
    larder__hashing_begin(&names, sum.hash, sum.name_bytes);
    for (uint64_t i = 0; i < x->shard_count; i++)
        hash_names(x, i, &sum, &names);
    sum.about.fingerprint = larder__hashing_end(&names);
    sum.about.classes = (uint32_t)sum.highest + 1; /* 0 when there are no labels */
    *out = sum.about;
    for (uint64_t i = 0; rc == 0 && i < x->shard_count; i++)
        rc = check_kept(&x->shards[i]);
    return rc;
}
