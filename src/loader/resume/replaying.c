/* An earlier run that is to be repeated: what it decided by measuring, wherever it was written. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <stdio.h>
#include <sys/stat.h>

enum { NAME_BYTES = 4096 };

static int differs(const char *path, const char *what) {
    return larder__fail(LARDER_E_FORMAT,
                        "replay %.300s: it was made with another %s; a run is repeated with the "
                        "same data, recipe, cache, batch and seed",
                        path, what);
}

/* A tape has the sampler's turns, and no more of what follows from the clock. */
static int check_job(const larder_loader *l, const larder__tape *t, const char *path) {
    const larder_dataset *about = larder__data_about(l->data);
    const larder__tape_job *j = &t->job;
    const larder_signal *signal = larder__draw_signal(l->draw);
    if (j->samples != about->count || j->fingerprint != about->fingerprint)
        return differs(path, "data set (or the data set has changed since)");
    if (strcmp(j->recipe, l->conf.recipe) != 0)
        return larder__fail(LARDER_E_FORMAT,
                            "replay %.300s: it was made with another recipe, %.200s", path,
                            j->recipe);
    if (j->seed != l->conf.seed)
        return differs(path, "seed");
    if (j->batch != l->conf.batch || j->rank != l->conf.rank || j->world != l->conf.world)
        return differs(path, "batch size, rank or number of ranks");
    if (j->budget != larder__cache_slots(larder__draw_cache(l->draw))->budget)
        return differs(path, "cache size");
    if (larder__draw_replan(l->draw) || (signal && signal->prepare))
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "replay %.300s: a record says which h was measured, and not how "
                            "plan=auto shared the cache out or when scores took effect; a saved "
                            "state or the folder of larder train --out does",
                            path);
    if (t->count && t->batches[0].number > 0)
        return larder__fail(LARDER_E_ARGS,
                            "replay %.300s: begins with batch %llu, where a run went on; a saved "
                            "state of that run has all of it",
                            path, (unsigned long long)t->batches[0].number);
    return 0;
}

static int follow_tape(larder_loader *l, const char *path) {
    larder__tape t;
    int rc = larder__tape_read(&t, path);
    if (rc < 0)
        return rc;
    if ((rc = check_job(l, &t, path)) == 0)
        rc = larder__draw_follow_turns(l->draw, t.turns, (size_t)t.turn_count);
    if (rc == 0 && t.torn[0])
        larder__note(
            l->stats,
            "replay: %.200s; behind its last batch (%llu) what was decided last stays, and "
            "the run may differ from there on",
            t.torn, (unsigned long long)(t.count ? t.batches[t.count - 1].number : 0));
    larder__tape_free(&t);
    return rc;
}

int larder__replaying_open(larder_loader *l, const char *path) {
    char file[NAME_BYTES];
    struct stat st;
    unsigned char *bytes = NULL;
    size_t size;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (snprintf(file, sizeof file, "%s%s", path, folder ? "/decisions" : "") >= NAME_BYTES)
        return larder__fail(LARDER_E_ARGS, "the name of the run to replay is too long");
    if (!folder && larder__tape_probe(path))
        return follow_tape(l, path);
    int rc = larder__file_read(file, (size_t)1 << 36, &bytes, &size);
    if (rc == 0)
        rc = larder_loader_restore(l, LARDER_DECISIONS, bytes, size);
    larder__free(bytes);
    return rc < 0 ? larder__fail_in(rc, "replay %.300s", path) : 0;
}
