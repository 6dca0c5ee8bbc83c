/* Labels that stand as text, one a sample: whole numbers are classes by number; anything that is no
 * number makes all of them names, numbered in byte order; other numbers are no classes. */
#ifndef LARDER_SOURCE_LABEL_COLUMN_H
#define LARDER_SOURCE_LABEL_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    LARDER__LABELS_NUMBERS,
    LARDER__LABELS_NAMES,
    LARDER__LABELS_FLOATS
} larder__labels_are;

typedef struct larder__label_column {
    char *text; /* of all, one after the other */
    size_t used, cap;
    uint64_t *ends;
    size_t ends_cap;
    uint64_t count;
    bool whole, numbers; /* so far */
    larder__labels_are are;
    int32_t *labels; /* once finished, of each sample; NULL of floats */
    char **names;    /* of classes */
    uint32_t classes;
} larder__label_column;

void larder__label_column_begin(larder__label_column *);
int larder__label_column_add(larder__label_column *, const char *text);
int larder__label_column_end(larder__label_column *);
void larder__label_column_free(larder__label_column *);

/* A number and nothing else but blanks around it; an empty text is NAN. */
bool larder__text_number(const char *text, double *out);

#endif
