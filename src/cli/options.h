/* Options of a command, from one table: parsing, checking and --help come from the same lines. */
#ifndef LARDER_CLI_OPTIONS_H
#define LARDER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    LARDER__TEXT,   /* const char * */
    LARDER__NUMBER, /* uint64_t */
    LARDER__REAL,   /* double */
    LARDER__FLAG,   /* bool */
    LARDER__TEXTS   /* larder__texts: may be given several times */
} larder__option_kind;

typedef struct larder__texts {
    const char *at[64];
    size_t count;
} larder__texts;

typedef struct larder__option {
    const char *name; /* "epochs" for --epochs; "o" for -o */
    larder__option_kind kind;
    void *to;
    const char *value; /* what stands for the value in help: "N"; NULL for flags */
    const char *help;
} larder__option;

typedef struct larder__command {
    const char *name;              /* "sim" */
    const char *usage;             /* "larder sim --recipe R …", may have several lines */
    const char *about;             /* a paragraph or two */
    const char *examples;          /* printed last; may be NULL */
    const larder__option *options; /* ends with a NULL name */
} larder__command;

/* Words that are no options go to `words`, at most `max`. Returns 0 to go on; 1 when --help was
 * printed (exit 0); -1 when something is wrong and was said on stderr (exit 2). */
int larder__options_parse(const larder__command *, int argc, char **argv, const char **words,
                          size_t max, size_t *count);
/* The same for those who want to know which options came: bit i is option i of the table. */
int larder__options_parse_noting(const larder__command *, int argc, char **argv, const char **words,
                                 size_t max, size_t *count, uint64_t *given);
/* While `see` is there, parsing shows it the table and answers 1, as if --help had been asked for
 * (command_table.h calls this). */
void larder__options_show_to(void (*see)(void *arg, const larder__command *), void *arg);
/* For what a command itself finds wrong with its words: says why, and where more is told; -1. */
int larder__wrong_usage(const char *command, const char *why);
/* How a command ends: says what failed, if anything did. 0, 1, or 2 for wrong usage. */
int larder__exit_code(const char *command, int rc);

#endif
