#include "unix/resident_table.h"

#include "base/err.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int larder__resident_table_open(larder__resident_table *w, uint64_t keys) {
    *w = (larder__resident_table){.bytes = sizeof *w->table + keys * sizeof(larder_slot)};
    w->nothing = memfd_create("larder-nothing", MFD_CLOEXEC);
    void *at = w->nothing >= 0 && ftruncate(w->nothing, (off_t)w->bytes) == 0
                   ? mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->nothing, 0)
                   : MAP_FAILED;
    if (at == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "no memory for a table of %llu samples: %s",
                            (unsigned long long)keys, strerror(errno));
    w->table = at;
    memset(w->table + 1, 0xff, keys * sizeof(larder_slot));
    return larder__resident_table_show(w, -1);
}

int larder__resident_table_show(larder__resident_table *w, int fd) {
    if (!w->table)
        return 0;
    void *at =
        mmap(w->table, w->bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd < 0 ? w->nothing : fd, 0);
    return at == MAP_FAILED
               ? larder__fail(LARDER_E_NOMEM, "the table of residents: %s", strerror(errno))
               : 0;
}

void larder__resident_table_close(larder__resident_table *w) {
    if (w->table)
        munmap(w->table, w->bytes);
    if (w->nothing >= 0)
        close(w->nothing);
    w->table = NULL;
    w->nothing = -1;
}
