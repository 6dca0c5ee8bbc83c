/* Packages laid down in a scratch folder: written once, read back in one piece each.
 *
 * All of them lie in one file without a name, so nothing stays behind however the process ends.
 * What does not work (no such folder, not writable, full disk, bytes that come back wrong) is
 * counted, the last reason kept, and whoever asks reads from storage instead.
 *
 * Who writes and who reads is settled when a batch is drawn, in the order of batches; the bytes
 * move later, in any thread. A reader waits for the writer, which was drawn before it. */
#ifndef LARDER_LOADER_FILL_PACKAGES_H
#define LARDER_LOADER_FILL_PACKAGES_H

#include <larder/larder.h>

typedef struct larder__packages larder__packages;
typedef struct larder__package larder__package; /* one package, or the promise of it */

/* Works without a usable folder too, and then refuses everything. `limit` in bytes, 0: none. */
int larder__packages_open(larder__packages **out, const char *folder, uint64_t limit);
void larder__packages_close(larder__packages **); /* nobody may be at work on it */

/* Package `number`, borrowed until larder__package_leave. *writes: nobody has promised it yet, so
 * the caller does, and calls put. NULL: no memory; then storage it is. */
larder__package *larder__packages_find(larder__packages *, uint64_t number, bool *writes);
void larder__package_leave(larder__packages *, larder__package **); /* takes NULL */
void larder__packages_drop(larder__packages *,
                           uint64_t number); /* it will not be asked for again */

/* Lays down the samples whose buffers are not NULL. Returns the bytes written, 0: refused. */
uint64_t larder__package_put(larder__packages *, larder__package *, const uint64_t *ids,
                             larder_buf *const *bytes, size_t n);
/* Reads the package, once it is there: out[i] is one reference to sample ids[i], or NULL when it
 * does not lie there. Returns the bytes read, which are those of the whole package; 0: refused. */
uint64_t larder__package_take(larder__packages *, larder__package *, const uint64_t *ids, size_t n,
                              larder_buf **out);

/* How often something was refused, and why the last time ("" if never). */
uint64_t larder__packages_refused(larder__packages *, char *why, size_t cap);

#endif
