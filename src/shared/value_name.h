/* How a value that lies outside of this process is called. */
#ifndef LARDER_SHARED_VALUE_NAME_H
#define LARDER_SHARED_VALUE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__ANY_FORM = 0xff };

typedef struct larder__value {
    uint64_t id;
    uint64_t mark; /* which making of it: names are never used twice */
    uint32_t size; /* its bytes; where asked for: at most so many */
    uint8_t form;  /* larder_form in the name */
    uint8_t held;  /* larder_form of the bytes; where asked for: or LARDER__ANY_FORM */
    bool awaited;  /* where asked for: somebody is about to bring it, so it is waited for */
} larder__value;

#endif
