/* Which node of a cluster a key lies on: 16384 slots by CRC16 of the key, or of what stands in its
 * first pair of braces. */
#ifndef LARDER_REDIS_SLOTS_H
#define LARDER_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__REDIS_SLOTS = 16384 };

uint16_t larder__redis_slot(const char *key, size_t n);

typedef struct larder__moved { /* "MOVED 3999 127.0.0.1:6381", "ASK 3999 …" */
    bool ask;
    uint16_t slot, port;
    char host[256]; /* "": the one that says so */
} larder__moved;
bool larder__redis_moved(const char *error, larder__moved *out);

#endif
