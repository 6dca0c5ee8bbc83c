/* A job of the made world: it trains epoch after epoch with a cache that it shares, as a loader
 * does, and looks at every byte it gets. What it has done outlives its process: who starts again
 * begins its epoch anew. */
#ifndef LARDER_SIMULATE_PLAYER_H
#define LARDER_SIMULATE_PLAYER_H

#include "actors.h"
#include "cache/local.h"
#include "disk/disk.h"

enum { PLAY_KEYS_MOST = 96, PLAY_BATCH_MOST = 8, PLAYERS_MOST = 5, PLAY_AHEAD = 3 };

typedef struct player player;

typedef struct play { /* what all jobs of a schedule know */
    uint64_t seed;
    uint32_t keys, batch, players;
    char policy[24];
    bool exchanges, hears;
    uint64_t budget;
    double read_most, train_most; /* seconds to read a sample, to train on a batch */
    bool over;                    /* the epoch that comes next is the last */
    double healed_at;             /* from when on nothing goes wrong */
    bool calm; /* one job and no mishap: it gets what a cache of its own would give it */
    int (*open)(larder__cache **out, uint32_t player);
    /* Is it cut off from those it shares with, or from its bytes? NULL: nobody asks. */
    bool (*away)(const player *);
    void (*leaving)(larder__cache *); /* NULL: nothing is to be looked at before it is closed */
    bool large;                       /* some samples are */
    uint32_t sets;                    /* jobs have so many data sets, whose bytes differ; 0: one */
    uint32_t looked_at;               /* the set of whoever is no job */
    uint32_t users[PLAYERS_MOST];     /* whose jobs they are; 0: the daemon's user */
    bool partly;         /* what differs is one sample of four: more than are not shown */
    bool decides;        /* caches of their own: residents are those of a twin, whatever happens */
    bool warm;           /* what lies in the store is resident from the start */
    larder__tiers tiers; /* of these; front 0: there is one */
    int (*open_below)(larder__disk **out, uint32_t player); /* NULL: nothing is */
} play;
extern play played;

struct player { /* outlives its process */
    uint32_t number;
    uint64_t epoch, epochs_whole;
    uint64_t served, hits, made, waited, taken_over, alone, stuck, below, compared, alike;
    uint8_t times[PLAY_KEYS_MOST]; /* served in this epoch */
    bool last_begun, done;
    uint64_t together; /* samples of its last epoch that the others were asked about */
};

/* Users of the made world. What the last of them has under the name of the data set are other
 * bytes: whoever is served those of somebody else notices. */
enum { PLAY_OWN_USER, PLAY_OTHER_DATA = 3, PLAY_USERS };
uint32_t play_user(uint32_t process);
uint32_t play_set(uint32_t process);
uint32_t play_size(uint64_t key);
larder_buf *play_make(uint64_t key);
void play_check(uint64_t key, larder_buf *, const char *when); /* its bytes */
void player_init(player *, uint32_t number);
bool player_alone(const player *); /* in all of its last epoch */
void *player_main(void *player);

#endif
