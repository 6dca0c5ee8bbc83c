/* A data set opened from a URI: "dir:photos", "tar:shard-{000..009}.tar", "idx:folder?split=test",
 * "slow:bandwidth=20MiB,latency=2ms:dir:photos", or a plain name that a source recognises.
 *
 * Ids are dense from 0 and mean the same sample as long as the fingerprint stays, and the same
 * bytes as long as the identity does. A query "?content=NAME", of any source, says that all that is
 * opened by this NAME has the same content, however often it was copied; "?take=10%" and
 * "?ids=FILE" leave some of its samples (see subset.h). All calls but open and close may come from
 * any thread. */
#ifndef LARDER_SOURCE_SOURCE_H
#define LARDER_SOURCE_SOURCE_H

#include <larder/plugin.h>

typedef struct larder__data larder__data;

extern const larder_param larder__source_params[]; /* those every source has */

int larder__data_open(larder__data **out, const char *uri);
/* Samples as parcels of these fields, see larder_source.choose. A source that cannot choose gives
 * what it has: parcels with more in them, or with less. */
int larder__data_open_fields(larder__data **out, const char *uri, const char *const *names,
                             size_t n);
/* In two halves, for sources around others: the second, which comes once, is their `choose`. */
int larder__data_begin(larder__data **out, const char *uri);
int larder__data_choose(larder__data *, const char *const *names, size_t n);
bool larder__data_chooses(const larder__data *);          /* can it? */
const char *larder__data_field(larder__data *, size_t i); /* as larder_source.field */
void larder__data_close(larder__data **);
const larder_dataset *larder__data_about(const larder__data *);
const char *larder__data_uri(const larder__data *);
const larder_plugin *larder__data_plugin(const larder__data *); /* which source it is */
int larder__data_stat(larder__data *, uint64_t id, larder_sample *out);
int larder__data_name(larder__data *, uint64_t id, char *out, size_t cap);
/* As larder_source.file; E_UNSUPPORTED where samples do not lie one behind the other. */
int larder__data_file(larder__data *, uint64_t id, uint64_t *out);
const char *larder__data_class(larder__data *, uint32_t label); /* NULL: no name */
/* As larder_source.read: fills every out[i]; several samples in one call are read together where
 * the source can. Returns 0 unless nothing could be tried at all. */
int larder__data_read(larder__data *, const uint64_t *ids, size_t n, larder_read *out);
/* Nobody wants the answers any more: reads that wait for storage end with E_CANCELLED where the
 * source can do that. */
void larder__data_interrupt(larder__data *);

/* What a user should know of what was found: the i-th sentence with the URI in front, NULL past the
 * end. Samples without a label are counted for it, which takes as long as a stat of all of them. */
const char *larder__data_note(larder__data *, size_t i, char *out, size_t cap);
/* As larder_source.note: for sources around others. */
const char *larder__data_source_note(larder__data *, size_t i);
/* Has every sample a label? Else E_ARGS, and how many have none and where labels come from. */
int larder__data_check_labels(larder__data *);

/* What the source shows of its own: a list that ends with a NULL name; NULL: nothing. */
const larder_figure *larder__data_figures(larder__data *);
double larder__data_figure(larder__data *, size_t i);

/* As in larder_source; E_UNSUPPORTED where larder_dataset.parts is false. */
int larder__data_extent(larder__data *, uint64_t id, uint32_t *w, uint32_t *h);
int larder__data_part_bytes(larder__data *, uint64_t id, const larder_rect *, uint32_t *out);
int larder__data_read_parts(larder__data *, const uint64_t *ids, const larder_rect *, size_t n,
                            larder_read *out);

#endif
