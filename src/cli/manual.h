/* Man pages, from the tables that --help and the parser read. */
#ifndef LARDER_CLI_MANUAL_H
#define LARDER_CLI_MANUAL_H

#include "cli/command_table.h"

#include <stdio.h>

/* The page of a command, or of the program where `e` is NULL. */
void larder__manual_print(FILE *to, const larder__entry *e);

#endif
