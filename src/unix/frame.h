/* Frames on a stream socket: a head of eight bytes, then the body. Both sides run on one machine,
 * so numbers are in its byte order; the version in the first message guards the rest. Whatever
 * comes in is bounded before it is believed. */
#ifndef LARDER_UNIX_FRAME_H
#define LARDER_UNIX_FRAME_H

#include "base/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__FRAME_MOST = 16 << 20, LARDER__FRAME_FDS = 4 };

typedef struct larder__frame_head {
    uint32_t bytes; /* of the body */
    uint16_t type;  /* larder__message */
    uint16_t zero;
} larder__frame_head;

/* Bytes that came in, not yet taken as frames. */
typedef struct larder__inbox {
    unsigned char *bytes;
    size_t have, used, cap;
    size_t most;                /* bytes of a frame that is taken */
    bool bytes_alone;           /* descriptors are not taken: E_FORMAT */
    int fds[LARDER__FRAME_FDS]; /* passed along, -1: none */
    size_t fd_count;
} larder__inbox;

void larder__inbox_init(larder__inbox *);
void larder__inbox_free(larder__inbox *);
/* Reads what is there, at most one piece. 1: something came, 0: nothing now (would block or timed
 * out), E_IO: the other side is gone. */
int larder__inbox_read(larder__inbox *, int fd);
/* Descriptors are not to come in here: closing some takes as long as whoever passed them likes.
 * Kernels before Linux 6.16 pass them all the same. */
void larder__frame_refuse_fds(int fd);
/* 1: *type and *body are the next frame, valid until the next read; 0: not whole yet; E_FORMAT. */
int larder__inbox_next(larder__inbox *, uint16_t *type, larder_reader *body);
/* Room for what it holds and no more. */
void larder__inbox_fit(larder__inbox *);
/* Hands the room of an inbox on that has nothing in it, and no descriptors, to one without. */
void larder__inbox_pass(larder__inbox *from, larder__inbox *to);
/* The descriptor passed with what was read so far; -1: none. The caller owns it. */
int larder__inbox_take_fd(larder__inbox *);

/* Puts a frame around `body` and sends it whole, with the descriptors; `fd` blocks, and a limit of
 * time set on it counts. E_IO: the other side is gone or does not take it. */
int larder__frame_send(int fd, uint16_t type, const void *body, size_t bytes, const int *fds,
                       size_t fd_count);

/* The same of a body in two pieces, without descriptors. */
int larder__frame_send_two(int fd, uint16_t type, const void *first, size_t n, const void *rest,
                           size_t bytes);

/* Begins a frame at the end of `w` and gives its place; when its body is written, ends it. */
size_t larder__frame_begin(larder_writer *, uint16_t type);
void larder__frame_end(larder_writer *, size_t place);
/* Sends frames that were made so, likewise. */
int larder__frames_send(int fd, const larder_writer *);

#endif
