/* Starting under a limit of memory. */
#ifndef LARDER_CLI_TIGHT_MEMORY_H
#define LARDER_CLI_TIGHT_MEMORY_H

/* First of all in main: where memory is limited the program begins again without threads that
 * would hang. Returns where it goes on as it is. */
void larder__tight_memory(char **argv);

#endif
