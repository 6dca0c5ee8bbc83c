/* What a data set has to say when a command opens it, a line each on standard error. */
#ifndef LARDER_CLI_DATA_NOTES_H
#define LARDER_CLI_DATA_NOTES_H

#include "source/source.h"

void larder__print_data_notes(const char *command, larder__data *);

#endif
