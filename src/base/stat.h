/* The one place figures come from: counters, gauges and histograms with unit and help text.
 *
 * Adding is lock-free and goes to a cell of the calling thread's shard; reading sums the shards.
 * A histogram's percentiles are right within a sixteenth of their value.
 * A probe is asked only when somebody looks, for figures that their owner keeps anyway. */
#ifndef LARDER_BASE_STAT_H
#define LARDER_BASE_STAT_H

#include <larder/larder.h>

typedef struct larder__stats larder__stats;
typedef uint32_t larder__stat; /* handle of one figure */

int larder__stats_open(larder__stats **out);
void larder__stats_close(larder__stats **);

/* Registering happens before threads start. Names and texts must be literals. All return 0 or
 * E_RANGE when the table is full (a mistake of ours). */
int larder__stat_counter(larder__stats *, larder__stat *out, const char *name, const char *unit,
                         const char *help);
int larder__stat_gauge(larder__stats *, larder__stat *out, const char *name, const char *unit,
                       const char *help);
int larder__stat_histogram(larder__stats *, larder__stat *out, const char *name, const char *unit,
                           const char *help);
/* A counter of seconds, kept in nanoseconds. */
int larder__stat_clock(larder__stats *, larder__stat *out, const char *name, const char *help);
int larder__stat_probe(larder__stats *, const char *name, const char *unit, const char *help,
                       double (*read)(const void *arg), const void *arg);
/* A probe of something that only grows. */
int larder__stat_probe_count(larder__stats *, const char *name, const char *unit, const char *help,
                             double (*read)(const void *arg), const void *arg);

void larder__stat_add(larder__stats *, larder__stat, uint64_t n);
void larder__stat_spend(larder__stats *, larder__stat, double seconds); /* to a clock */
void larder__stat_set(larder__stats *, larder__stat, double value);
void larder__stat_observe(larder__stats *, larder__stat, double value); /* value >= 0 */

int larder__stat_read(larder__stats *, size_t i, larder_stat_value *out); /* E_RANGE past the end */

/* How many observations of histogram i lie below each of these bounds, and how many there are in
 * all, which is the last: 0, or E_RANGE for any other figure. */
enum { LARDER__STAT_BOUNDS = 12 };
static inline double larder__stat_bound(size_t k) { /* 2^-13 (0.12 ms as seconds), 2^-11 to 2^9 */
    static const double first = 1.0 / 8192;
    return first * (double)((uint64_t)1 << 2 * k);
}
int larder__stat_below(larder__stats *, size_t i, uint64_t out[LARDER__STAT_BOUNDS + 1]);

/* A sentence that is no error, for the person who trains (base/notes.h); at any time, from any
 * thread, said once however often it comes. Nobody counts (NULL): nobody is told. */
__attribute__((format(printf, 2, 3))) void larder__note(larder__stats *, const char *format, ...);
const char *larder__note_at(const larder__stats *, size_t i); /* NULL past the end */

#endif
