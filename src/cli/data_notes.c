#include "cli/data_notes.h"

#include "base/err.h"
#include "base/notes.h"

#include <stdio.h>

/* As a sentence of an error: names of files are anybody's, and these are made harmless there. */
void larder__print_data_notes(const char *command, larder__data *d) {
    char says[LARDER__NOTE_BYTES];
    for (size_t i = 0; larder__data_note(d, i, says, sizeof says); i++) {
        larder__say("%s", says);
        fprintf(stderr, "larder %s: %s\n", command, larder_errmsg());
    }
}
