/* A loader's life while one of its allocations or calls to the system fails: opened, trained
 * through, saved and restored, it goes on or ends with a sentence, and leaks nothing. */
#ifndef LARDER_TESTS_FAILING_LOADER_H
#define LARDER_TESTS_FAILING_LOADER_H

#include "check.h"

#include "base/mem.h"
#include "failing_calls.h"

/* Some batches with losses and embeddings, an end of an epoch, a state. */
static int train(larder_loader *l, int batches, void **state, size_t *size) {
    const larder_batch *b;
    int rc = 0;
    for (int i = 0; rc >= 0 && i < batches; i++) {
        rc = larder_loader_next(l, &b);
        if (rc == LARDER_END || rc < 0)
            break;
        if (rc == LARDER_END_EPOCH) {
            rc = larder_loader_validate(l, 0.5);
            continue;
        }
        float loss[8], embeddings[8 * 4];
        for (size_t r = 0; r < b->n; r++)
            loss[r] = (float)(b->served[r] % 7);
        for (size_t k = 0; k < 8 * 4; k++)
            embeddings[k] = (float)(k * 5 % 9);
        larder_feedback f = {.size = sizeof f, .loss = loss, .embeddings = embeddings, .dim = 4};
        rc = larder_loader_report(l, b, &f);
        if (larder_loader_done(l, b) < 0)
            rc = rc < 0 ? rc : LARDER_E_STATE;
    }
    if (rc >= 0 && state)
        rc = larder_loader_save(l, LARDER_STATE, state, size);
    return rc;
}

static int live(const larder_loader_conf *c) {
    larder_loader *l = NULL, *again = NULL;
    void *state = NULL;
    size_t size = 0;
    int rc = larder_loader_open(&l, c);
    if (rc == 0)
        rc = train(l, 5, &state, &size);
    if (rc >= 0)
        rc = larder_loader_open(&again, c);
    if (rc >= 0)
        rc = larder_loader_restore(again, LARDER_STATE, state, size);
    if (rc >= 0)
        rc = train(again, 20, NULL, NULL);
    larder_free(state);
    larder_loader_close(&l);
    larder_loader_close(&again);
    return rc;
}

/* The first two of each call to the system, one at a time. */
static void fail_calls(const larder_loader_conf *c) {
    for (size_t which = 0; which < failing_count(); which++) {
        bool failed = true;
        for (unsigned at = 1; failed && at <= 2; at++) {
            failing_arm(which, at);
            int rc = live(c);
            failed = failing_did();
            failing_arm(0, 0);
            if (rc < 0 && larder_errmsg()[0] == '\0')
                fail_msg("%s, %s: no sentence when %s fails for the %u. time", c->source, c->recipe,
                         failing_name(which), at);
        }
    }
    failing_interrupt(3);
    int rc = live(c);
    failing_interrupt(0);
    if (rc < 0)
        fail_msg("%s, %s: signals disturb it: %s", c->source, c->recipe, larder_errmsg());
}

/* One by one at first, then wider and wider apart. */
static void fail_allocations(const larder_loader_conf *c, int tries) {
    bool failed = true;
    uint64_t at = 1;
    for (int i = 0; failed && i < tries; i++, at += 1 + (i > tries * 3 / 5 ? at / 12 : 0)) {
        larder__mem_fail_at(at, 0);
        int rc = live(c);
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (rc < 0 && larder_errmsg()[0] == '\0')
            fail_msg("%s, %s: no sentence when allocation %llu fails", c->source, c->recipe,
                     (unsigned long long)at);
    }
}

static void goes_on_or_ends(const larder_loader_conf *c) {
    if (live(c) < 0)
        fail_msg("%s, %s: %s", c->source, c->recipe, larder_errmsg());
    fail_allocations(c, 150);
    fail_calls(c);
}

#endif
