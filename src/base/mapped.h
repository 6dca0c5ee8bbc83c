/* Files of a disk, mapped so that losing a page of them does not end the process. Where a page
 * cannot be had any more (the disk fails, somebody has made the file shorter) the system sends
 * SIGBUS to whoever touches it; here the whole mapping becomes zeroes of this process instead, and
 * *lost says so. Whoever reads through it looks at `lost` after reading and before believing.
 *
 * This is the one place of the library that has a handler of a signal, since nothing else answers a
 * read of memory that has gone: reading by calls would cost one for every word that is looked up,
 * and tables that several processes change cannot be copied. It is set at the first file that is
 * mapped, never before; it acts on faults inside of such files and hands everything else to the
 * handler that was there before (Python's faulthandler, a sanitizer's, the program's own, or none),
 * as if it were not there. One that a program sets later has SIGBUS for itself, unless it hands on
 * what it does not know, until the next file is mapped: then ours is set over it. */
#ifndef LARDER_BASE_MAPPED_H
#define LARDER_BASE_MAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* As mmap(NULL, bytes, prot, flags, file, 0): 0, or an errno. `lost` stays until it is unmapped. */
int larder__mapped_open(void **out, size_t bytes, int prot, int flags, int file,
                        _Atomic bool *lost);
void larder__mapped_close(void *, size_t bytes);

#endif
