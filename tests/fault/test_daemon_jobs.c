/* Opportunistic sampling through a real daemon in a process of its own: jobs that are processes
 * come, leave and are killed at random moments, and so is the daemon. Every job sees every sample
 * exactly once an epoch, the bytes are the sample's, and no augmented entry comes twice to a job.
 * Then jobs in step: what they read of storage against the bounds. */
#include "daemon_kit.h"
#include "plugins.h"
#include "unix/attach.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROW = 300, DECODED = 700, BATCH_MOST = 64, ENTRIES = BATCH_MOST + 1024 };

/* What an entry begins with; the rest is filled with its key. */
typedef struct label {
    uint32_t key, form;
    uint64_t tensor; /* of augmented entries, one of a kind */
} label;

typedef struct progress { /* of one process, seen by the parent */
    _Atomic uint64_t epochs, served, reads, hits, used;
} progress;

typedef struct setup {
    const char *socket;
    uint64_t n;
    bool even; /* all samples are alike */
    double share[LARDER_FORMS];
    const char *budget;
    uint32_t batch;
    uint64_t seed;
} setup;

typedef struct task { /* one job */
    setup s;
    larder__cache *cache;
    const larder_sampler *how;
    void *sampler;
    larder_draw_env env;
    larder_pick picks[BATCH_MOST];
    larder_access in[ENTRIES];
    larder__ticket tickets[ENTRIES];
    uint8_t *times;
    uint64_t epoch, drawn;
    uint64_t *had; /* tensors it was served, hashed by value; grows */
    size_t had_count, had_cap;
    progress *to;
} task;

static uint32_t size_of(void *even, uint64_t id) {
    return *(bool *)even ? 500 : 100 + (uint32_t)(id * 7919 % 400);
}

static void exchange(void *cache, const uint64_t *wanted, size_t n, uint64_t *served) {
    larder__cache_exchange(cache, 0, wanted, n, served);
}

static void task_open(task *t, const setup *s, progress *to) {
    *t = (task){.s = *s, .to = to};
    larder__attach_conf conf = {.door = larder__door_at(s->socket),
                                .hello = {.batch = s->batch,
                                          .identity = 77,
                                          .about.keys = s->n,
                                          .payload = s->n * 500,
                                          .about.seed = s->seed,
                                          .about.forms_id = s->share[LARDER_ENCODED] < 1 ? 5 : 0,
                                          .about.decoded_bytes = DECODED,
                                          .about.row_bytes = s->even ? 500 : ROW,
                                          .about.policy = "ods",
                                          .name = "test"},
                                .exchanges = true,
                                .size_of = size_of,
                                .size_arg = &t->s.even};
    if (s->even)
        conf.hello.about.decoded_bytes = 0;
    memcpy(conf.hello.about.share, s->share, sizeof s->share);
    snprintf(conf.hello.budget, sizeof conf.hello.budget, "%s", s->budget);
    while (larder__attach_open(&t->cache, &conf) < 0) /* the daemon may be down just now */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    t->env = (larder_draw_env){.n = s->n,
                               .seed = s->seed,
                               .batch = s->batch,
                               .world = 1,
                               .slots = larder__cache_slots(t->cache),
                               .exchange = exchange,
                               .exchange_arg = t->cache};
    t->how = larder__sampler_find("ods");
    t->sampler = calloc(1, t->how->plugin.state_size);
    t->times = calloc(s->n, 1);
    must(t->sampler && t->times && t->how->init(t->sampler, &t->env, NULL) == 0);
}

static void task_close(task *t) {
    t->how->fini(t->sampler);
    free(t->sampler);
    free(t->times);
    free(t->had);
    larder__cache_close(&t->cache);
}

static uint64_t tensors; /* of this process */

static larder_buf *make_entry(larder__ticket *k, uint32_t encoded) {
    uint32_t size = k->make == LARDER_AUGMENTED ? k->size
                    : k->make == LARDER_DECODED ? encoded + (k->size - encoded) / 2
                                                : encoded;
    k->held = k->make;
    if (k->make == LARDER_DECODED && k->key % 7 == 0) { /* does not fit: kept as it came */
        k->held = LARDER_ENCODED;
        size = encoded;
    }
    larder_buf *b = larder_buf_new(size);
    must(b);
    memset(larder_buf_data(b), (int)(k->key & 0xff), size);
    label l = {(uint32_t)k->key, k->held, (uint64_t)getpid() << 32 | ++tensors};
    memcpy(larder_buf_data(b), &l, sizeof l);
    return b;
}

