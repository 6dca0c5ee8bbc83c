/* Where the time goes, in experiments where that is known: throttled storage, storage that answers
 * late, one thread with pictures to decode, heavy augmenting, a slow trainer. The clock is made, so
 * that what else the machine does changes nothing: it goes on by what storage and training are said
 * to take, and by what this process computes where that is the experiment. */
#include "loader_kit.h"
#include "pictures.h"

#include "loader/figures/stall.h"
#include "loader/inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ------------------------------------------------------------------------------- */

enum { SLEEPERS = 1024 };
static const uint64_t SECOND = 1000000000, MILLISECOND = 1000000;

static struct {
    pthread_mutex_t lock; /* taken after the loader's */
    uint64_t passed;      /* ns: what storage and training took */
    bool computing;       /* what this process computes takes time too */
    uint64_t until[SLEEPERS];
    size_t asleep;
    larder_loader *loader; /* whose storage they sleep for */
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The linker's names for the call as it was, and as it is here. */
int __real_clock_gettime(clockid_t, struct timespec *);
int __wrap_clock_gettime(clockid_t, struct timespec *);
int __wrap_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static uint64_t made_passed(void) {
    pthread_mutex_lock(&made.lock);
    uint64_t passed = made.passed;
    pthread_mutex_unlock(&made.lock);
    return passed;
}

static void made_pass(uint64_t ns) {
    pthread_mutex_lock(&made.lock);
    made.passed += ns;
    pthread_mutex_unlock(&made.lock);
}

/* Processor time is nothing where computing takes none. */
int __wrap_clock_gettime(clockid_t id, struct timespec *out) {
    *out = (struct timespec){0};
    if (made.computing &&
        __real_clock_gettime(id == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : id, out) < 0)
        return -1;
    if (id == CLOCK_MONOTONIC) {
        uint64_t ns = made_passed() + SECOND + (uint64_t)out->tv_nsec;
        out->tv_sec += (time_t)(ns / SECOND);
        out->tv_nsec = (long)(ns % SECOND);
    }
    return 0;
}

/* Is there anything that a thread without work would do? With the lock held. */
static bool work_left(larder_loader *l) {
    bool drawing = l->idle && larder__drawing_due(l);
    return drawing || ((l->idle || l->readers.started) && larder__unread_find(l));
}

/* Training waits for storage, and so does everybody who has something to do. */
static bool all_wait(larder_loader *l) {
    const larder__place *p = &l->ring[l->taken % l->conf.ahead];
    const larder__readers *r = &l->readers;
    return l->stall.waiting && l->taken < l->planned && p->phase == LARDER__WORKING &&
           (p->next_row < p->rows || p->reading > 0) && !work_left(l) &&
           r->under_way == made.asleep &&
           l->idle + r->idle + made.asleep == l->conf.threads + r->started;
}

static uint64_t first_to_wake(void) {
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < made.asleep; i++)
        first = made.until[i] < first ? made.until[i] : first;
    return first;
}

/* Time goes on to when the first of the sleepers is to wake; it sees to that itself. True: it may.
 */
static bool wakes(uint64_t until) {
    larder_loader *l = made.loader;
    pthread_mutex_lock(&made.lock);
    bool over = made.passed >= until, first = first_to_wake() == until;
    pthread_mutex_unlock(&made.lock);
    if (over || !first)
        return over;
    pthread_mutex_lock(&l->lock);
    pthread_mutex_lock(&made.lock);
    if (made.passed < until && first_to_wake() == until && all_wait(l))
        made.passed = until;
    over = made.passed >= until;
    pthread_mutex_unlock(&made.lock);
    pthread_mutex_unlock(&l->lock);
    return over;
}

/* Storage that takes its time: nothing else of this program waits with a limit. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    (void)c;
    /* A little later, as the caller's seconds have more digits than this. */
    uint64_t until = (uint64_t)(t->tv_sec - 1) * SECOND + (uint64_t)t->tv_nsec + 1000;
    pthread_mutex_unlock(m);
    pthread_mutex_lock(&made.lock);
    assert_true(made.asleep < SLEEPERS);
    made.until[made.asleep++] = until;
    pthread_mutex_unlock(&made.lock);
    while (!wakes(until))
        usleep(500);
    pthread_mutex_lock(&made.lock);
    size_t i = 0;
    while (made.until[i] != until)
        i++;
    made.until[i] = made.until[--made.asleep];
    pthread_mutex_unlock(&made.lock);
    pthread_mutex_lock(m);
    return ETIMEDOUT;
}

/* ---- experiments ----------------------------------------------------------------------------- */

