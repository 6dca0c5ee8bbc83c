/* Opening a loader: its configuration checked, then one station after the other. */
#include "base/asked.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/notes.h"
#include "base/sized.h"
#include "loader/fill/below.h"
#include "loader/inside.h"

#include <stdio.h>
#include <unistd.h>

static int copy_texts(larder_loader *l, const larder_loader_conf *c) {
    l->conf = *c;
    l->conf.source = l->conf.recipe = l->conf.cache = l->conf.augment = NULL;
    l->conf.record = l->conf.replay = l->conf.fields = l->conf.target = NULL;
    l->conf.cage = l->conf.device = l->conf.decode = NULL;
    l->conf.own = NULL; /* the caller's, until open returns */
    l->conf.maker = NULL;
    l->own = c->own != NULL;
    if (!c->source && !c->own)
        return larder__fail(LARDER_E_ARGS, "no source given");
    if (c->source && c->own)
        return larder__fail(LARDER_E_ARGS, "samples come from a source or from the program's own, "
                                           "not from both");
    if (c->recipe && strlen(c->recipe) > LARDER__RECIPE_CHARS)
        return larder__fail(LARDER_E_ARGS, "a recipe of %zu bytes; at most %d make sense",
                            strlen(c->recipe), LARDER__RECIPE_CHARS);
    const char *from[4] = {c->source ? c->source : "own",
                           c->recipe ? c->recipe : LARDER__DEFAULT_RECIPE,
                           c->cache ? c->cache : "20%", c->augment ? c->augment : ""};
    const char **to[4] = {&l->conf.source, &l->conf.recipe, &l->conf.cache, &l->conf.augment};
    for (int i = 0; i < 4; i++)
        if (!(*to[i] = larder__strdup(from[i])))
            return LARDER_E_NOMEM;
    if ((c->fields && c->fields[0] && !(l->conf.fields = larder__strdup(c->fields))) ||
        (c->target && c->target[0] && !(l->conf.target = larder__strdup(c->target))))
        return LARDER_E_NOMEM;
    return 0;
}

static void unless_said(uint32_t *number, uint32_t usual) { *number = *number ? *number : usual; }

static void fill_unsaid(larder_loader_conf *c) {
    unless_said(&c->world, 1);
    c->views = c->views ? c->views : 1;
    c->batch = c->batch ? c->batch : 256;
    unless_said(&c->threads, larder__cpu_count());
    unless_said(&c->prefetch, 4);
    unless_said(&c->ahead, c->prefetch);
    unless_said(&c->inflight, 64);
    unless_said(&c->lag, c->ahead + 2);
}

static int check_ahead(const larder_loader_conf *c) {
    if (c->threads > 1024 || c->prefetch > 1024 || c->ahead > 1024 || c->inflight > 1024 ||
        c->lag > 1u << 20)
        return larder__fail(LARDER_E_ARGS, "at most 1024 threads, reads and batches ahead");
    if (c->ahead < c->prefetch)
        return larder__fail(LARDER_E_ARGS, "%u batches prepared ahead, but only %u read ahead",
                            c->prefetch, c->ahead);
    if (c->lag <= c->ahead)
        return larder__fail(LARDER_E_ARGS,
                            "lag %u must be more than the %u batches ahead: feedback of a "
                            "batch cannot act on batches that are drawn before it is trained on",
                            c->lag, c->ahead);
    return 0;
}

/* What samples of the program's own are cached as: see larder__draw_conf.guessed. */
static int share_own(larder_loader *l) {
    if (l->conf.order_only)
        return 0;
    if (l->shrink.on)
        return larder__fail(LARDER_E_ARGS,
                            "shrink= makes small pictures of large ones, and samples "
                            "of your own are kept as they come: leave it out");
    for (size_t i = 0; i < l->cache.tier_count; i++) {
        double *share = l->cache.tiers[i].budget.share;
        if (share[LARDER_DECODED] > 0 || share[LARDER_AUGMENTED] > 0)
            return larder__fail(LARDER_E_ARGS, "samples of your own are cached in one form alone: "
                                               "leave out the split");
        share[LARDER_SHRUNK] = share[LARDER_ENCODED];
        share[LARDER_ENCODED] = 0;
    }
    return 0;
}

