/* Unpacking: the samples of a data set as files again, under the names they had. The folder opens
 * as the same data set: ids, labels and names of classes. */
#ifndef LARDER_PACK_EXTRACT_H
#define LARDER_PACK_EXTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct larder__data;

typedef struct larder__extract_conf {
    const char *source, *folder;
    const _Atomic int *stop;
    void (*progress)(void *arg, uint64_t done, uint64_t all, uint64_t bytes);
    /* What is read from, so that a reading that takes long can be interrupted; NULL before it goes
     * away. Optional. */
    void (*opened)(void *arg, struct larder__data *);
    void *arg;
} larder__extract_conf;

typedef struct larder__extract_result {
    uint64_t written, there, renamed; /* there: the same file was there already */
    uint64_t bytes;
    bool manifest; /* one was written, because folders alone do not tell order and labels */
} larder__extract_result;

/* A file that is there with other bytes is not overwritten: the sample's number is put into the
 * name. 0, E_CANCELLED, or another negative code; every file that is there is whole. */
int larder__extract_run(const larder__extract_conf *, larder__extract_result *out);

/* A name from a data set as a path below a folder: no way out of it, nothing a shell or terminal
 * stumbles over. Falls back to the number where nothing is left. */
void larder__extract_name(char *out, size_t cap, const char *name, uint64_t id);

#endif
