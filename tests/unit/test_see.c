/* Jobs that can be seen: the lines they are told in, who may ask, and that nothing stays behind. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "see/discover.h"
#include "see/expose.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- lines ----------------------------------------------------------------------------------- */

static larder__job *sample_job(void) {
    larder__job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->pid = 4711, j->number = 2, j->epoch = 3, j->uptime = 1.5;
    larder__job_say(j->kind, "loader");
    larder__job_say(j->source, "dir:<script>alert(1)</script>\"\\\n\033[31m\xff");
    memset(j->map_encoded, '5', LARDER__JOB_CELLS);
    larder__job_show(
        j, &(larder_stat_value){
               .name = "samples", .unit = "samples", .help = "handed", .type = 'c', .value = 12});
    larder__job_show(j, &(larder_stat_value){.name = "wait",
                                             .unit = "seconds",
                                             .help = "",
                                             .type = 'h',
                                             .value = 0.25,
                                             .count = 7,
                                             .sd = 1,
                                             .p50 = 2,
                                             .p90 = 3,
                                             .p99 = 4,
                                             .max = 5});
    j->past_count = 2;
    j->past[0] = (larder__job_epoch){
        .epoch = 1, .served = 10, .loss = NAN, .accuracy = 0.5, .score_low = NAN};
    j->past[1] = (larder__job_epoch){
        .epoch = 2, .hits = 3, .score_low = -1, .score_high = 2, .scores = {1000, 7}};
    j->bad_count = 1;
    j->bad[0].id = 9;
    snprintf(j->bad[0].why, sizeof j->bad[0].why, "sample 9: broken");
    return j;
}

static char *lines_of(const larder__job *job, size_t times, size_t *size) {
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    larder__jobs_head(f, times);
    for (size_t i = 0; i < times; i++)
        larder__job_write(f, job);
    larder__jobs_tail(f);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void test_there_and_back(void **state) {
    (void)state;
    size_t size;
    larder__job *j = sample_job();
    char *text = lines_of(j, 2, &size);
    larder__jobs jobs = {0};
    check_ok(larder__jobs_read(&jobs, text, size, 10));
    assert_int_equal(jobs.count, 2);
    const larder__job *r = &jobs.at[1];
    assert_int_equal(r->pid, 4711);
    assert_int_equal(r->stat_count, 2);
    assert_true(larder__job_value(r, "samples") == 12 && isnan(larder__job_value(r, "none")));
    assert_true(r->stats[1].type == 'h' && r->stats[1].count == 7 && r->stats[1].p99 == 4);
    assert_int_equal(r->past_count, 2);
    assert_true(isnan(r->past[0].loss) && isnan(r->past[0].score_low));
    assert_true(r->past[1].scores[0] == 1000 && r->past[1].scores[1] == 7);
    assert_string_equal(r->map_encoded, j->map_encoded);
    assert_string_equal(r->bad[0].why, "sample 9: broken");
    assert_memory_equal(r->source, j->source,
                        strlen(j->source) - 1); /* the last byte is no UTF-8 */
    larder__jobs_free(&jobs);
    free(text);
    free(j);
}

/* Every cut and every changed byte: refused or read, never more than that. */
static void test_damage(void **state) {
    (void)state;
    size_t size;
    larder__job *j = sample_job();
    char *text = lines_of(j, 1, &size), *copy = malloc(size + 1);
    larder__jobs jobs = {0};
    for (size_t n = 0; n < size; n++) {
        memcpy(copy, text, n);
        copy[n] = 0;
        assert_true(larder__jobs_read(&jobs, copy, n, 10) < 0);
        assert_int_equal(jobs.count, 0);
    }
    for (size_t n = 0; n < size; n++) {
        memcpy(copy, text, size + 1);
        copy[n] = (char)(copy[n] ^ (1 << (n % 8)));
        larder__jobs_read(&jobs, copy, size, 10);
        assert_true(jobs.count <= 1);
        larder__jobs_clear(&jobs);
    }
    memcpy(copy, text, size + 1);
    assert_int_equal(larder__jobs_read(&jobs, copy, size, 0), LARDER_E_RANGE);
    larder__jobs_free(&jobs);
    free(copy);
    free(text);
    free(j);
}

static void refuse(const char *lines) {
    char text[1024];
    larder__jobs jobs = {0};
    snprintf(text, sizeof text, "%s", lines);
    assert_int_equal(larder__jobs_read(&jobs, text, strlen(text), 10), LARDER_E_FORMAT);
    larder__jobs_free(&jobs);
}

#define HEAD "{\"line\": \"larder\", \"version\": 1, \"jobs\": 1}\n"
#define JOB "{\"line\": \"job\", \"pid\": 1}\n"
#define END "{\"line\": \"end\"}\n"
static void test_refused(void **state) {
    (void)state;
    refuse("");
    refuse("hello\n");
    refuse("{\"line\": \"larder\", \"version\": 2, \"jobs\": 0}\n" END);
    refuse(HEAD END);
    refuse(HEAD JOB JOB END);
    refuse(HEAD "{\"line\": \"stat\", \"name\": \"a\"}\n" JOB END);
    refuse(HEAD JOB "{\"line\": \"stat\", \"type\": \"c\", \"name\": \"Bad name\"}\n" END);
    refuse(HEAD JOB "{\"line\": \"stat\", \"type\": \"x\", \"name\": \"a\"}\n" END);
    refuse(HEAD JOB "{\"line\": \"epoch\", \"scores\": \"1,2\"}\n" END);
    refuse(HEAD "{\"line\": \"job\", \"pid\": \"1\"}\n" END);
    refuse(HEAD "{\"line\": \"job\", \"map_encoded\": \"12\"}\n" END);
    refuse(HEAD "{}\n" END);
}

/* ---- seeing ---------------------------------------------------------------------------------- */

static size_t seen(pid_t pid, larder__jobs *jobs) {
    size_t n = 0;
    check_ok(larder__discover(jobs, 5));
    for (size_t i = 0; i < jobs->count; i++)
        n += jobs->at[i].pid == (uint64_t)pid;
    return n;
}

/* A busy machine may be too late for once. */
static void await_seen(pid_t pid, size_t n, larder__jobs *jobs) {
    size_t found;
    while ((found = seen(pid, jobs)) < n)
        continue;
    assert_int_equal(found, n);
}

static const larder__job *of(pid_t pid, const larder__jobs *jobs) {
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->at[i].pid == (uint64_t)pid)
            return &jobs->at[i];
    fail_msg("it is not seen");
    return NULL;
}