static int copy_conf(larder_loader *l, const larder_loader_conf *c) {
    int rc = copy_texts(l, c);
    if (rc < 0 || (c->maker && (rc = larder__sized_in(&l->maker, sizeof l->maker, c->maker,
                                                      "larder_own_maker")) < 0))
        return rc;
    fill_unsaid(&l->conf);
    if ((rc = check_ahead(&l->conf)) < 0)
        return rc;
    if (c->on_bad > LARDER_BAD_REPLACE || c->dtype > LARDER_BF16 || c->layout > LARDER_NHWC ||
        c->parts > LARDER_PARTS_OFF)
        return larder__fail(LARDER_E_ARGS,
                            "on_bad, dtype, layout or parts is none of the known ones");
    if (c->views > 64 || (c->views > 1 && (c->fields || c->target || c->own || c->maker)))
        return larder__fail(LARDER_E_ARGS, "at most 64 views of a sample, and not with fields=, "
                                           "target= or functions of one's own");
    if (!(c->patience >= 0))
        return larder__fail(LARDER_E_ARGS, "waiting for %g seconds makes no sense", c->patience);
    rc = larder__recipe_cache(&l->cache, l->conf.recipe, l->conf.cache, &l->plans, &l->shrink);
    larder__cache_text_heed(&l->cache, c->still, c->still_arg);
    return rc == 0 && l->own ? share_own(l) : rc;
}

uint32_t larder__entry_bytes(void *loader, uint64_t id) {
    const larder_loader *l = loader;
    larder_sample s = {0};
    if (!l->parts)
        return larder__data_stat(l->data, id, &s) < 0 ? 0 : s.bytes;
    larder_rect whole = larder__parts_whole(l->parts, id);
    return larder__parts_bytes(l->parts, id, &whole);
}

/* Some samples of those, read together. Nobody asked for them: background reads of the next batch.
 */
static int hash_entries(larder_loader *l, const uint64_t *ids, size_t n, uint64_t nonce,
                        uint64_t *out) {
    larder_read *reads = larder__calloc(n, sizeof *reads);
    uint64_t before = larder__requests(), count = 0, bytes = 0;
    int rc = reads ? larder__data_read(l->data, ids, n, reads) : LARDER_E_NOMEM;
    int worst = rc;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (reads[i].code < 0) {
            worst = larder__fail(reads[i].code, "%s", reads[i].why);
            continue;
        }
        size_t size = larder_buf_size(reads[i].buf);
        out[i] = larder__hash_bytes(nonce, larder_buf_data(reads[i].buf), size);
        count++;
        bytes += size;
        larder_buf_unref(&reads[i].buf);
    }
    larder__free(reads);
    larder__joint_note(l, NULL, before, count, bytes);
    l->probes += count;
    l->probe_bytes += bytes;
    return worst;
}

/* As larder__attach_conf.prove. Parts of pictures depend on what is drawn: there it says nothing.
 * At once they are as many as there is memory for anyway. */
static int prove_entries(void *loader, const uint64_t *ids, uint32_t n, uint64_t nonce,
                         uint64_t *out) {
    larder_loader *l = loader;
    int rc = l->parts ? LARDER_E_UNSUPPORTED : 0;
    for (uint32_t from = 0, some; rc == 0 && from < n; from += some) {
        some = n - from < l->conf.batch ? n - from : (uint32_t)l->conf.batch;
        rc = hash_entries(l, ids + from, some, nonce, out + from);
    }
    return rc;
}

/* Jobs that share a cache may exchange pixels and rows where this agrees. */
static uint64_t pipeline_hash(const larder_loader *l) {
    const char *augment = l->conf.augment ? l->conf.augment : "";
    uint64_t about[] = {l->pipeline ? larder__pipeline_dtype(l->pipeline) : l->conf.dtype,
                        l->conf.layout, l->row_bytes}; /* of all views */
    return larder__hash_bytes(larder__hash_bytes(1, about, sizeof about), augment, strlen(augment));
}

