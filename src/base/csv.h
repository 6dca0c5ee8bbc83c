/* Lines of a CSV text, as spreadsheets and pandas write them: commas, quotes where needed, "" for a
 * quote inside. Nothing in it is trusted. */
#ifndef LARDER_BASE_CSV_H
#define LARDER_BASE_CSV_H

#include <stddef.h>
#include <stdint.h>

typedef struct larder__csv {
    const char *path; /* for sentences; borrowed */
    char *text;       /* is written into: fields are cut out where they lie */
    size_t at, size;
    uint64_t line; /* the one that was read last begins here; from 1 on */
    uint64_t next; /* the next one */
    char separator;
    char **fields; /* of that line */
    size_t count, cap;
} larder__csv;

/* `text` has `size` bytes and one more, and stays the caller's. A tab is the separator where the
 * first line has one and no comma. */
void larder__csv_begin(larder__csv *, const char *path, char *text, size_t size);
/* 1: a line; 0: the end; negative: what is wrong in which line. Empty lines are passed over. */
int larder__csv_next(larder__csv *);
void larder__csv_free(larder__csv *);

#endif