static larder__times run(const larder_loader_conf *c, uint64_t step_ns) {
    larder_loader *l = NULL;
    const larder_batch *b;
    larder__times t;
    double stall = 0, sum = 0;
    int rc;
    check_ok(larder_loader_open(&l, c));
    made.loader = l;
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END)
        if (rc == 0) {
            made_pass(step_ns);
            check_ok(larder_loader_done(l, b));
        }
    check_ok(rc);
    check_ok(larder__loader_times(l, &t));
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "stall_seconds") == 0)
            stall = v.value * (double)v.count;
    for (int k = LARDER__TIME_STORAGE; k < LARDER__TIMES; k++) {
        assert_true(t.seconds[k] >= 0);
        sum += t.seconds[k];
    }
    assert_true(sum >=
                stall * 0.999 - 1e-4); /* every wait is somebody's, and handing out besides */
    larder_loader_close(&l);
    return t;
}

static void check_says(const larder__times *t, int part, const char *advice) {
    if (t->bottleneck != part || !strstr(t->says, advice) ||
        strncmp(t->says, larder__time_name(part), strlen(larder__time_name(part))) != 0)
        fail_msg("expected %s and \"%s\": %s (%g %g %g %g %g %g)", larder__time_name(part), advice,
                 t->says, t->seconds[0], t->seconds[1], t->seconds[2], t->seconds[3], t->seconds[4],
                 t->seconds[5]);
}

/* 320 samples of 3 KB at 200 KB/s: five seconds. */
static void test_throttled_storage(void **state) {
    (void)state;
    larder_loader_conf c =
        kit_conf("slow:bandwidth=200kB,burst=0:mem:?n=320&h=32&w=32&c=3", "minio");
    c.epochs = 1;
    c.augment = "crop:size=8";
    larder__times t = run(&c, 0);
    check_says(&t, LARDER__TIME_STORAGE,
               "larger cache (--cache, now 20%, 0 % hits) or a recipe that reads less");
}

/* One batch at a time, so that its reads begin with 1, 2, .. 16 samples under way, whoever is
 * first: with more, a read can begin before or after others of the same moment have ended, and no
 * line can be drawn through reads that all began with as many. */
static void test_late_storage(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("slow:latency=150ms:mem:?n=320&h=8&w=8&c=3", "minio");
    c.epochs = 1;
    c.prefetch = c.ahead = 1;
    larder__times t = run(&c, 0);
    check_says(&t, LARDER__TIME_STORAGE, "answers come late: more batches ahead (--ahead, now 1)");
}

static void test_slow_trainer(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("mem:?n=320&h=8&w=8&c=3", "minio");
    c.epochs = 1;
    larder__times t = run(&c, 50 * MILLISECOND);
    check_says(&t, LARDER__TIME_TRAINING, "100 % of the time was the training step itself");
    /* What comes after the last batch of an epoch is no training step. */
    assert_true(fabs(t.seconds[LARDER__TIME_TRAINING] - 19 * 0.05) < 1e-6);
}

/* The first of four batches is waited for whenever this thread gets its turn: enough to be told. */
static larder__times run_computing(const larder_loader_conf *c) {
    made.computing = true;
    larder__times t = run(c, 0);
    made.computing = false;
    return t;
}

/* Raw pixels need no decoding; a large crop of them costs. */
static void test_heavy_augment(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("mem:?n=16&h=64&w=64&c=3", "minio");
    c.epochs = 1;
    c.threads = 1;
    c.batch = 4;
    c.dtype = LARDER_F32;
    c.augment = "rrc:size=448|flip";
    larder__times t = run_computing(&c);
    check_says(&t, LARDER__TIME_AUGMENT, "would help");
    assert_true(t.seconds[LARDER__TIME_DECODE] < t.seconds[LARDER__TIME_AUGMENT] / 4);
}

static void test_one_decoder(void **state) {
    (void)state;
    char folder[256], path[512], source[512];
    size_t size;
    unsigned char *jpeg = check_jpeg(
        &(check_jpeg_conf){.w = 1024, .h = 1024, .channels = 3, .h_samp = 1, .v_samp = 1}, &size);
    if (!jpeg)
        skip();
    check_folder(folder);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%c", folder, i % 2 ? 'a' : 'b');
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/%c/%d.jpg", folder, i % 2 ? 'a' : 'b', i);
        check_write(path, jpeg, size);
    }
    free(jpeg);
    snprintf(source, sizeof source, "dir:%s", folder);
    larder_loader_conf c = kit_conf(source, "minio");
    c.epochs = 1;
    c.threads = 1;
    c.batch = 2;
    c.augment = "centercrop:size=64"; /* half of the picture has to be decoded for it */
    larder__times t = run_computing(&c);
    check_folder_remove(folder);
    check_says(&t, LARDER__TIME_DECODE, "would help");
}