static void test_loaders(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    larder_loader *a = NULL, *b = NULL;
    uint64_t digests[64];
    larder_loader_conf c = kit_conf("mem:?n=100&h=8&w=8&c=3&bad=3", "rotate:h=0");
    c.on_bad = LARDER_BAD_SKIP;
    c.epochs = 3;
    assert_int_equal(seen(getpid(), &jobs), 0);
    check_ok(larder_loader_open(&a, &c));
    check_ok(larder_loader_open(&b, &c));
    await_seen(getpid(), 2, &jobs);
    assert_string_equal(of(getpid(), &jobs)->state, "waiting");
    kit_run(a, digests, 16); /* two epochs and some */
    check_ok(larder_loader_validate(a, 0.75));
    usleep((unsigned)(LARDER__SEE_FRESH * 1.5e6));
    await_seen(getpid(), 2, &jobs);
    const larder__job *j = of(getpid(), &jobs);
    assert_string_equal(j->state, "running");
    assert_string_equal(j->recipe, "rotate:h=0"); /* by measuring, load would decide */
    assert_string_equal(j->shown, "h");
    assert_true(larder__job_value(j, "samples") > 100 && larder__job_value(j, "demand_bytes") > 0);
    assert_true(j->past_count >= 2 && j->past[0].served == 99 && j->past[0].loss > 0);
    assert_true(j->past[j->past_count - 1].accuracy == 0.75);
    assert_true(j->bad_count >= 1 && j->bad[0].id == 3);
    assert_int_equal(strlen(j->map_encoded), LARDER__JOB_CELLS);
    assert_true(strspn(j->map_encoded, "0") < LARDER__JOB_CELLS);
    larder_loader_close(&a);
    await_seen(getpid(), 1, &jobs);
    larder_loader_close(&b);
    assert_int_equal(seen(getpid(), &jobs), 0);
    larder__jobs_free(&jobs);
}