static void note_tensor(task *t, uint64_t tensor) {
    for (size_t i = 0; i < t->had_count; i++)
        must(t->had[i] != tensor); /* an augmented entry came twice */
    if (t->had_count == t->had_cap) {
        t->had_cap = t->had_cap ? 2 * t->had_cap : 256;
        t->had = realloc(t->had, t->had_cap * sizeof *t->had);
        must(t->had);
    }
    t->had[t->had_count++] = tensor;
}

static void check_entry(task *t, const larder__ticket *k, larder_buf *b) {
    label l;
    size_t size = larder_buf_size(b);
    must(size >= sizeof l);
    memcpy(&l, larder_buf_data(b), sizeof l);
    const unsigned char *at = larder_buf_data(b);
    must(l.key == k->key && l.form == k->held);
    must(at[size - 1] == (k->key & 0xff) && at[size / 2] == (k->key & 0xff));
    must(k->form != LARDER_AUGMENTED || k->held == LARDER_AUGMENTED);
    if (k->form == LARDER_AUGMENTED)
        note_tensor(t, l.tensor);
}

/* Bytes of one answer, row or not. */
static void settle(task *t, size_t i, bool row) {
    larder__ticket *k = &t->tickets[i];
    larder_buf *b = k->buf;
    if (k->task == LARDER__MAKE) {
        b = make_entry(k, size_of(&t->s.even, k->key));
        larder__cache_fill(t->cache, k, b);
        atomic_fetch_add(&t->to->reads, 1);
        if (k->form != k->held) /* the row begins with what was read, which is fine */
            larder_buf_unref(&b);
    } else if (k->task == LARDER__WAIT) {
        int rc = larder__cache_wait(t->cache, k, &b);
        must(rc >= 0);
        atomic_fetch_add(&t->to->reads, rc == LARDER__TAKE_OVER);
    }
    if (row && b)
        check_entry(t, k, b);
    larder_buf_unref(&b);
}

static larder_access request(task *t, uint64_t id, uint32_t tag) {
    return (larder_access){.key = id,
                           .size = size_of(&t->s.even, id),
                           .tag = tag,
                           .score = NAN,
                           .next_use = LARDER_UNKNOWN};
}

static void settle_all(task *t, size_t n, bool row) {
    for (size_t i = 0; i < n; i++)
        if (t->tickets[i].task != LARDER__WAIT)
            settle(t, i, row);
    for (size_t i = 0; i < n; i++)
        if (t->tickets[i].task == LARDER__WAIT)
            settle(t, i, row);
}

/* One batch; true: it ended an epoch in which all came once. */
static bool task_step(task *t) {
    uint64_t ids[1024];
    if (t->drawn == 0) {
        must(t->how->epoch(t->sampler, t->epoch) == 0);
        larder__cache_epoch(t->cache, t->epoch);
        memset(t->times, 0, t->s.n);
    }
    size_t n = t->how->draw(t->sampler, t->picks, t->s.batch);
    must(n > 0);
    for (size_t i = 0; i < n; i++) {
        must(t->picks[i].id < t->s.n && t->times[t->picks[i].id]++ == 0);
        t->in[i] = request(t, t->picks[i].id, 0);
    }
    must(larder__cache_claim(t->cache, t->in, n, t->tickets) == 0);
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add(&t->to->hits, t->tickets[i].kind == LARDER_HIT);
    settle_all(t, n, true);
    size_t more = larder__cache_fetch(t->cache, ids, 1024);
    for (size_t i = 0; i < more; i++)
        t->in[i] = request(t, ids[i], LARDER_TAG_FETCH);
    must(larder__cache_claim(t->cache, t->in, more, t->tickets) == 0);
    settle_all(t, more, false);
    atomic_fetch_add(&t->to->served, n);
    t->drawn += n;
    if (t->drawn < t->s.n)
        return false;
    for (uint64_t id = 0; id < t->s.n; id++)
        must(t->times[id] == 1);
    t->drawn = 0;
    t->epoch++;
    atomic_fetch_add(&t->to->epochs, 1);
    atomic_store(&t->to->used, t->had_count);
    return true;
}

