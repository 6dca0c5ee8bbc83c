/* Where a Redis is, as people write it:
 *
 *     redis://[user:password@]host[:6379][/db]
 *     rediss://…                      the same over TLS
 *     redis+unix://[user:password@]/path/to/socket
 *     redis-cluster://a:7000,b:7000   (rediss-cluster:// over TLS)
 *
 * A password is never repeated: not in a sentence, not in a statistic, not in saved state. */
#ifndef LARDER_SHARED_REDIS_ADDRESS_H
#define LARDER_SHARED_REDIS_ADDRESS_H

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

bool larder__redis_named(const char *text); /* by how it begins */
/* The address at *at, which names Redis, and on to its options; `cache` is the whole text, for
 * sentences. What options say is as it is unless said. */
int larder__redis_read(larder__redis_conf *, const char *cache, const char **at);
/* Options that this server has no use for. */
int larder__redis_check(const larder__redis_conf *, const char *cache);

/* A cache's text without its password. */
const char *larder__cache_mask(const char *cache, char *out, size_t cap);
/* E_ARGS with that text and what is wrong with it. */
int larder__cache_wrong(const char *cache, const char *why, const char *what);

#endif
