/* The loss of each sample of a report: as given, or from logits and labels. */
#ifndef LARDER_SIGNAL_CROSS_ENTROPY_H
#define LARDER_SIGNAL_CROSS_ENTROPY_H

#include <larder/plugin.h>

/* Through log-sum-exp, so that large logits neither overflow nor lose the small differences. */
float larder__cross_entropy(const float *logits, size_t classes, int64_t label);
/* Of row i; NAN when the report does not tell, or tells nothing finite. */
float larder__report_loss(const larder_report *, size_t i);

#endif
