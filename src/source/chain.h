/* Samples that lie one after the other in a file, or nearly, come by one read: each into a buffer
 * of its own, what lies between them into none. A source lays them out one by one for as long as
 * they join. */
#ifndef LARDER_SOURCE_CHAIN_H
#define LARDER_SOURCE_CHAIN_H

#include <larder/plugin.h>

#include <sys/uio.h>

enum {
    LARDER__CHAIN_PIECES = 1024,   /* buffers of one read: what Linux takes at once */
    LARDER__CHAIN_GAP = 128 << 10, /* read over so much between two pieces, and not twice */
    LARDER__CHAIN_VOID = 4096      /* into this, again and again */
};

typedef struct larder__chain {
    int fd;
    uint64_t begin, end; /* in the file */
    uint64_t bytes;      /* of the pieces; the rest lies between them */
    int count;
    struct iovec to[LARDER__CHAIN_PIECES];
    unsigned char between[LARDER__CHAIN_VOID];
} larder__chain;

/* n bytes at `at` of the file go to `to`; false: they do not join what is there. */
bool larder__chain_add(larder__chain *, int fd, uint64_t at, void *to, size_t n);

/* A buffer for this sample, its pieces added; false, and nothing added that counts: not in this
 * run.
 */
typedef bool (*larder__chain_lay)(void *arg, uint64_t id, larder__chain *, larder_buf **out);
/* The first of n samples, as many as join, by one read. Returns how many; *read: they are answered.
 * Else they want to be read one by one: storage gave less than all, and who is to blame is seen
 * then. */
size_t larder__chain_read(larder__chain_lay, void *arg, const uint64_t *ids, size_t n,
                          larder_read *out, bool *read);

#endif