/* ---- the sentence alone ---------------------------------------------------------------------- */

static void test_verdicts(void **state) {
    (void)state;
    const larder__verdict_case about = {
        .threads = 2, .cores = 8, .ahead = 4, .cache = "20%", .hit_share = 0.2, .told = true};
    larder__times t = {.seconds = {0}};
    larder__verdict(&t, &about);
    assert_string_equal(t.says, "nothing is known yet: no batch has been taken");
    t = (larder__times){.seconds = {29, 71, 0, 0, 0, 0}};
    larder__verdict(&t, &about);
    assert_string_equal(t.says,
                        "storage: 71 % of the time training waited for reads; a larger cache "
                        "(--cache, now 20%, 20 % hits) or a recipe that reads less would help");
    larder__verdict_case late = about;
    late.late = true;
    larder__verdict(&t, &late);
    check_says(&t, LARDER__TIME_STORAGE, "--ahead, now 4");
    late.told = false;
    larder__verdict(&t, &late);
    check_says(&t, LARDER__TIME_STORAGE, "(--cache, now 20%, 20 % hits) or more batches ahead");
    late.late = false, late.shared = true;
    larder__verdict(&t, &late);
    check_says(&t, LARDER__TIME_STORAGE, "daemon");
    t = (larder__times){.seconds = {50, 0, 50, 10, 1, 1}};
    larder__verdict(&t, &about);
    check_says(&t, LARDER__TIME_DECODE, "more loader threads (--threads, now 2 of 8 cores)");
    larder__verdict_case full = about;
    full.threads = 8, full.encoded_kept = true;
    larder__verdict(&t, &full);
    check_says(&t, LARDER__TIME_DECODE, "--cache 20%:0/100/0");
    full.gpu_could = true;
    larder__verdict(&t, &full);
    check_says(&t, LARDER__TIME_DECODE, "leaving some of it to the GPU (decode=auto) would help");
    full.gpu_could = false, full.gpu_on = true, full.gpu_share = 0.42;
    larder__verdict(&t, &full);
    check_says(&t, LARDER__TIME_DECODE, "would help; the GPU decodes 42 % of the samples");
    t = (larder__times){.seconds = {50, 0, 0, 0, 30, 1}};
    larder__verdict(&t, &about);
    check_says(&t, LARDER__TIME_CACHE, "larger batches");
    larder__verdict_case scored = about;
    scored.scoring = true;
    larder__verdict(&t, &scored);
    check_says(&t, LARDER__TIME_CACHE, "scoring=beside");
    t = (larder__times){.seconds = {50, 0, 0, 0, 0, 30}};
    larder__verdict(&t, &about);
    check_says(&t, LARDER__TIME_ASSEMBLY, "u8 instead of f32");
    t = (larder__times){.seconds = {91, 9, 0, 0, 0, 0}};
    larder__verdict(&t, &about);
    check_says(&t, LARDER__TIME_TRAINING, "91 %");
    assert_string_equal(larder__time_name(-1), "?");
    assert_string_equal(larder__time_name(LARDER__TIMES), "?");
}

/* ---- seats ----------------------------------------------------------------------------------- */

static void test_seats(void **state) {
    (void)state;
    larder__seat seat = {0};
    assert_int_equal(larder__seat_turn(LARDER__AT_READ), LARDER__AT_NOTHING); /* no seat: nothing */
    larder__seat_take(&seat);
    assert_int_equal(larder__seat_turn(LARDER__AT_PREPARE), LARDER__AT_NOTHING);
    larder__seat_share(0.25);
    made_pass(2 * MILLISECOND);
    assert_int_equal(larder__seat_turn(LARDER__AT_READ), LARDER__AT_PREPARE);
    assert_int_equal(seat.spent[LARDER__AT_PREPARE], 2 * MILLISECOND);
    assert_int_equal(seat.decoding, MILLISECOND / 2);
    assert_int_equal(seat.spent[LARDER__AT_READ], 0);
    larder__seat_share(7); /* clamped */
    assert_int_equal(seat.decode_share, 65536);
    larder__seat_turn(LARDER__AT_NOTHING);
    larder__seat_take(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_throttled_storage),
        cmocka_unit_test(test_late_storage),
        cmocka_unit_test(test_slow_trainer),
        cmocka_unit_test(test_heavy_augment),
        cmocka_unit_test(test_one_decoder),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_seats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
