/* What a loader shows, for tests that look at one thing of it. */
#ifndef LARDER_TEST_LOOK_KIT_H
#define LARDER_TEST_LOOK_KIT_H

#include <larder/larder.h>

/* All zero but the audit, which is the code, where it fails. */
static inline larder_about look_about(larder_loader *l) {
    larder_about about = {.size = sizeof about};
    int rc = larder_loader_about(l, &about);
    if (rc < 0)
        about.audit = rc;
    return about;
}

static inline int64_t look_audit(larder_loader *l) { return look_about(l).audit; }

static inline int look_figures(larder_loader *l, uint64_t epoch, larder_figures *out) {
    *out = (larder_figures){.size = sizeof *out};
    return larder_loader_figures(l, epoch, out);
}

/* The i-th note, NULL past the end; good until the next call. */
static inline const char *look_note(larder_loader *l, size_t i) {
    static _Thread_local char note[512];
    return larder_loader_says(l, LARDER_SAYS_NOTE, i, note, sizeof note) == 0 ? note : NULL;
}

#endif
