/* All kinds of columns, by name and by what a field's name ends in. */
#include "stage/column.h"

#include <strings.h>

extern const larder__column_kind larder__column_number, larder__column_array, larder__column_text,
    larder__column_bytes, larder__column_picture, larder__column_mask, larder__column_boxes,
    larder__column_sound;

static const larder__column_kind *const kinds[] = {
    &larder__column_picture,                                                /* the first one is x */
    &larder__column_mask,    &larder__column_boxes, &larder__column_number, /* the first one is y */
    &larder__column_array,   &larder__column_text,  &larder__column_sound,
    &larder__column_bytes, /* whatever is none of the others */
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const larder__column_kind *larder__column_kind_nth(size_t i) { return i < KINDS ? kinds[i] : NULL; }

const larder__column_kind *larder__column_kind_named(const char *name) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->plugin.name, name) == 0)
            return kinds[i];
    return NULL;
}

const larder__column_kind *larder__column_kind_for(const char *ending) {
    size_t n = strlen(ending);
    for (size_t i = 0; n && i < KINDS; i++)
        for (const char *at = kinds[i]->endings; at && (at = strchr(at, ' ')); at++)
            if (strncasecmp(at + 1, ending, n) == 0 && at[1 + n] == ' ')
                return kinds[i];
    return &larder__column_bytes;
}
