#include "base/notes.h"

#include "base/escape.h"

#include <string.h>

void larder__notes_open(larder__notes *n) {
    pthread_mutex_init(&n->lock, NULL);
    atomic_init(&n->count, 0);
}

void larder__notes_close(larder__notes *n) { pthread_mutex_destroy(&n->lock); }

void larder__notes_add(larder__notes *n, const char *sentence) {
    char fresh[LARDER__NOTE_BYTES];
    larder__shown(fresh, sizeof fresh, sentence); /* names of files are anybody's */
    pthread_mutex_lock(&n->lock);
    size_t count = atomic_load(&n->count), i = 0;
    while (i < count && strcmp(n->text[i], fresh) != 0)
        i++;
    if (i == count && count < LARDER__NOTES) {
        memcpy(n->text[count], fresh, sizeof fresh);
        atomic_store(&n->count, count + 1);
    }
    pthread_mutex_unlock(&n->lock);
}

const char *larder__notes_at(const larder__notes *n, size_t i) {
    return i < atomic_load(&n->count) ? n->text[i] : NULL;
}
