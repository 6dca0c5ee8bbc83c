/* The report of one or more runs: one HTML file with its plots inside, that opens without a
 * network, and the same table as plain text for a terminal. */
#ifndef LARDER_REPORT_HTML_H
#define LARDER_REPORT_HTML_H

#include "report/record.h"

/* 0, E_NOMEM, or E_IO when the stream has failed. */
int larder__report_html(FILE *, const char *title, const larder__run *runs, size_t count);
int larder__report_text(FILE *, const larder__run *runs, size_t count);

#endif
