/* What programs of ours ask of a loader beside its public functions. */
#ifndef LARDER_LOADER_SHOWN_H
#define LARDER_LOADER_SHOWN_H

#include <larder/larder.h>

/* One that is only part of a job: it is not shown by itself from now on. */
void larder__loader_hide(larder_loader *);
/* As larder__data_check_labels: for those who cannot do without. */
int larder__loader_check_labels(larder_loader *);

#endif
