/* Jobs of several users on one daemon of root's that lets all of them in. Only root can be two
 * users. */
#ifndef LARDER_TEST_STRANGER_KIT_H
#define LARDER_TEST_STRANGER_KIT_H

#include "base/stat.h"
#include "daemon_kit.h"
#include "unix/attach.h"

enum {
    STRANGER_KEYS = 40,
    STRANGER_NOBODY = 65534,
    STRANGER_LARGE = 600000,  /* bytes of a sample that is larger than a tray, */
    STRANGER_MIDDLE = 200000, /* and of one of which few fit in it */
    STRANGER_CLIENTS = 16
};

extern char stranger_folder[256], stranger_path[300];

int stranger_begin(void **); /* of each test; and its end */
int stranger_end(void **);
void stranger_serve(bool share_data);

#define root_or_skip()                                                                             \
    do {                                                                                           \
        if (geteuid() != 0) {                                                                      \
            print_message("skipped: only root can be two users\n");                                \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

uint32_t stranger_size(uint64_t key);
/* What a sample holds, as somebody sees it: truth is 0. */
void stranger_paint(unsigned char *out, uint64_t key, unsigned lie);
larder__hello stranger_hello(void);

typedef struct stranger {
    larder__cache *cache;
    larder__stats *stats;
    unsigned lie;
    size_t made;
} stranger;

typedef int (*stranger_prove)(void *, uint64_t, uint64_t, uint64_t *);
/* Attaches as that user. */
void stranger_attach(stranger *, uid_t user, stranger_prove);
/* Takes every sample; how many of them are not as the job sees them. */
size_t stranger_read_all(stranger *);
void stranger_leave(stranger *);
int stranger_make(void *, const larder_access *, larder_buf *have, larder_buf **out);

#endif
