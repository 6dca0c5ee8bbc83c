/* What --cache says, taken apart once; whoever opens something with it gets this and never the
 * text.
 *
 *     8GiB, 20%, 20%:58/42/0             in this process's memory, maybe split between forms
 *     unix:[PATH][?budget=20%&…]         in a daemon on this machine
 *     redis://host[?budget=20%&…]        in Redis (shared/redis_address.h)
 *     disk:FOLDER[?budget=500GiB&…]      on a disk of this machine (disk/disk.h)
 *     2GiB+redis://…, 8GiB+disk:…        tiers, from the nearest on: a size of memory, then a place
 *
 *     unix:…+disk:…, redis://…+disk:…    a disk below what others share: asked before storage is
 *
 * Two questions are answered: where bytes lie, and who orders what happens to them. */
#ifndef LARDER_SHARED_CACHE_TEXT_H
#define LARDER_SHARED_CACHE_TEXT_H

#include "base/spec.h"
#include "shared/daemon_address.h"
#include "shared/job_name.h"
#include "shared/redis_address.h"

typedef enum larder__cache_place {
    LARDER__IN_MEMORY,
    LARDER__IN_DAEMON,
    LARDER__IN_REDIS,
    LARDER__ON_DISK
} larder__cache_place;

typedef enum larder__cache_order {
    LARDER__BY_ITSELF,  /* nobody else uses it */
    LARDER__BY_DAEMON,  /* the jobs of a machine, as they ask the daemon */
    LARDER__BY_JOURNAL, /* the jobs of a group (shared=NAME), as a journal has it */
    LARDER__IN_STEP     /* the ranks of one job (job=NAME): each decides the same for all */
} larder__cache_order;

typedef struct larder__cache_tier {
    larder__cache_place place;
    char text[96];         /* size and split as given; "": whatever a daemon or a folder has */
    larder__budget budget; /* with the recipe's split, which counts for the last tier alone */
} larder__cache_tier;

enum { LARDER__CACHE_TIERS = 2 };

typedef struct larder__disk_place {
    char folder[1024];
    larder__budget quota; /* of the folder, for this job; fraction 1: all of it */
    double wear;          /* bytes a second that are written at most; 0: no bound */
    double patience;      /* seconds a read may take until the disk is left alone for a while */
} larder__disk_place;

typedef struct larder__cache_text {
    char shown[200];                               /* the text without its password */
    larder__cache_tier tiers[LARDER__CACHE_TIERS]; /* from the nearest to the last */
    uint32_t tier_count;
    bool inclusive; /* what lies in front lies behind too */
    larder__cache_order order;
    bool wish;                   /* LARDER_SOCKET names a daemon, and the text no other place */
    char name[LARDER__JOB_NAME]; /* of the job or group that shares it */
    double patience;             /* seconds that a rank of the job, or the daemon, may be away */
    larder__await await;         /* at the start, where daemon or Redis is away */
    larder__door door;           /* of a daemon; not of one that is a wish */
    larder__redis_conf redis;    /* with what of the above concerns it */
    larder__cache_tier below;    /* a disk that is asked before storage is; else no place */
    larder__disk_place disk;     /* the last tier's, or that one's */
} larder__cache_text;

/* `split`: the recipe's, "": none. */
int larder__cache_text_parse(larder__cache_text *, const char *text, const char *split);
/* Who is asked, while opening waits, whether to go on. */
void larder__cache_text_heed(larder__cache_text *, bool (*still)(void *arg), void *arg);

/* The last tier: it says how large the cache is and where bytes lie in the end. */
static inline const larder__cache_tier *larder__cache_back(const larder__cache_text *t) {
    return &t->tiers[t->tier_count - 1];
}
/* Bytes of a tier, of a data set of so many. */
uint64_t larder__cache_tier_bytes(const larder__cache_tier *, uint64_t payload);

#endif
