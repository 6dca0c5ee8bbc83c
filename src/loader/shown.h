/* A loader that is only part of a job: it is not shown by itself from now on. */
#ifndef LARDER_LOADER_SHOWN_H
#define LARDER_LOADER_SHOWN_H

#include <larder/larder.h>

void larder__loader_hide(larder_loader *);

#endif
