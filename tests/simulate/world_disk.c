/* Jobs that share one folder of a disk, each with a cache of its own above it: the disk alone, or
 * memory in front of it. The disk is made (platter.h). What they decide is what they would decide
 * in memory alone, and whoever looks at a disk that nobody else uses finds what lies there. */
#include "world_disk.h"

#include "base/file.h"
#include "base/spec.h"
#include "disk/disk_folder.h"
#include "disk/disk_space.h"
#include "disk/disk_store.h"
#include "open_files.h"
#include "platter.h"
#include "plugins.h"
#include "shared/value.h"
#include "wrapped.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POWER,
    FULL,
    FAILING,
    READ_ONLY,
    SHORT,
    SLOW,
    REMOVED,
    TRUNCATED,
    SPOILT,
    DATE,
    TENDED,
    OWN
};
const char *const world_disk_mishaps[OWN] = {
    "power cut",   "disk is full",     "I/O errors",       "read-only",
    "short reads", "disk is slow",     "somebody removes", "somebody cuts off",
    "bytes rot",   "the date changes", "somebody tends"};
_Static_assert((int)OWN == (int)WORLD_DISK_MISHAPS, "all of them");
enum {
    SETS_MOST = 3,
    FIRST_IDENTITY = 500,
    FILE_SYSTEMS_OWN = 65536, /* that a folder leaves of its budget: the made disk needs none */
    LEFT_BEHIND = 8 * PLATTER_BLOCK, /* files that whoever was killed had not named yet */
};

static struct {
    uint64_t budgets[2], most;
    double patience, wear;
    bool forms;     /* what leaves a cache leaves the disk, as if it might come back in another */
    bool meddled;   /* somebody had a hand in it, and nobody has counted blocks anew since */
    bool overlaps;  /* somebody had a hand in it: entries may, until the next power cut */
    bool unsettled; /* since a power cut nobody has opened it */
    struct {
        bool any, keys[PLAY_KEYS_MOST];
    } due[SETS_MOST];
    bool stays;                      /* whoever looks does not close it */
    bool opened;                     /* whoever looked last has, and counted if that was needed */
    uint64_t looked, came;           /* came: so many have opened it, or tried to */
    uint64_t faults_then, came_then; /* when it was noted what is due */
} d;

/* ---- opening --------------------------------------------------------------------------------- */

static larder__disk_conf conf_of(uint32_t set, uint64_t budget) {
    return (larder__disk_conf){.folder = PLATTER_FOLDER,
                               .budget = budget,
                               .identity = FIRST_IDENTITY + set,
                               .keys = played.keys,
                               .name = "made",
                               .wear = d.wear,
                               .patience = d.patience};
}

int world_disk_open(larder__disk **out, uint32_t number) {
    larder__disk_conf conf =
        conf_of(play_set(WORLD_FIRST_PLAYER + number), d.budgets[actors_one_in(4)]);
    d.came++;
    uint64_t faults = platter_faults();
    int rc = larder__disk_open(out, &conf);
    if (rc == 0)
        d.unsettled = false;
    else if (rc != LARDER_E_STATE && platter_faults() == faults)
        actors_complain("nothing goes wrong, and yet: %s", larder_errmsg());
    return rc;
}

static int open_cache(larder__cache **out, uint32_t number) {
    larder__disk_store_conf store = {
        .slots = played.keys, .tiered = played.tiers.front > 0, .forms = d.forms};
    larder_args args = {0};
    larder__cache_conf conf = {.policy = larder__policy_find(played.policy),
                               .args = &args,
                               .keys = played.keys,
                               .budget = played.budget,
                               .tiers = played.tiers.front ? &played.tiers : NULL,
                               .seed = played.seed + number,
                               .store = &larder__store_disk};
    int rc = larder__args_parse(&args, "policy", &conf.policy->plugin, "", ',', NULL);
    if (rc == 0)
        rc = world_disk_open(&store.disk, number);
    if (rc == 0)
        rc = larder__disk_store_open(&conf.store_state, &store);
    if (rc == 0)
        rc = larder__cache_open(out, &conf);
    larder__args_free(&args);
    return rc;
}

/* ---- what lies there, as the files say ------------------------------------------------------- */

typedef struct seen { /* one data set's index */
    const larder__disk_index_head *head;
    const uint64_t *words;
} seen;