/* What samples come to in other forms than the file's. */
static int open_forms(larder_loader *l, larder__draw_conf *draw) {
    const double *share = larder__cache_back(&l->cache)->budget.share;
    int rc = 0;
    l->row_bytes = l->pipeline ? larder__pipeline_bytes(l->pipeline) * l->conf.views : 0;
    l->spread = share[LARDER_ENCODED] < 1 || l->plans;
    draw->cores = larder__cpu_count();
    draw->cores = draw->cores < l->conf.threads ? draw->cores : l->conf.threads;
    draw->pipeline = pipeline_hash(l);
    draw->row_bytes = l->row_bytes < UINT32_MAX ? (uint32_t)l->row_bytes : 0;
    if (share[LARDER_DECODED] > 0 || l->plans)
        rc = larder__reserve_learn(l, &draw->decoded_ratio, &draw->decoded_bytes);
    if (rc == 0)
        rc = larder__shrink_open(l, draw);
    l->decoded_ratio = draw->decoded_ratio;
    l->decoded_bytes = draw->decoded_bytes;
    return rc;
}

static uint32_t sample_class(void *data, uint64_t id) {
    larder_sample s = {.label = -1};
    return larder__data_stat(data, id, &s) < 0 || s.label < 0 ? LARDER_NO_GROUP : (uint32_t)s.label;
}

static double scratch_refused(const void *l) {
    char why[8];
    return (double)larder__packages_refused(((const larder_loader *)l)->crates, why, sizeof why);
}

static int open_crates(larder_loader *l) {
    uint64_t limit;
    const char *folder = larder__draw_scratch(l->draw, &limit);
    int rc = folder ? larder__packages_open(&l->crates, folder, limit) : 0;
    return rc < 0 || !folder
               ? rc
               : larder__stat_probe(l->stats, "scratch_refused", "packages",
                                    "not laid down or not read back; storage gave them",
                                    scratch_refused, l);
}

static int open_pipeline(larder_loader *l) {
    const larder_dataset *about = larder__data_about(l->data);
    if (l->maker.pictures && l->conf.augment && l->conf.augment[0])
        return larder__fail(LARDER_E_ARGS,
                            "augment \"%.60s\": pictures are wanted as they are, without stages",
                            l->conf.augment);
    if (l->conf.order_only || l->maker.pictures) { /* any shape will do */
        larder__free((void *)(uintptr_t)l->conf.augment);
        l->conf.augment = larder__strdup("resize:h=1,w=1");
        if (!l->conf.augment)
            return LARDER_E_NOMEM;
    }
    larder__pipeline_conf pipe = {.spec = l->conf.augment,
                                  .raw = about->raw,
                                  .raw_layout = about->layout,
                                  .dtype = l->conf.dtype,
                                  .layout = l->conf.layout,
                                  .levels = l->device != NULL};
    int rc = larder__pipeline_open(&l->pipeline, &pipe);
    if (rc == 0 && l->device)
        rc = larder__freight_settle(l);
    if (rc == 0 && pipe.levels && !l->device) { /* such rows travel as they are asked for */
        larder__pipeline_close(&l->pipeline);
        pipe.levels = false;
        rc = larder__pipeline_open(&l->pipeline, &pipe);
    }
    if (rc == 0 && larder__pipeline_mixes(l->pipeline) && (l->conf.fields || l->maker.make))
        return larder__fail(LARDER_E_ARGS,
                            "augment \"%.60s\": pictures and their labels are mixed, "
                            "not fields, nor what functions of one's own make",
                            l->conf.augment);
    if (rc < 0 || !about->parts || l->conf.parts == LARDER_PARTS_OFF || l->conf.order_only ||
        l->columns || l->maker.pictures || l->conf.views > 1 || /* several crops need most of it */
        larder__recipe_brings(l->conf.recipe))
        return rc;
    bool together = l->cache.order == LARDER__IN_STEP;
    larder__parts_conf parts = {.data = l->data,
                                .pipeline = l->pipeline,
                                .seed = l->conf.seed,
                                .batch = l->conf.batch * (together ? l->conf.world : 1),
                                .rank = together ? 0 : l->conf.rank,
                                .world = together ? 1 : l->conf.world,
                                .keep = l->conf.parts == LARDER_PARTS_KEEP};
    return larder__parts_open(&l->parts, &parts);
}

