/* All heap memory of the library comes through here, so that a test can make the n-th allocation
 * fail and walk every error path. */
#ifndef LARDER_BASE_MEM_H
#define LARDER_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *larder__malloc(size_t bytes);
void *larder__calloc(size_t count, size_t bytes); /* large ones commit pages only when touched */
void *larder__realloc(void *old, size_t bytes);
void *larder__memalign(size_t align, size_t bytes);
char *larder__strdup(const char *);
void larder__free(void *);

/* Memory that is counted, and limited: while a thread has such a purse in hand, what it allocates
 * is taken from there and what it frees given back, so it belongs to whatever the thread does
 * meanwhile. An allocation that would be too much fails like any other. */
typedef struct larder__purse {
    uint64_t used, most;
    struct larder__purse *of; /* what is taken here comes out of that one as well; NULL: none */
    /* Where it is not enough: gives something back to it; false: there is nothing. NULL: never. */
    bool (*more)(void *arg);
    void *arg;
} larder__purse;
/* From now on; NULL: none. The one it had before. */
larder__purse *larder__mem_charge(larder__purse *);
/* Memory that is no heap's; false: it would be too much. */
bool larder__mem_take(uint64_t bytes);
bool larder__mem_take_spare(uint64_t bytes); /* nobody gives anything back for it */
void larder__mem_give(uint64_t bytes);

/* The n-th allocation from now fails, and every one after it when `all`; 0 switches it off. */
void larder__mem_fail_at(uint64_t n, int all);
/* Has an allocation been made to fail since larder__mem_fail_at? */
int larder__mem_failed(void);

#endif
