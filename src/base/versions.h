/* Whatever outlives a process or lies between two says which version of its format it has. One
 * number a format, which goes up when what was written before can no longer be read as it was
 * meant; `oldest` stays behind for as long as two minor versions of larder that wrote it.
 * tests/golden has a file of each. The first of each that counts is that of larder 0.2, below; what
 * larder wrote before is refused with a sentence. */
#ifndef LARDER_BASE_VERSIONS_H
#define LARDER_BASE_VERSIONS_H

#include <stdint.h>

/* name, oldest that is read, the one that is written, what to do with any other */
#define LARDER__FORMATS(XX)                                                                        \
    XX(STATE, 6, 6, "go on with the larder that saved it, or begin anew")                          \
    XX(TAPE, 2, 2, "look at it with the larder that recorded it, or record the job again")         \
    XX(ROWS, 1, 1, "record them again (larder svm-train --record)")                                \
    XX(PACK, 1, 1, "pack it again (larder pack)")                                                  \
    XX(PARCEL, 1, 1, "write the sample again")                                                     \
    XX(WIRE, 10, 10, "use one larder for the daemon and its jobs")                                 \
    XX(VALUE, 3, 3, "nothing: each version has keys of its own")                                   \
    XX(DISK, 1, 1, "larder disk rm FOLDER takes it away, and it is filled anew")

enum {
#define XX(name, oldest, newest, remedy)                                                           \
    LARDER__##name##_OLDEST = (oldest), LARDER__##name##_VERSION = (newest),
    LARDER__FORMATS(XX)
#undef XX
};
typedef enum larder__format {
#define XX(name, oldest, newest, remedy) LARDER__FORMAT_##name,
    LARDER__FORMATS(XX)
#undef XX
} larder__format;

/* 0, or E_UNSUPPORTED: which version it has, which are read, and what to do. `what`: which file, or
 * who. */
int larder__version_check(larder__format, const char *what, uint64_t found);

/* What clients of daemons and of Redis say that they are. Tests alone change it, to be of another
 * version. */
typedef struct larder__spoken {
    uint32_t wire, wire_oldest, value;
} larder__spoken;
extern larder__spoken larder__speaks;

#endif