/* Who only wants the order reads by other means. */
static void note_data(larder_loader *l) {
    char says[LARDER__NOTE_BYTES];
    const char *told;
    if (l->columns) /* labels are as the fields have them; what is left out was not asked for */
        for (size_t i = 0; !l->conf.fields && (told = larder__data_source_note(l->data, i)); i++)
            larder__note(l->stats, "%.150s: %s", l->conf.source, told);
    for (size_t i = 0;
         !l->columns && !l->conf.order_only && larder__data_note(l->data, i, says, sizeof says);
         i++)
        larder__note(l->stats, "%s", says);
}

static int open_own(larder_loader *l, const larder_own_source *own) {
    uint64_t before = larder__requests();
    uint64_t probes = 0, bytes = 0;
    int rc = larder__data_open_own(&l->data, own, &probes, &bytes);
    l->probes += probes;
    l->probe_bytes += bytes;
    larder__joint_note(l, NULL, before, probes, bytes);
    return rc;
}

/* What the program decodes itself no cage of ours holds: that is said, not done in silence. */
static int open_cage(larder_loader *l, const char *text) {
    int rc = l->conf.order_only ? 0 : larder__cage_open(&l->cage, text);
    if (rc == 0 && l->cage && l->own)
        rc = larder__fail(LARDER_E_ARGS, "a cage holds larder's decoders; samples of your own are "
                                         "decoded by your own functions, outside of it");
    return rc;
}

/* The data set, what is wanted of its samples, and the stages for what are pictures. */
static int open_data(larder_loader *l, const larder_loader_conf *given) {
    larder__columns *c = NULL;
    int rc = open_cage(l, given->cage);
    if (rc < 0)
        return rc;
    if ((l->own || l->maker.make) && (l->conf.fields || l->conf.target))
        return larder__fail(LARDER_E_ARGS, "fields and target are for sources of larder's whose "
                                           "samples no function of your own changes");
    if ((rc = larder__freight_open(l, given)) < 0)
        return rc;
    rc = larder__fields_parse(l, &c);
    if (rc == 0 && l->own)
        rc = open_own(l, given->own);
    else if (rc == 0)
        rc = larder__data_open_fields(&l->data, l->conf.source,
                                      c ? (const char *const *)c->members : NULL,
                                      c ? c->member_count : 0);
    l->columns = c;
    /* A function of one's own is given what the stages make, unless samples are no pictures. */
    if (rc == 0 && l->maker.make && !larder__data_about(l->data)->parcels)
        rc = open_pipeline(l);
    if (l->conf.order_only)
        larder__fields_close(l); /* nothing is made of what is not read */
    else if (rc == 0)
        rc = larder__fields_open(l);
    if (rc < 0 || l->pipeline)
        return rc;
    if (!l->columns || larder__columns_pictures(l->columns))
        rc = open_pipeline(l);
    else if (l->conf.augment[0])
        rc = larder__fail(LARDER_E_ARGS, "augment \"%.60s\": there is no picture among the fields",
                          l->conf.augment);
    return rc;
}

static int sample_file(void *data, uint64_t id, uint64_t *file) {
    return larder__data_file(data, id, file);
}

