/* What a local disk gives: batches of values as large as a mean sample, in random order, checked.
 * One thread is enough, since a batch is asked for at once. */
#include "base/clock.h"
#include "base/err.h"
#include "disk/disk_store.h"
#include "profile/profile_inside.h"

#include <stdio.h>
#include <unistd.h>

enum { BATCH = 256, BYTES = 256 << 20, LARGEST = BYTES / 64, MOST = 1 << 14 };

static int fill(larder__profiler *p, larder__disk *d, uint32_t keys, uint32_t size) {
    larder_buf *b = larder_buf_new(size);
    int rc = b ? 0 : LARDER_E_NOMEM;
    if (b)
        memset(larder_buf_data(b), 'x', size);
    for (uint32_t k = 0; rc == 0 && k < keys && !larder__profiler_stopped(p); k++) {
        larder__disk_put(d, &(larder__value){.id = k, .size = size}, b);
        if ((k % 64 == 63 || k + 1 == keys) && !larder__disk_settle(d, 30))
            rc = larder__fail(LARDER_E_IO, "it takes nothing");
    }
    larder_buf_unref(&b);
    return rc;
}

/* Bytes of one batch; 0: nothing came. */
static uint64_t take_some(larder__disk *d, larder_rng *rng, uint32_t keys) {
    larder__disk_fetch *e[BATCH] = {0};
    size_t n = 0;
    uint64_t bytes = 0;
    while (n < BATCH &&
           (e[n] = larder__disk_fetch_new(&(larder__value){.id = larder_rng_below(rng, keys)})))
        n++;
    larder__disk_send(d, e, n);
    for (size_t i = 0; i < n; i++) {
        larder_buf *b = larder__disk_receive(d, e[i]);
        bytes += b ? larder_buf_size(b) : 0;
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&e[i]);
    }
    return bytes;
}

static int take(larder__profiler *p, larder__disk *d, uint32_t keys, double seconds, double *rate) {
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    double begun = larder__now(), now = begun;
    uint64_t moved = 0, some = 1;
    for (; some && now < begun + seconds && !larder__profiler_stopped(p); now = larder__now())
        moved += some = take_some(d, &rng, keys);
    *rate = (double)moved / (now - begun);
    if (some)
        return 0;
    char why[300];
    larder__disk_note(d, why, sizeof why);
    return larder__fail(LARDER_E_IO, "%s", why[0] ? why : "it has lost what it was given");
}

int larder__measure_disk(larder__profiler *p, double seconds, larder__profile *out) {
    const char *folder = p->conf.disk->folder;
    double mean = (double)out->bytes / (double)out->samples;
    uint32_t size = mean < 64 ? 64 : mean > LARGEST ? LARGEST : (uint32_t)mean;
    uint32_t keys = BYTES / size > MOST ? MOST : BYTES / size;
    larder__disk_measure m = larder__disk_measured(keys, (uint64_t)keys * size, size, NULL, NULL);
    char head[4200];
    bool found = access(folder, F_OK) == 0;
    snprintf(head, sizeof head, "%.4096s/head", folder);
    bool there = found && access(head, F_OK) == 0; /* a cache, not just a folder */
    larder__disk_conf conf = {.folder = folder,
                              .budget = there ? 0 : larder__disk_takes(&m, m.payload),
                              .identity = 0x70726f66696c65u ^ size,
                              .keys = keys,
                              .name = "larder profile",
                              .patience = p->conf.disk->patience};
    larder__disk *d = NULL;
    int rc = larder__disk_open(&d, &conf);
    if (rc == 0)
        rc = fill(p, d, keys, size);
    if (rc == 0)
        rc = take(p, d, keys, seconds, &out->disk);
    for (uint32_t k = 0; d && k < keys; k++)
        larder__disk_forget(d, k);
    larder__disk_close(&d);
    if (rc < 0)
        rc = larder__fail_in(rc, "the cache on a disk");
    if (there || access(head, F_OK) != 0)
        return rc;
    char why[512] = ""; /* of the failure, not of what follows from it */
    if (rc < 0)
        snprintf(why, sizeof why, "%s", larder_errmsg());
    int left = larder__disk_remove(folder);
    if (left == 0 && !found)
        rmdir(folder); /* or it stays, empty */
    return rc < 0 ? larder__fail(rc, "%s", why) : left;
}