static void test_switched_off(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    larder_loader *l = NULL;
    larder_loader_conf c = kit_conf("mem:?n=100&h=8&w=8&c=3", "lru");
    setenv("LARDER_SEE", "0", 1);
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(seen(getpid(), &jobs), 0);
    larder_loader_close(&l);
    unsetenv("LARDER_SEE");
    larder__jobs_free(&jobs);
}

/* A child with a loader of its own, at work until it is killed. */
static pid_t child_at_work(bool forks) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        larder_loader *l = NULL;
        larder_loader_conf c = kit_conf("mem:?n=100&h=8&w=8&c=3", "lru");
        if (larder_loader_open(&l, &c) < 0)
            _exit(1);
        if (forks && fork() == 0) { /* outlives its parent, and must not answer for it */
            close(ready[0]);
            close(ready[1]);
            sleep(10);
            _exit(0);
        }
        byte = 1;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (const larder_batch *b; larder_loader_next(l, &b) >= 0;)
            if (b)
                larder_loader_done(l, b);
        _exit(1);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void test_killed(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    pid_t one = child_at_work(false), two = child_at_work(true);
    await_seen(one, 1, &jobs);
    await_seen(two, 1, &jobs);
    kill(one, SIGKILL);
    kill(two, SIGKILL);
    assert_int_equal(waitpid(one, NULL, 0), one);
    assert_int_equal(waitpid(two, NULL, 0), two);
    assert_int_equal(seen(one, &jobs), 0);
    assert_int_equal(seen(two, &jobs), 0);
    larder__jobs_free(&jobs);
}

/* A job that is stopped does not keep those who look from seeing others. */
static void test_stopped(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    pid_t one = child_at_work(false), two = child_at_work(false);
    kill(one, SIGSTOP);
    assert_int_equal(waitpid(one, NULL, WUNTRACED), one); /* all its threads stand still */
    size_t n = 0;
    while (n == 0) { /* on a busy machine another may be too late as well, for once */
        check_ok(larder__discover(&jobs, 2));
        for (size_t i = 0; i < jobs.count; i++) {
            assert_true(jobs.at[i].pid != (uint64_t)one);
            n += jobs.at[i].pid == (uint64_t)two;
        }
    }
    assert_int_equal(n, 1);
    kill(one, SIGKILL);
    kill(two, SIGKILL);
    waitpid(one, NULL, 0);
    waitpid(two, NULL, 0);
    larder__jobs_free(&jobs);
}

static int bind_name(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    assert_true(n < sizeof a.sun_path);
    memcpy(a.sun_path + 1, name, n);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
    return fd;
}

static int bind_number(int k) { /* of this process's names */
    char name[100];
    snprintf(name, sizeof name, LARDER__SEE_NAME "%ld.%ld.%d", (long)geteuid(), (long)getpid(), k);
    return bind_name(name);
}