static int open_parts(larder_loader *l, const larder_loader_conf *given) {
    int rc = open_data(l, given);
    if (rc == 0 && l->columns)
        rc = larder__fields_settle(l);
    if (rc < 0)
        return rc;
    note_data(l);
    const larder_dataset *about = larder__data_about(l->data);
    larder__draw_conf draw = {.name = l->conf.source,
                              .recipe = l->conf.recipe,
                              .cache = &l->cache,
                              .store =
                                  l->conf.order_only ? &larder__store_null : &larder__store_heap,
                              .n = about->count,
                              .payload = about->bytes,
                              /* Jobs that share a cache must agree on what an entry is. */
                              .fingerprint = about->fingerprint + (l->parts != NULL),
                              .identity = about->identity + (l->parts != NULL),
                              .size_of = larder__entry_bytes,
                              .prove = prove_entries,
                              .size_arg = l,
                              .group_of = sample_class,
                              .group_arg = l->data,
                              .file_of = sample_file,
                              .file_arg = l->data,
                              .epochs = l->conf.epochs,
                              .beside = true,
                              .batch = l->conf.batch,
                              .seed = l->conf.seed,
                              .rank = l->conf.rank,
                              .world = l->conf.world,
                              .lag = l->conf.lag,
                              .drop_last = l->conf.drop_last,
                              .guessed = l->own && !l->conf.order_only,
                              .stats = l->stats,
                              .parts = l->parts};
    if ((!l->own_scratch && (rc = larder__loader_scratch(l, &l->own_scratch)) < 0) ||
        (rc = open_forms(l, &draw)) < 0 || (rc = larder__below_open(l)) < 0 ||
        (rc = larder__draw_open(&l->draw, &draw)) < 0 ||
        (rc = larder__ledger_open(&l->ledger, about->count, l->conf.world)) < 0 ||
        (larder__draw_sampler(l->draw)->uneven && (rc = larder__ledger_weigh(l->ledger)) < 0))
        return rc;
    if ((rc = larder__measures_figures(l)) < 0)
        return rc;
    l->spread |= LARDER_HAS(larder__draw_policy(l->draw), shares, exchange);
    if ((rc = open_crates(l)) < 0)
        return rc;
    l->epoch_length = larder__draw_length(l->draw);
    return 0;
}

/* Batches to read ahead where the user left it open and no feedback tells how many there may be:
 * enough to hide some latency, in little memory. */
static uint32_t batches_ahead(const larder_loader *l) {
    enum { MOST = LARDER__AHEAD_MOST, BYTES = 64 << 20 };
    const larder_dataset *about = larder__data_about(l->data);
    uint64_t each = about->count ? about->bytes / about->count : 0;
    uint64_t fit = BYTES / (l->conf.batch * (each + 1));
    if (larder__draw_sampler(l->draw)->brings) { /* two blocks may come in at the same time */
        uint64_t blocks = 1 + larder__planned_room(l->draw) / l->conf.batch;
        return (uint32_t)(blocks > 3 * MOST           ? 3 * MOST
                          : blocks > l->conf.prefetch ? blocks
                                                      : l->conf.prefetch);
    }
    return (uint32_t)(fit > MOST ? MOST : fit > l->conf.prefetch ? fit : l->conf.prefetch);
}

static int open_pool(larder_loader *l) {
    const larder__pool_conf conf = {.rows = l->conf.batch,
                                    .row_bytes = larder__x_bytes(l),
                                    .columns = l->columns,
                                    .own = l->conf.prefetch,
                                    .most = l->conf.hold_most,
                                    .pin = l->conf.pin,
                                    .unpin = l->conf.unpin,
                                    .beside = l->device ? larder__twin_open : NULL,
                                    .beside_end = larder__twin_close,
                                    .done = l->device ? larder__freight_done : NULL,
                                    .arg = l->device};
    int rc = larder__pool_open(&l->pool, &conf);
    if (rc == 0)
        rc = larder__stat_probe(l->stats, "batches_on_hold", "batches",
                                "kept by the user after their turn", larder__pool_out, l->pool);
    if (rc == 0 && l->conf.pin)
        rc = larder__stat_probe(l->stats, "batches_not_pinned", "pieces",
                                "of batch memory that could not be locked in place",
                                larder__pool_unpinned, l->pool);
    return rc;
}

