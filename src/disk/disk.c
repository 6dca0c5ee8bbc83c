#include "disk/disk_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "shared/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

static int check_conf(const larder__disk_conf *conf) {
    if (!conf->folder || !conf->folder[0])
        return larder__fail(LARDER_E_ARGS, "a cache on disk needs a folder");
    if (conf->keys == 0)
        return larder__fail(LARDER_E_ARGS, "%s: a data set without samples needs no disk",
                            conf->folder);
    if (conf->keys > LARDER__DISK_MOST_BLOCKS ||
        conf->budget / LARDER__DISK_BLOCK >= LARDER__DISK_MOST_BLOCKS)
        return larder__fail(LARDER_E_ARGS, "%s: at most 64 TiB and 2^34 samples", conf->folder);
    return 0;
}

static void say_budget(larder__disk *d, uint64_t asked) {
    uint64_t has = d->folder->head->budget;
    char theirs[32], ours[32];
    if (asked && asked != has)
        larder__note(d->stats,
                     "%s: other jobs use it with a budget of %s, which holds until they end, and "
                     "not the %s asked for",
                     d->folder->path, larder__print_bytes((double)has, theirs),
                     larder__print_bytes((double)asked, ours));
}

int larder__disk_open(larder__disk **out, const larder__disk_conf *conf) {
    *out = NULL;
    int rc = check_conf(conf);
    if (rc < 0)
        return rc;
    larder__disk *d = larder__calloc(1, sizeof *d);
    if (!d)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&d->note_lock, NULL);
    d->wear = conf->wear;
    d->patience = conf->patience > 0 ? conf->patience : LARDER__DISK_REST;
    d->stats = conf->stats;
    larder__disk_ask ask = {.budget = conf->budget,
                            .make = true,
                            .begin_era = true,
                            .identity = conf->identity,
                            .keys = conf->keys,
                            .name = conf->name};
    rc = larder__disk_folder_open(&d->folder, conf->folder, &ask);
    if (rc == 0) {
        uint64_t id = larder__disk_id(conf->identity, conf->keys);
        d->own = larder__disk_folder_find(d->folder, id);
        d->pool = larder__disk_pool_new();
        rc = d->pool ? larder__disk_reader_open(&d->reader, d->folder->data_file) : LARDER_E_NOMEM;
    }
    if (rc == 0)
        rc = larder__disk_queue_open(d);
    if (rc == 0)
        rc = larder__disk_show(d);
    if (rc < 0) {
        larder__disk_close(&d);
        return rc;
    }
    say_budget(d, conf->budget);
    *out = d;
    return 0;
}