static int take_name(int k) {
    int fd = bind_number(k);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void look(void *arg, larder__job *out) { (void)arg, (void)out; }

/* Another copy of the library in this process numbers its jobs too: numbers tell them apart. */
static void test_two_copies(void **state) {
    (void)state;
    larder__exposed one, two;
    check_ok(larder__expose(&one, look, NULL));
    uint64_t before = one.number;
    larder__expose_end(&one);
    int other = take_name(0);
    check_ok(larder__expose(&two, look, NULL));
    assert_true(before < 1000000 && two.number > 1000000);
    larder__expose_end(&two);
    close(other);
}

/* Whoever has taken the names that a job would begin with has not hidden it. */
static void test_names_taken(void **state) {
    enum { FIRST = 16 };
    (void)state;
    larder__jobs jobs = {0};
    larder__exposed one;
    int taken[FIRST];
    for (int k = 0; k < FIRST; k++)
        taken[k] = bind_number(k);
    check_ok(larder__expose(&one, look, NULL));
    assert_true(one.number > FIRST * 1000000ull);
    await_seen(getpid(), 1, &jobs);
    assert_int_equal(of(getpid(), &jobs)->number, one.number);
    larder__expose_end(&one);
    for (int k = 0; k < FIRST; k++)
        close(taken[k]);
    larder__jobs_free(&jobs);
}

static int always_a_million(void *out, size_t bytes) {
    const uint32_t number = 1000000;
    assert_int_equal(bytes, sizeof number);
    memcpy(out, &number, sizeof number);
    return 0;
}

static int none(void *out, size_t bytes) {
    (void)out, (void)bytes;
    return larder__fail(LARDER_E_IO, "no chance");
}

/* A job that cannot be seen says so, and runs. */
static void test_unseen(void **state) {
    enum { FIRST = 16 };
    static int (*const chances[])(void *, size_t) = {always_a_million, none};
    (void)state;
    int taken[FIRST + 1];
    uint64_t digests[16];
    larder_loader_conf c = kit_conf("mem:?n=100&h=8&w=8&c=3", "lru");
    for (int k = 0; k < FIRST; k++)
        taken[k] = bind_number(k);
    taken[FIRST] = bind_number(1000000);
    for (size_t i = 0; i < 2; i++) {
        larder_loader *l = NULL;
        const larder__world *before = larder__world_use(NULL);
        larder__world world = *before;
        world.chance = chances[i];
        larder__world_use(&world);
        int rc = larder_loader_open(&l, &c);
        larder__world_use(before);
        check_ok(rc);
        assert_string_equal(look_note(l, 0), "larder top and dash do not show this job: "
                                             "somebody has taken its names");
        assert_int_equal(kit_run(l, digests, 1), 1);
        larder_loader_close(&l);
    }
    for (int k = 0; k <= FIRST; k++)
        close(taken[k]);
}

/* One that was told of twice stands there once. */
static void test_order(void **state) {
    (void)state;
    static const struct {
        uint64_t pid, number;
    } told[] = {{7, 2}, {5, 1}, {7, 1}, {7, 2}, {5, 1}, {7, 2}, {6, 9}},
      want[] = {{5, 1}, {6, 9}, {7, 1}, {7, 2}};
    enum { TOLD = sizeof told / sizeof *told, WANT = sizeof want / sizeof *want };
    larder__jobs jobs = {.at = larder__calloc(TOLD, sizeof *jobs.at), .count = TOLD, .cap = TOLD};
    assert_non_null(jobs.at);
    for (size_t i = 0; i < TOLD; i++)
        jobs.at[i].pid = told[i].pid, jobs.at[i].number = told[i].number;
    larder__jobs_order(&jobs);
    assert_int_equal(jobs.count, WANT);
    for (size_t i = 0; i < WANT; i++)
        assert_true(jobs.at[i].pid == want[i].pid && jobs.at[i].number == want[i].number);
    larder__jobs_clear(&jobs);
    larder__jobs_order(&jobs);
    assert_int_equal(jobs.count, 0);
    larder__jobs_free(&jobs);
}

/* Somebody else under such a name, who says nothing sensible, or nothing at all. */
static void test_impostor(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    int fd = take_name(15);
    larder_loader *l = NULL;
    larder_loader_conf c = kit_conf("mem:?n=100&h=8&w=8&c=3", "lru");
    check_ok(larder_loader_open(&l, &c));
    size_t mine = 0;
    while (mine == 0) {
        check_ok(larder__discover(&jobs, 1));
        for (size_t i = 0; i < jobs.count; i++)
            mine += jobs.at[i].pid == (uint64_t)getpid();
    }
    assert_int_equal(mine, 1);
    larder_loader_close(&l);
    close(fd);
    larder__jobs_free(&jobs);
}

static void *answer_all(void *listener) { /* whoever looks just now, until it is shut */
    const char text[] = HEAD "{\"line\": \"job\", \"pid\": 4000000000, \"number\": 7}\n" END;
    for (int fd; (fd = accept(*(int *)listener, NULL, NULL)) >= 0; close(fd))
        if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0)
            continue;
    return NULL;
}

