#include "group_kit.h"
#include "look_kit.h"

#include "loader_kit.h"
#include "redis_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = KIT_GROUP_N, BATCH = 16, MOST_JOBS = KIT_MOST_JOBS, DIM = 16 };

/* The pixels of a sample are those that a loader without any cache serves: no chance in them. */
static void check_pixels(const larder_batch *b, const unsigned char *right) {
    size_t row = (size_t)b->shape.h * b->shape.w * b->shape.c;
    for (size_t i = 0; i < b->n; i++)
        must(memcmp((const char *)b->x + i * row, right + b->served[i] * row, row) == 0);
}

static int64_t labels[N];

/* Who stands in is of the class that was asked for. */
static void check_classes(const larder_batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        must(b->y[i] == labels[b->served[i]]);
        must(b->kind[i] != LARDER_SUBSTITUTE || labels[b->ids[i]] == labels[b->served[i]]);
        must(b->kind[i] == LARDER_SUBSTITUTE || b->ids[i] == b->served[i]);
    }
}

/* Samples of a class lie together, some nearer than others. */
static void embed(const larder_batch *b, float *out) {
    for (size_t i = 0; i < b->n; i++)
        for (uint64_t k = 0; k < DIM; k++)
            out[i * DIM + k] = (k == (uint64_t)labels[b->served[i]] % DIM ? 1.0f : 0.0f) +
                               (float)(b->served[i] * (k + 7) % 11) / 400;
}

static unsigned char *right_pixels(void) {
    static unsigned char *all;
    larder_loader_conf c = kit_conf(KIT_GROUP_SOURCE, "lru");
    larder_loader *l;
    const larder_batch *b;
    int rc;
    if (all)
        return all;
    all = malloc(N * 192);
    c.cache = "0";
    c.augment = NULL;
    c.epochs = 1;
    check_ok(larder_loader_open(&l, &c));
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        for (size_t i = 0; rc == 0 && i < b->n; i++)
            memcpy(all + b->served[i] * 192, (const char *)b->x + i * 192, 192);
        for (size_t i = 0; rc == 0 && i < b->n; i++)
            labels[b->served[i]] = b->y[i];
        if (rc == 0)
            larder_loader_done(l, b);
    }
    larder_loader_close(&l);
    return all;
}

/* In one pass over all figures: a job does this after each batch. */
static void tell_figures(larder_loader *l, kit_progress *to) {
    const struct {
        const char *name;
        _Atomic uint64_t *to;
    } wanted[] = {{"storage_reads", &to->reads},    {"group_waited", &to->waited},
                  {"group_stuck", &to->stuck},      {"group_unshared", &to->unshared},
                  {"group_joined", &to->joined},    {"group_renewed", &to->renewed},
                  {"cache_resident", &to->resident}};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    larder_stat_value v = {.size = sizeof v};
    size_t found = 0;
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        for (size_t k = 0; k < WANTED; k++)
            if (strcmp(v.name, wanted[k].name) == 0) {
                *wanted[k].to = (uint64_t)v.value;
                found++;
            }
    must(found == WANTED);
}

static void work(const char *cache, const char *recipe, uint64_t seed, uint64_t epochs,
                 kit_progress *to, bool exact) {
    larder_loader_conf c = kit_conf(KIT_GROUP_SOURCE, recipe);
    const unsigned char *right = right_pixels();
    larder_loader *l;
    const larder_batch *b;
    bool spider = strncmp(recipe, "spider", 6) == 0;
    float losses[BATCH], emb[BATCH * DIM];
    int rc;
    c.cache = cache;
    c.seed = seed;
    c.epochs = epochs;
    c.augment = NULL;
    if (larder_loader_open(&l, &c) < 0) {
        fprintf(stderr, "job %d does not open: %s\n", (int)seed, larder_errmsg());
        _exit(3);
    }
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        if (rc == LARDER_END_EPOCH) {
            to->audit = look_audit(l);
            must(!exact || to->audit == 0);
            if (!to->leave)
                continue;
            rc = LARDER_END;
            break;
        }
        check_pixels(b, right);
        for (size_t i = 0; i < b->n; i++)
            losses[i] = kit_loss(b->served[i], b->epoch);
        larder_feedback said = {.size = sizeof said, .loss = losses};
        if (spider) {
            check_classes(b);
            embed(b, emb);
            said = (larder_feedback){.size = sizeof said, .embeddings = emb, .dim = DIM};
        }
        for (size_t i = 0; i < b->n; i++)
            to->stood_in += b->kind[i] == LARDER_SUBSTITUTE;
        must(larder_loader_report(l, b, &said) == 0);
        to->served += b->n;
        must(larder_loader_done(l, b) == 0);
        to->batches++;
        tell_figures(l, to);
        kit_nap(0.001);
    }
    if (rc != LARDER_END)
        fprintf(stderr, "job %d: %s\n", (int)seed, larder_errmsg());
    must(rc == LARDER_END);
    larder_loader_close(&l);
    to->ended = true;
}

pid_t kit_start(const char *cache, const char *recipe, uint64_t seed, uint64_t epochs,
                kit_progress *to, bool exact) {
    right_pixels();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(cache, recipe, seed, epochs, to, exact);
        _exit(0);
    }
    return pid;
}

void kit_ended_well(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

kit_progress *kit_progress_new(void) {
    kit_progress *p = mmap(NULL, MOST_JOBS * sizeof *p, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memset(p, 0, MOST_JOBS * sizeof *p);
    return p;
}

/* For minutes, if need be: on a busy machine a second may be nothing. */
static void wait_until(const kit_progress *p, const _Atomic uint64_t *figure, uint64_t n) {
    for (int i = 0; i < 30000 && *figure < n && !p->ended; i++)
        kit_nap(0.02);
    if (*figure < n && !p->ended)
        fail_msg("a job stands still after %d batches", (int)p->batches);
}

void kit_wait_batches(const kit_progress *p, uint64_t n) { wait_until(p, &p->batches, n); }
void kit_wait_joined(const kit_progress *p, uint64_t n) { wait_until(p, &p->joined, n); }
