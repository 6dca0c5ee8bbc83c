/* Requests to storage, counted on the thread that makes them: whoever reads takes the difference
 * before and after. larder_note_requests (plugin.h) counts. */
#ifndef LARDER_BASE_ASKED_H
#define LARDER_BASE_ASKED_H

#include <stdint.h>

uint64_t larder__requests(void); /* of this thread, ever */

#endif
