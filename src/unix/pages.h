/* Memory that the daemon shares with its clients. The kernel reserves it and takes it back a piece
 * at a time, between which others are served: a GiB takes it a quarter of a second. Nothing has a
 * name in the file system: when the last process is gone, so is the memory. */
#ifndef LARDER_UNIX_PAGES_H
#define LARDER_UNIX_PAGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct larder__pages larder__pages;
enum { LARDER__PAGES_PIECE = 8 << 20 }; /* bytes */

/* All of a daemon, so that what is left to do can be done bit by bit. */
typedef struct larder__all_pages {
    larder__pages *open, *closed;
    bool limited;  /* whoever is served now gets no more than so much of what is not reserved: */
    uint64_t left; /* bytes */
} larder__all_pages;

/* `bytes` is rounded up to whole pages. The first piece is there: E_FULL or E_NOMEM now rather than
 * a signal later. `all`: NULL, it stands alone, and what is not asked for is not reserved.
 * `strangers_write`: who is not trusted writes there, and nobody here reads or writes. Who writes
 * can keep the kernel from reserving and taking back for as long as it likes, so that is counted
 * and not done; the memory is that of whoever touches it. */
int larder__pages_open(larder__pages **out, uint64_t bytes, larder__all_pages *all,
                       bool strangers_write);
/* `vacant`: nobody reads there any more, so they go back whoever keeps their descriptor: bit by bit
 * if they stand with others, at once otherwise. */
void larder__pages_close(larder__pages **, bool vacant);

/* One more piece, for somebody who wants it. 1: there is more, 0: all is there; E_FULL: there may
 * be no more now; else the kernel has no more, now and later. */
int larder__pages_reserve(larder__pages *);

/* A piece is reserved or given back. 1: there is more to do; 0: there is not; E_FULL: not now; else
 * what the kernel says, once. */
int larder__pages_work(larder__all_pages *);
bool larder__pages_to_do(const larder__all_pages *); /* does work wait? */
/* A piece of what is closed is given back; false: all of it is. Of larder__purse.more. */
bool larder__pages_yield(void *all);
/* What is closed goes at once. */
void larder__pages_end(larder__all_pages *);

unsigned char *larder__pages_base(const larder__pages *);
uint64_t larder__pages_bytes(const larder__pages *); /* all of them */
uint64_t larder__pages_ready(const larder__pages *); /* the first so many are reserved */
int larder__pages_fd(const larder__pages *);
bool larder__pages_huge(const larder__pages *); /* did the kernel agree to large ones? */

#endif
