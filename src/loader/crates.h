/* Packages laid down in a scratch folder: written once, read back in one piece each.
 *
 * All of them lie in one file without a name, so nothing stays behind however the process ends.
 * What does not work (no such folder, not writable, full disk, bytes that come back wrong) is
 * counted, the last reason kept, and whoever asks reads from storage instead.
 *
 * Who writes and who reads is settled when a batch is drawn, in the order of batches; the bytes
 * move later, in any thread. A reader waits for the writer, which was drawn before it. */
#ifndef LARDER_LOADER_CRATES_H
#define LARDER_LOADER_CRATES_H

#include <larder/larder.h>

typedef struct larder__crates larder__crates;
typedef struct larder__crate larder__crate; /* one package, or the promise of it */

/* Works without a usable folder too, and then refuses everything. `limit` in bytes, 0: none. */
int larder__crates_open(larder__crates **out, const char *folder, uint64_t limit);
void larder__crates_close(larder__crates **); /* nobody may be at work on it */

/* Package `number`, borrowed until larder__crate_leave. *writes: nobody has promised it yet, so the
 * caller does, and calls put. NULL: no memory; then storage it is. */
larder__crate *larder__crates_find(larder__crates *, uint64_t number, bool *writes);
void larder__crate_leave(larder__crates *, larder__crate **); /* takes NULL */
void larder__crates_drop(larder__crates *, uint64_t number);  /* it will not be asked for again */

/* Lays down the samples whose buffers are not NULL. Returns the bytes written, 0: refused. */
uint64_t larder__crate_put(larder__crates *, larder__crate *, const uint64_t *ids,
                           larder_buf *const *bytes, size_t n);
/* Reads the package, once it is there: out[i] is one reference to sample ids[i], or NULL when it
 * does not lie there. Returns the bytes read, which are those of the whole package; 0: refused. */
uint64_t larder__crate_take(larder__crates *, larder__crate *, const uint64_t *ids, size_t n,
                            larder_buf **out);

/* How often something was refused, and why the last time ("" if never). */
uint64_t larder__crates_refused(larder__crates *, char *why, size_t cap);

#endif
