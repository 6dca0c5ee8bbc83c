/* Structs that cross the border of the library begin with their size, as larder.h says. */
#ifndef LARDER_BASE_SIZED_H
#define LARDER_BASE_SIZED_H

#include <stddef.h>

/* What a caller has filled in, over `own`, which has `known` bytes and what is so unless said. The
 * sentence of a failure calls the struct `what`. */
int larder__sized_in(void *own, size_t known, const void *given, const char *what);
/* Fills in what the caller has room for; what only a newer caller has becomes 0. */
int larder__sized_out(void *to, const void *own, size_t known, const char *what);
/* Is that room there? For those who find out before anything else is done. */
int larder__sized_check(const void *given, const char *what);

#endif