/* ---- processes ------------------------------------------------------------------------------- */

static char folder[32], path[64];

static void begin_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/larder-jobs-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
}

static void end_folder(void) {
    char lock[80];
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(path);
    unlink(lock);
    rmdir(folder);
}

static pid_t start_with(void (*first)(void *)) {
    larder__server_conf conf = {.socket = path, .mode = 0600, .cache = 8 << 20, .clients = 64};
    return kit_daemon_start(&conf, first, NULL);
}

static pid_t start_daemon(void) { return start_with(NULL); }

/* One that nobody takes for gone, however long a busy machine keeps it from answering. */
static pid_t start_patiently(void) {
    kit_clock_stop(NULL);
    return start_with(kit_clock_stop);
}

static void end_process(pid_t pid, bool killed) {
    int status;
    if (killed)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (killed)
        assert_true(WIFSIGNALED(status));
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void end_patiently(pid_t daemon) {
    end_process(daemon, true);
    kit_clock_go_on();
}

enum { SLOTS = 8 };
typedef struct board { /* shared by all processes */
    _Atomic bool leave[SLOTS];
    progress of[SLOTS];
} board;

static pid_t start_job(board *b, size_t slot, const setup *s, uint32_t pace_us) {
    atomic_store(&b->leave[slot], false);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        task *t = malloc(sizeof *t);
        must(t);
        task_open(t, s, &b->of[slot]);
        while (!atomic_load(&b->leave[slot]) || t->drawn > 0) {
            task_step(t);
            if (pace_us)
                nanosleep(&(struct timespec){.tv_nsec = (long)pace_us * 1000}, NULL);
        }
        task_close(t);
        free(t);
        _exit(0);
    }
    return pid;
}

/* What all jobs did so far. */
static progress sum_up(const board *b) {
    progress sum = {0};
    for (size_t i = 0; i < SLOTS; i++) {
        sum.epochs += b->of[i].epochs;
        sum.hits += b->of[i].hits;
        sum.served += b->of[i].served;
        sum.used += b->of[i].used;
    }
    return sum;
}

/* Whether it has been of use: some got through whole epochs, with values of others. */
static bool was_of_use(const board *b, const setup *s) {
    progress sum = sum_up(b);
    return sum.epochs > 20 && sum.hits > 0 && (s->share[LARDER_AUGMENTED] == 0 || sum.used > 0);
}

static void run_chaos(const char *name, const setup *base, uint64_t seed) {
    larder_rng rng;
    pid_t jobs[SLOTS] = {0}, daemon;
    uint64_t kills = 0, joins = 0, leaves = 0, daemons = 0;
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    larder_rng_seed(&rng, seed, 0);
    begin_folder();
    daemon = start_daemon();
    /* By turns, not seconds: a busy machine does no less. */
    uint64_t turns = getenv("LARDER_LONG") ? 600 : 60;
    for (uint64_t turn = 1; turn <= turns || !kills || !leaves || !was_of_use(b, base); turn++) {
        size_t i = larder_rng_below(&rng, SLOTS);
        if (!jobs[i]) {
            setup s = *base;
            s.socket = path;
            s.batch = 5 + larder_rng_below(&rng, 40);
            s.seed = larder_rng_next(&rng);
            jobs[i] = start_job(b, i, &s, larder_rng_below(&rng, 3) * 500);
            joins++;
        } else if (larder_rng_below(&rng, 2)) {
            end_process(jobs[i], true);
            jobs[i] = 0;
            kills++;
        } else {
            atomic_store(&b->leave[i], true);
            end_process(jobs[i], false);
            jobs[i] = 0;
            leaves++;
        }
        if (turn % (turns / 3) == 0) {
            end_process(daemon, true);
            daemon = start_daemon();
            daemons++;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)larder_rng_below(&rng, 60) * 1000000}, NULL);
    }
    for (size_t i = 0; i < SLOTS; i++)
        atomic_store(&b->leave[i], true);
    for (size_t i = 0; i < SLOTS; i++)
        if (jobs[i])
            end_process(jobs[i], false);
    end_process(daemon, true);
    progress sum = sum_up(b);
    printf("%s: %llu whole epochs, %.0f %% hits, %llu joins, %llu leaves, %llu kills of jobs, %llu "
           "of the "
           "daemon\n",
           name, (unsigned long long)sum.epochs, 100.0 * (double)sum.hits / (double)sum.served,
           (unsigned long long)joins, (unsigned long long)leaves, (unsigned long long)kills,
           (unsigned long long)daemons);
    assert_true(was_of_use(b, base));
    munmap(b, sizeof *b);
    end_folder();
}

