/* Who may share what the daemon holds of a data set. Jobs of one user do. Where others are let in
 * too, the first job of each user is asked what some samples of the data set come to, and users who
 * say the same share. Which samples, chance decides, once for a data set and a daemon: whoever came
 * first cannot choose those that it knows, and whoever failed has no other try. So nobody gets to
 * see data whose files it cannot open, whoever came first, and nobody trains on another user's
 * bytes without having compared some. */
#ifndef LARDER_UNIX_WITNESS_H
#define LARDER_UNIX_WITNESS_H

#include "unix/message.h"

typedef struct larder__testimony { /* what a user says that the samples come to */
    uint32_t count;                /* 0: it could not, or was not asked */
    uint64_t came_to[LARDER__WITNESSES];
} larder__testimony;

typedef struct larder__witness { /* of one served set */
    larder__testimony shown;     /* by whoever opened it */
    uint32_t *users;
    size_t user_count, user_cap;
} larder__witness;

/* What everybody is asked about this data set; `secret` is the daemon's. */
void larder__witness_ask(larder__prove *out, uint64_t secret, uint64_t identity, uint64_t keys);
/* The answer to it; one of another length says nothing. */
void larder__witness_hear(larder__testimony *out, const larder__prove *asked, larder_reader *proof);
bool larder__witness_agrees(const larder__witness *, const larder__testimony *);

bool larder__witness_knows(const larder__witness *, uint32_t user);
int larder__witness_admit(larder__witness *, uint32_t user);
void larder__witness_close(larder__witness *);

#endif
