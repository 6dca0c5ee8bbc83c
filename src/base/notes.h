/* Sentences that are no errors: what a person who trains should know, said once. A loader collects
 * them, its user asks (LARDER_SAYS_NOTE); `larder train` and Python show each new one.
 *
 * larder__note goes with the statistics, because these reach every station: whoever has a figure to
 * count can also say something. */
#ifndef LARDER_BASE_NOTES_H
#define LARDER_BASE_NOTES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { LARDER__NOTES = 32, LARDER__NOTE_BYTES = 512 };

typedef struct larder__notes {
    pthread_mutex_t lock;
    _Atomic size_t count; /* those below it never change again: reading takes no lock */
    char text[LARDER__NOTES][LARDER__NOTE_BYTES];
} larder__notes;

void larder__notes_open(larder__notes *);
void larder__notes_close(larder__notes *);
/* A sentence that is there already is not added again, nor one more than fit. Control bytes become
 * '?'. */
void larder__notes_add(larder__notes *, const char *sentence);
/* The i-th, oldest first; NULL past the end. */
const char *larder__notes_at(const larder__notes *, size_t i);

#endif
