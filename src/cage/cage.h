/* A cage: processes that decode pictures and sounds and may do nothing else. Bytes of a data set
 * are hostile and decoders are large, so a decoder that is taken over, crashes or runs away costs
 * the sample it was at, not the job.
 *
 * Each worker is the program `larder`, started anew (a fork of this process would have its secrets,
 * its locks and all its memory), with two descriptors: a socket for questions, and memory in which
 * it finds the sample's bytes and leaves pixels. Before it looks at the first byte it gives up all
 * else (cage_lock.h). What it answers is checked like anything from elsewhere (cage_talk.h).
 *
 * The pixels are those of the same codecs here, bit by bit. A worker that ends is asked once more
 * in another process before its sample is bad, so that one killed from outside costs nothing. */
#ifndef LARDER_CAGE_CAGE_H
#define LARDER_CAGE_CAGE_H

#include "stage/elsewhere.h"

typedef struct larder__cage larder__cage;

extern const larder_plugin larder__cage_about; /* its parameters, for help */

/* From the text of larder_loader_conf: "on", or "memory=1GiB,seconds=30". One worker is started, so
 * that what is missing is known at once: E_UNSUPPORTED, and which. *out is NULL after "off" and "".
 * From any thread. */
int larder__cage_open(larder__cage **out, const char *text);
/* All scratches that decode there are closed before. */
void larder__cage_close(larder__cage **);
/* Whoever waits for a worker is answered E_CANCELLED, now and later. */
void larder__cage_interrupt(larder__cage *);
/* From now on this scratch decodes there. A worker is its own from its first sample to its close.
 */
int larder__cage_take(larder__cage *, larder__scratch *);

/* ---- the other side -------------------------------------------------------------------------- */

#define LARDER__CAGE_PROGRAM "larder-cage" /* what such a process is called, as its argv[0] */

/* Called with each question, before it is answered: what a test has go wrong. */
typedef void (*larder__cage_hook)(uint32_t what, const uint8_t *bytes, size_t size, uint8_t *out);
/* All of such a process; the status to _exit with: by then an exit would be forbidden something. */
int larder__cage_serve(int argc, char **argv, larder__cage_hook);

#endif