static int open_ring(larder_loader *l, const larder_loader_conf *given) {
    if (given->ahead == 0 && given->prefetch == 0 && !larder__draw_feedback(l->draw) &&
        !larder__draw_ranks(l->draw)) /* ranks are at most `lag` batches apart */
        l->conf.ahead = batches_ahead(l);
    larder__draw_settle_after(l->draw, l->conf.ahead); /* batch k is given back by then */
    /* Workers are asked less often: a request costs more than a call. */
    size_t parts = l->own || l->maker.make ? 1 : 2;
    size_t share = l->conf.batch / (parts * (size_t)l->conf.threads);
    l->piece = share < 1 ? 1 : share > LARDER__ROWS_AT_ONCE ? LARDER__ROWS_AT_ONCE : share;
    l->readers.most = l->conf.inflight;
    l->ring = larder__calloc(l->conf.ahead, sizeof *l->ring);
    l->x = larder__calloc(l->conf.prefetch, sizeof *l->x);
    l->x_of = larder__malloc(l->conf.prefetch * sizeof *l->x_of);
    l->threads = larder__calloc(l->conf.threads, sizeof *l->threads);
    l->readers.threads = larder__calloc(l->readers.most, sizeof *l->readers.threads);
    size_t seats = l->conf.threads + l->readers.most + LARDER__FREIGHT_THREADS;
    l->seats = larder__memalign(64, seats * sizeof *l->seats);
    if (!l->ring || !l->x || !l->x_of || !l->threads || !l->readers.threads || !l->seats)
        return LARDER_E_NOMEM;
    memset(l->seats, 0, seats * sizeof *l->seats);
    int rc = open_pool(l);
    for (uint32_t k = 0; k < l->conf.prefetch && rc == 0; k++) {
        l->x_of[k] = UINT64_MAX;
        rc = larder__pixel_block_take(l->pool, &l->x[k]);
    }
    for (uint32_t k = 0; k < l->conf.ahead && rc == 0; k++)
        rc = larder__place_open(l, &l->ring[k]);
    return rc;
}

static void say_absence(larder_loader *l) {
    char why[300];
    larder__cache_note(larder__draw_cache(l->draw), why, sizeof why);
    if (why[0])
        larder__note(l->stats,
                     "for now samples go without the cache elsewhere, which is looked for: %s",
                     why);
}

int larder_loader_open(larder_loader **out, const larder_loader_conf *conf) {
    *out = NULL;
    larder_loader_conf given = {0};
    int rc = larder__sized_in(&given, sizeof given, conf, "larder_loader_conf");
    if (rc < 0)
        return rc;
    larder_loader *l = larder__calloc(1, sizeof *l);
    if (!l)
        return LARDER_E_NOMEM;
    pthread_condattr_t steady; /* waiting for so long must not depend on somebody's clock */
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, &steady);
    pthread_condattr_destroy(&steady);
    pthread_cond_init(&l->unread, NULL);
    larder__pace_open(&l->pace);
    l->owner = getpid();
    if ((rc = copy_conf(l, &given)) < 0 || (rc = larder__measures_open(l)) < 0 ||
        (rc = open_parts(l, &given)) < 0 || (rc = open_ring(l, &given)) < 0 ||
        (rc = larder__recording_open(l, &given)) < 0 ||
        (given.replay && (rc = larder__replaying_open(l, given.replay)) < 0))
        goto fail;
    say_absence(l);
    larder__shown_begin(l);
    l->audit = larder__fail(LARDER_E_STATE, "no epoch is finished yet");
    snprintf(l->audit_says, sizeof l->audit_says, "%s", larder_errmsg());
    if (larder__expose(&l->exposed, larder__shown_look, l) < 0)
        larder__note(l->stats, "larder top and dash do not show this job: %s", larder_errmsg());
    *out = l;
    return 0;
fail:
    larder_loader_close(&l);
    return rc;
}
