/* What the files of the deciding half share. Nobody else includes this. */
#ifndef LARDER_LOADER_DRAW_DRAW_INSIDE_H
#define LARDER_LOADER_DRAW_DRAW_INSIDE_H

#include "loader/draw/draw.h"
#include "loader/draw/recent.h"

#include <stdatomic.h>

typedef struct larder__unsettled_entry {
    uint64_t due; /* number of the batch before which it is settled */
    uint64_t key;
} larder__unsettled_entry;

typedef struct larder__unsettled {
    larder__unsettled_entry *at;
    size_t from, count, cap; /* those before `from` are settled */
    uint32_t after;
} larder__unsettled;

struct larder__draw {
    larder__draw_conf conf; /* its texts are not used after open; with ranks that share, batch, rank
                               and world are those of one process that does it all */
    larder__ranks ranks;    /* world 0: nothing is shared */
    larder__planned all;    /* with ranks that share: the batch of all of them */
    _Atomic uint32_t *rows_of; /* likewise: rows of batch k of all ranks, at k % (lag + 1) */
    larder__recipe recipe;
    larder_draw_env env;
    struct larder__unix_ranks_link *link; /* to the daemon that ranks share; NULL: none */
    struct larder__relay *relay;          /* to the other ranks; NULL: there is nothing to tell */
    struct larder__relayed *heard;        /* of each rank, as all that follows */
    struct larder__rank_turn *turns;
    larder_pace agreed;
    uint64_t digest, evaluations;
    void *sampler, *signal; /* their states */
    larder__cache *cache;
    larder__feedback *feedback;
    larder__recent *recent; /* of recipes that serve samples again; NULL: others */
    bool watched;           /* the sampler looks at `memorised`, */
    larder__gap gap;        /* which is made from this, of what has taken effect */
    larder_memorised memorised;
    larder__replan replan;    /* plan=auto alone */
    larder__scoring *scoring; /* of signals that take long; NULL: others */
    bool related;             /* a hub of the report that takes effect was taken */
    float *scores;
    larder_pick *picks;          /* of one batch */
    uint64_t *fetched;           /* ids brought in with it */
    larder__unsettled unsettled; /* shrunk entries, oldest first */
    bool warm; /* residents of earlier runs are to be looked for before the first batch */
    larder_pace pace;
    uint64_t number, epoch, drawn, length; /* next batch; its epoch, ids drawn and in all there */
    uint64_t now;                          /* requests so far */
    bool epoch_begun;
    bool divided; /* what is left of the epoch was shared out: the ledger opens a page for it */
    bool evaluator, evaluated;         /* there is one; it has been asked about the coming epoch */
    const uint32_t *to_evaluate;       /* the sampler's */
    size_t evaluating, evaluate_count; /* of these handed out, and all */
    void *ahead;            /* a second state of the sampler, an epoch ahead; NULL: not wanted */
    uint32_t *next_place;   /* id -> its place in the next epoch, UINT32_MAX: none */
    uint64_t next_start;    /* request number of the next epoch's first */
    const uint32_t *future; /* next use of each request, UINT32_MAX: never */
    uint64_t future_count;
    char says[300]; /* what should be known of its cache; "": nothing */
};

size_t larder__draw_fetch_room(const larder__draw *); /* entries brought in with a batch, at most */
void larder__draw_tell_tags(larder__draw *);          /* the sampler's, to the cache */
int larder__draw_look_ahead(larder__draw *);          /* at the order of the epoch after this one */
void larder__draw_share_out(larder__draw *);          /* the cache, as planned */

/* draw_ranks.c: ranks that decide together hear each other before a batch is decided. */
int larder__draw_open_talk(larder__draw *);
void larder__draw_close_talk(larder__draw *);
int larder__draw_hear(larder__draw *);
void larder__draw_note_digest(larder__draw *); /* of the batch just decided */
int larder__draw_evaluated_all(larder__draw *, const larder__planned *, const uint64_t *ids,
                               const float *loss, size_t n);
void larder__draw_score(larder__draw *, const uint64_t *ids, const float *loss, size_t n);

/* settling.c: entries that were let in with these tickets; those that are due before the next
 * batch; saved state. */
int larder__unsettled_note(larder__draw *, const larder__ticket *, size_t n);
void larder__unsettled_settle(larder__draw *);
void larder__unsettled_save(const larder__draw *, larder_writer *);
int larder__unsettled_load(larder__draw *, larder_reader *);

/* planned.c: this rank's part of what was decided for all. */
int larder__draw_hand_over(larder__draw *, larder__planned *out);
int larder__planned_open_all(larder__planned *, const larder__draw *);

/* draw_cache.c: the cache, as its text has it, and the way to the other ranks that decide alike. */
int larder__draw_open_cache(larder__draw *);
int larder__draw_open_relay(larder__draw *);
/* A cache that was asked for and can hold nothing: says so. */
void larder__draw_note_room(larder__draw *);
/* warm.c: whatever lies there from before is resident, as far as there is room. */
void larder__draw_adopt(larder__draw *);

#endif
