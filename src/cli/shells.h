/* The files of src/cli/shells/, as they are in the tree. */
#ifndef LARDER_CLI_SHELLS_H
#define LARDER_CLI_SHELLS_H

#include "base/carried.h"

extern const larder__carried larder__shells_files[];

#endif
