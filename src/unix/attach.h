/* A daemon on this machine as a carrier (shared/client.h): the policy and its table live in another
 * process, and bytes are mapped into this one. When the daemon is gone every request is answered
 * with "make it yourself", so that training goes on straight from storage, and it is looked for
 * again now and then: after one second, two, four … thirty. */
#ifndef LARDER_UNIX_ATTACH_H
#define LARDER_UNIX_ATTACH_H

#include "base/await.h"
#include "shared/client.h"
#include "shared/daemon_address.h"
#include "unix/message.h"

typedef struct larder__attach_conf {
    larder__door door;
    larder__hello hello; /* without magic, version and pid */
    larder__stats *stats;
    bool exchanges; /* the policy exchanges what is wanted for what it has */
    /* Bytes of a sample, asked for at every attachment where the daemon wants to know. */
    uint32_t (*size_of)(void *arg, uint64_t id);
    /* What larder__hash_bytes makes of each sample's bytes, going on from `nonce`: shows to a
     * daemon that this job can read what another user's jobs have made. NULL: it cannot be shown.
     */
    int (*prove)(void *arg, const uint64_t *ids, uint32_t n, uint64_t nonce, uint64_t *out);
    void *size_arg; /* of both */
    larder__await await;
} larder__attach_conf;

/* A wrong path or a refusal is an error with its sentence; a daemon that is away is waited for, and
 * then done without until it comes, or that is an error, as `await` says. */
int larder__attach_open(larder__cache **out, const larder__attach_conf *);
/* Asks a daemon for its status, JSON with a zero behind it; free with larder__free. */
int larder__attach_status(const larder__door *, char **json);

#endif
