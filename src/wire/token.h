/* The secret that a connection from another machine begins with. */
#ifndef LARDER_WIRE_TOKEN_H
#define LARDER_WIRE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum { LARDER__TOKEN_MOST = 256, LARDER__TOKEN_LEAST = 16 };

typedef struct larder__token {
    unsigned char bytes[LARDER__TOKEN_MOST]; /* zeros behind it */
    size_t size;                             /* 0: none */
} larder__token;

/* The first line of a file that nobody else may read. */
int larder__token_read(larder__token *, const char *path);
/* Takes as long whatever differs. */
bool larder__token_same(const larder__token *, const void *bytes, size_t size);

#endif
