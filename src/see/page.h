/* The files of src/see/page/, as they are in the tree. */
#ifndef LARDER_SEE_PAGE_H
#define LARDER_SEE_PAGE_H

#include "base/carried.h"

extern const larder__carried larder__page_files[];

#endif