static void test_chaos_encoded(void **st) {
    (void)st;
    run_chaos("encoded", &(setup){.n = 400, .share = {1}, .budget = "20%"}, 1);
}

static void test_chaos_forms(void **st) {
    (void)st;
    run_chaos("in three forms", &(setup){.n = 400, .share = {0.2, 0.4, 0.4}, .budget = "40%"}, 2);
}

/* ---- what is read ---------------------------------------------------------------------------- */

/* Jobs in step, in one process, each with its own connection: reads a sample after the first epoch.
 */
static double reads_in_step(size_t jobs, const double share[LARDER_FORMS], const char *budget) {
    enum { N = 1000, EPOCHS = 4 };
    progress to = {0};
    task *t = calloc(jobs, sizeof *t);
    assert_non_null(t);
    begin_folder();
    pid_t daemon = start_patiently();
    setup s = {.socket = path, .n = N, .even = true, .budget = budget, .batch = 20};
    memcpy(s.share, share, sizeof s.share);
    for (size_t j = 0; j < jobs; j++) {
        s.seed = 100 + j;
        task_open(&t[j], &s, &to);
    }
    for (int e = 0; e < EPOCHS; e++) {
        for (size_t step = 0; step < N / 20; step++)
            for (size_t j = 0; j < jobs; j++)
                task_step(&t[j]);
        if (e == 0)
            to = (progress){0};
    }
    double reads = (double)to.reads / (double)to.served;
    for (size_t j = 0; j < jobs; j++)
        task_close(&t[j]);
    free(t);
    end_patiently(daemon);
    end_folder();
    return reads;
}

static void test_reads_in_step(void **st) {
    (void)st;
    static const double encoded[LARDER_FORMS] = {1, 0, 0}, decoded[LARDER_FORMS] = {0, 1, 0},
                        augmented[LARDER_FORMS] = {0, 0, 1};
    static const double *const shares[] = {encoded, decoded, augmented};
    static const char *const names[] = {"encoded", "decoded", "augmented"};
    static const int caches[] = {20, 40, 60};
    for (size_t f = 0; f < 3; f++)
        for (size_t jobs = 1; jobs <= 4; jobs++)
            for (size_t c = 0; c < 3; c++) {
                char budget[16];
                snprintf(budget, sizeof budget, "%d%%", caches[c]);
                double bound = (f == 2 ? 1 : 1 - caches[c] / 100.0) / (double)jobs;
                double reads = reads_in_step(jobs, shares[f], budget);
                printf("%s, %zu jobs, %s: %.4f reads a sample, bound %.4f\n", names[f], jobs,
                       budget, reads, bound);
                assert_true(reads <= 1.1 * bound && reads >= 0.97 * bound);
            }
}

/* Jobs that start somewhere in the first one's first epoch, with batches of their own: reads a
 * sample once all are there, over three epochs of the first. */
