/* One answer after another to a word that is being typed, each of one kind: names of plug-ins,
 * their parameters and values, commands, files. What stands for a value in help says which. */
#ifndef LARDER_CLI_OFFERS_H
#define LARDER_CLI_OFFERS_H

#include <stdio.h>

typedef struct larder__answer {
    FILE *to;
    const char *word; /* what was typed of it */
    size_t kept;      /* of that, what stays whatever is chosen */
} larder__answer;

/* The same where what was typed up to `here` stays. */
larder__answer larder__offer_after(const larder__answer *, const char *here);
/* `name` with `end` behind it, if it goes on from what was typed. */
void larder__offer_word(const larder__answer *, const char *name, const char *end,
                        const char *help);
void larder__offer_files(const larder__answer *);
void larder__offer_commands(const larder__answer *);
/* All that a placeholder stands for: "RECIPE,…", "mlp|cnn", "[MODEL]". */
void larder__offer_kinds(const larder__answer *, const char *kinds, size_t len);

#endif