void larder__disk_close(larder__disk **pd) {
    larder__disk *d = *pd;
    *pd = NULL;
    if (!d || (d->queue && !larder__disk_queue_close(d)))
        return;
    larder__disk_reader_close(&d->reader, d->patience < 1 ? d->patience : 1);
    larder__disk_pool_unref(&d->pool);
    larder__disk_folder_close(&d->folder);
    pthread_mutex_destroy(&d->note_lock);
    larder__free(d);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

uint64_t larder__disk_value_bytes(uint64_t payload) {
    uint64_t whole = payload + LARDER__VALUE_HEAD + LARDER__DISK_BLOCK - 1;
    return whole / LARDER__DISK_BLOCK * LARDER__DISK_BLOCK;
}

uint32_t larder__disk_blocks_of(uint64_t payload) {
    uint64_t blocks = larder__disk_value_bytes(payload) / LARDER__DISK_BLOCK;
    return blocks <= LARDER__DISK_LONGEST ? (uint32_t)blocks : 0;
}

uint64_t larder__disk_room(const larder__disk *d) {
    return atomic_load(&d->folder->head->limit) * LARDER__DISK_BLOCK;
}

/* ---- what is there --------------------------------------------------------------------------- */

bool larder__disk_has(larder__disk *d, uint64_t key) {
    if (key >= d->own->keys)
        return false;
    uint64_t word = atomic_load_explicit(&d->own->words[key], memory_order_relaxed);
    return !larder__disk_lost(d) && word != 0 && !larder__disk_resting(&d->no_reads_until);
}

void larder__disk_touch(larder__disk *d, uint64_t key, uint64_t word) {
    uint64_t era = atomic_load_explicit(&d->folder->head->era, memory_order_relaxed);
    if (word && larder__disk_era(word) != era)
        atomic_compare_exchange_strong(&d->own->words[key], &word, larder__disk_in_era(word, era));
}

void larder__disk_want(larder__disk *d, uint64_t key) {
    if (key < d->own->keys)
        larder__disk_touch(d, key, atomic_load(&d->own->words[key]));
}

void larder__disk_spare(larder__disk *d, uint64_t key) {
    if (key >= d->own->keys)
        return;
    larder__disk_queue_spare(d, key);
    uint64_t word = atomic_load(&d->own->words[key]);
    while (word && larder__disk_era(word) != 0)
        if (atomic_compare_exchange_weak(&d->own->words[key], &word,
                                         larder__disk_in_era(word, 0))) {
            atomic_fetch_add_explicit(&d->folder->head->spared, 1, memory_order_relaxed);
            break;
        }
}

void larder__disk_forget(larder__disk *d, uint64_t key) {
    larder__disk_spare(d, key);
    uint64_t word = key < d->own->keys ? atomic_load(&d->own->words[key]) : 0;
    while (word && !atomic_compare_exchange_weak(&d->own->words[key], &word, 0))
        ;
    if (!word)
        return;
    atomic_fetch_sub_explicit(&d->folder->head->entries, 1, memory_order_relaxed);
    if (larder__disk_word_fits(word, d->own->id, key, atomic_load(&d->folder->head->limit)))
        larder__disk_queue_return(d, larder__disk_place(word), larder__disk_blocks(word));
}

/* ---- figures and words ----------------------------------------------------------------------- */

void larder__disk_read_figures(larder__disk *d, larder__disk_figures *out) {
    const larder__disk_head *h = d->folder->head;
    *out = (larder__disk_figures){
        .reads = atomic_load(&d->reads),
        .read_bytes = atomic_load(&d->read_bytes),
        .writes = atomic_load(&d->writes),
        .written_bytes = atomic_load(&d->written_bytes),
        .refused = atomic_load(&d->refused),
        .damaged = atomic_load(&d->damaged),
        .entries = atomic_load(&h->entries),
        .used_bytes = atomic_load(&h->used) * LARDER__DISK_BLOCK,
        .budget = h->budget,
    };
}

bool larder__disk_resting(const _Atomic double *until) {
    double t = atomic_load_explicit(until, memory_order_relaxed);
    return t > 0 && larder__world_now() < t;
}

void larder__disk_rest(larder__disk *d, _Atomic double *until, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&d->note_lock);
    atomic_store(until, larder__world_now() + LARDER__DISK_REST);
    int n = snprintf(d->note, sizeof d->note, "%s: ", d->folder->path);
    if (n > 0 && (size_t)n < sizeof d->note)
        vsnprintf(d->note + n, sizeof d->note - (size_t)n, format, args);
    larder__note(d->stats, "%s", d->note);
    pthread_mutex_unlock(&d->note_lock);
    va_end(args);
}

bool larder__disk_lost(larder__disk *d) {
    if (!larder__disk_gone(d->folder))
        return false;
    if (atomic_load(&d->said_gone))
        return true;
    larder__disk_rest(d, &d->no_writes_until,
                      "a table there cannot be read any more (its disk fails, or somebody made it "
                      "shorter), so the folder is used no more by this job");
    atomic_store(&d->said_gone, true); /* now: nobody goes on, perhaps to the end, before it is */
    return true;
}

void larder__disk_note(larder__disk *d, char *out, size_t cap) {
    pthread_mutex_lock(&d->note_lock);
    snprintf(out, cap, "%s", d->note);
    pthread_mutex_unlock(&d->note_lock);
}