static double reads_anyhow(size_t jobs, const double share[LARDER_FORMS], const char *budget,
                           uint64_t seed) {
    enum { N = 1000 };
    progress to = {0};
    uint64_t starts[4] = {0};
    larder_rng rng;
    task *t = calloc(jobs, sizeof *t);
    assert_non_null(t);
    begin_folder();
    pid_t daemon = start_patiently();
    larder_rng_seed(&rng, seed, 0);
    setup s = {.socket = path, .n = N, .even = true, .budget = budget};
    memcpy(s.share, share, sizeof s.share);
    for (size_t j = 1; j < jobs; j++)
        starts[j] = larder_rng_below(&rng, N);
    bool open[4] = {false};
    while (!open[0] || t[0].epoch < 4) {
        /* Whoever has been served least, of those that have started, is next: all go at one pace.
         */
        size_t next = 0;
        uint64_t clock = open[0] ? t[0].epoch * N + t[0].drawn : 0;
        for (size_t j = 0; j < jobs; j++) {
            if (!open[j] && clock >= starts[j]) {
                s.seed = seed * 10 + j;
                s.batch = 10 + larder_rng_below(&rng, 30);
                task_open(&t[j], &s, &to);
                open[j] = true;
            }
            if (open[j] && starts[j] + t[j].epoch * N + t[j].drawn <
                               starts[next] + t[next].epoch * N + t[next].drawn)
                next = j;
        }
        bool ended = task_step(&t[next]);
        if (ended && next == 0 && t[0].epoch == 1)
            to = (progress){0};
    }
    double reads = (double)to.reads / (double)to.served;
    for (size_t j = 0; j < jobs; j++)
        if (open[j])
            task_close(&t[j]);
    free(t);
    end_patiently(daemon);
    end_folder();
    return reads;
}

static void test_reads_anyhow(void **st) {
    (void)st;
    enum { RUNS = 3 };
    static const double encoded[LARDER_FORMS] = {1}, augmented[LARDER_FORMS] = {0, 0, 1};
    for (int f = 0; f < 2; f++)
        for (size_t jobs = 2; jobs <= 4; jobs++)
            for (int cache = 20; cache <= 60; cache += 20) {
                char budget[16];
                double sum = 0, bound = (f ? 1 : 1 - cache / 100.0) / (double)jobs;
                snprintf(budget, sizeof budget, "%d%%", cache);
                for (uint64_t run = 0; run < RUNS; run++)
                    sum += reads_anyhow(jobs, f ? augmented : encoded, budget, run);
                printf(
                    "%s, %zu jobs at random times, %s: %.4f reads a sample, %+.1f %% of the bound "
                    "in step\n",
                    f ? "augmented" : "encoded", jobs, budget, sum / RUNS,
                    100 * (sum / RUNS / bound - 1));
                assert_true(sum / RUNS <= 1.3 * bound && sum / RUNS >= 0.97 * bound);
            }
}

/* Where each id comes in its epoch, over independent runs of two jobs through a daemon: a
 * chi-square statistic, in standard deviations from what chance gives. */
static void test_order(void **st) {
    (void)st;
    enum { N = 60, PARTS = 6, RUNS = 120 };
    static uint32_t place[N][PARTS];
    double chi = 0, expected = (double)RUNS / PARTS, freedom = (N - 1) * (PARTS - 1);
    memset(place, 0, sizeof place);
    begin_folder();
    for (uint64_t run = 0; run < RUNS; run++) {
        progress to = {0};
        static task t[2];
        pid_t daemon = start_patiently();
        setup s = {.socket = path, .n = N, .even = true, .share = {1}, .budget = "30%", .batch = 6};
        for (size_t j = 0; j < 2; j++) {
            s.seed = run * 2 + j;
            task_open(&t[j], &s, &to);
        }
        while (t[0].epoch < 3) {
            for (size_t j = 0; j < 2; j++) {
                uint64_t at = t[j].drawn;
                bool third = j == 0 && t[0].epoch == 2;
                task_step(&t[j]);
                for (size_t i = 0; third && i < 6; i++)
                    place[t[0].picks[i].id][(at + i) * PARTS / N]++;
            }
        }
        for (size_t j = 0; j < 2; j++)
            task_close(&t[j]);
        end_patiently(daemon);
    }
    end_folder();
    for (size_t id = 0; id < N; id++)
        for (size_t p = 0; p < PARTS; p++)
            chi += (place[id][p] - expected) * (place[id][p] - expected) / expected;
    double strange = (chi - freedom) / sqrt(2 * freedom);
    printf("order through a daemon: %+.2f standard deviations\n", strange);
    assert_true(strange < 4);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* nothing is left to be printed by those that are forked */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_in_step), cmocka_unit_test(test_reads_anyhow),
        cmocka_unit_test(test_order),         cmocka_unit_test(test_chaos_encoded),
        cmocka_unit_test(test_chaos_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
