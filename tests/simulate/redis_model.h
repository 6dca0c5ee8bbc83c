/* Redis, as far as larder uses it for groups: strings, the hash and the list of a journal, and the
 * journal's scripts, written again in C. It speaks RESP over the made world's wires. What it keeps
 * outlives its process, as a disk would; mishaps change that. */
#ifndef LARDER_SIMULATE_REDIS_MODEL_H
#define LARDER_SIMULATE_REDIS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_MODEL_NAME "redis"

void redis_model_begin(void);   /* empty */
void redis_model_end(void);     /* nothing is kept */
void *redis_model_main(void *); /* of its process */
void redis_model_started(double loading_until);

/* One command and its answer, without any connection; lives until the next. */
void redis_model_answer(size_t argc, const char *const *argv, const size_t *lengths,
                        const char **out, size_t *size);
/* The scripts that larder has loaded so far, in the order of redis/journal.c; NULL: not yet. */
const char *redis_model_script(int which, size_t *size);

/* What can go wrong with it. */
void redis_model_full(bool);       /* takes nothing that adds something */
void redis_model_clock(double by); /* its clock jumps */
void redis_model_empty(void);
void redis_model_sync(void);     /* what is there now is safe, */
void redis_model_rollback(void); /* and all that came later is lost */
bool redis_model_evict(void);    /* some key */
bool redis_model_spoil(void);    /* a byte of some value is another, or the value is cut */
bool redis_model_cut_log(void);  /* somebody trims the group's list */

/* A key that begins so. */
typedef void (*redis_model_fn)(void *arg, const char *key, const void *bytes, size_t n, bool ttl);
void redis_model_each(redis_model_fn, void *arg); /* of the strings */
uint64_t redis_model_records(void);               /* pushed so far */

/* A deliberately broken script, to see that it is found out. */
extern bool redis_model_forgets_last; /* step does not compare the last record */
/* So many times fewer records are kept behind a snapshot than was asked for: schedules are short,
 * and in some a job should fall behind. */
extern long long redis_model_short;

#endif
