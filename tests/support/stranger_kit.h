/* Jobs of several users on one daemon of root's that lets all of them in. Only root can be two
 * users. */
#ifndef LARDER_TEST_STRANGER_KIT_H
#define LARDER_TEST_STRANGER_KIT_H

#include "base/stat.h"
#include "daemon_kit.h"
#include "unix/attach.h"
#include "unix/connection.h"
#include "unix/frame.h"
#include "unix/rank_link.h"

enum {
    STRANGER_KEYS = 40,
    STRANGER_NOBODY = 65534,
    STRANGER_LARGE = 600000,  /* bytes of a sample that is larger than a tray, */
    STRANGER_MIDDLE = 200000, /* and of one of which few fit in it */
    STRANGER_CACHE = 256 << 20,
    STRANGER_CLIENTS = 16
};

int stranger_begin(void **); /* of each test; and its end */
int stranger_end(void **);
/* A daemon of root's that everybody may attach to, in so many connections. No time passes: nobody
 * loses patience with who gets no processor for seconds. */
void stranger_serve_many(bool share_data, uint32_t clients);
void stranger_serve(bool share_data); /* in STRANGER_CLIENTS */
/* Where time passes. */
pid_t stranger_serve_in_time(bool share_data, uint32_t clients);

uint32_t stranger_size(uint64_t key);
/* What a sample holds, as somebody sees it: truth is 0. */
void stranger_paint(unsigned char *out, uint64_t key, unsigned lie);
larder__hello stranger_hello(void);

/* What it shows of one sample, if it can. */
typedef int (*stranger_prove)(void *, uint64_t id, uint64_t nonce, uint64_t *out);

typedef struct stranger {
    larder__cache *cache;
    larder__stats *stats;
    stranger_prove prove;
    unsigned lie;
    size_t made;
} stranger;

/* Attaches as that user. */
void stranger_attach(stranger *, uid_t user, stranger_prove);
larder_buf *stranger_take(stranger *, uint64_t key);
/* Takes every sample; how many of them are not as the job sees them. */
size_t stranger_read_all(stranger *);
void stranger_leave(stranger *);
int stranger_make(void *, const larder_access *, larder_buf *have, larder_buf **out);

typedef struct stranger_line { /* of a client of its own making, which says what it likes */
    int fd;
    larder__inbox in;
} stranger_line;

void stranger_knock(stranger_line *, uid_t user); /* connects as that user, and says nothing */
void stranger_hang_up(stranger_line *);
/* Says HELLO, as the first of its user, and hears what WELCOME says; unless all share it is asked
 * what it can read, and has nothing to say. < 0: a code. */
int stranger_greet(stranger_line *, const larder__hello *, larder__welcome *);
/* As larder__daemon_hear, however slow the machine is. */
int stranger_hear(stranger_line *, uint16_t want, larder_reader *body);

/* One of two ranks of that job, with so many samples of 100 bytes; and it joins as that user. */
larder__unix_ranks_conf stranger_rank(const char *job, uint32_t rank, uint64_t keys);
int stranger_join(larder__unix_ranks_link **, uid_t user, const larder__unix_ranks_conf *);

#endif