/* The same job by two names, as where the list of them changes while it is read: it is one. */
static void test_named_twice(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    int fds[2] = {take_name(14), take_name(15)};
    pthread_t threads[2];
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, answer_all, &fds[i]), 0);
    while (n == 0) {
        check_ok(larder__discover(&jobs, 5));
        for (size_t i = 0; i < jobs.count; i++)
            n += jobs.at[i].pid == 4000000000;
    }
    for (int i = 0; i < 2; i++) {
        shutdown(fds[i], SHUT_RDWR);
        pthread_join(threads[i], NULL);
        close(fds[i]);
    }
    assert_int_equal(n, 1);
    larder__jobs_free(&jobs);
}

/* Who has answered by then is heard, however late it is: it may be who looks that stood still. */
static void test_when_time_is_up(void **state) {
    (void)state;
    larder__jobs jobs = {0};
    int fd = take_name(15);
    pthread_t thread;
    size_t n = 0;
    assert_int_equal(pthread_create(&thread, NULL, answer_all, &fd), 0);
    while (n == 0) { /* until the answer lies there */
        check_ok(larder__discover(&jobs, -1));
        for (size_t i = 0; i < jobs.count; i++)
            n += jobs.at[i].pid == 4000000000;
    }
    shutdown(fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(fd);
    larder__jobs_free(&jobs);
}

static size_t asked(int listener) { /* by this process, so far */
    struct ucred who;
    socklen_t n = sizeof who;
    size_t count = 0;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0; close(fd)) {
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n), 0);
        count += who.pid == getpid();
    }
    return count;
}

/* A job whose name is the end of other names, or a line of its own within them, is asked once: it
 * would else take the turns of jobs further down the list, which anybody could so hide. */
static void test_named_after_it(void **state) {
    enum { TIMES = 50 };
    static const char *const before[2] = {"@", "\nf: 2 0 00010000 0001 01 9 @"};
    (void)state;
    larder__jobs jobs = {0};
    int fds[2][TIMES], job = bind_number(13);
    char own[64], name[108];
    snprintf(own, sizeof own, LARDER__SEE_NAME "%ld.%ld.13", (long)geteuid(), (long)getpid());
    assert_int_equal(listen(job, 4 * TIMES), 0);
    assert_int_equal(fcntl(job, F_SETFL, O_NONBLOCK), 0);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < TIMES; i++) {
            snprintf(name, sizeof name, "%d%s%s", i, before[k], own);
            fds[k][i] = bind_name(name);
            assert_int_equal(listen(fds[k][i], 8), 0);
        }
    check_ok(larder__discover(&jobs, 0)); /* it does not answer */
    assert_int_equal(asked(job), 1);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < TIMES; i++)
            close(fds[k][i]);
    close(job);
    larder__jobs_free(&jobs);
}

static void *look_often(void *stop) {
    larder__jobs jobs = {0};
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        larder__discover(&jobs, 1);
    larder__jobs_free(&jobs);
    return NULL;
}

/* Looking changes no batch, and loaders come and go meanwhile. */
static void test_disturbs_nobody(void **state) {
    (void)state;
    uint64_t alone[64], watched[64];
    int stop = 0;
    pthread_t t;
    larder_loader_conf c = kit_conf("mem:?n=200&h=8&w=8&c=3", "shade");
    c.epochs = 2;
    c.threads = 1;
    for (int k = 0; k < 2; k++) {
        if (k)
            assert_int_equal(pthread_create(&t, NULL, look_often, &stop), 0);
        for (int i = 0; i < 10; i++) {
            larder_loader *l = NULL;
            check_ok(larder_loader_open(&l, &c));
            size_t n = kit_run(l, k ? watched : alone, 12);
            assert_int_equal(n, 12);
            larder_loader_close(&l);
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
    assert_memory_equal(alone, watched, 12 * sizeof *alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_loaders),
        cmocka_unit_test(test_switched_off),   cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),        cmocka_unit_test(test_two_copies),
        cmocka_unit_test(test_order),          cmocka_unit_test(test_impostor),
        cmocka_unit_test(test_named_twice),    cmocka_unit_test(test_disturbs_nobody),
        cmocka_unit_test(test_named_after_it), cmocka_unit_test(test_names_taken),
        cmocka_unit_test(test_unseen),         cmocka_unit_test(test_when_time_is_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