static seen see(uint32_t set) {
    char name[PLATTER_NAME];
    size_t size;
    uint64_t id = larder__disk_id(FIRST_IDENTITY + set, played.keys);
    snprintf(name, sizeof name, "%016llx.index", (unsigned long long)id);
    const unsigned char *at = platter_file(name, &size);
    if (!at || size < PLATTER_BLOCK ||
        larder__disk_index_judge(at, PLATTER_BLOCK, size) != LARDER__DISK_FINE)
        return (seen){0};
    return (seen){(const larder__disk_index_head *)(const void *)at,
                  (const uint64_t *)(const void *)(at + PLATTER_BLOCK)};
}

static const larder__disk_head *see_head(void) {
    size_t size;
    const unsigned char *at = platter_file("head", &size);
    return size >= PLATTER_BLOCK ? (const larder__disk_head *)(const void *)at : NULL;
}

/* Blocks that every entry may name: of a folder of the largest budget. */
static uint64_t blocks_there(void) {
    uint64_t index_bytes = 0;
    size_t size;
    for (uint32_t set = 0; set < played.sets; set++)
        index_bytes += see(set).head ? larder__disk_index_bytes(played.keys) : 0;
    uint64_t limit = larder__disk_limit(d.most, index_bytes);
    platter_file("data", &size);
    return size / PLATTER_BLOCK < limit ? size / PLATTER_BLOCK : limit;
}

static bool is_whole(const seen *x, uint32_t key, uint64_t limit) {
    size_t size;
    uint64_t word = x->words[key];
    const unsigned char *data = platter_file("data", &size);
    if (!larder__disk_word_fits(word, x->head->id, key, limit))
        return false;
    const unsigned char *at = data + larder__disk_place(word) * PLATTER_BLOCK;
    larder__value v = {.id = key, .mark = x->head->id, .size = play_size(key)};
    v.form = v.held = LARDER_ENCODED;
    return larder__value_fits(at, &v, play_size(key)) &&
           larder__disk_blocks(word) == larder__disk_value_bytes(play_size(key)) / PLATTER_BLOCK &&
           larder__value_sound(at, at + LARDER__VALUE_HEAD, play_size(key));
}

/* How many entries name each block. */
static void count_claims(uint64_t limit, uint8_t *claims) {
    for (uint32_t set = 0; set < played.sets; set++) {
        seen x = see(set);
        for (uint32_t k = 0; x.head && k < played.keys; k++)
            if (larder__disk_word_fits(x.words[k], x.head->id, k, limit))
                for (uint32_t b = 0; b < larder__disk_blocks(x.words[k]); b++)
                    claims[larder__disk_place(x.words[k]) + b]++;
    }
}

enum { CLAIMS = 1024 };

static bool is_claimed_twice(const uint8_t *claims, uint64_t word) {
    for (uint32_t b = 0; b < larder__disk_blocks(word); b++)
        if (claims[larder__disk_place(word) + b] > 1)
            return true;
    return false;
}

/* What the next one to open it has to find: values that are whole, in blocks of their own. */
static void note_due(void) {
    static uint8_t claims[CLAIMS];
    uint64_t limit = blocks_there();
    d.faults_then = platter_faults();
    d.came_then = d.came;
    memset(claims, 0, sizeof claims);
    count_claims(larder__disk_limit(d.most, 0), claims); /* also beyond the end of `data` */
    memset(d.due, 0, sizeof d.due);
    for (uint32_t set = 0; set < played.sets; set++) {
        seen x = see(set);
        for (uint32_t k = 0; x.head && k < played.keys; k++)
            if (is_whole(&x, k, limit) && !is_claimed_twice(claims, x.words[k]))
                d.due[set].keys[k] = d.due[set].any = true;
    }
}

/* ---- whoever looks --------------------------------------------------------------------------- */

static bool others_run(void) {
    for (uint32_t i = WORLD_FIRST_PLAYER; i <= WORLD_TENDER; i++)
        if (actors_running(actors_process(i)))
            return true;
    return false;
}

static uint32_t look_for(larder__disk *disk, uint32_t set) {
    uint32_t missing = 0;
    for (uint32_t k = 0; k < played.keys; k++) {
        larder__value v = {.id = k, .form = LARDER_ENCODED, .held = LARDER_ENCODED};
        larder__disk_fetch *f = larder__disk_has(disk, k) ? larder__disk_fetch_new(&v) : NULL;
        larder_buf *got = NULL;
        if (f) {
            larder__disk_send(disk, &f, 1);
            got = larder__disk_receive(disk, f);
        }
        larder__disk_fetch_unref(&f);
        if (got)
            play_check(k, got, "as it lies on the disk");
        missing += d.due[set].keys[k] && !got;
        larder_buf_unref(&got);
        d.looked += d.due[set].keys[k];
    }
    return missing;
}

