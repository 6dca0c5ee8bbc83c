/* A few threads that share out numbered pieces of work and sleep in between. Pieces are taken in
 * order by whoever is free; what a piece computes must not depend on who does it. One caller. */
#ifndef LARDER_SVM_TEAM_H
#define LARDER_SVM_TEAM_H

#include <stddef.h>

typedef struct larder__team larder__team;
typedef void larder__piece_fn(void *arg, size_t piece, unsigned thread);

/* `threads` in all, the caller's included; 0: as many as cores. */
int larder__team_open(larder__team **, unsigned threads);
void larder__team_close(larder__team **);
unsigned larder__team_threads(const larder__team *);
/* Returns when all pieces are done. The caller is thread 0 and works too. */
void larder__team_run(larder__team *, larder__piece_fn *work, void *arg, size_t pieces);

#endif
