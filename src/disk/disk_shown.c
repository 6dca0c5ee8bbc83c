/* What is shown of a disk: figures of this process and of the folder. */
#include "disk/disk_inside.h"

#define DISK_PROBE(field)                                                                          \
    static double probe_##field(const void *arg) {                                                 \
        larder__disk_figures f;                                                                    \
        larder__disk_read_figures((larder__disk *)(uintptr_t)arg, &f);                             \
        return (double)f.field;                                                                    \
    }
DISK_PROBE(reads)
DISK_PROBE(read_bytes)
DISK_PROBE(writes)
DISK_PROBE(written_bytes)
DISK_PROBE(refused)
DISK_PROBE(damaged)
DISK_PROBE(entries)
DISK_PROBE(used_bytes)
DISK_PROBE(budget)

static const struct {
    bool grows;
    const char *name, *unit, *help;
    double (*read)(const void *);
} shown[] = {
    {true, "disk_reads", "samples", "values read from the disk", probe_reads},
    {true, "disk_read_bytes", "bytes", "in whole blocks", probe_read_bytes},
    {true, "disk_written", "samples", "values written to it", probe_writes},
    {true, "disk_written_bytes", "bytes", "in whole blocks: what wears it out",
     probe_written_bytes},
    {true, "disk_refused", "samples", "values that were not written", probe_refused},
    {true, "disk_damaged", "samples", "values that did not fit their checksum", probe_damaged},
    {false, "disk_entries", "samples", "values in the folder, of all who use it", probe_entries},
    {false, "disk_used_bytes", "bytes", "blocks that they take", probe_used_bytes},
    {false, "disk_budget", "bytes", "that the folder may take", probe_budget},
};

int larder__disk_show(larder__disk *d) {
    int rc = 0;
    for (size_t i = 0; d->stats && rc == 0 && i < sizeof shown / sizeof *shown; i++)
        rc = (shown[i].grows ? larder__stat_probe_count : larder__stat_probe)(
            d->stats, shown[i].name, shown[i].unit, shown[i].help, shown[i].read, d);
    return rc;
}