static void *look(void *arg) {
    (void)arg;
    for (uint32_t set = 0; set < played.sets; set++) {
        larder__disk *disk;
        larder__disk_conf conf = conf_of(set, d.most);
        if (!d.due[set].any)
            continue;
        played.looked_at = set;
        int rc = larder__disk_open(&disk, &conf);
        uint32_t missing = rc == 0 ? look_for(disk, set) : 0;
        if (platter_faults() != d.faults_then || d.came != d.came_then || others_run())
            missing = 0; /* then nothing can be said */
        else if (rc < 0)
            actors_complain("the folder does not open again: %s", larder_errmsg());
        if (missing)
            actors_complain("%u values that lay on the disk are not found there", missing);
        if (rc == 0) {
            d.unsettled = false;
            d.opened = true;
        }
        while (rc == 0 && d.stays)
            actors_sleep(actors_now() + 1000); /* until it is killed */
        larder__disk_close(&disk);
    }
    return NULL;
}

static void look_now(bool stays) {
    actor_process *looker = actors_process(WORLD_LOOKER);
    note_due();
    d.stays = stays;
    d.opened = false;
    uint64_t until = actors_steps() + 20000, before = d.looked;
    actors_start(WORLD_LOOKER, "looker", look, NULL);
    double end = actors_now() + 500;
    while (actors_running(looker) && !actors_complaint() && actors_now() < end && actors_step())
        world_disk_check();
    if (actors_steps() > until)
        actors_complain("looking at a disk does not end");
    actors_log("%llu values were looked for", (unsigned long long)(d.looked - before));
}

/* ---- mishaps --------------------------------------------------------------------------------- */

static void clear_up(void *arg) {
    (void)arg;
    platter_now.full = 0;
    platter_now.failing = platter_now.shortened = platter_now.slow_in = 0;
    platter_now.read_only = false;
}

static void cut_power(const mishap *m) {
    for (uint32_t i = WORLD_SERVER; i < ACTOR_PROCESSES; i++)
        if (actors_process(i)->alive)
            actors_crash(actors_process(i));
    platter_cut();
    d.overlaps = d.meddled = false;
    d.unsettled = true;
    note_due();
    d.stays = false;
    if (m->chance % 2) /* before the jobs come back */
        actors_start(WORLD_LOOKER, "looker", look, NULL);
    fate_later(m->seconds + 0.1, fate_start_all, NULL);
}

static bool is_index(const char *name) { return strstr(name, ".index") != NULL; }

static bool in_use(void) {
    return platter_locked("head", DISK_DOOR) || platter_locked("head", DISK_ATTACHED);
}

/* What is there without a head nobody takes for a folder: all of it goes, the head last and not
 * while somebody makes the rest, or what can be made anew. */
static void take_away(uint64_t chance) {
    char names[24][PLATTER_NAME];
    uint32_t n = platter_names(names, 24);
    bool everything = chance % 3 == 0 && !platter_locked("head", DISK_DOOR);
    d.overlaps |= everything;
    for (uint32_t i = 0; i < n; i++)
        if ((everything && strcmp(names[i], "head") != 0) ||
            (is_index(names[i]) && chance % 3 == 1) ||
            (strcmp(names[i], "data") == 0 && chance % 3 == 2) ||
            (strcmp(names[i], "space") == 0 && !in_use() && chance & 8))
            platter_remove(names[i]);
    if (everything)
        platter_remove("head");
}

/* Mapped files stay as long as they are: what happens to who uses them is in SECURITY.md. */
static void cut_off(uint64_t chance) {
    char names[24][PLATTER_NAME];
    size_t size;
    uint32_t n = platter_names(names, 24);
    for (uint32_t i = 0; i < n; i++) {
        platter_file(names[i], &size);
        bool head = strcmp(names[i], "head") == 0, data = strcmp(names[i], "data") == 0;
        if ((data || !in_use()) && !larder__temp_is(names[i]) && size > 16 && (chance >> i & 1))
            platter_resize(names[i], (head ? 16 : 0) + (chance >> 16) % (size - 16));
    }
}

/* What `larder disk` does, whoever else is there. */
static void *tend(void *arg) {
    uint64_t chance = (uint64_t)(uintptr_t)arg, some, more;
    d.came++;
    larder__disk_figures f;
    int rc = chance % 4 == 0   ? larder__disk_check(PLATTER_FOLDER, &some, &more, NULL, NULL)
             : chance % 4 == 1 ? larder__disk_trim(PLATTER_FOLDER, 0, &some)
             : chance % 4 == 2
                 ? larder__disk_trim(PLATTER_FOLDER, d.budgets[chance >> 4 & 1], &some)
                 : larder__disk_list(PLATTER_FOLDER, &f, NULL, NULL);
    if (chance % 16 == 15)
        rc = larder__disk_remove(PLATTER_FOLDER);
    actors_log("tended: %d %s", rc, rc < 0 ? larder_errmsg() : "");
    return NULL;
}

