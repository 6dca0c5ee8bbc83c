/* Who may share what the daemon holds of a data set. Jobs of one user do. One of another user first
 * shows that it can read the same samples: of those that jobs have made as they are stored a few
 * are remembered by what they come to, and it is asked for the same. So nobody gets to see data
 * whose files it cannot open, and nobody trains on what another user says they hold without having
 * compared some of them. */
#ifndef LARDER_UNIX_WITNESS_H
#define LARDER_UNIX_WITNESS_H

#include "unix/message.h"

typedef struct larder__witness {
    larder__prove asked;                 /* its nonce is this set's for good */
    uint64_t came_to[LARDER__WITNESSES]; /* of each key */
    uint64_t seen;                       /* samples, of which these are an even choice */
    larder_rng rng;
    uint32_t *users;
    size_t user_count, user_cap;
} larder__witness;

int larder__witness_open(larder__witness *);
void larder__witness_close(larder__witness *);
/* This was made, as it is stored. */
void larder__witness_see(larder__witness *, uint64_t key, const void *bytes, size_t n);

bool larder__witness_knows(const larder__witness *, uint32_t user);
int larder__witness_admit(larder__witness *, uint32_t user);
/* Is this what was asked for? Never where nothing has been seen. */
bool larder__witness_check(const larder__witness *, larder_reader *proof);

#endif
