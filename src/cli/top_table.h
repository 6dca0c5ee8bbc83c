/* What larder top shows: running jobs as rows of a table, with rates since the last look, and one
 * of them in full. */
#ifndef LARDER_CLI_TOP_TABLE_H
#define LARDER_CLI_TOP_TABLE_H

#include "see/job.h"

typedef struct larder__top_row {
    const larder__job *job;
    double rate;             /* samples a second */
    double hit, subst, miss; /* shares of them */
    double read, requests;   /* storage bytes and requests a second */
    double stall;            /* share of the time training waited */
} larder__top_row;

typedef struct larder__top {
    larder__jobs now, before; /* two looks, */
    double seconds, looked;   /* so far apart, 0: there was none before; when it was */
    larder__top_row *rows;
    size_t cap;
    size_t width;  /* of the terminal, in letters; 0: all there is room for */
    size_t column; /* that rows are sorted by */
    bool reverse, detail;
    uint64_t pid, number; /* of the row that is chosen; 0: the first */
} larder__top;

/* Looks anew. */
int larder__top_look(larder__top *, double now);
void larder__top_close(larder__top *);

/* Sorted by the chosen column; rows are valid until the next look. */
void larder__top_sort(larder__top *);
size_t larder__top_columns(void);
/* Another row than the one that is chosen now: one up or down. */
void larder__top_choose(larder__top *, int step);

/* The page: title, table, the chosen job in full if wanted, and a line of keys. `marks`: \001 and
 * \002 around what is to be set off, see larder__screen_draw. */
void larder__top_print(FILE *, larder__top *, size_t columns, size_t lines, bool marks);

#endif