static void rot(uint64_t chance) {
    char names[24][PLATTER_NAME];
    size_t size;
    uint32_t n = platter_names(names, 24);
    larder_rng rng;
    larder_rng_seed(&rng, chance, 0);
    for (uint32_t i = 0; i < n; i++) {
        platter_file(names[i], &size);
        bool data = strcmp(names[i], "data") == 0, index = is_index(names[i]);
        if (!size || !(data || (index && chance & 1)))
            continue;
        d.overlaps |= index;
        for (int k = 0; k < 20; k++) {
            size_t block = larder_rng_below(&rng, (uint32_t)(size / PLATTER_BLOCK));
            size_t at = larder_rng_below(&rng, data ? 64 : played.keys) * 8u;
            platter_spoil(names[i], index ? PLATTER_BLOCK + at : block * PLATTER_BLOCK + at,
                          larder_rng_next(&rng));
        }
    }
}

void world_disk_happen(uint32_t own, const mishap *m) {
    switch (own) {
    case POWER:
        cut_power(m);
        return;
    case FULL:
        platter_now.full = m->chance & 1 ? ENOSPC : EDQUOT;
        break;
    case FAILING:
        platter_now.failing = 1 + m->chance % 8;
        break;
    case READ_ONLY:
        platter_now.read_only = true;
        break;
    case SHORT:
        platter_now.shortened = 2 + m->chance % 6;
        break;
    case SLOW:
        platter_now.slow_in = 1 + m->chance % 8;
        platter_now.slow = m->seconds;
        break;
    case REMOVED:
        d.meddled = true;
        take_away(m->chance);
        return;
    case TRUNCATED:
        d.meddled = true;
        cut_off(m->chance);
        return;
    case SPOILT:
        d.meddled = true;
        rot(m->chance);
        return;
    case TENDED:
        if (!actors_running(actors_process(WORLD_TENDER)))
            actors_start(WORLD_TENDER, "tender", tend, (void *)(uintptr_t)m->chance);
        return;
    case DATE:
        wrapped_date = (double)(int64_t)(m->chance % 2000000000) - 1e9;
        return;
    }
    fate_later(m->seconds, clear_up, NULL);
}

