/* Labels that lie in a table beside the data: "csv:labels.csv?key=name&value=label". A sample's
 * line is the one whose key is its name, its path, its file's name or that without its ending. */
#ifndef LARDER_LOADER_FILL_TARGETS_H
#define LARDER_LOADER_FILL_TARGETS_H

#include "source/source.h"
#include "stage/column.h"

typedef struct larder__targets larder__targets;

bool larder__targets_meant(const char *target); /* is it such a text? */
int larder__targets_open(larder__targets **out, const char *target, larder__data *);
void larder__targets_close(larder__targets **);
int64_t larder__targets_label(const larder__targets *, uint64_t id); /* -1: it has none */
const larder__given *larder__targets_given(const larder__targets *);
uint64_t larder__targets_missing(const larder__targets *); /* samples without a line */
/* Names of classes where the table has words: sorted, their places are the labels. */
uint32_t larder__targets_classes(const larder__targets *);
const char *larder__targets_class(const larder__targets *, uint32_t label);

#endif
