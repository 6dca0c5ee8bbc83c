/* Where a cache in Redis lies, as people write it:
 *
 *     redis://[user:password@]host[:6379][/db]?budget=64GiB&…
 *     rediss://…                      the same over TLS
 *     redis+unix://[user:password@]/path/to/socket?…
 *     redis-cluster://a:7000,b:7000?… (rediss-cluster:// over TLS)
 *     2GiB+redis://…                  with an embedded cache in front
 *
 * A password is never repeated: not in a sentence, not in a statistic, not in saved state. */
#ifndef LARDER_REDIS_URI_H
#define LARDER_REDIS_URI_H

#include "base/await.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__REDIS_SEEDS = 16 };

typedef struct larder__redis_host {
    char name[256];
    uint16_t port;
} larder__redis_host;

typedef struct larder__redis_conf {
    char user[128], password[256]; /* "": none */
    larder__redis_host hosts[LARDER__REDIS_SEEDS];
    uint32_t host_count;
    char path[108]; /* of a Unix socket; "": TCP */
    uint32_t db;
    bool tls, cluster;
    char budget[96];                   /* as larder__parse_budget reads it */
    char front[64];                    /* an embedded cache in front; "": none */
    bool inclusive;                    /* what lies in front lies in Redis too */
    bool replicas;                     /* of a cluster: reads go to replicas as well */
    char group[48];                    /* jobs of this name share; "": a cache of one's own */
    char job[48];                      /* the ranks of this job share; "": each has its own */
    double patience;                   /* seconds a rank of that job may be silent */
    double timeout;                    /* seconds an answer may take */
    larder__await await;               /* at the start, where it is away */
    uint32_t ttl;                      /* seconds after which Redis may forget a value; 0: never */
    uint32_t lanes;                    /* connections for reading, to each node */
    char ca[256], cert[256], key[256]; /* files for TLS; "": the system's, none */
    char tls_name[256];                /* what the certificate is about; "": the host */
} larder__redis_conf;

/* Does a cache text name Redis? */
bool larder__redis_named(const char *cache);
int larder__redis_parse(larder__redis_conf *, const char *cache);
/* The text without its password. */
const char *larder__redis_mask(const char *cache, char *out, size_t cap);

#endif
