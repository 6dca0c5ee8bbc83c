/* A terminal as a page: the alternate screen, keys one by one, and everything as it was afterwards.
 * The program's own signals stay with whoever handles them; Ctrl-C comes as a key. */
#ifndef LARDER_CLI_SCREEN_H
#define LARDER_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

typedef struct larder__screen {
    int in, out;
    struct termios before;
    bool open, colour;
} larder__screen;

typedef enum {
    LARDER__KEY_NONE = 0, /* time is up, or the window has another size */
    LARDER__KEY_UP = 256,
    LARDER__KEY_DOWN,
    LARDER__KEY_LEFT,
    LARDER__KEY_RIGHT,
    LARDER__KEY_GONE, /* the terminal is gone, or `wake` was written to */
} larder__key;

int larder__screen_open(larder__screen *, int in, int out);
void larder__screen_close(larder__screen *); /* also of one that is not open */
void larder__screen_size(const larder__screen *, size_t *columns, size_t *lines);
/* Waits for a key, at most that long; `wake` is a descriptor that ends it, or -1. A character or
 * one of the above. */
int larder__screen_key(const larder__screen *, double seconds, int wake);
/* Draws a whole page of lines, each cut at the window's edge; control bytes become '?', but for
 * \001 … \002 around what is to be set off. */
void larder__screen_draw(const larder__screen *, const char *page);

#endif
