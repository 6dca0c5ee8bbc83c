/* Whether something is this user's own. A user namespace shows all users that it has no number for
 * as one number, mostly 65534, also to a process that has itself no other or is its `nobody`: who
 * is shown so is anybody, and no more trusted than anybody. */
#ifndef LARDER_BASE_OWN_USER_H
#define LARDER_BASE_OWN_USER_H

#include <stdbool.h>
#include <stdint.h>

/* Is that the user this process runs as, beyond doubt? `user` is a peer's or the owner of a file.
 */
bool larder__is_own_user(uint32_t user);
bool larder__is_own_or_root(uint32_t user);

/* What that goes by: the number that may be anybody's, UINT32_MAX (no user) where none may. The
 * texts are as in /proc/sys/kernel/overflowuid and /proc/self/uid_map, NULL: it cannot be read. */
uint32_t larder__anybodys_number(const char *overflow, const char *map);

/* To put behind a sentence that refuses that user: why it does so although the number is one's
 * own, or nothing. */
const char *larder__why_not_own(uint32_t user);

#endif
