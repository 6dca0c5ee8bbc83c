/* Memory of one job through which it hands over what it has made, where it can only read in the
 * arena: it lays an entry there, and the daemon takes it to where it will lie. Both count the bytes
 * that went through it; what is beyond the end goes on at the beginning.
 *
 * The job may write there whatever and whenever it likes. The daemon believes its own count alone
 * and copies before it looks, so that a job spoils no more than what it makes itself. */
#ifndef LARDER_UNIX_TRAY_H
#define LARDER_UNIX_TRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LARDER__TRAY_BYTES = 512 << 10 }; /* a power of two: counts may overflow */
typedef struct larder__tray {
    _Atomic uint32_t taken; /* bytes, as the daemon says */
    unsigned char rest[60];
    unsigned char bytes[LARDER__TRAY_BYTES];
} larder__tray;

/* The job's end: `laid` is its count. False: there is no room for that many now. */
bool larder__tray_lay(larder__tray *, uint32_t *laid, const void *from, uint32_t n);
/* The daemon's; n: at most LARDER__TRAY_BYTES. `to` NULL: nobody wants it. */
void larder__tray_take(larder__tray *, uint32_t *taken, void *to, uint32_t n);

#endif
