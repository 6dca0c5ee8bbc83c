/* Small LMDB and HDF5 data sets; false: this build has no such library. */
#ifndef LARDER_TEST_STORES_H
#define LARDER_TEST_STORES_H

#include "check.h"

#include <stdbool.h>

/* Keys in the order of their names; values are these, of so many bytes. The folder is there. */
bool kit_lmdb(const char *folder, const char *const *keys, const void *const *values,
              const size_t *bytes, size_t n);
/* Arrays x (u8, n x 4 x 3, 0, 1, 2 …), f (f32, n x 2, in chunks that are packed), y (i16, n: n-1 …
 * 0) and t (f64, n x 1). */
bool kit_hdf5(const char *path, size_t n);

#endif