void world_disk_heal(void) {
    clear_up(NULL);
    platter_hasten();
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Who dies while `data` gets shorter leaves it as it was, for the next one who is alone. */
static bool somebody_died(void) {
    for (uint32_t i = 0; i < played.players; i++) {
        const actor_process *p = actors_process(WORLD_FIRST_PLAYER + i);
        if (!p->alive || p->lives > 1)
            return true;
    }
    return false;
}

/* Blocks of an entry are its own, and given out. */
static void check_entries(void) {
    static uint8_t claims[CLAIMS];
    size_t space_size;
    const larder__disk_head *h = see_head();
    const uint64_t *space = (const uint64_t *)(const void *)platter_file("space", &space_size);
    if (!h || !space || d.overlaps || d.unsettled || platter_locked("head", DISK_DOOR) ||
        !platter_locked("head", DISK_ATTACHED))
        return;
    uint64_t limit = h->limit, taken = 0;
    memset(claims, 0, sizeof claims);
    count_claims(limit, claims);
    for (uint64_t b = 0; b < limit; b++) {
        bool given_out = larder__space_any(space, b, 1);
        taken += given_out;
        if (claims[b] > 1)
            actors_complain("block %llu is of %u entries", (unsigned long long)b, claims[b]);
        else if (claims[b] && !given_out)
            actors_complain("block %llu is of an entry, and free", (unsigned long long)b);
    }
    if (platter_locked("head", DISK_GIVING) || h->dirty)
        return;
    if (h->used != taken)
        actors_complain("%llu blocks are taken, and counted are %llu", (unsigned long long)taken,
                        (unsigned long long)h->used);
    size_t size;
    platter_file("data", &size);
    if (platter_faults() == 0 && !somebody_died() && size > limit * PLATTER_BLOCK)
        actors_complain("data has %zu bytes and may have %llu blocks", size,
                        (unsigned long long)limit);
}

static void check_budget(uint64_t budget) {
    if (platter_bytes() > budget - FILE_SYSTEMS_OWN + LEFT_BEHIND)
        actors_complain("the folder has %llu bytes of %llu, of which the file system may need %u",
                        (unsigned long long)platter_bytes(), (unsigned long long)budget,
                        FILE_SYSTEMS_OWN);
}

/* When all have left, blocks are of an entry or free, and counted. */
static void check_counts(void) {
    static uint8_t claims[CLAIMS];
    size_t space_size;
    uint64_t entries = 0, used = 0, taken = 0;
    const larder__disk_head *h = see_head();
    const uint64_t *space = (const uint64_t *)(const void *)platter_file("space", &space_size);
    if (!h || !space || d.meddled || !d.opened || actors_complaint())
        return;
    memset(claims, 0, sizeof claims);
    count_claims(h->limit, claims);
    for (uint64_t b = 0; b < h->limit; b++) {
        used += claims[b];
        taken += larder__space_any(space, b, 1);
    }
    for (uint32_t set = 0; set < played.sets; set++) {
        seen x = see(set);
        for (uint32_t k = 0; x.head && k < played.keys; k++)
            entries += x.words[k] != 0;
    }
    if (taken != used || h->used != used || h->entries != entries)
        actors_complain("%llu entries have %llu blocks, of %llu that are taken; counted are %llu "
                        "and %llu",
                        (unsigned long long)entries, (unsigned long long)used,
                        (unsigned long long)taken, (unsigned long long)h->entries,
                        (unsigned long long)h->used);
    if (platter_locked("head", DISK_DOOR) || platter_locked("head", DISK_ATTACHED))
        actors_complain("a lock is held when all have left");
}

void world_disk_check(void) {
    check_budget(d.most);
    if (actors_steps() % 4 == 0)
        check_entries();
}

/* A warm start finds what is there: after all have left, after somebody was killed, and after the
 * power was cut. */
void world_disk_ending(void) {
    actor_process *looker = actors_process(WORLD_LOOKER), *tender = actors_process(WORLD_TENDER);
    while ((actors_running(looker) || actors_running(tender)) && !actors_complaint() &&
           actors_step()) {
    }
    bool killed = actors_one_in(2);
    look_now(killed);
    const larder__disk_head *h = see_head();
    if (h && !d.overlaps && d.opened)
        check_budget(h->budget);
    if (killed && looker->alive)
        actors_crash(looker);
    if (actors_one_in(2))
        platter_sync();
    if (actors_one_in(2)) {
        platter_cut();
        d.unsettled = true;
    }
    look_now(false);
    check_counts();
}

/* ---- the world ------------------------------------------------------------------------------- */

void world_disk_begin(void) {
    memset(&d, 0, sizeof d);
    platter_begin();
    larder__disk_io_use(&platter_io);
    wrapped_date = 0;
    platter_now.direct = (unsigned)actors_chance(3);
    platter_now.apart = actors_one_in(2);
    played.sets = 1 + (uint32_t)actors_chance(SETS_MOST);
    d.patience = actors_one_in(2) ? 0.5 : 5;
    d.forms = actors_one_in(4);
    d.wear = actors_one_in(4) ? 50000 : 0;
    uint64_t values = 0;
    for (uint32_t k = 0; k < played.keys; k++)
        values += larder__disk_value_bytes(play_size(k)) * played.sets;
    for (int i = 0; i < 2; i++) {
        uint64_t room = values * (20 + actors_chance(110)) / 100 / PLATTER_BLOCK;
        d.budgets[i] = FILE_SYSTEMS_OWN + (2 + room) * PLATTER_BLOCK +
                       played.sets * larder__disk_index_bytes(played.keys);
        d.most = d.budgets[i] > d.most ? d.budgets[i] : d.most;
    }
}

static void begin(void) {
    world_disk_begin();
    played.open = open_cache;
    played.warm = actors_one_in(4);
    played.decides = !played.warm;
    if (played.exchanges) { /* of jobs that share */
        played.exchanges = false;
        memcpy(played.policy, "lru", 4);
    }
    if (actors_one_in(2))
        played.tiers = (larder__tiers){.front = played.budget * (10 + actors_chance(60)) / 100,
                                       .back = played.budget,
                                       .inclusive = true};
}

void world_disk_end(void) {
    open_files_end();
    larder__disk_io_use(NULL);
}

static void back(const mishap *m) { (void)m; }

const world world_disk = {.name = "disk",
                          .silent = true,
                          .large = true,
                          .slow = 4,
                          .own = OWN,
                          .own_names = world_disk_mishaps,
                          .play = player_main,
                          .begin = begin,
                          .happen = world_disk_happen,
                          .back = back,
                          .heal = world_disk_heal,
                          .check = world_disk_check,
                          .ending = world_disk_ending,
                          .end = world_disk_end};
