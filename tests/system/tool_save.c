/* A job that is saved in mid-epoch: for scripts that look into what it leaves.
 *
 *     tool_save SOURCE CACHE FOLDER
 *
 * Leaves its state, what it has decided and its record there. */
#include <larder/larder.h>

#include <stdio.h>

static int leave(larder_loader *l, larder_saved what, const char *folder, const char *name) {
    char path[4096];
    void *bytes;
    size_t size;
    int rc = larder_loader_save(l, what, &bytes, &size);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    bool whole = f && fwrite(bytes, 1, size, f) == size;
    whole &= f && fclose(f) == 0;
    larder_free(bytes);
    return whole ? 0 : LARDER_E_IO;
}

int main(int argc, char **argv) {
    enum { BATCHES = 2 };
    char record[4096];
    larder_loader_conf c = {.size = sizeof c};
    larder_loader *l = NULL;
    const larder_batch *b;
    if (argc != 4)
        return 2;
    snprintf(record, sizeof record, "%s/record", argv[3]);
    c.source = argv[1];
    c.cache = argv[2];
    c.record = record;
    c.augment = "resize:h=8,w=8";
    c.batch = 4;
    int rc = larder_loader_open(&l, &c);
    for (int i = 0; rc == 0 && i < BATCHES; i++)
        if ((rc = larder_loader_next(l, &b)) == 0)
            rc = larder_loader_done(l, b);
    if (rc == 0)
        rc = leave(l, LARDER_STATE, argv[3], "state");
    if (rc == 0)
        rc = leave(l, LARDER_DECISIONS, argv[3], "decisions");
    if (rc != 0)
        fprintf(stderr, "%d: %s\n", rc, larder_errmsg());
    larder_loader_close(&l);
    return rc != 0;
}
