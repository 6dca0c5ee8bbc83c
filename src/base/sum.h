/* A checksum of 64 bits for what lies outside of this process: as fast as memory gives bytes (20
 * GB/s and more), one value on every machine. Against cuts, mix-ups and decay; not for secrets. */
#ifndef LARDER_BASE_SUM_H
#define LARDER_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes, going on from `h`. A change within any 8 bytes that begin at a multiple of 8 always
 * shows, others but once in 2^64. */
uint64_t larder__sum_bytes(uint64_t h, const void *, size_t);

#endif
