/* Memory of a stand-in for one of CUDA's libraries. It stays known here: what a lost device has of
 * larder's is not larder's to give back, and no leak. */
#ifndef LARDER_TESTS_FAKE_PIECES_H
#define LARDER_TESTS_FAKE_PIECES_H

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct piece {
    struct piece *next, *before;
    _Alignas(16) char bytes[];
} piece;
static piece all = {.next = &all, .before = &all};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *take(size_t n) {
    piece *p = calloc(1, sizeof *p + n);
    if (!p)
        return NULL;
    pthread_mutex_lock(&lock);
    p->next = all.next, p->before = &all;
    all.next->before = p, all.next = p;
    pthread_mutex_unlock(&lock);
    return p->bytes;
}

static void give(void *at) {
    if (!at)
        return;
    piece *p = (piece *)(void *)((char *)at - offsetof(piece, bytes));
    pthread_mutex_lock(&lock);
    p->next->before = p->before, p->before->next = p->next;
    pthread_mutex_unlock(&lock);
    free(p);
}

#endif
