/* From the one data set a person names to what training and validation open: the test part, a
 * slowed storage, the preparation that suits the samples and its form without chance. */
#ifndef LARDER_TRAIN_PARTS_H
#define LARDER_TRAIN_PARTS_H

#include <larder/plugin.h>

enum { LARDER__URI_BYTES = 4096 };

/* "idx:folder" -> "idx:folder?split=test"; a split that is there is replaced, and a slow: around
 * the source left out: validation is not what is measured. */
int larder__parts_test_uri(char out[LARDER__URI_BYTES], const char *uri);
/* "slow:SPEC:uri". */
int larder__parts_slow_uri(char out[LARDER__URI_BYTES], const char *slow, const char *uri);
/* A preparation for training on such samples. */
const char *larder__parts_augment(const larder_dataset *);
/* The same without chance: flip and crop go, rrc becomes resize and centercrop. */
int larder__parts_test_augment(char out[LARDER__URI_BYTES], const char *augment);

#endif
