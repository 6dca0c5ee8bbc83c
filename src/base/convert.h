/* Numbers from one type to another, as NumPy's astype does it but for what does not fit: that is
 * refused. */
#ifndef LARDER_BASE_CONVERT_H
#define LARDER_BASE_CONVERT_H

#include "base/dtype.h"

/* E_RANGE, with the number, where it does not fit a type of whole numbers, or is none. */
int larder__convert(void *out, larder_dtype to, const void *in, larder_dtype from, size_t n);

#endif
