/* A table once, for a terminal, for Markdown and for HTML. */
#ifndef LARDER_REPORT_TABLE_H
#define LARDER_REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { LARDER__CELL_BYTES = 300 };

typedef struct larder__table {
    size_t rows, columns;
    const char *(*head)(const void *arg, size_t column, const char **help);
    void (*cell)(const void *arg, size_t row, size_t column, char out[LARDER__CELL_BYTES]);
    const void *arg;
    const char *title; /* for those who hear a page; NULL: figures */
    bool coloured;     /* a spot before each row, in the colour its line has in charts */
    /* As text, on a terminal of so many columns; 0: as wide as it gets. What is not kept there and
     * does not fit is left out and named; what is kept goes on in lines below. */
    size_t room;
    bool (*kept)(const struct larder__table *, size_t column); /* besides the first; NULL: all */
} larder__table;

void larder__table_text(FILE *, const larder__table *);
void larder__table_md(FILE *, const larder__table *);
void larder__table_html(FILE *, const larder__table *);

#endif
