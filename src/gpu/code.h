/* The files of src/gpu/code/, as they are in the tree. */
#ifndef LARDER_GPU_CODE_H
#define LARDER_GPU_CODE_H

#include "base/carried.h"

extern const larder__carried larder__code_files[];

#endif
