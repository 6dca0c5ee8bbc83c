/* A machine in a few seconds, without any data of the user's: how fast one core turns a made
 * picture into a row of a batch, one thread copies memory, and a folder's disk reads a file of
 * ours. */
#ifndef LARDER_PROFILE_BENCH_MACHINE_H
#define LARDER_PROFILE_BENCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { LARDER__BENCH_W = 500, LARDER__BENCH_H = 375, LARDER__BENCH_SIDE = 224 };

/* Pictures a second of one core's own time; E_UNSUPPORTED where JPEG is left out of this build. */
int larder__bench_decode(double seconds, double *out);
/* Bytes a second of one thread's memcpy. */
int larder__bench_copy(double seconds, double *out);

typedef struct larder__disk_bench {
    double read;   /* bytes a second, in one piece */
    double random; /* reads of 64 KiB a second, one after the other */
    bool direct;   /* past the page cache; else memory may have answered */
} larder__disk_bench;
/* Writes a file of at most 64 MiB there, reads it and leaves nothing. E_FULL where there is no room
 * to spare. */
int larder__bench_disk(const char *folder, double seconds, larder__disk_bench *out);

#endif
