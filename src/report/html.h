/* The report of one or more runs: one HTML file with its plots inside, that opens without a
 * network, and the same table as plain text for a terminal. */
#ifndef LARDER_REPORT_HTML_H
#define LARDER_REPORT_HTML_H

#include "report/record.h"
#include "report/seed_group.h"
#include "report/table.h"

typedef void larder__table_fn(FILE *, const larder__table *);

/* 0, E_NOMEM, or E_IO when the stream has failed. */
int larder__report_html(FILE *, const char *title, const larder__run *runs, size_t count);
/* On a terminal of `room` columns, as larder__table_text does it; 0: as wide as it gets. */
int larder__report_text(FILE *, const larder__run *runs, size_t count, size_t room);
int larder__report_md(FILE *, const char *title, const larder__run *runs, size_t count);
/* What an 80-column terminal has room for, a row a group; written by larder__table_text or _md. */
int larder__report_short(FILE *, const larder__run *runs, size_t count, larder__table_fn *);
/* A line a group: mean and deviation of every figure. */
int larder__report_json(FILE *, const larder__run *runs, size_t count);
/* Accuracy against storage bytes, a point a group, as SVG. */
int larder__report_pareto(FILE *, const larder__seed_groups *);
/* The tables themselves, written by one of larder__table_text, _md and _html. */
int larder__runs_table(FILE *, const larder__run *runs, size_t count, size_t room,
                       larder__table_fn *);
/* Results, or the times of batches. */
void larder__groups_table(FILE *, const larder__seed_groups *, bool batch_times, size_t room,
                          larder__table_fn *);
/* "91.11 ± 0.44", or without the spread where there is none. */
void larder__print_spread(char *out, size_t cap, const larder__spread *, int decimals);

#endif
