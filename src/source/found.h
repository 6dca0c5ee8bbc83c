/* What a source found and does not use, and what it lists and nobody can decode: counted by the
 * ending of the names while they are listed, and said when a data set is opened. */
#ifndef LARDER_SOURCE_FOUND_H
#define LARDER_SOURCE_FOUND_H

#include <larder/plugin.h>

enum { LARDER__ENDINGS = 8, LARDER__ENDING_CHARS = 16 };

typedef struct larder__tally { /* names by their ending, in the order they came */
    char ending[LARDER__ENDINGS][LARDER__ENDING_CHARS]; /* lower case, without its dot */
    uint64_t count[LARDER__ENDINGS];
    uint64_t others; /* of no ending, a long one or one more than fit */
} larder__tally;

typedef struct larder__found {
    larder__tally unused;  /* no sample and no part of one */
    larder__tally strange; /* samples that this build has no decoder for */
    char first[256];       /* the first of those */
} larder__found;

/* After the last dot of a path's own name; NULL: none. */
const char *larder__ending(const char *path);
/* "jpg" is; as torchvision's ImageFolder has it. NULL is not. */
bool larder__is_picture(const char *ending);
/* And this build decodes it. */
bool larder__is_decoded(const char *ending);

/* So many of them; `ending` may be NULL. Hidden files (.DS_Store) are nobody's loss and are not
 * counted. */
void larder__found_unused(larder__found *, const char *path, const char *ending, uint64_t n);
void larder__found_sample(larder__found *, const char *path);
void larder__found_add(larder__found *to, const larder__found *from);

typedef struct larder__found_says {
    char text[2][640];
} larder__found_says;
/* The i-th sentence, NULL past the end. `what` lies there: "files", "members". */
const char *larder__found_note(const larder__found *, const char *what, size_t i,
                               larder__found_says *);

#endif
