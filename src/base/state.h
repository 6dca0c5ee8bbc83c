/* Writing and reading saved state. The writer grows in memory; its error is sticky and checked
 * once at the end. The reader trusts nothing: it is bounded, and after the first failure it
 * answers zeros until larder_read_status is asked. */
#ifndef LARDER_BASE_STATE_H
#define LARDER_BASE_STATE_H

#include <larder/plugin.h>

struct larder_writer {
    unsigned char *bytes;
    size_t size, cap;
    int code;
};
struct larder_reader {
    const unsigned char *at, *end;
    int code;
};

void larder__writer_free(larder_writer *);
void larder__write_space(larder_writer *, size_t);      /* bytes that the caller fills in */
void larder__write_text(larder_writer *, const char *); /* NULL is written as "" */
/* Points `out` at a text inside the reader's bytes copied into out, at most cap-1 long. */
void larder__read_text(larder_reader *, char *out, size_t cap);
size_t larder__read_left(const larder_reader *);

#endif
