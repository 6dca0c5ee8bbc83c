/* A crew: worker processes that run a program's own functions, in any language, for a loader of
 * this process. Whoever starts them gives each a socket and two pieces of shared memory and serves
 * what comes (python/larder/_worker.py does); the calls below stand in larder_own_source and
 * larder_own_maker, with the crew as `arg`, and are what the loader's threads wait in.
 *
 * A request is a message of 48 bytes on the socket, and what it is about lies in the first memory;
 * the answer is a message of 40 bytes, and lies in the second. A worker has one request at a time.
 * Numbers are the machine's own, offsets count from the start of their memory.
 *
 *     request  u32 LARDER_CREW_ASKS, u32 larder_crew_task, u64 number, u32 n, u32 0,
 *              u64 bytes used of the memory, u64 its size, u64 0
 *     memory   of each sample: u64 id, u64 chance, u64 offset, u64 bytes (0, 0: to be read)
 *     answer   u32 LARDER_CREW_TELLS, u32 n, u64 number of the request, u64 size of the memory,
 *              u64 bytes used of it, u64 flags: 1, random numbers were drawn for it
 *     memory   u32 which sample the worker is at, 60 bytes unused, then
 *              of each answer: u64 offset, u64 bytes, i32 code, u32 0
 *
 * An answer with a negative code (LARDER_ERRORS) is a sentence, then perhaps a zero byte and all
 * that is known of it (a traceback). The worker makes the second memory larger, and says so by its
 * size; both are sealed against getting smaller. */
#ifndef LARDER_CREW_H
#define LARDER_CREW_H

#include <larder/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LARDER_CREW_ASKS = 0x3151524c, LARDER_CREW_TELLS = 0x3141524c }; /* "LRQ1", "LRA1" */
typedef enum {
    LARDER_CREW_READ = 1, /* n answers: bytes of the samples */
    LARDER_CREW_MAKE = 2, /* n answers: parcels, of what is given */
    LARDER_CREW_JOIN = 3  /* one answer: the parcel of a batch of what is given */
} larder_crew_task;

typedef struct larder_crew_worker {
    int socket;      /* SOCK_SEQPACKET */
    int in, out;     /* memfds, sealed against shrinking */
    int64_t process; /* to say how it ended; 0: not known */
} larder_crew_worker;

typedef struct larder_crew larder_crew;

/* Takes over the descriptors, also where it fails. `seed`: of the chance that reads have; the k-th
 * read of a sample has the same in any crew. */
int larder_crew_open(larder_crew **out, const larder_crew_worker *, uint32_t count,
                     uint64_t samples, uint64_t seed);
/* No loader may use it any more. The workers see their sockets end. */
void larder_crew_close(larder_crew **);

/* As in larder_own_source and larder_own_maker; `crew` is the larder_crew. A worker that ends ends
 * the crew: E_STATE, with the sample it was at and how it ended. What larder_crew_make gives may
 * lie in the worker's memory: it is busy until all of it is let go, which is before close. */
int larder_crew_read(void *crew, const uint64_t *ids, size_t n, larder_read *out);
int larder_crew_make(void *crew, const uint64_t *ids, const uint64_t *chances,
                     larder_buf *const *in, size_t n, larder_read *out);
int larder_crew_join(void *crew, const uint64_t *ids, const uint64_t *chances,
                     larder_buf *const *in, size_t n, larder_read *out);
void larder_crew_interrupt(void *crew, bool on);

/* Have random numbers been drawn to read samples? Then what is cached is one draw of several. */
bool larder_crew_draws(larder_crew *);

/* All that is known of the failure of a sample (a traceback), of the first 16; "": nothing. */
int larder_crew_traced(larder_crew *, uint64_t id, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
