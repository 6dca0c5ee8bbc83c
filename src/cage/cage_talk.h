/* What is said between a cage and its workers, and how answers are checked. Both are one build, so
 * structs go as they are. */
#ifndef LARDER_CAGE_CAGE_TALK_H
#define LARDER_CAGE_CAGE_TALK_H

#include "stage/codec.h"
#include "stage/sound.h"

/* The memory of a worker: room for any sample (of less than 4 GiB) and, behind it, for what becomes
 * of it. Only pages that were written to exist. */
#define LARDER__CAGE_IN ((size_t)4 << 30)
#define LARDER__CAGE_OUT ((size_t)512 << 20)

enum { LARDER__CAGE_SOCKET = 3, LARDER__CAGE_MEMORY = 4 }; /* descriptors of a worker */
enum { LARDER__CAGE_ASKS = 0x6b736163, LARDER__CAGE_TELLS = 0x6c746163, LARDER__CAGE_WHY = 256 };

typedef enum larder__cage_what {
    LARDER__CAGE_HELLO, /* answered without being asked, once it is locked in; `why`: its version */
    LARDER__CAGE_HEAD,
    LARDER__CAGE_PIXELS,
    LARDER__CAGE_SOUND
} larder__cage_what;

typedef struct larder__cage_ask {
    uint32_t magic, what;
    uint64_t number;
    uint64_t size;        /* of the sample */
    uint32_t indices;     /* as in larder__scratch */
    uint32_t denominator; /* of pixels */
    larder__rect want;
    larder__sound sound;
    uint32_t zero;
    double where;
} larder__cage_ask;

typedef struct larder__cage_answer {
    uint32_t magic;
    int32_t code;
    uint64_t number;
    uint32_t w, h;   /* of a head */
    int64_t at, row; /* of pixels, of 4 bytes each: where in the memory for them, and its rows */
    larder__rect is;
    char why[LARDER__CAGE_WHY];
} larder__cage_answer;

/* The message; E_FORMAT, and `magic` is 0: it is none, or not the answer to this question. A
 * failure of the worker's comes back as this call's: its code and sentence, made harmless. */
int larder__cage_heard(larder__cage_answer *, const void *bytes, size_t size, uint64_t number);
/* Pixels that lie within `out` (of LARDER__CAGE_OUT) and are at least what was wanted. */
int larder__cage_picture(const larder__cage_answer *, larder__rect want, const uint8_t *out,
                         larder__picture *pic);

#endif
