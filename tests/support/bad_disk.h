/* A clock and a disk that do what a test wants of them, and a folder of a disk tier upon it. */
#ifndef LARDER_TEST_BAD_DISK_H
#define LARDER_TEST_BAD_DISK_H

#include "check.h"
#include "disk/disk_io.h"
#include "disk_kit.h"

enum { MIB = 1 << 20, BLOCK = 4096, EIGHT = 8 * BLOCK - 40, PATIENCE = 60 };

typedef struct bad_disk_switches {
    char folder[256];
    _Atomic double ahead;                               /* of the real clock */
    _Atomic int read_error, write_error, reserve_error; /* errno; 0: none */
    _Atomic int piece;                                  /* bytes at a time; 0: all */
    _Atomic int interrupts;                             /* so many calls end in EINTR */
    _Atomic bool reads_hang, writes_hang;               /* by bad_disk_gate */
    _Atomic bool dies_writing;                          /* the process, with 7 */
    _Atomic unsigned hanging, tries;                    /* calls; tries: to write */
    _Atomic unsigned reserved;                          /* files */
    void (*on_sync)(void);                              /* once */
    char boot[LARDER__DISK_WHO], machine[LARDER__DISK_WHO];
} bad_disk_switches;
extern bad_disk_switches bad_disk;
extern const larder__disk_io bad_disk_io;

int bad_disk_setup(void **state);
int bad_disk_teardown(void **state);

void bad_disk_gate(_Atomic bool *which, bool closed);
void bad_disk_await_hanging(void);
void bad_disk_await_none(void); /* that hangs */

larder__disk *bad_disk_open_with(const larder__disk_conf *);
larder__disk *bad_disk_open(uint64_t budget);
void bad_disk_refuses(uint64_t budget, int code, const char *word); /* to be opened */
void bad_disk_put(larder__disk *, uint64_t key, uint32_t size);     /* and settled */
void bad_disk_check(larder__disk *, uint64_t key, uint32_t size);   /* it is there and right */
void bad_disk_noted(larder__disk *, const char *word);
void bad_disk_path(char out[300], const char *name); /* of a file in the folder */

#endif
